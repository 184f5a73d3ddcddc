package sim

import (
	"context"
	"time"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/await"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// furnish gives every zone the server groups that clients boot into: their names
// are their policies.
func (w *world) furnish() {
	w.t.Helper()
	for _, z := range w.zones {
		z.share()
		z.flavor(pooled, nil, api.Resources{scarce: 1})
		for policy, most := range map[api.Policy]int{api.Affinity: 0, api.AntiAffinity: 2} {
			z.propose(func(at command.Stamp) command.Command {
				return command.GroupPut{Stamp: at, Group: api.ServerGroup{
					ID: api.ServerGroupID(z.name + "-" + string(policy)), Name: string(policy), Project: project, Policy: policy, Max: most,
				}}
			})
		}
	}
}

// wish adds to an order at a zone what the seed chooses: more groups, rules, a
// server group, zones, a lifetime.
func (w *world) wish(z *zone, o rest.ServerCreate) rest.ServerCreate {
	switch w.dice.IntN(6) {
	case 0, 1:
		o.FlavorRef = string(roaming)
	case 2:
		o.FlavorRef = string(pooled)
	}
	if w.dice.IntN(6) == 0 {
		o.Lifetime = (time.Duration(20+w.dice.IntN(160)) * time.Second).String()
	}
	switch w.dice.IntN(9) {
	case 0, 1:
		w.split(&o)
	case 2:
		o.Hints = &rest.SchedulerHints{Group: string(api.AntiAffinity)}
	case 3:
		least, most := 1, 1+w.dice.IntN(2)
		o.MinCount, o.MaxCount, o.Hints = &least, &most, &rest.SchedulerHints{Group: string(api.Affinity)}
	case 4:
		o.Zones = w.where(z)
	}
	w.soften(&o)
	return o
}

// soften lets the instances of an order be preemptible, or lets such make room for them, or
// neither.
func (w *world) soften(o *rest.ServerCreate) {
	switch w.dice.IntN(6) {
	case 0:
		o.Preempt = true
		return
	case 1, 2:
	default:
		return
	}
	o.OnPreempt = []api.PreemptAction{api.PreemptRequeue, api.PreemptRequeue, api.PreemptStop, api.PreemptNotify}[w.dice.IntN(4)]
	wishes := []*rest.GroupWish{&o.GroupWish}
	for n := range o.Groups {
		wishes = append(wishes[:n], &o.Groups[n].GroupWish)
	}
	for _, g := range wishes {
		if g.Hints == nil {
			g.Hints = &rest.SchedulerHints{}
		}
		g.Hints.Preemptible = new(rest.Flag(true))
	}
}

// lend lets a lease have a grace of its own, and lend its room while it is idle, or neither.
func (w *world) lend(l rest.LeaseCreate) rest.LeaseCreate {
	if w.dice.IntN(2) == 0 {
		l.ShareIdle = new(true)
	}
	if w.dice.IntN(2) == 0 {
		l.Grace = new(rest.Duration(time.Duration(1+w.dice.IntN(180)) * time.Second))
	}
	return l
}

// split makes two groups of one, which rules bind.
func (w *world) split(o *rest.ServerCreate) {
	least, most, one := *o.MinCount, *o.MaxCount, 1
	o.Groups = []rest.GroupCreate{
		{Name: "many", FlavorRef: o.FlavorRef, MinCount: &least, MaxCount: &most},
		{Name: "one", FlavorRef: string(fixed), MinCount: &one, MaxCount: &one},
	}
	o.FlavorRef, o.MinCount, o.MaxCount = "", nil, nil
	switch w.dice.IntN(4) {
	case 0:
		o.Rules = []rest.RuleCreate{{Policy: api.AntiAffinity, Max: 1 + w.dice.IntN(2)}}
	case 1:
		o.Rules = []rest.RuleCreate{{Policy: api.AntiAffinity, Groups: []string{"many"}}, {Policy: api.SoftAffinity}}
	case 2:
		few := min(most, 3)
		o.Groups[0].MinCount, o.Groups[0].MaxCount = &one, &few
		o.Rules = []rest.RuleCreate{{Policy: api.Affinity}}
	}
}

// where draws a rule for zones, as seen from one.
func (w *world) where(z *zone) *rest.ZoneRule {
	names := []string{z.name}
	for _, c := range z.children() {
		names = append(names, c.name)
	}
	switch w.dice.IntN(4) {
	case 0:
		return &rest.ZoneRule{Excluded: []string{names[w.dice.IntN(len(names))]}}
	case 1:
		return &rest.ZoneRule{Pack: true}
	case 2:
		return &rest.ZoneRule{MaxSkew: 1 + w.dice.IntN(2)}
	}
	return &rest.ZoneRule{MinZones: 1 + w.dice.IntN(len(names))}
}

// late reports whether the window of an instance is over where it runs. It may be
// called from any goroutine.
func (w *world) late(id api.InstanceID) bool {
	late := false
	w.atHome(id, func(v *state.State, i *api.Instance) { late = i.Window.End <= v.Now() })
	return late
}

// moves returns how often an instance was moved. It may be called from any goroutine.
func (w *world) moves(id api.InstanceID) int {
	n := 0
	w.atHome(id, func(_ *state.State, i *api.Instance) { n = int(i.Moves) })
	return n
}

// atHome calls back with an instance as the zone that owns its host knows it.
func (w *world) atHome(id api.InstanceID, use func(*state.State, *api.Instance)) {
	for _, z := range w.zones {
		z.mu.Lock()
		nodes := z.nodes
		z.mu.Unlock()
		if v := newest(nodes); v != nil {
			if i, ok := v.Instance(id); ok && i.Host != "" {
				use(v, i)
				return
			}
		}
	}
}

// policies are what an operator lets become of what is on a host, the most frequent
// most often.
var policies = []api.DrainPolicy{api.DrainMove, api.DrainMove, api.DrainMove, api.DrainEnd, api.DrainWait}

// drain takes one host out of service for a while.
func (z *zone) drain(p, again *process, how api.DrainPolicy, pick uint64, d time.Duration) {
	z.call("drain "+string(how), p, func(ctx context.Context, c *client.Client) error {
		hosts, err := c.Hosts(ctx, client.ListOptions{})
		if err != nil || len(hosts.Items) == 0 {
			return err
		}
		h := string(hosts.Items[pick%uint64(len(hosts.Items))].ID)
		z.drained.Store(true)
		if _, err = c.DrainHost(ctx, h, how, "its turn"); err != nil {
			return err
		}
		await.Sleep(d)
		_, err = z.client(again).UndrainHost(ctx, h)
		return err
	})
}

// serve puts every host back into service.
func (w *world) serve() {
	w.t.Helper()
	for _, z := range w.zones {
		if z.lost {
			continue
		}
		for _, h := range z.view().AllHosts() {
			if h.Maintenance != "" || h.Drain != "" {
				z.undrain(h.ID)
			}
		}
	}
}

func (z *zone) undrain(h api.HostID) {
	z.w.t.Helper()
	z.insist("undrain", func(ctx context.Context, c *client.Client) error {
		_, err := c.UndrainHost(ctx, string(h))
		return err
	})
}

// endLives gives back what would end or be booted again by itself, and waits until it is gone.
func (w *world) endLives() {
	w.t.Helper()
	w.endLeases()
	for _, z := range w.zones {
		for _, b := range z.boots() {
			if (b.Request.Lifetime > 0 || b.Request.OnPreempt == api.PreemptRequeue) && !b.Final() {
				z.insist("release", func(ctx context.Context, c *client.Client) error {
					_, err := c.Release(ctx, b.Request.Reservation, 0)
					return err
				})
			}
		}
	}
	w.settle()
}

// endLeases ends every lease, and waits until nothing is left of it.
func (w *world) endLeases() {
	w.t.Helper()
	for _, z := range w.zones {
		for _, l := range z.view().Leases("") {
			if l.Status == api.LeaseTerminated {
				continue
			}
			z.insist("end", func(ctx context.Context, c *client.Client) error {
				err := c.DeleteLease(ctx, l.Terms.ID)
				if api.CodeOf(err) == api.CodeNotFound {
					return nil // an answer was lost
				}
				return err
			})
		}
	}
	for _, z := range w.zones {
		z.until("no lease is left", func(v *state.State) bool { return dueLeases(v) == 0 })
	}
}
