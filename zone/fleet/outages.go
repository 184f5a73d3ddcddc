package fleet

import (
	"context"
	"slices"

	"berth/api"
	"berth/raftstore/state"
)

// namesMax is how many hosts one line of the log names; it counts all of them.
const namesMax = 10

// outages logs which hosts have gone down and come back since the last look, whatever marked them so:
// the silence of their agent, its end, or that it serves them no longer. One goroutine uses it.
type outages struct {
	down map[api.HostID]bool // of all hosts at the last look; nil before the first one
}

// logChanges logs the changes of a view: one line for those that went down, and one for those that
// came back. The first look logs nothing: the leader before has.
func (o *outages) logChanges(ctx context.Context, f *Fleet, v *state.State) {
	hosts := v.AllHosts()
	now := make(map[api.HostID]bool, len(hosts))
	var down, up []string
	for _, h := range hosts {
		is := h.State == api.HostDown
		now[h.ID] = is
		switch was, known := o.down[h.ID]; {
		case !known || was == is:
		case is:
			down = append(down, h.Name)
		default:
			up = append(up, h.Name)
		}
	}
	o.down = now
	if len(down) > 0 {
		f.zone.Log().WarnContext(ctx, "hosts are down", "hosts", len(down), "names", firstNames(down))
	}
	if len(up) > 0 {
		f.zone.Log().InfoContext(ctx, "hosts are up again", "hosts", len(up), "names", firstNames(up))
	}
}

// firstNames returns the first names of a list, in order.
func firstNames(names []string) []string {
	slices.Sort(names)
	return names[:min(len(names), namesMax)]
}
