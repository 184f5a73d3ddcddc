package estimate

import (
	"crypto/rand"

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
// request. All failures look the same to the caller; the log has the reason.
func (e *Estimator) Open(v *state.State, peer api.ZoneID, req *api.Request, blob []byte) (*buildplan.Layer, error) {
	ring, err := e.keys.Ring(v)
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "estimate.Open", "", err)
	}
	plain, err := ring.Open(e.sealContext(v, peer, req), blob)
	if err != nil {
		return nil, e.RefusePlan(req, err)
	}
	l, err := buildplan.DecodeLayer(plain)
	if err != nil {
		return nil, e.RefusePlan(req, err)
	}
	return &l, nil
}

// RefusePlan logs why a plan cannot be used, and returns a refusal without the reason.
func (e *Estimator) RefusePlan(req *api.Request, why error) error {
	e.zone.Log().Warn("plan refused", "reservation", req.Reservation, "project", req.Project, "error", why)
	return api.Wrap(api.CodePlanRefused, "estimate.Open", api.PlanRefusedMessage, why)
}
