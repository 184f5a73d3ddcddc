package node

import (
	"context"
	"time"

	"berth/api"
	"berth/raftstore/state"
)

// aboveTimeout is how long all zones above may take to say who they are.
const aboveTimeout = 5 * time.Second

var (
	errLinking = api.Errorf(api.CodeUnavailable, "a zone is being linked here at this moment; try again")
	errTooDeep = api.Errorf(api.CodeConflict, "the tree would be more than %d links deep", api.DepthMax)
)

// above answers a child whether a zone is this one or above it. While this zone
// gets a parent it cannot say, except of itself.
func (n *Node) above(ctx context.Context, id api.ZoneID) (*api.AboveAnswer, error) {
	if id == n.rec.Zone {
		return &api.AboveAnswer{Above: true}, nil
	}
	if !n.linking.TryRLock() {
		return nil, errLinking
	}
	defer n.linking.RUnlock()
	v, err := n.zone.Latest(ctx)
	if err != nil {
		return nil, err
	}
	return n.lookUp(ctx, v, id)
}

// lookUp asks the zones above, one after the other. The caller holds linking. Each
// refusal is one of ours: what another zone said of it stays in the log.
func (n *Node) lookUp(ctx context.Context, v *state.State, id api.ZoneID) (*api.AboveAnswer, error) {
	if id == v.Zone {
		return &api.AboveAnswer{Above: true}, nil
	}
	up, ok := v.Parent()
	if !ok {
		return &api.AboveAnswer{}, nil
	}
	a, err := n.peers.Above(ctx, up, id)
	switch code := api.CodeOf(err); {
	case code == api.CodeConflict, code == api.CodeInvalid: // it has crossed too many links
		return nil, errTooDeep
	case err != nil:
		return nil, api.Wrap(api.CodeUnavailable, "node.lookUp", "the zones above cannot all be asked; try again when they can be reached", err)
	case a.Zones < 0 || a.Zones > api.DepthMax:
		return nil, errTooDeep
	}
	return &api.AboveAnswer{Above: a.Above, Zones: a.Zones + 1}, nil
}

// mayTake refuses a child that is this zone or above it, and one that would be too
// far down. The caller holds linking.
func (n *Node) mayTake(ctx context.Context, v *state.State, child api.ZoneID) error {
	ctx, cancel := context.WithTimeout(ctx, aboveTimeout)
	defer cancel()
	a, err := n.lookUp(ctx, v, child)
	switch {
	case err != nil:
		return err
	case a.Above:
		return api.Errorf(api.CodeConflict, "zone %s is this zone or above it: the tree would become a ring", child)
	case a.Zones+1 > api.DepthMax:
		return errTooDeep
	}
	return nil
}
