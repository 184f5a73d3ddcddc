package agent

import (
	"context"
	"time"

	"berth/api"
	"berth/internal/backoff"
)

// Pauses of followTrust.
const (
	trustPause  = time.Second // between looks at what the zone has said, and after the first failure; it doubles
	trustPauses = time.Minute // at most
)

// noteTrust notes the mark in an answer of the zone.
func (a *Agent) noteTrust(mark api.Fingerprint) {
	if mark != "" {
		a.trustMark.Store(&mark)
	}
}

// followTrust keeps the authorities that the zone trusts, and tells the zone which ones the agent has,
// whenever the zone has another mark than at the last time, until ctx ends.
func (a *Agent) followTrust(ctx context.Context) {
	var done api.Fingerprint
	for fails, pause := 0, trustPause; backoff.Sleep(ctx, pause); {
		pause = trustPause
		mark := a.trustMark.Load()
		if mark == nil || *mark == done {
			continue
		}
		settled, err := a.askTrust(ctx)
		switch {
		case settled:
			done, fails = *mark, 0
		case err != nil && ctx.Err() == nil:
			a.conf.Log.WarnContext(ctx, "the authorities of the zone could not be taken over; it will be tried again", "error", err)
			fallthrough
		default:
			pause = backoff.Double(trustPause, trustPauses, fails)
			fails++
		}
	}
}

// askTrust exchanges once with the zone which authorities there are. It reports whether the zone knows
// that the agent has all that it should: the authorities, and a certificate of the one that issues.
func (a *Agent) askTrust(ctx context.Context) (settled bool, err error) {
	w := a.conf.Wallet
	var got api.AgentTrusted
	has := api.AgentTrust{Trusts: w.Newest(), Issuer: w.Issuer()}
	if err = a.callZone(nameCall(ctx), api.PathAgentTrust, callTimeout, has, &got, &got.Term); err != nil {
		return false, err
	}
	if err = w.TrustTold(got.Authorities); err != nil {
		return false, err
	}
	a.issuer.Store(&got.Issuer)
	return has.Trusts == w.Newest() && has.Issuer == got.Issuer, nil
}

// issuedBy returns the authority of the zone that issues, "" while the agent does not know.
func (a *Agent) issuedBy() api.Fingerprint {
	if of := a.issuer.Load(); of != nil {
		return *of
	}
	return ""
}
