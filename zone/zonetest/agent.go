package zonetest

import (
	"context"
	"fmt"
	"time"

	"berth/api"
	"berth/internal/await"
	"berth/internal/backoff"
	"berth/zone/fleet"
)

// Agent serves the hosts of a zone: what should run runs at once.
type Agent struct {
	m    *Member
	name string // "" for the first of its zone
	cpus []int64

	heard time.Time                 // when the zone last answered
	runs  map[api.InstanceID]fenced // what runs, as far as it has a fence
	quiet bool                      // says nothing; guarded by m.mu
	deaf  bool                      // stops nothing; guarded by m.mu
	form  api.Form                  // that it reads; 0 for the first
}

// ID returns the name by which the zone knows the agent.
func (a *Agent) ID() api.AgentID { return api.AgentID("agent-" + a.m.Name + a.name) }

// Hosts returns the hosts of the agent, as it registers them.
func (a *Agent) Hosts() []api.AgentHost {
	var out []api.AgentHost
	for i, n := range a.cpus {
		out = append(out, api.AgentHost{
			Name: fmt.Sprintf("%s-host-%s%d", a.m.Name, a.name, i+1), Driver: "fake", Pool: api.PoolShared,
			Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: n}, api.MemoryMB: {Total: 1024 * n}},
		})
	}
	return out
}

func (a *Agent) run(ctx context.Context) {
	var after, term uint64
	for ctx.Err() == nil {
		z, leads := a.m.Node()
		a.m.mu.Lock()
		mute := a.m.mute || a.quiet
		a.m.mu.Unlock()
		if !leads || mute || a.serve(ctx, z, &after, &term) != nil {
			a.fence()
			backoff.Sleep(ctx, 500*time.Millisecond)
		}
	}
}

func (a *Agent) isDeaf() bool {
	a.m.mu.Lock()
	defer a.m.mu.Unlock()
	return a.deaf
}

// FallSilent lets the agent say nothing any more, and waits until the poll that it may
// have made has ended.
func (a *Agent) FallSilent() {
	a.m.set(func(*Member) { a.quiet = true })
	await.Sleep(2 * fleet.AgentBeat)
}

// Speak ends that the agent says nothing.
func (a *Agent) Speak() { a.m.set(func(*Member) { a.quiet = false }) }

// IgnoreStops lets the agent stop nothing any more.
func (a *Agent) IgnoreStops() { a.m.set(func(*Member) { a.deaf = true }) }

// serve registers with a new leader, does what is wanted and reports it.
func (a *Agent) serve(ctx context.Context, z *Conduct, after, term *uint64) error {
	if now := z.Store().Term(); now != *term {
		if _, err := z.RegisterHosts(ctx, a.ID(), &api.AgentRegister{Hosts: a.Hosts()}); err != nil {
			return err
		}
		*term, *after = now, 0
	}
	work, err := z.Work(ctx, a.ID(), &api.AgentWork{After: *after, Wait: fleet.AgentBeat, Form: a.form})
	if err == nil {
		err = work.FillTerms()
	}
	if err != nil {
		return err
	}
	a.heard = time.Now()
	var r api.AgentReport
	for _, h := range work.Hosts {
		for _, i := range h.Instances {
			item := api.InstanceReport{Host: h.Host, Instance: i.Instance, Status: api.StatusDeleted, Stay: i.Stay}
			where := a.m.Name + "/" + string(h.Host)
			switch {
			case i.Stop && a.isDeaf():
				continue
			case i.Stop:
				a.m.World.stopped(i.Instance, where)
				delete(a.runs, i.Instance)
			case i.Halt:
				a.m.World.stopped(i.Instance, where)
				delete(a.runs, i.Instance)
				item.Status = api.StatusShutoff
			default:
				if i.Fence > 0 {
					a.runs[i.Instance] = fenced{where, i.Fence}
				}
				item.Status = api.StatusActive
				a.m.World.started(i.Instance, where)
			}
			r.Items = append(r.Items, item)
		}
	}
	if _, err := z.Report(ctx, a.ID(), &r); err != nil {
		return err
	}
	*after = work.Generation
	return nil
}

// fenced is an instance that ends when its agent hears nothing for a while.
type fenced struct {
	where string
	after time.Duration
}

// fence stops what must not run any more, because the zone may have started it
// elsewhere. When the zone is heard again it asks for everything anew.
func (a *Agent) fence() {
	for id, f := range a.runs {
		if time.Since(a.heard) >= f.after {
			a.m.World.stopped(id, f.where)
			delete(a.runs, id)
		}
	}
}
