package federation

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/api"
	"berth/api/rest"
	"berth/identity"
	"berth/internal/actor"
	"berth/internal/backoff"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// Times of the change of the certificate authority.
const (
	pinsEvery  = time.Second // between looks at whom to tell of the zone's authorities
	pinsRetry  = 5 * time.Second
	caEndsSoon = identity.LeafTTL // before its end, an authority is due: certificates would end with it
	caWarn     = time.Hour        // between warnings that it is due
)

// RotateCA begins the change of the zone's certificate authority: it makes the next one, or takes the one that an
// operator brings, which is trusted beside the one in use from then on. One that cannot be used is an invalid-input
// error. Only the leader may call it, as all that follow.
func (f *Federation) RotateCA(ctx context.Context, brought rest.CABrought) error {
	if err := checkFifth(f.members.Form(), "change the certificate authority"); err != nil {
		return err
	}
	if !f.linking.TryRLock() {
		return errLinking
	}
	defer f.linking.RUnlock()
	v, err := f.zone.Latest(ctx)
	if err != nil {
		return err
	}
	next, err := findNext(v, brought, f.now())
	if err != nil {
		return err
	}
	c, err := f.keys.nextAuthority(v, next)
	if err != nil {
		return api.Wrap(api.CodeInternal, "federation.RotateCA", "", err)
	}
	c.Stamp = f.zone.Stamp()
	_, err = f.zone.Propose(ctx, c)
	return err
}

// findNext returns the authority that an operator brings for the zone of a state, or makes one.
func findNext(v *state.State, brought rest.CABrought, now time.Time) (*identity.CA, error) {
	if (brought == rest.CABrought{}) {
		return identity.NewCA(v.Zone, now)
	}
	next, err := identity.ParseCA([]byte(brought.Cert), []byte(brought.Key), now)
	if err != nil {
		return nil, err
	}
	if next.Zone() != v.Zone {
		return nil, api.Errorf(api.CodeInvalid, "the authority is of zone %s, and this is zone %s", next.Zone(), v.Zone)
	}
	for _, a := range v.Authorities() {
		if next.HasKeyOf(a.Cert) {
			return nil, api.Errorf(api.CodeInvalid, "the authority has the key of one that the zone has: a change is to another key")
		}
	}
	return next, nil
}

// nextAuthority returns the entry with the authority that follows the one of a state.
func (k *Keys) nextAuthority(v *state.State, next *identity.CA) (c command.CAAdd, err error) {
	old, err := k.zoneAuthority(v)
	if err != nil {
		return c, err
	}
	key, err := next.KeyDER()
	if err != nil {
		return c, err
	}
	c = command.CAAdd{Old: api.FingerprintOf(v.CA), Cert: next.CertDER(), KEK: v.KEK}
	if c.Vouch, err = old.Vouch(next.CertDER()); err != nil {
		return c, err
	}
	c.Key, err = k.wrap(v, labelCAKey, key)
	return c, err
}

// UseCA lets the next authority issue certificates. It fails with CodeConflict while somebody would be
// refused then, unless it is forced, and while that authority is not valid yet.
func (f *Federation) UseCA(ctx context.Context, force bool) error {
	v, err := f.zone.Latest(ctx)
	if err != nil {
		return err
	}
	all := v.Authorities()
	next, err := x509.ParseCertificate(all[len(all)-1].Cert)
	if err != nil {
		return api.Wrap(api.CodeInternal, "federation.UseCA", "", err)
	}
	if f.now().Before(next.NotBefore) {
		return api.Errorf(api.CodeConflict, "the next authority is valid from %s: it was made when a clock was ahead, or this clock is behind", next.NotBefore.UTC().Format(time.RFC3339))
	}
	_, err = f.zone.Propose(ctx, command.CAUse{Stamp: f.zone.Stamp(), New: v.NewestAuthority(), Force: force})
	return err
}

// FinishCA ends the trust in the old authority. It fails with CodeConflict while somebody has no
// certificate of the new one, unless it is forced.
func (f *Federation) FinishCA(ctx context.Context, force bool) error {
	v, err := f.zone.Latest(ctx)
	if err == nil {
		_, err = f.zone.Propose(ctx, command.CADrop{Stamp: f.zone.Stamp(), Old: api.FingerprintOf(v.Authorities()[0].Cert), Force: force})
	}
	return err
}

