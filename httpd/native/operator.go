package native

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/door"
	"berth/httpd/wire"
	"berth/identity"
	"berth/internal/skew"
	"berth/zone/fleet"
	"berth/zone/intake"
)

func (d *dialect) listMembers(w http.ResponseWriter, _ *http.Request) error {
	size := d.View(w).SizeBytes()
	return answerList(w, "members", viewsOf(d.Authority.Members(), func(n api.Node) rest.Member {
		m := rest.MemberOf(n, size)
		if d.Vitals != nil {
			m.Vitals = d.Vitals(n.ID)
		}
		return m
	}), "")
}

func (d *dialect) removeMember(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, d.Authority.RemoveMember(r.Context(), api.NodeID(chi.URLParam(r, "id"))))
}

// noContent answers 204, or returns err.
func noContent(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

func (d *dialect) postTransfer(w http.ResponseWriter, r *http.Request) error {
	var b rest.TransferBody
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
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
	unauthenticated, err := boolParameter(r, "unauthenticated")
	if err != nil {
		return err
	}
	return noContent(w, d.Authority.Restore(r.Context(), r.Body, unauthenticated))
}

func (d *dialect) listAudit(w http.ResponseWriter, r *http.Request) error {
	all, before := d.View(w).Audit()
	out := make([]rest.AuditRecord, 0, len(all))
	for _, one := range all {
		out = append(out, rest.AuditRecordOf(one, before))
		before = one.Sum
	}
	page, next, err := pageOf(r, out, func(a rest.AuditRecord) string { return fmt.Sprintf("%020d", a.Number) })
	if err != nil {
		return err
	}
	return answerList(w, "audit", page, next)
}

func (d *dialect) listTokens(w http.ResponseWriter, r *http.Request) error {
	all, who := d.View(w).Tokens(), door.Caller(r)
	if !who.Allows(api.RoleAdmin) {
		all = slices.DeleteFunc(all, func(t *api.Token) bool { return t.Project != who.Project })
	}
	return answerTokens(w, r, all)
}

func (d *dialect) listOwnTokens(w http.ResponseWriter, r *http.Request) error {
	var own []*api.Token
	for _, t := range d.View(w).Tokens() {
		if door.Caller(r).Owns(t) {
			own = append(own, t)
		}
	}
	return answerTokens(w, r, own)
}

func answerTokens(w http.ResponseWriter, r *http.Request, all []*api.Token) error {
	page, next, err := pageOf(r, all, func(t *api.Token) string { return string(t.ID) })
	if err != nil {
		return err
	}
	return answerList(w, "tokens", viewsOf(page, rest.TokenOf), next)
}

func (d *dialect) deleteOwnToken(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, intake.DeleteOwnToken(r.Context(), d.Zone, door.Caller(r), api.TokenID(chi.URLParam(r, "id"))))
}

func (d *dialect) createToken(w http.ResponseWriter, r *http.Request) error {
	var b rest.TokenSpec
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	t, err := intake.Token(d.View(w), door.Caller(r), d.Now(), b)
	if err != nil {
		return err
	}
	text, id, err := d.Authority.NewToken(r.Context(), t)
	if err != nil {
		return err
	}
	wire.JSON(w, http.StatusCreated, rest.TokenCreated{ID: id, Token: text})
	return nil
}

func (d *dialect) deleteToken(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, intake.DeleteToken(r.Context(), d.Zone, door.Caller(r), api.TokenID(chi.URLParam(r, "id"))))
}

func (d *dialect) listRoles(w http.ResponseWriter, r *http.Request) error {
	page, next, err := pageOf(r, d.View(w).Roles(), func(o *api.Role) string { return string(o.Name) })
	if err != nil {
		return err
	}
	return answerList(w, "roles", viewsOf(page, rest.RoleOf), next)
}

