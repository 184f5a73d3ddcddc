package sim

import (
	"context"
	"slices"
	"time"

	"berth/api/client"
	"berth/internal/await"
	"berth/internal/crash"
)

// fault is one way in which things go wrong.
type fault struct {
	name string
	odds int
	do   func(w *world) bool // false if it could not be done just now
}

// faults are all that the seeds draw from.
var faults = []fault{
	{"transfer", 3, (*world).transfer},
	{"kill leader", 3, (*world).killLeader},
	{"kill node", 3, (*world).killNode},
	{"stop node", 1, (*world).stopNode},
	{"kill zone", 1, (*world).killZone},
	{"in suspense", 20, (*world).inSuspense},
	{"leader of the past", 2, (*world).leaderOfThePast},
	{"standing leader", 8, (*world).standLeader},
	{"kill at point", 8, (*world).killAtPoint},
	{"cut at point", 5, (*world).cutAtPoint},
	{"kill agent", 2, (*world).killAgent},
	{"kill agent at point", 2, (*world).killAgentAtPoint},
	{"lost disk", 1, (*world).loseDisk},
	{"cut nodes", 3, (*world).cutNodes},
	{"cut one way", 3, (*world).cutOneWay},
	{"cut zones", 3, (*world).cutZones},
	{"cut agent", 1, (*world).cutAgent},
	{"lost agent", 3, (*world).loseAgent},
	{"ring", 1, (*world).ring},
	{"slow link", 3, (*world).slow},
	{"freeze node", 2, (*world).freezeNode},
	{"vanish node", 2, (*world).vanishNode},
	{"reset", 2, (*world).reset},
	{"clock jump", 2, (*world).jump},
}

// disturb draws one fault and starts it. It ends by itself.
func (w *world) disturb() {
	sum := 0
	for _, f := range faults {
		sum += f.odds
	}
	n := w.dice.IntN(sum)
	for _, f := range faults {
		if n -= f.odds; n < 0 {
			if f.do(w) {
				w.tally.fault(f.name)
			}
			return
		}
	}
}

// heal ends all faults and waits for those that are under way.
func (w *world) heal() {
	w.net.Heal()
	for _, z := range w.zones {
		for _, p := range z.nodes {
			p.bomb.disarm()
		}
		for _, c := range z.crews {
			c.bomb.disarm()
		}
	}
	w.tasks.Wait()
	w.net.Heal()
	w.ops.Wait()
	w.serve()
}

// lasts draws how long a fault lasts.
func (w *world) lasts() time.Duration { return time.Duration(1+w.dice.IntN(20)) * time.Second }

func (w *world) anyZone() *zone { return w.zones[w.dice.IntN(len(w.zones))] }

func (w *world) anyNode() *process {
	z := w.anyZone()
	return z.nodes[w.dice.IntN(len(z.nodes))]
}

func (w *world) transfer() bool {
	z := w.anyZone()
	if len(z.nodes) < 2 {
		return false
	}
	z.handed.Add(1)
	z.call("transfer", z.nodes[w.dice.IntN(len(z.nodes))], func(ctx context.Context, c *client.Client) error {
		return c.Transfer(ctx, "")
	})
	return true
}

// after runs f when d has passed, as part of a fault.
func (w *world) after(d time.Duration, f func()) {
	w.tasks.Go(func() {
		await.Sleep(d)
		f()
	})
}

// down kills a node now, and starts it again after d.
func (p *process) down(d time.Duration) bool {
	if p.running() == nil {
		return false
	}
	p.kill()
	p.z.w.tasks.Go(func() { p.again(d) })
	return true
}

// again waits for the end of a process that was killed, and starts it after d.
func (p *process) again(d time.Duration) {
	p.reap()
	await.Sleep(d)
	p.start()
	p.z.w.tally.restart()
}

func (w *world) killLeader() bool {
	p := w.anyZone().leader()
	return p != nil && p.down(w.lasts())
}

func (w *world) killNode() bool { return w.anyNode().down(w.lasts()) }

func (w *world) stopNode() bool {
	p, d := w.anyNode(), w.lasts()
	if p.running() == nil {
		return false
	}
	p.mu.Lock()
	p.dead = true // another fault may not kill it any more
	p.stop()
	p.mu.Unlock()
	w.tasks.Go(func() { p.again(d) })
	return true
}

func (w *world) killZone() bool {
	did := false
	for _, p := range w.anyZone().nodes {
		did = p.down(w.lasts()) || did
	}
	return did
}

func (w *world) killAtPoint() bool {
	z, d := w.anyZone(), w.lasts()
	points := append(crash.Points(), crash.RequeuePoints()...)
	at := points[w.dice.IntN(len(points))]
	p := z.nodes[w.dice.IntN(len(z.nodes))]
	if l := z.leader(); l != nil {
		p = l
	}
	n := 1 + w.dice.IntN(2)
	p.bomb.arm(at, n, func() {
		w.tally.fault("killed at " + string(at))
		p.down(d)
	})
	return true
}

// cutAtPoint cuts a node off from every other zone when it reaches a point.
func (w *world) cutAtPoint() bool {
	z, d := w.anyZone(), w.lasts()
	points := append(crash.Points(), crash.RequeuePoints()...)
	at := points[w.dice.IntN(len(points))]
	l := z.leader()
	if l == nil {
		return false
	}
	var others []string
	for _, o := range w.zones {
		if o != z {
			others = append(others, o.hostsOf()...)
		}
	}
	l.bomb.arm(at, 1, func() {
		w.tally.fault("cut at " + string(at))
		w.net.Isolate(l.host.Name(), others...)
		w.after(d, func() {
			for _, o := range others {
				w.net.Mend(l.host.Name(), o)
			}
		})
	})
	return true
}

