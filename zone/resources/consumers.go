package resources

import (
	"context"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// Consumer is the complete new set of allocations of one consumer. Without shares, the
// consumer is deleted. A generation must be the current one; 0 requires a new consumer,
// and nil accepts any.
type Consumer = command.ConsumerEntry

// Reshape is the new inventory of one provider, with its current generation.
type Reshape = command.Reshape

// PutConsumers atomically replaces all allocations of some consumers, each named once,
// and the inventories of some providers.
func PutConsumers(ctx context.Context, z *zone.Zone, consumers []Consumer, reshape []Reshape) error {
	_, err := z.Propose(ctx, command.ConsumersPut{Stamp: z.Stamp(), Consumers: consumers, Reshape: reshape})
	return err
}

// DeleteConsumer deletes a consumer and its allocations.
func DeleteConsumer(ctx context.Context, z *zone.Zone, id api.ConsumerID) error {
	_, err := z.Change(ctx, command.ConsumerDelete{Stamp: z.Stamp(), ID: id}, func(v *state.State) error {
		if !v.Knows(id) {
			return api.Errorf(api.CodeNotFound, "no consumer %q", string(id))
		}
		return nil
	})
	return err
}
