package native

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/httpd/door"
	"berth/httpd/wire"
	"berth/zone/fleet"
	"berth/zone/intake"
)

// operatorRoutes are those of who runs the zone.
func (d *dialect) operatorRoutes() []route {
	return []route{
		{route: door.Route{Method: http.MethodGet, Path: "/operator/members", Read: door.ReadLocal}, role: api.RoleAdmin, do: d.listMembers},
		{route: door.Route{Method: http.MethodDelete, Path: "/operator/members/{id}", Read: door.ReadLog}, role: api.RoleAdmin, do: d.removeMember},
		{route: door.Route{Method: http.MethodPost, Path: "/operator/transfer", Read: door.ReadLog}, role: api.RoleAdmin, do: d.transfer},
		{route: door.Route{Method: http.MethodGet, Path: "/operator/snapshot", Read: door.ReadLinearizable}, role: api.RoleAdmin, do: d.saveSnapshot, stream: true},
		{route: door.Route{Method: http.MethodPut, Path: "/operator/snapshot", Read: door.ReadLog}, role: api.RoleAdmin, do: d.restoreSnapshot, stream: true},
		{route: door.Route{Method: http.MethodGet, Path: "/operator/tokens", Read: door.ReadLocal}, role: api.RoleAdmin, do: d.listTokens},
		{route: door.Route{Method: http.MethodPost, Path: "/operator/tokens", Read: door.ReadLog}, role: api.RoleAdmin, do: d.createToken},
		{route: door.Route{Method: http.MethodDelete, Path: "/operator/tokens/{id}", Read: door.ReadLog}, role: api.RoleAdmin, do: d.deleteToken},
		{route: door.Route{Method: http.MethodPost, Path: "/operator/join-tokens", Read: door.ReadLog}, role: api.RoleAdmin, do: d.createJoinToken},
		{route: door.Route{Method: http.MethodGet, Path: "/operator/config", Read: door.ReadLocal}, role: api.RoleAdmin, do: d.showConfig},
		{route: door.Route{Method: http.MethodPut, Path: "/operator/config", Read: door.ReadLog}, role: api.RoleAdmin, do: d.setConfig},
		{route: door.Route{Method: http.MethodGet, Path: "/operator/scheduler", Read: door.ReadLocal}, role: api.RoleAdmin, do: d.showScheduler},
		{route: door.Route{Method: http.MethodPut, Path: "/operator/scheduler", Read: door.ReadLog}, role: api.RoleAdmin, do: d.setScheduler},
		{route: door.Route{Method: http.MethodPost, Path: "/operator/keyring/rotate", Read: door.ReadLog}, role: api.RoleAdmin, do: d.rotateKeyring},
		{route: door.Route{Method: http.MethodGet, Path: "/operator/holds", Read: door.ReadLocal}, role: api.RoleAdmin, do: d.listHolds},
		{route: door.Route{Method: http.MethodPost, Path: "/operator/holds/{id}", Read: door.ReadLog}, role: api.RoleAdmin, do: d.resolveHold},
	}
}

func (d *dialect) listMembers(w http.ResponseWriter, _ *http.Request) error {
	return answerList(w, "members", d.Authority.Members(), "")
}

func (d *dialect) removeMember(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, d.Authority.RemoveMember(r.Context(), api.NodeID(chi.URLParam(r, "id"))))
}

// noContent answers 204 unless err.
func noContent(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

func (d *dialect) transfer(w http.ResponseWriter, r *http.Request) error {
	var b struct {
		To api.NodeID `json:"to"`
	}
	if err := wire.ReadJSON(r, api.BodyMaxBytes, &b); err != nil {
		return err
	}
	return noContent(w, d.Authority.Transfer(r.Context(), b.To))
}

func (d *dialect) saveSnapshot(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "application/octet-stream")
	return d.Authority.Snapshot(r.Context(), w)
}

// restoreTimeout bounds how long a backup may take to arrive.
const restoreTimeout = 10 * time.Minute

