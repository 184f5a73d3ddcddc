package intake

import (
	"context"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// ReleaseBoot ends a boot and all its instances.
func ReleaseBoot(ctx context.Context, z *zone.Zone, project api.ProjectID, id api.ReservationID) error {
	c := command.BootRelease{Stamp: z.Stamp(), Project: project, Reservation: id}
	_, err := z.Change(ctx, c, func(v *state.State) error {
		if _, ok := v.Boot(project, id); !ok {
			return api.Errorf(api.CodeNotFound, "no reservation %q", string(id))
		}
		return nil
	})
	return err
}

// DeleteServer ends an instance.
func DeleteServer(ctx context.Context, z *zone.Zone, id api.InstanceID) error {
	_, err := z.Propose(ctx, command.InstanceDelete{Stamp: z.Stamp(), ID: id})
	return err
}

// ResolveHold decides, by an operator's order, a hold that a parent has left undecided.
// The parent is told so when it comes back.
func ResolveHold(ctx context.Context, z *zone.Zone, id api.HoldID, d api.Decision) error {
	if d != api.DecisionCommit && d != api.DecisionAbort {
		return api.Errorf(api.CodeInvalid, "decision must be %q or %q", api.DecisionCommit, api.DecisionAbort)
	}
	for _, h := range z.View().PreparedHolds() {
		if h.ID == id {
			z.Log().WarnContext(ctx, "hold is decided by an operator", "hold", id, "decision", d)
			_, err := z.Propose(ctx, command.HoldDecide{Stamp: z.Stamp(), ID: id, Origin: h.Origin, Decision: d, Forced: true})
			return err
		}
	}
	return api.Errorf(api.CodeNotFound, "no undecided hold %q", string(id))
}
