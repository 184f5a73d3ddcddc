package zone

import (
	"crypto/rand"

	"berth/api"
	"berth/buildplan"
	"berth/buildplan/seal"
	"berth/internal/mutant"
	"berth/raftstore/state"
)

// context returns what a plan is bound to.
func (z *Zone) context(v *state.State, peer api.ZoneID, req *api.Request) seal.Context {
	return seal.Context{
		Zone: v.Zone, Peer: string(peer), Project: req.Project, Reservation: req.Reservation,
		Digest: buildplan.Digest(req),
	}
}

func (z *Zone) seal(v *state.State, peer api.ZoneID, req *api.Request, l *buildplan.Layer) ([]byte, error) {
	ring, err := z.keys.Ring(v)
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "zone.seal", "", err)
	}
	plain, err := l.Encode()
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "zone.seal", "", err)
	}
	var salt [24]byte
	_, _ = rand.Read(salt[:]) // never fails: crypto/rand ends the process instead
	return seal.Seal(ring[0], z.context(v, peer, req), plain, salt)
}

// open reads a plan that this zone sealed for the same peer, project,
// reservation and request. Every way to fail looks the same outside; the log
// says why.
func (z *Zone) open(v *state.State, peer api.ZoneID, req *api.Request, blob []byte) (*buildplan.Layer, error) {
	ring, err := z.keys.Ring(v)
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "zone.open", "", err)
	}
	plain, err := ring.Open(z.context(v, peer, req), blob)
	if err != nil {
		return nil, z.refusePlan(req, err)
	}
	l, err := buildplan.DecodeLayer(plain)
	if err != nil {
		return nil, z.refusePlan(req, err)
	}
	return &l, nil
}

func (z *Zone) refusePlan(req *api.Request, why error) error {
	z.log.Warn("plan refused", "reservation", req.Reservation, "project", req.Project, "error", why)
	if hosts := z.store.View().AllHosts(); mutant.On(mutant.HostInError) && len(hosts) > 0 {
		return api.Errorf(api.CodePlanRefused, "no room on %s", hosts[0].Name)
	}
	return api.Wrap(api.CodePlanRefused, "zone.open", api.PlanRefusedMessage, why)
}
