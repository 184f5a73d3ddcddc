package native

import (
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/httpd/door"
	"berth/httpd/wire"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// scaleMax and offsetMax bound what a link does to weights.
const (
	scaleMax  = 1_000_000
	offsetMax = 1_000_000_000_000
)

// zoneBody is the JSON of a link that is made or changed.
type zoneBody struct {
	Zone struct {
		Name   *string        `json:"name"`
		Offset *int64         `json:"weight_offset"`
		Scale  *int64         `json:"weight_scale"`
		State  *api.LinkState `json:"state"`

		Gateways []string `json:"gateways"` // only of a zone that is linked
	} `json:"zone"`
}

func (b *zoneBody) validate() error {
	z := &b.Zone
	if z.Name != nil {
		if err := checkFree("zone", *z.Name, "boot", "detail", "info", "link", "select"); err != nil {
			return err
		}
	}
	if z.Offset != nil && (*z.Offset < -offsetMax || *z.Offset > offsetMax) {
		return api.Errorf(api.CodeInvalid, "weight_offset must be %d to %d", -offsetMax, offsetMax)
	}
	if z.Scale != nil && (*z.Scale < 1 || *z.Scale > scaleMax) {
		return api.Errorf(api.CodeInvalid, "weight_scale must be 1 to %d", scaleMax)
	}
	if z.State != nil && *z.State != api.LinkActive && *z.State != api.LinkPaused {
		return api.Errorf(api.CodeInvalid, "state must be %q or %q", api.LinkActive, api.LinkPaused)
	}
	if z.Gateways != nil {
		return api.CheckGateways(z.Gateways)
	}
	return nil
}

// checkFree refuses names that are no names, and those that are routes beside the
// things they would name.
func checkFree(what, name string, routes ...string) error {
	if slices.Contains(routes, name) {
		return api.Errorf(api.CodeInvalid, "a %s cannot be called %q: it is a call of the API", what, name)
	}
	return api.CheckName(what+" name", name)
}

// zoneView adds what is known of the zone by gossip, and takes away what only
// operators may see.
func (d *dialect) zoneView(l *api.Link, c api.Caller) api.Link {
	out := *l
	out.Health = "unknown"
	if dg, age, ok := d.Digests.Digest(l.Zone); ok {
		out.Health, out.Digest = "up", &dg
		if age > zone.LinkFresh {
			out.Health = "down"
		}
	}
	if !c.Allows(api.RoleAdmin) {
		out.Endpoints, out.Digest = nil, nil
	}
	return out
}

func (d *dialect) listZones(w http.ResponseWriter, r *http.Request) error {
	page, next, err := pageOf(r, d.View(w).Links(), func(l *api.Link) string { return string(l.ID) })
	if err != nil {
		return err
	}
	out := []api.Link{}
	for _, l := range page {
		out = append(out, d.zoneView(l, door.Caller(r)))
	}
	return answerList(w, "zones", out, next)
}

// link finds a link by its name or id.
func link(v *state.State, r *http.Request) (*api.Link, error) {
	id := chi.URLParam(r, "id")
	if l, ok := v.LinkByName(id); ok {
		return l, nil
	}
	if l, ok := v.Link(api.LinkID(id)); ok {
		return l, nil
	}
	return nil, api.Errorf(api.CodeNotFound, "no zone %q is linked to this one", id)
}

func (d *dialect) answerZone(w http.ResponseWriter, r *http.Request, status int, l *api.Link) error {
	wire.JSON(w, status, map[string]any{"zone": d.zoneView(l, door.Caller(r))})
	return nil
}

func (d *dialect) showZone(w http.ResponseWriter, r *http.Request) error {
	l, err := link(d.View(w), r)
	if err != nil {
		return err
	}
	return d.answerZone(w, r, http.StatusOK, l)
}

func (d *dialect) zoneInfo(w http.ResponseWriter, _ *http.Request) error {
	v := d.View(w)
	wire.JSON(w, http.StatusOK, map[string]any{
		"zone": api.ZoneInfo{ID: v.Zone, Name: v.Name, Version: d.Version, Digest: d.Zone.DigestOf(v)},
	})
	return nil
}

func (d *dialect) createZone(w http.ResponseWriter, r *http.Request) error {
	var b zoneBody
	if err := wire.ReadJSON(r, api.BodyMaxBytes, &b); err != nil {
		return err
	}
	if b.Zone.Name == nil {
		return api.Errorf(api.CodeInvalid, "zone.name is missing: what shall the child be called here?")
	}
	if err := b.validate(); err != nil {
		return err
	}
	if b.Zone.Gateways != nil {
		return api.Errorf(api.CodeInvalid, "a zone says itself where its gateways are when it is linked")
	}
	offset, scale := int64(0), int64(1)
	if b.Zone.Offset != nil {
		offset = *b.Zone.Offset
	}
	if b.Zone.Scale != nil {
		scale = *b.Zone.Scale
	}
	token, err := d.Authority.LinkToken(r.Context(), *b.Zone.Name, offset, scale)
	if err != nil {
		return err
	}
	wire.JSON(w, http.StatusCreated, map[string]any{"token": token})
	return nil
}

func (d *dialect) linkZone(w http.ResponseWriter, r *http.Request) error {
	var b struct {
		Token string `json:"token"`
		Name  string `json:"name"`
	}
	if err := wire.ReadJSON(r, api.BodyMaxBytes, &b); err != nil {
		return err
	}
	if b.Name == "" {
		b.Name = "parent"
	}
	if err := checkFree("zone", b.Name, "boot", "detail", "info", "link", "select"); err != nil {
		return err
	}
	l, err := d.Authority.Link(r.Context(), b.Token, b.Name)
	if err != nil {
		return err
	}
	return d.answerZone(w, r, http.StatusCreated, l)
}

func (d *dialect) updateZone(w http.ResponseWriter, r *http.Request) error {
	var b zoneBody
	if err := wire.ReadJSON(r, api.BodyMaxBytes, &b); err != nil {
		return err
	}
	if err := b.validate(); err != nil {
		return err
	}
	l, err := link(d.Zone.View(), r)
	if err != nil {
		return err
	}
	res, err := d.Zone.Propose(r.Context(), command.LinkSet{
		Stamp: d.Zone.Stamp(), ID: l.ID, Name: b.Zone.Name, Offset: b.Zone.Offset, Scale: b.Zone.Scale, State: b.Zone.State,
		Endpoints: b.Zone.Gateways,
	})
	if err != nil {
		return err
	}
	return d.answerZone(w, r, http.StatusOK, res.Link)
}

func (d *dialect) deleteZone(w http.ResponseWriter, r *http.Request) error {
	l, err := link(d.Zone.View(), r)
	if err != nil {
		return err
	}
	if _, err := d.Zone.Propose(r.Context(), command.LinkDelete{Stamp: d.Zone.Stamp(), ID: l.ID}); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
