package native

import (
	"net/http"
	"time"

	"berth/api"
)

// showCapacity reports the total and the used capacity of this zone and the zones below
// it, now and at an instant.
func (d *dialect) showCapacity(w http.ResponseWriter, r *http.Request) error {
	var at api.Instant
	if text := r.URL.Query().Get("at"); text != "" {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return api.Errorf(api.CodeInvalid, "at must be a time such as 2030-01-31T12:00:00Z, got %q", text)
		}
		at = max(1, api.InstantOf(t)) // 0 stands for now
	}
	c, err := d.Estimator.CapacityOf(d.View(w), at, r.URL.Query().Get("zone"))
	if err != nil {
		return err
	}
	return answerOne(w, http.StatusOK, "capacity", c)
}
