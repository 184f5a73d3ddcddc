package native

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/wire"
	"berth/zone/fleet"
	"berth/zone/intake"
)

func (d *dialect) listMembers(w http.ResponseWriter, _ *http.Request) error {
	return answerList(w, "members", viewsOf(d.Authority.Members(), rest.MemberOf), "")
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
	return answerList(w, "tokens", viewsOf(page, rest.TokenOf), next)
}

func (d *dialect) createToken(w http.ResponseWriter, r *http.Request) error {
	var b rest.TokenSpec
	if err := wire.ReadJSON(r, api.BodyMaxBytes, &b); err != nil {
		return err
	}
	t, err := intake.Token(d.Now(), b)
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
	return noContent(w, intake.DeleteToken(r.Context(), d.Zone, api.TokenID(chi.URLParam(r, "id"))))
}

func (d *dialect) createJoinToken(w http.ResponseWriter, r *http.Request) error {
	var b rest.JoinTokenSpec
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
	return answerOne(w, http.StatusCreated, "token", token)
}

// postJoin admits a new node or agent. Only its join token authorizes the call.
func (d *dialect) postJoin(w http.ResponseWriter, r *http.Request) error {
	var b rest.JoinBody
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

func (d *dialect) showConfig(w http.ResponseWriter, _ *http.Request) error {
	c := d.View(w).Config
	out := rest.ZoneConfig{
		PlanTTL: rest.Duration(cmp.Or(c.PlanTTL, api.PlanTTLDefault)), HostGrace: rest.Duration(cmp.Or(c.HostGrace, fleet.HostGraceDefault)),
		Tags: append([]string{}, c.Tags...), DefaultAZ: c.DefaultAZ, WebhookNetworks: c.WebhookNetworks,
		Leases: rest.LeaseRuleOf(&c.Leases), Preemptibles: rest.PreemptRuleOf(&c.Preemptibles),
		Bindings: rest.BindingRuleOf(&c.Bindings), Fanout: rest.FanoutRuleOf(&c.Fanout),
	}
	return answerOne(w, http.StatusOK, "config", out)
}

func (d *dialect) setConfig(w http.ResponseWriter, r *http.Request) error {
	var b rest.ConfigBody
	if err := wire.ReadJSON(r, api.BodyMaxBytes, &b); err != nil {
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
		Bindings: b.Config.Bindings.Rule(), Fanout: b.Config.Fanout.Rule(),
	})
	if err != nil {
		return err
	}
	return d.showConfig(w, r)
}

func (d *dialect) rotateKeyring(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, d.Authority.RotateKeyring(r.Context()))
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
	if err := wire.ReadJSON(r, api.BodyMaxBytes, &b); err != nil {
		return err
	}
	return noContent(w, intake.ResolveHold(r.Context(), d.Zone, api.HoldID(chi.URLParam(r, "id")), b.Decision))
}