// CADue returns why the certificate authority should be changed, "" if nothing says so.
func (f *Federation) CADue() rest.CADue {
	v := f.view()
	switch {
	case v.Zone == "":
		return ""
	case v.CADue != 0:
		return rest.CADueRemoved
	case authorityEnd(v.CA).Sub(f.now()) < caEndsSoon:
		return rest.CADueEnds
	}
	return ""
}

// authorityEnd returns when an authority ends; the zero time for one that cannot be read.
func authorityEnd(der []byte) time.Time {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return time.Time{}
	}
	return cert.NotAfter
}

// CAStatus returns how far the change of the authority is, and for whom it waits.
func (f *Federation) CAStatus(ctx context.Context) (*rest.CA, error) {
	v, err := f.zone.Latest(ctx)
	if err != nil {
		return nil, err
	}
	out := &rest.CA{Phase: v.CAPhase(), Due: f.CADue(), Waits: []rest.CAWait{}, Behind: []rest.CAWait{}}
	var bundle strings.Builder
	for _, a := range v.Authorities() {
		one := rest.CAAuthority{Fingerprint: api.FingerprintOf(a.Cert), Issues: bytes.Equal(a.Cert, v.CA)}
		if cert, err := x509.ParseCertificate(a.Cert); err == nil {
			one.Since, one.Expires = api.InstantOf(identity.IssuedAt(cert)), api.InstantOf(cert.NotAfter)
		}
		out.Authorities = append(out.Authorities, one)
		_ = pem.Encode(&bundle, &pem.Block{Type: "CERTIFICATE", Bytes: a.Cert}) // a builder never fails
	}
	out.Bundle = bundle.String()
	for _, w := range v.CAWaits() {
		out.Waits = append(out.Waits, rest.CAWait{Kind: w.Kind, Name: w.Name, Error: f.pinErrorOf(v, w)})
	}
	if v.Change == nil {
		for _, l := range v.Links() {
			if isUntold(v, l) {
				w := api.CAWait{Kind: api.CAWaitLink, Name: l.Name}
				out.Behind = append(out.Behind, rest.CAWait{Kind: w.Kind, Name: w.Name, Error: f.pinErrorOf(v, w)})
			}
		}
	}
	return out, nil
}

// pinErrors has why linked zones could not be told of the zone's authorities, on the leader.
type pinErrors struct {
	mu sync.Mutex // guards of
	of map[api.LinkID]pinError
}

type pinError struct {
	err error
	at  time.Time
}

func (e *pinErrors) note(l api.LinkID, one pinError) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if one.err == nil {
		delete(e.of, l)
		return
	}
	e.of[l] = one
}

func (e *pinErrors) find(l api.LinkID) (one pinError, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	one, ok = e.of[l]
	return one, ok
}

// pinErrorOf returns why a linked zone was not told, "" if that is unknown.
func (f *Federation) pinErrorOf(v *state.State, w api.CAWait) string {
	if w.Kind != api.CAWaitLink {
		return ""
	}
	l, ok := v.LinkByName(w.Name)
	if !ok {
		return ""
	}
	if e, failed := f.pinErrors.find(l.ID); failed {
		return e.err.Error()
	}
	return ""
}

// toldOf returns what a linked zone is to pin.
func toldOf(v *state.State) (all []api.Fingerprint) {
	for _, a := range v.Authorities() {
		all = append(all, api.FingerprintOf(a.Cert))
	}
	return all
}

// isUntold reports whether a linked zone is to be told of the zone's authorities. One that was never told
// of a change knows the one that there is.
func isUntold(v *state.State, l *api.Link) bool {
	return (v.Change != nil || len(l.Told) > 0) && !slices.Equal(l.Told, toldOf(v))
}

// AnnounceAuthorities tells each linked zone of the zone's authorities while these change, and records
// which ones it has pinned, until ctx ends. The leader runs it.
func (f *Federation) AnnounceAuthorities(ctx context.Context) {
	for ctx.Err() == nil {
		v := f.view()
		var all sync.WaitGroup
		for _, l := range v.Links() {
			if last, failed := f.pinErrors.find(l.ID); !isUntold(v, l) || failed && f.now().Sub(last.at) < pinsRetry {
				continue
			}
			all.Go(func() {
				if err := f.announceTo(ctx, v, l); ctx.Err() == nil {
					f.pinErrors.note(l.ID, pinError{err, f.now()})
				}
			})
		}
		all.Wait()
		backoff.Sleep(ctx, pinsEvery)
	}
}

