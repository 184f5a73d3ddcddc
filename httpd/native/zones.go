package native

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/door"
	"berth/httpd/wire"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/intake"
)

// zoneView returns the body of a link of the zone at v with the other zone's gossip digest. Only operators
// see all fields.
func (d *dialect) zoneView(v *state.State, l *api.Link, c api.Caller) rest.Zone {
	health, digest := "unknown", (*api.Digest)(nil)
	if dg, age, ok := d.Digests.Digest(l.Zone); ok {
		health, digest = "up", &dg
		if age > zone.LinkFresh {
			health = "down"
		}
	}
	out := rest.LinkOf(l, health, digest)
	if !c.Allows(api.RoleAdmin) {
		out.Endpoints, out.Digest = nil, nil
		out.AZ, out.Tags, out.Maintenance, out.Headroom = "", nil, false, nil
		return out
	}
	if l.Role == api.LinkParent {
		out.Share = shareOf(v, l)
	}
	if d.Skew != nil {
		if s, known := d.Skew(l); known {
			out.Clock = ClockOf(s)
		}
	}
	if d.Unconfirmed != nil {
		out.Unconfirmed = d.Unconfirmed(l)
	}
	return out
}

// shareOf returns the body of what a parent may have of the zone at v, and has.
func shareOf(v *state.State, l *api.Link) *rest.ZoneShare {
	of, held, committed := v.Lent(l)
	out := &rest.ZoneShare{Held: held, Committed: committed, Classes: make(map[api.ResourceClass]rest.ClassShare, len(of))}
	for class, n := range of {
		out.Classes[class] = rest.ClassShare(n)
	}
	return out
}

func (d *dialect) listZones(w http.ResponseWriter, r *http.Request) error {
	v := d.View(w)
	page, next, err := pageOf(r, v.Links(), func(l *api.Link) string { return string(l.ID) })
	if err != nil {
		return err
	}
	out := []rest.Zone{}
	for _, l := range page {
		out = append(out, d.zoneView(v, l, door.Caller(r)))
	}
	return answerList(w, "zones", out, next)
}

func (d *dialect) answerZone(w http.ResponseWriter, r *http.Request, status int, l *api.Link) error {
	return answerOne(w, status, "zone", d.zoneView(d.Zone.View(), l, door.Caller(r)))
}

func (d *dialect) showZone(w http.ResponseWriter, r *http.Request) error {
	l, err := intake.Link(d.View(w), chi.URLParam(r, "id"))
	if err != nil {
		return err
	}
	return d.answerZone(w, r, http.StatusOK, l)
}

func (d *dialect) zoneInfo(w http.ResponseWriter, r *http.Request) error {
	v := d.View(w)
	out := rest.ZoneInfo{ID: v.Zone, Name: v.Name, Version: d.Version}
	if door.Caller(r).Allows(api.RoleAdmin) {
		out.Digest = rest.DigestOf(d.Estimator.DigestOf(v))
	}
	return answerOne(w, http.StatusOK, "zone", out)
}

func (d *dialect) createZone(w http.ResponseWriter, r *http.Request) error {
	var b rest.ZoneBody
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	if b.Zone.Name == nil {
		return api.Errorf(api.CodeInvalid, "zone.name is missing: what shall the child be called here?")
	}
	if err := intake.CheckLink(&b.Zone); err != nil {
		return err
	}
	switch s := &b.Zone; {
	case s.Gateways != nil:
		return api.Errorf(api.CodeInvalid, "a zone says itself where its gateways are when it is linked")
	case s.HasShare():
		return api.Errorf(api.CodeInvalid, "share_held and share_committed are of a parent, and set with PUT /zones/{id}")
	case s.HasTerms():
		return api.Errorf(api.CodeInvalid, "availability_zone, tags, maintenance and headroom are set with PUT /zones/{id} once the zone is linked")
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
	return answerOne(w, http.StatusCreated, "token", token)
}

func (d *dialect) linkZone(w http.ResponseWriter, r *http.Request) error {
	var b rest.LinkBody
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	if b.Name == "" {
		b.Name = "parent"
	}
	if err := intake.CheckZoneName(b.Name); err != nil {
		return err
	}
	l, err := d.Authority.Link(r.Context(), b.Token, b.Name)
	if err != nil {
		return err
	}
	return d.answerZone(w, r, http.StatusCreated, l)
}

func (d *dialect) updateZone(w http.ResponseWriter, r *http.Request) error {
	var b rest.ZoneBody
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	l, err := intake.ChangeLink(r.Context(), d.Zone, chi.URLParam(r, "id"), b.Zone)
	if err != nil {
		return err
	}
	return d.answerZone(w, r, http.StatusOK, l)
}

func (d *dialect) deleteZone(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, intake.DeleteLink(r.Context(), d.Zone, chi.URLParam(r, "id")))
}

func (d *dialect) relinkZone(w http.ResponseWriter, r *http.Request) error {
	var b rest.Relink
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	l, err := intake.Link(d.Zone.View(), chi.URLParam(r, "id"))
	if err != nil {
		return err
	}
	out, err := d.Authority.Relink(r.Context(), l.ID, b)
	if err != nil {
		return err
	}
	return answerOne(w, http.StatusOK, "relinked", *out)
}

func (d *dialect) writeOffZone(w http.ResponseWriter, r *http.Request) error {
	var b rest.WriteOff
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	lost, err := intake.WriteOffLink(r.Context(), d.Zone, chi.URLParam(r, "id"), b)
	if err != nil {
		return err
	}
	return answerOne(w, http.StatusOK, "losses", lost)
}
