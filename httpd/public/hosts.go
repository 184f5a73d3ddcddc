package public

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/httpd/wire"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// hostBody is the JSON of a change of a host.
type hostBody struct {
	Host struct {
		Enabled    *bool     `json:"enabled"`
		Pool       *api.Pool `json:"pool"`
		Generation uint64    `json:"generation"`
	} `json:"host"`
}

func (d *door) listHosts(w http.ResponseWriter, r *http.Request) error {
	limit, marker, err := wire.Page(r)
	if err != nil {
		return err
	}
	hosts, next := d.view(w).HostsPage(state.Page{Marker: marker, Limit: limit + 1}), ""
	if len(hosts) > limit {
		hosts, next = hosts[:limit], hosts[limit-1].Name
	}
	out := make([]api.Host, len(hosts))
	for i, h := range hosts {
		out[i] = h.Host
	}
	return answerList(w, "hosts", out, next)
}

// host finds the host that a call names, by its name or id.
func host(v *state.State, r *http.Request) (*state.Host, error) {
	id := chi.URLParam(r, "id")
	if h, ok := findHost(v, id); ok {
		return h, nil
	}
	return nil, api.Errorf(api.CodeNotFound, "no host %q", id)
}

// findHost finds a host by its name or id.
func findHost(v *state.State, ref string) (*state.Host, bool) {
	if h, ok := v.HostByName(ref); ok {
		return h, true
	}
	return v.Host(api.HostID(ref))
}

func (d *door) showHost(w http.ResponseWriter, r *http.Request) error {
	h, err := host(d.view(w), r)
	if err != nil {
		return err
	}
	wire.JSON(w, http.StatusOK, map[string]any{"host": h.Host})
	return nil
}

func (d *door) updateHost(w http.ResponseWriter, r *http.Request) error {
	var b hostBody
	if err := wire.ReadJSON(r, api.BodyMaxBytes, &b); err != nil {
		return err
	}
	if b.Host.Pool != nil && !b.Host.Pool.Valid() {
		return api.Errorf(api.CodeInvalid, "pool must be %q, %q or %q", api.PoolOnDemand, api.PoolReservable, api.PoolShared)
	}
	h, err := host(d.Zone.View(), r)
	if err != nil {
		return err
	}
	if _, err := d.Zone.Propose(r.Context(), command.HostSet{
		Stamp: d.Zone.Stamp(), ID: h.ID, Generation: b.Host.Generation, Enabled: b.Host.Enabled, Pool: b.Host.Pool,
	}); err != nil {
		return err
	}
	return d.showHost(w, r)
}

func (d *door) deleteHost(w http.ResponseWriter, r *http.Request) error {
	h, err := host(d.Zone.View(), r)
	if err != nil {
		return err
	}
	if _, err := d.Zone.Propose(r.Context(), command.HostDelete{Stamp: d.Zone.Stamp(), ID: h.ID}); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