func (d *dialect) restoreSnapshot(w http.ResponseWriter, r *http.Request) error {
	if err := http.NewResponseController(w).SetReadDeadline(d.Now().Add(restoreTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return noContent(w, d.Authority.Restore(r.Context(), r.Body))
}

func (d *dialect) listTokens(w http.ResponseWriter, r *http.Request) error {
	page, next, err := pageOf(r, d.View(w).Tokens(), func(t *api.Token) string { return string(t.ID) })
	if err != nil {
		return err
	}
	return answerList(w, "tokens", page, next)
}

func (d *dialect) createToken(w http.ResponseWriter, r *http.Request) error {
	var b struct {
		User    string         `json:"user_id"`
		Project string         `json:"project_id"`
		Roles   []api.UserRole `json:"roles"`
		TTL     duration       `json:"ttl"`
	}
	if err := wire.ReadJSON(r, api.BodyMaxBytes, &b); err != nil {
		return err
	}
	t, err := intake.Token(d.Now(), intake.TokenSpec{User: b.User, Project: b.Project, Roles: b.Roles, TTL: time.Duration(b.TTL)})
	if err != nil {
		return err
	}
	text, id, err := d.Authority.NewToken(r.Context(), t)
	if err != nil {
		return err
	}
	wire.JSON(w, http.StatusCreated, map[string]any{"token": text, "id": id})
	return nil
}

func (d *dialect) deleteToken(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, intake.DeleteToken(r.Context(), d.Zone, api.TokenID(chi.URLParam(r, "id"))))
}

func (d *dialect) createJoinToken(w http.ResponseWriter, r *http.Request) error {
	var b struct {
		Kind api.JoinKind `json:"kind"`
		Name string       `json:"name"`
		TTL  duration     `json:"ttl"`
	}
	if err := wire.ReadJSON(r, api.BodyMaxBytes, &b); err != nil {
		return err
	}
	ttl, err := intake.JoinTTL(b.Kind, b.Name, time.Duration(b.TTL))
	if err != nil {
		return err
	}
	token, err := d.Authority.JoinToken(r.Context(), b.Kind, b.Name, ttl)
	if err != nil {
		return err
	}
	wire.JSON(w, http.StatusCreated, map[string]any{"token": token})
	return nil
}

// join admits a new node or agent. Its token, and nothing else, is its right.
func (d *dialect) join(w http.ResponseWriter, r *http.Request) error {
	var b api.JoinBody
	if err := wire.ReadJSON(r, api.BodyMaxBytes, &b); err != nil {
		return err
	}
	a, err := d.Authority.Join(r.Context(), &b)
	if err != nil {
		return err
	}
	wire.JSON(w, http.StatusOK, a)
	return nil
}

// configJSON is the zone's configuration with durations as texts.
type configJSON struct {
	PlanTTL   duration `json:"plan_ttl"`
	HostGrace duration `json:"host_grace"`
	Tags      []string `json:"tags"`
	DefaultAZ string   `json:"default_availability_zone"` // "" for the zone's name
}

func (d *dialect) showConfig(w http.ResponseWriter, _ *http.Request) error {
	c := d.View(w).Config
	out := configJSON{
		duration(cmp.Or(c.PlanTTL, api.PlanTTLDefault)), duration(cmp.Or(c.HostGrace, fleet.HostGraceDefault)),
		append([]string{}, c.Tags...), c.DefaultAZ,
	}
	wire.JSON(w, http.StatusOK, map[string]any{"config": out})
	return nil
}

func (d *dialect) setConfig(w http.ResponseWriter, r *http.Request) error {
	var b struct {
		Config configJSON `json:"config"`
	}
	if err := wire.ReadJSON(r, api.BodyMaxBytes, &b); err != nil {
		return err
	}
	err := intake.SetConfig(r.Context(), d.Zone, api.ZoneConfig{
		PlanTTL: time.Duration(b.Config.PlanTTL), HostGrace: time.Duration(b.Config.HostGrace), Tags: b.Config.Tags, DefaultAZ: b.Config.DefaultAZ,
	})
	if err != nil {
		return err
	}
	return d.showConfig(w, r)
}

func (d *dialect) rotateKeyring(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, d.Authority.RotateKeyring(r.Context()))
}

// holdJSON is what an operator sees of a parent's hold.
type holdJSON struct {
	ID          api.HoldID        `json:"id"`
	Parent      string            `json:"parent"`
	Reservation api.ReservationID `json:"reservation_id"`
	Project     api.ProjectID     `json:"project_id"`
	State       api.HoldState     `json:"state"`
	Held        int               `json:"held"`
	Created     api.Instant       `json:"created"`
}

func (d *dialect) listHolds(w http.ResponseWriter, _ *http.Request) error {
	v := d.View(w)
	out := []holdJSON{}
	for _, h := range v.PreparedHolds() {
		name := ""
		if l, ok := v.Link(h.Origin); ok {
			name = l.Name
		}
		out = append(out, holdJSON{h.ID, name, h.Request.Reservation, h.Request.Project, h.State, len(h.Held()), h.Created})
	}
	return answerList(w, "holds", out, "")
}

func (d *dialect) resolveHold(w http.ResponseWriter, r *http.Request) error {
	var b struct {
		Decision api.Decision `json:"decision"`
	}
	if err := wire.ReadJSON(r, api.BodyMaxBytes, &b); err != nil {
		return err
	}
	return noContent(w, intake.ResolveHold(r.Context(), d.Zone, api.HoldID(chi.URLParam(r, "id")), b.Decision))
}

// duration is a time.Duration that JSON spells "60s".
type duration time.Duration

// MarshalJSON writes the duration as a text.
func (d duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads a text such as "60s" or "1h30m".
func (d *duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return api.Errorf(api.CodeInvalid, "a duration must be a text such as \"60s\"")
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return api.Errorf(api.CodeInvalid, "%q is not a duration such as \"60s\"", s)
	}
	*d = duration(v)
	return nil
}
