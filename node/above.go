package node

import (
	"context"
	"slices"
	"sync"
	"time"

	"berth/api"
	"berth/raftstore/state"
)

// treeTimeout is how long the zones above, and those below, may take to answer.
const treeTimeout = 5 * time.Second

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

// mayTake refuses a child that is this zone or above it, and one with so many levels
// below it that the lowest would be too far down. The caller holds linking.
func (n *Node) mayTake(ctx context.Context, v *state.State, child api.ZoneID, levels int) error {
	ctx, cancel := context.WithTimeout(ctx, treeTimeout)
	defer cancel()
	a, err := n.lookUp(ctx, v, child)
	switch {
	case err != nil:
		return err
	case a.Above:
		return api.Errorf(api.CodeConflict, "zone %s is this zone or above it: the tree would become a ring", child)
	case a.Zones+1+levels > api.DepthMax:
		return errTooDeep
	}
	return nil
}

// levels returns how many levels of zones are below this one. A child that does not
// answer counts as one without children.
func (n *Node) levels(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, treeTimeout)
	defer cancel()
	children := n.view().Children()
	found := make([]int, len(children)+1) // the last is this zone's own
	var wg sync.WaitGroup
	for i, l := range children {
		wg.Go(func() {
			found[i] = 1
			a, err := n.peers.Below(ctx, l)
			if err != nil {
				n.log.Warn("a child does not say what is below it", "link", l.Name, "error", err)
				return
			}
			found[i] = 1 + min(max(a.Levels, 0), api.DepthMax)
		})
	}
	wg.Wait()
	return min(slices.Max(found), api.DepthMax)
}