func (f *Federation) announceTo(ctx context.Context, v *state.State, l *api.Link) error {
	call, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	if err := f.peers.Hello(call, l, &api.Hello{Authorities: v.Authorities()}); err != nil {
		f.log.DebugContext(ctx, "a linked zone could not be told of the authorities; it will be tried again", "link", l.Name, "error", err)
		return err
	}
	_, err := f.zone.Propose(f.asNode(ctx, f.node), command.LinkPin{Stamp: f.zone.Stamp(), ID: l.ID, Told: toldOf(v)})
	return err
}

// updatePins pins the authorities that a linked zone reports, in its own link. from is the authority by
// which the zone is authenticated: it must be one of those that it keeps.
func (f *Federation) updatePins(ctx context.Context, l *api.Link, from identity.Pin, told []api.Authority) error {
	if err := identity.CheckTold(l.Zone, l.Pins(), told); err != nil {
		return err
	}
	var pins [][]byte
	for _, a := range told {
		pins = append(pins, a.Cert)
	}
	if !slices.Contains(identity.PinsOf(pins), from) {
		return api.Errorf(api.CodeForbidden, "a zone does not drop the authority by which it is known here")
	}
	if slices.EqualFunc(pins, l.Pins(), bytes.Equal) {
		return nil
	}
	ctx = actor.With(ctx, actor.Call{By: api.AuditActor{Kind: api.ActorLink, ID: string(l.Zone)}, Path: actor.Of(ctx).Path})
	_, err := f.zone.Propose(ctx, command.LinkPin{Stamp: f.zone.Stamp(), ID: l.ID, Pins: pins})
	if err == nil {
		f.log.WarnContext(ctx, "a linked zone changes its certificate authority; if its operators do not, unlink it",
			"link", l.Name, "trusted", len(pins), "newest", api.FingerprintOf(pins[len(pins)-1]))
	}
	return err
}

// TrustMark changes whenever agents have to ask for the authorities of the zone.
func (f *Federation) TrustMark() api.Fingerprint {
	v := f.view()
	all := [][]byte{v.CA}
	for _, a := range v.Authorities() {
		all = append(all, a.Cert)
	}
	return api.FingerprintOf(bytes.Join(all, nil))
}

// AgentTrust records which authorities an agent has, while that is of interest, and returns those that
// it should have. shown is the certificate of its connection.
func (f *Federation) AgentTrust(ctx context.Context, id api.AgentID, shown Shown, q *api.AgentTrust) (*api.AgentTrusted, error) {
	v := f.view()
	known := func(of api.Fingerprint) api.Fingerprint {
		if slices.Contains(toldOf(v), of) {
			return of
		}
		return ""
	}
	a, ok := v.Agent(id)
	if trusts, issuer := known(q.Trusts), known(q.Issuer); v.Change != nil && (!ok || a.Trusts != trusts || a.Issuer != issuer) {
		c := command.AgentTrust{Stamp: f.zone.Stamp(), ID: id, Issued: api.InstantOf(shown.Issued), Trusts: trusts, Issuer: issuer}
		if _, err := f.zone.Propose(ctx, c); err != nil {
			return nil, err
		}
	}
	return &api.AgentTrusted{Authorities: v.Authorities(), Issuer: api.FingerprintOf(v.CA)}, nil
}

// WarnOfCA logs from time to time that the certificate authority should be changed, until ctx ends. The
// leader runs it.
func (f *Federation) WarnOfCA(ctx context.Context) {
	for ctx.Err() == nil {
		pause := pinsEvery
		if due := f.CADue(); due != "" {
			pause = caWarn
			next := "berth operator ca status"
			if f.view().Change == nil {
				next = "berth operator ca rotate"
			}
			f.log.WarnContext(ctx, "the certificate authority of the zone is to be changed", "reason", due, "command", next)
		}
		backoff.Sleep(ctx, pause)
	}
}
