package federation

import (
	"context"
	"slices"
	"sync"
	"time"

	"berth/api"
	"berth/raftstore/state"
)

// treeTimeout bounds the time that zones above or below may take to answer.
const treeTimeout = 5 * time.Second

var (
	errLinking = api.Errorf(api.CodeUnavailable, "a zone is being linked here at this moment; try again")
	errTooDeep = api.Errorf(api.CodeConflict, "the tree would be more than %d links deep", api.DepthMax)
)

// Above reports to a child whether a zone is this one or an ancestor of it. While this
// zone gains a parent, it can answer only for itself.
func (f *Federation) Above(ctx context.Context, id api.ZoneID) (*api.AboveAnswer, error) {
	if id == f.view().Zone {
		return &api.AboveAnswer{Above: true}, nil
	}
	if !f.linking.TryRLock() {
		return nil, errLinking
	}
	defer f.linking.RUnlock()
	v, err := f.zone.Latest(ctx)
	if err != nil {
		return nil, err
	}
	return f.askAbove(ctx, v, id)
}

// askAbove asks the zones above, one after the other. The caller holds linking.
// Refusals have this zone's own words: those of other zones stay in the log.
func (f *Federation) askAbove(ctx context.Context, v *state.State, id api.ZoneID) (*api.AboveAnswer, error) {
	if id == v.Zone {
		return &api.AboveAnswer{Above: true}, nil
	}
	up, ok := v.Parent()
	if !ok {
		return &api.AboveAnswer{}, nil
	}
	a, err := f.peers.Above(ctx, up, id)
	switch code := api.CodeOf(err); {
	case code == api.CodeConflict, code == api.CodeInvalid: // the question has crossed too many links
		return nil, errTooDeep
	case err != nil:
		return nil, api.Wrap(api.CodeUnavailable, "federation.askAbove", "the zones above cannot all be asked; try again when they can be reached", err)
	case a.Zones < 0 || a.Zones > api.DepthMax:
		return nil, errTooDeep
	}
	return &api.AboveAnswer{Above: a.Above, Zones: a.Zones + 1}, nil
}

// checkChild refuses a child that is this zone or an ancestor, and one whose subtree
// would make the tree too deep. The caller holds linking.
func (f *Federation) checkChild(ctx context.Context, v *state.State, child api.ZoneID, levels int) error {
	ctx, cancel := context.WithTimeout(ctx, treeTimeout)
	defer cancel()
	a, err := f.askAbove(ctx, v, child)
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

// LevelsBelow returns the number of levels of zones below this one. A child that does
// not answer counts as a child without children.
func (f *Federation) LevelsBelow(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, treeTimeout)
	defer cancel()
	children := f.view().Children()
	found := make([]int, len(children)+1) // the last is this zone's own
	var wg sync.WaitGroup
	for i, l := range children {
		wg.Go(func() {
			found[i] = 1
			a, err := f.peers.Below(ctx, l)
			if err != nil {
				f.log.WarnContext(ctx, "a child does not report the zones below it", "link", l.Name, "error", err)
				return
			}
			found[i] = 1 + min(max(a.Levels, 0), api.DepthMax)
		})
	}
	wg.Wait()
	return min(slices.Max(found), api.DepthMax)
}
