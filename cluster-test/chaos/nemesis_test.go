//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cluster-test/check"
	"berth/cluster-test/lab"
	"berth/internal/await"
)

// nemesis breaks a federation of three nodes in each zone and mends it again: half
// of the time two faults at once, and beside them one that lasts.
type nemesis struct {
	*fleet
	agent *lab.AgentProc // of real processes
	only  []*lab.Zone    // that it draws from; all of them if it is empty
	until time.Time      // when the last of the faults that last is to end

	history *check.Recorder // of backups and restores; nil for a campaign without a history of them

	mu   sync.Mutex // guards what follows
	dice *rand.Rand
	busy map[*lab.NodeProc]bool // what another fault has
	hits []*hit
}

// hit is one fault that was injected.
type hit struct {
	kind        string
	from, until time.Time       // until it was mended, and its nodes were ready
	nodes       []*lab.NodeProc // that it took out of their zones
	of          *lab.Zone       // that it hits without taking a node; nil for none
	slow        bool            // their zone need not be quick meanwhile
	promise     time.Duration   // of how soon their zone acknowledges again
}

// zone returns the name of the zone that a fault hits, "" for none.
func (h *hit) zone() string {
	switch {
	case len(h.nodes) > 0:
		return h.nodes[0].Zone.Name
	case h.of != nil:
		return h.of.Name
	}
	return ""
}

// fault is one kind of fault. do injects it, waits, and takes it back.
type fault struct {
	kind string
	disk bool // it needs machines with disks and wires of their own
	do   func(n *nemesis, ctx context.Context, h *hit) error
}

// faults lists every kind that is over soon.
var faults = []fault{
	{"kill leader", false, (*nemesis).killLeader},
	{"kill follower", false, (*nemesis).killFollower},
	{"kill majority", false, (*nemesis).killMajority},
	{"kill all nodes", false, (*nemesis).killAll},
	{"pause leader", false, (*nemesis).pauseLeader},
	{"stop and start", false, (*nemesis).restart},
	{"transfer leadership", false, (*nemesis).transfer},
	{"kill agent", false, (*nemesis).killAgent},
	{"rotate keys", false, (*nemesis).rotate},
	{"pause link", false, (*nemesis).pauseLink},
	{"isolate leader", false, (*nemesis).isolateLeader},
	{"leader hears nobody", false, (*nemesis).deafenLeader},
	{"nobody hears leader", false, (*nemesis).muteLeader},
	{"broken triangle", false, (*nemesis).breakTriangle},
	{"cut link", false, (*nemesis).cutLink},
	{"cut link one way", false, (*nemesis).cutLinkOneWay},
	{"cut off agent", false, (*nemesis).cutAgent},
	{"slow wire", true, (*nemesis).slow},
	{"lossy wire", true, (*nemesis).losePackets},
	{"doubled packets", true, (*nemesis).doublePackets},
	{"wrong clock", false, (*nemesis).misset},
	{"slow disk", true, (*nemesis).slowDisk},
	{"starved leader", false, (*nemesis).starveLeader},
	{"full disk", true, (*nemesis).fillDisk},
	{"power cut", true, (*nemesis).powerCut},
	{"hung disk", true, (*nemesis).hangDisk},
}

// lasting lists those that take up to a minute, beside which the others go on.
var lasting = []fault{
	{"long stall", false, (*nemesis).stall},
	{"vanished machine", true, (*nemesis).vanish},
}

// Lengths of the faults that last.
const (
	lastingMin = 20 * time.Second
	lastingMax = 60 * time.Second
)

// draw returns faults in a drawn order, each kind as often as any other but for one,
// until a moment, and every kind at least once.
func (n *nemesis) draw(until time.Time) iter.Seq[fault] {
	return func(yield func(fault) bool) {
		for first := true; first || time.Now().Before(until); first = false {
			n.mu.Lock()
			order := n.dice.Perm(len(faults))
			n.mu.Unlock()
			for _, i := range order {
				switch {
				case faults[i].disk && !hasDisks, !isWanted(faults[i].kind):
				case !first && !time.Now().Before(until):
					return
				case !yield(faults[i]):
					return
				}
			}
		}
	}
}

// isWanted reports whether this run draws a kind of fault.
func isWanted(kind string) bool {
	return *kindsFlag == "" || slices.Contains(strings.Split(*kindsFlag, ","), kind)
}