func (d *dialect) setRole(w http.ResponseWriter, r *http.Request) error {
	var b rest.RoleBody
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	made, err := intake.SetRole(r.Context(), d.Zone, door.Caller(r), api.UserRole(chi.URLParam(r, "id")), b.Role)
	if err != nil {
		return err
	}
	return answerOne(w, http.StatusOK, "role", rest.RoleOf(made))
}

func (d *dialect) deleteRole(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, intake.DeleteRole(r.Context(), d.Zone, door.Caller(r), api.UserRole(chi.URLParam(r, "id"))))
}

func (d *dialect) listAgents(w http.ResponseWriter, r *http.Request) error {
	page, next, err := pageOf(r, d.Fleet.Agents(d.View(w)), func(a fleet.Agent) string { return string(a.ID) })
	if err != nil {
		return err
	}
	return answerList(w, "agents", viewsOf(page, agentOf), next)
}

func agentOf(a fleet.Agent) rest.Agent {
	out := rest.Agent{ID: a.ID, Hosts: a.Hosts, First: a.First, Revoked: a.Recorded && a.IsRevoked(), AgentTerms: rest.AgentTerms(a.Terms), Version: a.About.Version}
	if s := a.About.Skew; s != nil {
		out.Clock = ClockOf(*s)
	}
	if !a.Seen.IsZero() {
		out.Seen = api.InstantOf(a.Seen)
	}
	if a.Recorded && a.Joined != a.Revoked {
		out.Joined, out.Expires = a.Joined, a.Issued().Add(identity.LeafTTL)
	}
	return out
}

// ClockOf returns the body of what is known of a clock.
func ClockOf(s skew.Skew) *rest.Clock {
	return &rest.Clock{Offset: rest.Duration(s.Ahead.Round(time.Millisecond)), Error: rest.Duration(s.Error.Round(time.Millisecond)), Far: s.IsFar()}
}

func (d *dialect) revokeAgent(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, d.Fleet.RevokeAgent(r.Context(), api.AgentID(chi.URLParam(r, "id"))))
}

func (d *dialect) createJoinToken(w http.ResponseWriter, r *http.Request) error {
	var b rest.JoinTokenSpec
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	ttl, err := intake.JoinTTL(b.Kind, b.Name, time.Duration(b.TTL))
	if err != nil {
		return err
	}
	if err = intake.CheckTerms(b.Kind, api.AgentTerms(b.AgentTerms)); err != nil {
		return err
	}
	var token string
	if b.Kind == api.JoinAgent {
		token, err = d.Authority.AgentToken(r.Context(), b.Name, api.AgentTerms(b.AgentTerms), ttl)
	} else {
		token, err = d.Authority.JoinToken(r.Context(), b.Kind, b.Name, ttl)
	}
	if err != nil {
		return err
	}
	return answerOne(w, http.StatusCreated, "token", token)
}

// postJoin admits a new node or agent. Only its join token authorizes the call.
func (d *dialect) postJoin(w http.ResponseWriter, r *http.Request) error {
	var b rest.JoinBody
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	a, err := d.Authority.Join(r.Context(), &b)
	if err != nil {
		return err
	}
	wire.JSON(w, http.StatusOK, a)
	return nil
}

func (d *dialect) showConfig(w http.ResponseWriter, _ *http.Request) error {
	c := d.View(w).Config
	out := rest.ZoneConfig{
		PlanTTL: rest.Duration(cmp.Or(c.PlanTTL, api.PlanTTLDefault)), HostGrace: rest.Duration(cmp.Or(c.HostGrace, fleet.HostGraceDefault)),
		Tags: append([]string{}, c.Tags...), DefaultAZ: c.DefaultAZ, WebhookNetworks: c.WebhookNetworks,
		Leases: rest.LeaseRuleOf(&c.Leases), Preemptibles: rest.PreemptRuleOf(&c.Preemptibles),
		Bindings: rest.BindingRuleOf(&c.Bindings), Fanout: rest.FanoutRuleOf(&c.Fanout), PublicAttributes: c.PublicAttributes,
		HidesLayout: c.HidesLayout, RemoveDeadAfter: rest.Duration(c.RemoveDeadAfter),
	}
	return answerOne(w, http.StatusOK, "config", out)
}

