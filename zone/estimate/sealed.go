package estimate

import (
	"crypto/rand"
	"fmt"

	"berth/api"
	"berth/buildplan"
	"berth/buildplan/seal"
	"berth/raftstore/state"
)

// sealContext returns the context that a plan is bound to.
func (e *Estimator) sealContext(v *state.State, peer api.ZoneID, req *api.Request) seal.Context {
	return seal.Context{
		Zone: v.Zone, Peer: string(peer), Project: req.Project, Reservation: req.Reservation,
		Digest: buildplan.Digest(req),
	}
}

func (e *Estimator) sealPlan(v *state.State, peer api.ZoneID, req *api.Request, l *buildplan.Layer) ([]byte, error) {
	defer e.measurePhase(PhaseSeal)()
	ring, err := e.keys.Ring(v)
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "estimate.seal", "", err)
	}
	plain, err := l.Encode()
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "estimate.seal", "", err)
	}
	var salt [24]byte
	_, _ = rand.Read(salt[:]) // never fails: crypto/rand ends the process instead
	return seal.Seal(ring[0], e.sealContext(v, peer, req), plain, salt)
}

// Open reads a plan that this zone sealed for the same peer, project, reservation and
// request. All failures look the same to the caller; the cause, which goes into the log, has the reason.
func (e *Estimator) Open(v *state.State, peer api.ZoneID, req *api.Request, blob []byte) (*buildplan.Layer, error) {
	ring, err := e.keys.Ring(v)
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "estimate.Open", "", err)
	}
	plain, err := ring.Open(e.sealContext(v, peer, req), blob)
	if err != nil {
		return nil, RefusePlan(req, err)
	}
	l, err := buildplan.DecodeLayer(plain)
	if err != nil {
		return nil, RefusePlan(req, err)
	}
	return &l, nil
}

// RefusePlan returns the refusal of a plan that cannot be used. Only its cause, for the log, has the reason.
func RefusePlan(req *api.Request, why error) error {
	why = fmt.Errorf("reservation %q of project %q: %w", string(req.Reservation), string(req.Project), why)
	return api.Wrap(api.CodePlanRefused, "estimate.Open", api.PlanRefusedMessage, why)
}