func (z *zone) hostsOf() []string {
	var out []string
	for _, p := range z.nodes {
		out = append(out, p.host.Name())
	}
	return out
}

func (c *crew) down(d time.Duration) bool {
	if c.gate.shut.Load() {
		return false
	}
	c.kill()
	c.z.w.tasks.Go(func() {
		c.reap()
		await.Sleep(d)
		c.start()
		c.z.w.tally.restart()
	})
	return true
}

func (w *world) anyCrew() *crew {
	z := w.anyZone()
	return z.crews[w.dice.IntN(len(z.crews))]
}

func (w *world) killAgent() bool { return w.anyCrew().down(w.lasts()) }

func (w *world) killAgentAtPoint() bool {
	c, d := w.anyCrew(), w.lasts()
	points := crash.AgentPoints()
	at := points[w.dice.IntN(len(points))]
	c.bomb.arm(at, 1, func() {
		w.tally.fault("killed at " + string(at))
		c.down(d)
	})
	return true
}

// loseDisk takes a node of a zone of three away with its disk; another one joins
// in its place.
func (w *world) loseDisk() bool {
	z := w.anyZone()
	place := w.dice.IntN(len(z.nodes))
	p := z.nodes[place]
	if len(z.nodes) < 3 || slices.ContainsFunc(z.nodes, func(o *process) bool { return o.running() == nil || o.past.Load() }) {
		return false
	}
	w.net.Heal()
	p.kill()
	p.reap()
	z.insistElsewhere(place, func(ctx context.Context, c *client.Client) error { return c.RemoveMember(ctx, p.id) })
	z.addNode(place)
	w.tally.restart()
	return true
}

func (z *zone) insistElsewhere(place int, f func(ctx context.Context, c *client.Client) error) {
	ctx, cancel := context.WithTimeout(z.w.ctx, patience)
	defer cancel()
	for i := place + 1; ctx.Err() == nil; i++ {
		if i%len(z.nodes) == place {
			continue
		}
		if err := f(ctx, z.client(z.nodes[i%len(z.nodes)])); err == nil {
			return
		}
		await.Sleep(time.Second)
	}
	z.w.fail("zone %s: a lost member cannot be removed", z.name)
}

// apart cuts links, and mends them after a while.
func (w *world) apart(cut func(a, b string), d time.Duration, pairs ...[2]string) bool {
	for _, p := range pairs {
		cut(p[0], p[1])
	}
	w.after(d, func() {
		for _, p := range pairs {
			w.net.Mend(p[0], p[1])
		}
	})
	return len(pairs) > 0
}

func (w *world) cutNodes() bool {
	p := w.anyNode()
	var pairs [][2]string
	for _, o := range p.z.nodes {
		if o != p {
			pairs = append(pairs, [2]string{p.host.Name(), o.host.Name()})
		}
	}
	return w.apart(w.net.Cut, w.lasts(), pairs...)
}

func (w *world) cutOneWay() bool {
	a, b := w.anyNode(), w.anyNode()
	if w.dice.IntN(2) == 0 {
		b = a.z.nodes[w.dice.IntN(len(a.z.nodes))]
	}
	if a == b {
		return false
	}
	return w.apart(w.net.CutOneWay, w.lasts(), [2]string{a.host.Name(), b.host.Name()})
}

// between returns all pairs of nodes of a zone and its parent.
func between(z *zone) [][2]string {
	var pairs [][2]string
	if z.parent == nil {
		return nil
	}
	for _, a := range z.hostsOf() {
		for _, b := range z.parent.hostsOf() {
			pairs = append(pairs, [2]string{a, b})
		}
	}
	return pairs
}

func (w *world) cutZones() bool {
	pairs := between(w.anyZone())
	return pairs != nil && w.apart(w.net.Cut, w.lasts(), pairs...)
}

func (w *world) cutAgent() bool {
	return w.apart(w.net.Cut, w.lasts(), w.anyCrew().wires()...)
}

// loseAgent takes an agent away for longer than a zone waits until it starts what
// may be started elsewhere.
func (w *world) loseAgent() bool {
	c, d, cut := w.anyCrew(), time.Duration(40+w.dice.IntN(40))*time.Second, w.dice.IntN(2) == 0
	switch {
	case w.resting: // what moves is not in the backup
		return false
	case cut:
		return w.apart(w.net.Cut, d, c.wires()...)
	}
	return c.down(d)
}

// wires are all ways between an agent and the nodes of its zone.
func (c *crew) wires() [][2]string {
	var pairs [][2]string
	for _, h := range c.z.hostsOf() {
		pairs = append(pairs, [2]string{c.host.Name(), h})
	}
	return pairs
}

// ring leaves every node of the federation only two neighbours.
func (w *world) ring() bool {
	var hosts []string
	for _, z := range w.zones {
		hosts = append(hosts, z.hostsOf()...)
	}
	w.dice.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
	w.net.Ring(hosts...)
	w.after(w.lasts(), w.net.Heal)
	return true
}

func (w *world) slow() bool {
	pairs, delay := between(w.anyZone()), time.Duration(20+w.dice.IntN(400))*time.Millisecond
	return pairs != nil && w.apart(func(a, b string) { w.net.Slow(a, b, delay) }, w.lasts(), pairs...)
}

func (w *world) reset() bool {
	a, b := w.anyNode(), w.anyNode()
	a.host.Reset(b.host.Name())
	return true
}

// jump sets the wall clock of one machine, and sets it right after a while.
func (w *world) jump() bool {
	p, by := w.anyNode(), time.Hour
	if w.dice.IntN(2) == 0 {
		by = -time.Hour
	}
	p.clock.jump(by)
	w.after(w.lasts(), func() { p.clock.jump(-by) })
	return true
}