func (d *dialect) setConfig(w http.ResponseWriter, r *http.Request) error {
	var b rest.ConfigBody
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	rule := b.Config.Leases.Rule()
	var err error
	if rule.Check, err = intake.LeaseCheck(d.Zone, b.Config.Leases.Check, d.Authority.WrapLeaseToken); err != nil {
		return err
	}
	err = intake.SetConfig(r.Context(), d.Zone, api.ZoneConfig{
		PlanTTL: time.Duration(b.Config.PlanTTL), HostGrace: time.Duration(b.Config.HostGrace), Tags: b.Config.Tags, DefaultAZ: b.Config.DefaultAZ,
		WebhookNetworks: b.Config.WebhookNetworks, Leases: rule, Preemptibles: b.Config.Preemptibles.Rule(),
		Bindings: b.Config.Bindings.Rule(), Fanout: b.Config.Fanout.Rule(), PublicAttributes: b.Config.PublicAttributes,
		HidesLayout: b.Config.HidesLayout, RemoveDeadAfter: time.Duration(b.Config.RemoveDeadAfter),
	})
	if err != nil {
		return err
	}
	return d.showConfig(w, r)
}

func (d *dialect) rotateKeyring(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, d.Authority.RotateKeyring(r.Context()))
}

func (d *dialect) rotateKEK(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, d.Authority.RotateKEK(r.Context()))
}

func (d *dialect) showCA(w http.ResponseWriter, r *http.Request) error {
	ca, err := d.Authority.CAStatus(r.Context())
	if err != nil {
		return err
	}
	return answerOne(w, http.StatusOK, "authority", ca)
}

func (d *dialect) rotateCA(w http.ResponseWriter, r *http.Request) error {
	var b rest.CABrought
	if r.ContentLength != 0 { // clients of an earlier release send nothing
		if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
			return err
		}
	}
	if (b != rest.CABrought{}) {
		if err := needAdmin(r, "to bring an authority"); err != nil {
			return err
		}
	}
	return noContent(w, d.Authority.RotateCA(r.Context(), b))
}

func (d *dialect) useCA(w http.ResponseWriter, r *http.Request) error {
	return d.changeCA(w, r, d.Authority.UseCA)
}

func (d *dialect) finishCA(w http.ResponseWriter, r *http.Request) error {
	return d.changeCA(w, r, d.Authority.FinishCA)
}

func (d *dialect) changeCA(w http.ResponseWriter, r *http.Request, change func(ctx context.Context, force bool) error) error {
	var b rest.CAForce
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	return noContent(w, change(r.Context(), b.Force))
}

func (d *dialect) showUpgrade(w http.ResponseWriter, r *http.Request) error {
	up, err := d.Authority.UpgradeStatus(r.Context())
	if err != nil {
		return err
	}
	return answerOne(w, http.StatusOK, "upgrade", up)
}

func (d *dialect) finishUpgrade(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, d.Authority.FinishUpgrade(r.Context()))
}

func (d *dialect) listHolds(w http.ResponseWriter, _ *http.Request) error {
	v := d.View(w)
	out := []rest.Hold{}
	for _, h := range v.PreparedHolds() {
		name := ""
		if l, ok := v.Link(h.Origin); ok {
			name = l.Name
		}
		out = append(out, rest.Hold{
			ID: h.ID, Parent: name, Reservation: h.Request.Reservation, Project: h.Request.Project, State: h.State, Held: len(h.Held()), Created: h.Created,
		})
	}
	return answerList(w, "holds", out, "")
}

func (d *dialect) resolveHold(w http.ResponseWriter, r *http.Request) error {
	var b rest.DecisionBody
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	return noContent(w, intake.ResolveHold(r.Context(), d.Zone, api.HoldID(chi.URLParam(r, "id")), b.Decision))
}