// inject injects one fault and notes it.
func (n *nemesis) inject(ctx context.Context, f fault) (*hit, error) {
	h := &hit{kind: f.kind, from: time.Now(), promise: failoverMax}
	err := f.do(n, ctx, h)
	if err == nil {
		err = n.ready(ctx, h.nodes)
	}
	h.until = time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, o := range h.nodes {
		delete(n.busy, o)
	}
	if err != nil {
		return h, fmt.Errorf("%s: %w", f.kind, err)
	}
	n.hits = append(n.hits, h)
	return h, nil
}

// ready waits until nodes answer and know a leader.
func (n *nemesis) ready(ctx context.Context, nodes []*lab.NodeProc) error {
	return await.Wait(ctx, func(ctx context.Context) error {
		for _, o := range nodes {
			if err := o.AskReady(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// intn draws a number below most.
func (n *nemesis) intn(most int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dice.IntN(most)
}

// hold waits for a while between least and most.
func (n *nemesis) hold(ctx context.Context, least, most time.Duration) {
	lab.Pass(ctx, least+time.Duration(n.intn(int(most-least))))
}

// zone draws a zone.
func (n *nemesis) zone() *lab.Zone {
	all := n.only
	if len(all) == 0 {
		all = n.zones()
	}
	return all[n.intn(len(all))]
}

// free returns the nodes of a zone that no other fault has.
func (n *nemesis) free(z *lab.Zone) []*lab.NodeProc {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(z.Members(), func(o *lab.NodeProc) bool { return n.busy[o] })
}

// claim takes nodes for one fault, unless another has one of them.
func (n *nemesis) claim(h *hit, nodes []*lab.NodeProc) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(nodes) == 0 || slices.ContainsFunc(nodes, func(o *lab.NodeProc) bool { return n.busy[o] }) {
		return errors.New("another fault has what this one needs")
	}
	for _, o := range nodes {
		n.busy[o] = true
	}
	h.nodes, h.from = slices.Clone(nodes), time.Now()
	return nil
}

// take draws a zone, asks its free nodes who leads, and takes those of them that
// choose wants. It returns the others that are free.
func (n *nemesis) take(ctx context.Context, h *hit, choose func(leader *lab.NodeProc, others []*lab.NodeProc) []*lab.NodeProc) ([]*lab.NodeProc, error) {
	var rest []*lab.NodeProc
	err := await.Wait(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		z := n.zone()
		free := n.free(z)
		if len(free) == 0 {
			return fmt.Errorf("nothing of %s is free", z.Name)
		}
		leader, err := z.AskLeader(ctx, free...)
		if err != nil {
			return err
		}
		others := slices.DeleteFunc(slices.Clone(free), func(o *lab.NodeProc) bool { return o == leader })
		if len(others) == len(free) {
			return fmt.Errorf("another fault has the leader of %s", z.Name)
		}
		if err := n.claim(h, choose(leader, others)); err != nil {
			return err
		}
		rest = slices.DeleteFunc(others, func(o *lab.NodeProc) bool { return slices.Contains(h.nodes, o) })
		return nil
	})
	return rest, err
}

func theLeader(leader *lab.NodeProc, _ []*lab.NodeProc) []*lab.NodeProc {
	return []*lab.NodeProc{leader}
}

// anyNode draws one of all.
func (n *nemesis) anyNode(leader *lab.NodeProc, others []*lab.NodeProc) []*lab.NodeProc {
	all := append(slices.Clone(others), leader)
	return []*lab.NodeProc{all[n.intn(len(all))]}
}

func (n *nemesis) killLeader(ctx context.Context, h *hit) error {
	if _, err := n.take(ctx, h, theLeader); err != nil {
		return err
	}
	h.nodes[0].Crash()
	return nil
}

func (n *nemesis) killFollower(ctx context.Context, h *hit) error {
	_, err := n.take(ctx, h, func(_ *lab.NodeProc, others []*lab.NodeProc) []*lab.NodeProc {
		return others[:min(1, len(others))]
	})
	if err != nil {
		return err
	}
	h.nodes[0].Crash()
	return nil
}

func (n *nemesis) killMajority(ctx context.Context, h *hit) error { return n.killSome(ctx, h, 2) }

func (n *nemesis) killAll(ctx context.Context, h *hit) error { return n.killSome(ctx, h, 3) }

// killSome kills so many nodes of one zone.
func (n *nemesis) killSome(ctx context.Context, h *hit, count int) error {
	_, err := n.take(ctx, h, func(leader *lab.NodeProc, others []*lab.NodeProc) []*lab.NodeProc {
		if all := append([]*lab.NodeProc{leader}, others...); len(all) >= count {
			return all[:count]
		}
		return nil // another zone has them all
	})
	if err != nil {
		return err
	}
	for _, o := range h.nodes {
		o.Crash()
	}
	return nil
}

func (n *nemesis) pauseLeader(ctx context.Context, h *hit) error {
	if _, err := n.take(ctx, h, theLeader); err != nil {
		return err
	}
	return n.freeze(ctx, h.nodes[0], 500*time.Millisecond, 3*time.Second)
}

// stall freezes a node for long.
func (n *nemesis) stall(ctx context.Context, h *hit) error {
	if _, err := n.take(ctx, h, n.anyNode); err != nil {
		return err
	}
	return n.freeze(ctx, h.nodes[0], lastingMin, n.most())
}

// most returns how long a fault that lasts may take now.
func (n *nemesis) most() time.Duration {
	return max(lastingMin+time.Second, min(lastingMax, time.Until(n.until)))
}

// freeze lets a process stand still, sees that it does, and lets it go on.
func (n *nemesis) freeze(ctx context.Context, o *lab.NodeProc, least, most time.Duration) error {
	life := o.Life()
	o.Pause()
	n.hold(ctx, least, most)
	look, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	var err error
	if o.Health(look) == nil && o.Life() == life {
		err = fmt.Errorf("%s should stand still and answers", o.Name)
	}
	o.Resume()
	return err
}

// vanish takes a machine off the network for long.
func (n *nemesis) vanish(ctx context.Context, h *hit) error {
	if _, err := n.take(ctx, h, n.anyNode); err != nil {
		return err
	}
	m := h.nodes[0].Machine
	before, err := n.Dropped(m)
	if err = errors.Join(err, n.Vanish(m)); err != nil {
		return err
	}
	n.hold(ctx, lastingMin, n.most())
	after, err := n.Dropped(m)
	if err == nil && after == before {
		err = errors.New("the machine has vanished and nobody has missed it")
	}
	return errors.Join(err, n.Return(m))
}

func (n *nemesis) restart(ctx context.Context, h *hit) error {
	if _, err := n.take(ctx, h, n.anyNode); err != nil {
		return err
	}
	if err := h.nodes[0].Stop(); err != nil {
		return err
	}
	return h.nodes[0].Up(ctx)
}

func (n *nemesis) transfer(ctx context.Context, h *hit) error {
	z := n.zone()
	h.of = z
	return z.Do(ctx, z.Token, func(ctx context.Context, c *client.Client) error { return c.Transfer(ctx, "") })
}

func (n *nemesis) killAgent(context.Context, *hit) error {
	n.agent.Crash()
	return nil
}

func (n *nemesis) rotate(ctx context.Context, _ *hit) error {
	z := n.zone()
	return z.Do(ctx, z.Token, func(ctx context.Context, c *client.Client) error { return c.RotateKeyring(ctx) })
}

func (n *nemesis) pauseLink(ctx context.Context, _ *hit) error {
	set := func(state api.LinkState) error {
		return n.root.Do(ctx, n.root.Token, func(ctx context.Context, c *client.Client) error {
			_, err := c.UpdateZone(ctx, "west", rest.ZoneSpec{State: &state})
			return err
		})
	}
	if err := set(api.LinkPaused); err != nil {
		return err
	}
	n.hold(ctx, 300*time.Millisecond, time.Second)
	return set(api.LinkActive)
}

// cut cuts from each of from to each of to, or both ways, and joins them after a
// while.
func (n *nemesis) cut(ctx context.Context, from, to []*lab.Machine, both bool, least, most time.Duration) error {
	hit := to
	if both {
		hit = slices.Concat(from, to)
	}
	before, err := n.dropped(hit)
	errs := []error{err}
	each := func(do func(from, to *lab.Machine) error) {
		for _, a := range from {
			for _, b := range to {
				errs = append(errs, do(a, b))
				if both {
					errs = append(errs, do(b, a))
				}
			}
		}
	}
	each(n.CutOneWay)
	n.hold(ctx, least, most)
	after, err := n.dropped(hit)
	if err == nil && after == before {
		err = errors.New("the cut held nothing back")
	}
	errs = append(errs, err)
	each(n.JoinOneWay)
	return errors.Join(errs...)
}

// dropped returns how often something that was sent to these was held back.
func (n *nemesis) dropped(to []*lab.Machine) (sum uint64, err error) {
	for _, m := range to {
		d, e := n.Dropped(m)
		sum, err = sum+d, errors.Join(err, e)
	}
	return sum, err
}

func machines(of ...*lab.NodeProc) []*lab.Machine {
	var out []*lab.Machine
	for _, o := range of {
		out = append(out, o.Machine)
	}
	return out
}

// others returns the machines of a node's zone without its own.
func others(o *lab.NodeProc) []*lab.Machine {
	return machines(slices.DeleteFunc(o.Zone.Members(), func(m *lab.NodeProc) bool { return m == o })...)
}

func (n *nemesis) isolateLeader(ctx context.Context, h *hit) error {
	if _, err := n.take(ctx, h, theLeader); err != nil {
		return err
	}
	return n.cut(ctx, machines(h.nodes...), others(h.nodes[0]), true, time.Second, 3*time.Second)
}

func (n *nemesis) deafenLeader(ctx context.Context, h *hit) error {
	if _, err := n.take(ctx, h, theLeader); err != nil {
		return err
	}
	return n.cut(ctx, others(h.nodes[0]), machines(h.nodes...), false, time.Second, 3*time.Second)
}

func (n *nemesis) muteLeader(ctx context.Context, h *hit) error {
	if _, err := n.take(ctx, h, theLeader); err != nil {
		return err
	}
	return n.cut(ctx, machines(h.nodes...), others(h.nodes[0]), false, time.Second, 3*time.Second)
}

// breakTriangle cuts the leader off from one of its two followers.
func (n *nemesis) breakTriangle(ctx context.Context, h *hit) error {
	var leader *lab.NodeProc
	_, err := n.take(ctx, h, func(l *lab.NodeProc, others []*lab.NodeProc) []*lab.NodeProc {
		leader = l
		return others[:min(1, len(others))]
	})
	if err != nil {
		return err
	}
	return n.cut(ctx, machines(leader), machines(h.nodes...), true, time.Second, 3*time.Second)
}

func (n *nemesis) cutLink(ctx context.Context, _ *hit) error {
	above, below := n.root, n.west
	if n.intn(2) == 0 {
		above, below = n.west, n.edge
	}
	return n.cut(ctx, machines(above.Nodes...), machines(below.Nodes...), true, time.Second, 6*time.Second)
}

func (n *nemesis) cutLinkOneWay(ctx context.Context, _ *hit) error {
	from, to := n.root, n.west
	if n.intn(2) == 0 {
		from, to = n.west, n.root
	}
	return n.cut(ctx, machines(from.Nodes...), machines(to.Nodes...), false, time.Second, 6*time.Second)
}

// cutAgent cuts the agent off for longer than the zone waits for it.
func (n *nemesis) cutAgent(ctx context.Context, _ *hit) error {
	return n.cut(ctx, []*lab.Machine{n.agent.Machine}, machines(n.west.Nodes...), true, 11*time.Second, 13*time.Second)
}

// losePackets has the leader of a zone miss many of the packets that others send it.
func (n *nemesis) losePackets(ctx context.Context, h *hit) error {
	if _, err := n.take(ctx, h, theLeader); err != nil {
		return err
	}
	h.slow = true // it may lead still
	m := h.nodes[0].Machine
	before, err := n.Dropped(m)
	if err = errors.Join(err, n.Lose(m, 5+n.intn(26))); err != nil {
		return err
	}
	n.hold(ctx, time.Second, 4*time.Second)
	after, err := n.Dropped(m)
	if err == nil && after == before {
		err = errors.New("the lossy wire lost nothing")
	}
	return errors.Join(err, n.Lose(m, 0))
}

// doublePackets has the leader of a zone send many of its packets twice.
func (n *nemesis) doublePackets(ctx context.Context, h *hit) error {
	if _, err := n.take(ctx, h, theLeader); err != nil {
		return err
	}
	h.slow = true // it leads still
	m := h.nodes[0].Machine
	if err := n.Double(m, 20+n.intn(60)); err != nil {
		return err
	}
	before, err := n.Doubled(m)
	n.hold(ctx, time.Second, 4*time.Second)
	after, bad := n.Doubled(m)
	if err = errors.Join(err, bad); err == nil && after == before {
		err = errors.New("nothing was sent twice")
	}
	return errors.Join(err, n.Double(m, 0))
}

// wrongMost is by how much a clock is wrong at most. Tokens, certificates, and the time that agents are given to be
// heard of are for longer; plans are not, and boots are planned again.
const wrongMost = 8 * time.Second

// misset starts a node with a wrong clock, and makes it lead if it can be, and starts it with the right one after
// a while. The time of its zone may stand still then, until other clocks have caught up with what it was.
func (n *nemesis) misset(ctx context.Context, h *hit) error {
	if _, err := n.take(ctx, h, n.anyNode); err != nil {
		return err
	}
	h.slow = true // the lead may move three times
	o := h.nodes[0]
	off := time.Second + time.Duration(n.intn(int(wrongMost-time.Second)))
	if n.intn(2) == 0 {
		off = -off
	}
	if err := o.Stop(); err != nil {
		return err
	}
	o.SetClock(off)
	defer o.SetClock(0) // whatever ends here
	if err := errors.Join(o.Up(ctx), n.ready(ctx, h.nodes)); err != nil {
		return err
	}
	_ = o.Zone.Do(ctx, o.Zone.Token, func(ctx context.Context, c *client.Client) error { return c.Transfer(ctx, o.ID) }) // what else breaks may keep it from that
	n.hold(ctx, time.Second, 4*time.Second)
	if err := o.Stop(); err != nil {
		return err
	}
	o.SetClock(0)
	return o.Up(ctx)
}

// starveLeader gives the leader of a zone little more than a tenth of its time.
func (n *nemesis) starveLeader(ctx context.Context, h *hit) error {
	if _, err := n.take(ctx, h, theLeader); err != nil {
		return err
	}
	h.slow = true // it may lead still
	o, life := h.nodes[0], h.nodes[0].Life()
	err := n.inTurns(ctx, 90*time.Millisecond, func() error { o.Pause(); return nil }, func() error { o.Resume(); return nil })
	if err == nil && o.Life() != life {
		err = fmt.Errorf("%s has ended although it only got little time", o.Name)
	}
	return err
}

// slowDisk has the leader of a zone wait for its disk most of the time, but never for long.
func (n *nemesis) slowDisk(ctx context.Context, h *hit) error {
	if _, err := n.take(ctx, h, theLeader); err != nil {
		return err
	}
	h.slow = true // it leads on, or hands over
	o, life, began := h.nodes[0], h.nodes[0].Life(), time.Now()
	err := n.inTurns(ctx, 200*time.Millisecond, o.Machine.Hang, o.Machine.Unhang)
	if err == nil && o.Life() != life { // it may, if the machine of the test made the disk slower still
		return n.ended(o, began)
	}
	return err
}

// mendedFor is how long inTurns leaves what it breaks alone.
const mendedFor = 10 * time.Millisecond

// inTurns breaks something for about a time and mends it for a moment, again and again for some seconds.
func (n *nemesis) inTurns(ctx context.Context, broken time.Duration, breaks, mends func() error) (err error) {
	for until := time.Now().Add(time.Second + time.Duration(n.intn(3000))*time.Millisecond); err == nil && time.Now().Before(until) && ctx.Err() == nil; {
		err = breaks()
		n.hold(ctx, broken*3/4, broken*5/4)
		err = errors.Join(err, mends())
		n.hold(ctx, mendedFor, 2*mendedFor)
	}
	return err
}

// slowBytes is what a slow machine may send in a second.
const slowBytes = 64 << 10

func (n *nemesis) slow(ctx context.Context, h *hit) error {
	if _, err := n.take(ctx, h, theLeader); err != nil {
		return err
	}
	h.slow = true // it leads still
	o := h.nodes[0]
	if err := n.Slow(o.Machine, slowBytes); err != nil {
		return err
	}
	n.hold(ctx, time.Second, 3*time.Second)
	err := await.Wait(ctx, func(ctx context.Context) error { // a child in maintenance has little to send
		waited, err := n.Delayed(o.Machine)
		if err == nil && waited == 0 {
			var leads bool
			if leads, err = o.Leads(ctx); leads { // others have little to send
				err = errors.New("the slow wire held nothing up")
			}
		}
		return err
	})
	return errors.Join(err, n.Fast(o.Machine))
}
