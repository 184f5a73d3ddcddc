package fleet

import (
	"context"
	"time"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// WriteOff gives up one instance of a lost host, or with "" the host and all that is on it, and returns
// what that is. A dry run finds out, and changes nothing. It is for the leader, which alone
// knows how long an agent has been silent.
//
// Its agent may be there and not reach the zone. So this waits, as an evacuation does, until the agent has
// ended by its own clock what may not outlive the silence of the zone. Only the operator knows that it will not
// go on with the rest.
func (f *Fleet) WriteOff(ctx context.Context, host api.HostID, instance api.InstanceID, dryRun bool) (state.Lost, error) {
	v, err := f.zone.Latest(ctx)
	if err != nil {
		return state.Lost{}, err
	}
	h, ok := v.Host(host)
	switch {
	case !ok:
		return state.Lost{}, api.Errorf(api.CodeNotFound, "no host %q", string(host))
	case h.State != api.HostDown:
		return state.Lost{}, api.Errorf(api.CodeConflict, "host %q is up; only what is on a lost host is written off", h.Name)
	case !h.Unserved && !f.isFenced(h):
		wait := EvacuateAfter - f.beats.silentFor(h.Agent, f.zone.Now())
		return state.Lost{}, api.Errorf(api.CodeConflict, "the agent of host %q was heard a moment ago, and may still run what is there; try again in %s", h.Name, wait.Round(time.Second)+time.Second)
	}
	c := command.HostWriteOff{Stamp: f.zone.Stamp(), ID: host, Since: h.DownSince, Instance: instance}
	if err := command.CheckForm(c, f.zone.Form()); err != nil {
		return state.Lost{}, err
	}
	if lost, err := state.NewDraft(v).LoseHost(c); err != nil || dryRun { // what is refused costs no entry
		return lost, err
	}
	res, err := f.zone.Propose(ctx, c)
	if err != nil {
		return state.Lost{}, err
	}
	return *res.Lost, nil
}
