package gateway

import (
	"net/http"
	"strconv"

	"berth/api"
	"berth/httpd/wire"
)

// getChanges answers a parent with the changes of its instances: at once with all that the log has confirmed, or when there are some.
func (d *peerDoor) getChanges(w http.ResponseWriter, r *http.Request, l *api.Link) error {
	if err := requireParent(l); err != nil {
		return err
	}
	wait, err := wire.Wait(r)
	if err != nil {
		return err
	}
	after, err := strconv.ParseUint(r.URL.Query().Get("after"), 10, 64)
	if err != nil {
		return api.Errorf(api.CodeInvalid, "after must be a log index")
	}
	restored, err := restoredOf(r, d.Zone.View().Restored())
	if err != nil {
		return err
	}
	var ch api.Changes
	switch confirmed := r.URL.Query().Get("confirmed"); confirmed {
	case "":
		ch = d.Saga.Changes(r.Context(), l, after, restored, wait)
	case "true":
		if ch, err = d.Saga.ConfirmedChanges(r.Context(), l, after); err != nil {
			return err
		}
	default:
		return api.Errorf(api.CodeInvalid, "confirmed must be true, if it is there")
	}
	reads := api.ParseForm(r.Header.Get(api.HeaderForm)) // an older parent follows all the same
	if reads < api.FormFourth {
		for i := range ch.Items {
			ch.Items[i].Eviction = nil
		}
	}
	if reads < api.FormFifth {
		ch.Restored, ch.Index = 0, 0
		for i := range ch.Items {
			ch.Items[i].Restarts = 0
		}
	}
	wire.CBOR(w, r, http.StatusOK, ch)
	return nil
}

// restoredOf returns where the caller knows that this zone last went back to a backup; now if it does not say.
func restoredOf(r *http.Request, now uint64) (uint64, error) {
	text := r.URL.Query().Get("restored")
	if text == "" {
		return now, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, api.Errorf(api.CodeInvalid, "restored must be a log index, if it is there")
	}
	return n, nil
}
