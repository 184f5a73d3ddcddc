package resources

import (
	"context"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// Consumer is all that one consumer shall have. Without shares it is forgotten. A
// generation must be the current one; 0 means that the consumer must be new, and nil
// that it does not matter.
type Consumer = command.ConsumerEntry

// Reshape is the new inventory of one provider, which must be at a generation.
type Reshape = command.Reshape

// PutConsumers replaces all that some consumers have, each of them once, and in the same
// step the inventories of some providers. All of it happens, or nothing.
func PutConsumers(ctx context.Context, z *zone.Zone, consumers []Consumer, reshape []Reshape) error {
	_, err := z.Propose(ctx, command.ConsumersPut{Stamp: z.Stamp(), Consumers: consumers, Reshape: reshape})
	return err
}

// DeleteConsumer forgets a consumer and frees what it has.
func DeleteConsumer(ctx context.Context, z *zone.Zone, id api.ConsumerID) error {
	_, err := z.Change(ctx, command.ConsumerDelete{Stamp: z.Stamp(), ID: id}, func(v *state.State) error {
		if !v.Knows(id) {
			return api.Errorf(api.CodeNotFound, "no consumer %q", string(id))
		}
		return nil
	})
	return err
}
