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
