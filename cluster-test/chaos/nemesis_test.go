//go:build chaos

package chaos

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"

	"berth/api"
	"berth/api/client"
	"berth/cluster-test/lab"
)

// nemesis breaks a federation of three nodes in each zone, one fault after the
// other, and mends it again. Whoever breaks is the test's own goroutine.
type nemesis struct {
	*fleet
	dice  *rand.Rand
	agent *lab.AgentProc // of real processes
}

// fault is one kind of fault. do injects it, waits, and takes it back.
type fault struct {
	kind string
	disk bool // it needs machines with disks and wires of their own
	do   func(n *nemesis, ctx context.Context) error
}

// faults lists every kind.
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
	{"full disk", true, (*nemesis).fillDisk},
	{"power cut", true, (*nemesis).powerCut},
	{"hung disk", true, (*nemesis).hangDisk},
}

// draw returns faults in a drawn order, each kind as often as any other but for one,
// until a moment, and every kind at least once.
func (n *nemesis) draw(until time.Time) iter.Seq[fault] {
	return func(yield func(fault) bool) {
		for first := true; first || time.Now().Before(until); first = false {
			for _, i := range n.dice.Perm(len(faults)) {
				switch {
				case faults[i].disk && !hasDisks:
				case !first && !time.Now().Before(until):
					return
				case !yield(faults[i]):
					return
				}
			}
		}
	}
}

// hold waits for a while between least and most.
func (n *nemesis) hold(ctx context.Context, least, most time.Duration) {
	lab.Pass(ctx, least+time.Duration(n.dice.Int64N(int64(most-least))))
}

// zone draws a zone.
func (n *nemesis) zone() *lab.Zone { return n.zones()[n.dice.IntN(len(n.zones()))] }

// leader draws a zone and returns its leader and its other nodes.
func (n *nemesis) leader(ctx context.Context) (leader *lab.NodeProc, others []*lab.NodeProc, err error) {
	z := n.zone()
	err = lab.Await(ctx, lab.SettleTimeout, func(ctx context.Context) error {
		var err error
		leader, err = z.AskLeader(ctx)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	for _, o := range z.Nodes {
		if o != leader {
			others = append(others, o)
		}
	}
	return leader, others, nil
}

func (n *nemesis) killLeader(ctx context.Context) error {
	leader, _, err := n.leader(ctx)
	if err == nil {
		leader.Crash()
	}
	return err
}

func (n *nemesis) killFollower(ctx context.Context) error {
	_, others, err := n.leader(ctx)
	if err == nil {
		others[n.dice.IntN(len(others))].Crash()
	}
	return err
}

func (n *nemesis) killMajority(context.Context) error {
	nodes := n.zone().Nodes
	first := n.dice.IntN(len(nodes))
	nodes[first].Crash()
	nodes[(first+1)%len(nodes)].Crash()
	return nil
}

func (n *nemesis) killAll(context.Context) error {
	for _, o := range n.zone().Nodes {
		o.Crash()
	}
	return nil
}

func (n *nemesis) pauseLeader(ctx context.Context) error {
	leader, _, err := n.leader(ctx)
	if err != nil {
		return err
	}
	leader.Pause()
	n.hold(ctx, 500*time.Millisecond, 3*time.Second)
	leader.Resume()
	return nil
}

func (n *nemesis) restart(ctx context.Context) error {
	nodes := n.zone().Nodes
	o := nodes[n.dice.IntN(len(nodes))]
	if err := o.Stop(lab.StartTimeout); err != nil {
		return err
	}
	return o.Up(ctx)
}

func (n *nemesis) transfer(ctx context.Context) error {
	z := n.zone()
	return z.Do(ctx, z.Token, func(ctx context.Context, c *client.Client) error { return c.Transfer(ctx, "") })
}

func (n *nemesis) killAgent(context.Context) error {
	n.agent.Crash()
	return nil
}

func (n *nemesis) rotate(ctx context.Context) error {
	z := n.zone()
	return z.Do(ctx, z.Token, func(ctx context.Context, c *client.Client) error { return c.RotateKeyring(ctx) })
}

func (n *nemesis) pauseLink(ctx context.Context) error {
	set := func(state api.LinkState) error {
		return n.root.Do(ctx, n.root.Token, func(ctx context.Context, c *client.Client) error {
			_, err := c.UpdateZone(ctx, "west", client.ZoneSpec{State: &state})
			return err
		})
	}
	if err := set(api.LinkPaused); err != nil {
		return err
	}
	n.hold(ctx, 300*time.Millisecond, time.Second)
	return set(api.LinkActive)
}

// cut cuts from each of from to each of to, or both ways, and heals after a while.
func (n *nemesis) cut(ctx context.Context, from, to []*lab.Machine, both bool, least, most time.Duration) error {
	before, err := n.dropped(to)
	errs := []error{err}
	for _, a := range from {
		for _, b := range to {
			errs = append(errs, n.CutOneWay(a, b))
			if both {
				errs = append(errs, n.CutOneWay(b, a))
			}
		}
	}
	n.hold(ctx, least, most)
	after, err := n.dropped(to)
	if err == nil && after == before {
		err = errors.New("the cut held nothing back")
	}
	return errors.Join(append(errs, err, n.Heal())...)
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

func (n *nemesis) isolateLeader(ctx context.Context) error {
	leader, others, err := n.leader(ctx)
	if err != nil {
		return err
	}
	return n.cut(ctx, machines(leader), machines(others...), true, time.Second, 3*time.Second)
}

func (n *nemesis) deafenLeader(ctx context.Context) error {
	leader, others, err := n.leader(ctx)
	if err != nil {
		return err
	}
	return n.cut(ctx, machines(others...), machines(leader), false, time.Second, 3*time.Second)
}

func (n *nemesis) muteLeader(ctx context.Context) error {
	leader, others, err := n.leader(ctx)
	if err != nil {
		return err
	}
	return n.cut(ctx, machines(leader), machines(others...), false, time.Second, 3*time.Second)
}

// breakTriangle cuts the leader off from one of its two followers.
func (n *nemesis) breakTriangle(ctx context.Context) error {
	leader, others, err := n.leader(ctx)
	if err != nil {
		return err
	}
	return n.cut(ctx, machines(leader), machines(others[0]), true, time.Second, 3*time.Second)
}

func (n *nemesis) cutLink(ctx context.Context) error {
	above, below := n.root, n.west
	if n.dice.IntN(2) == 0 {
		above, below = n.west, n.edge
	}
	return n.cut(ctx, machines(above.Nodes...), machines(below.Nodes...), true, time.Second, 6*time.Second)
}

func (n *nemesis) cutLinkOneWay(ctx context.Context) error {
	from, to := n.root, n.west
	if n.dice.IntN(2) == 0 {
		from, to = n.west, n.root
	}
	return n.cut(ctx, machines(from.Nodes...), machines(to.Nodes...), false, time.Second, 6*time.Second)
}

// cutAgent cuts the agent off for longer than the zone waits for it.
func (n *nemesis) cutAgent(ctx context.Context) error {
	return n.cut(ctx, []*lab.Machine{n.agent.Machine}, machines(n.west.Nodes...), true, 11*time.Second, 13*time.Second)
}

// slowBytes is what a slow machine may send in a second.
const slowBytes = 64 << 10

func (n *nemesis) slow(ctx context.Context) error {
	leader, _, err := n.leader(ctx)
	if err != nil {
		return err
	}
	err = n.Slow(leader.Machine, slowBytes)
	n.hold(ctx, time.Second, 3*time.Second)
	return errors.Join(err, n.Heal())
}

func (n *nemesis) fillDisk(ctx context.Context) error {
	leader, others, err := n.leader(ctx)
	if err != nil {
		return err
	}
	victim := append(others, leader)[n.dice.IntN(len(others)+1)].Machine
	err = victim.Fill()
	n.hold(ctx, time.Second, 4*time.Second)
	return errors.Join(err, victim.Space())
}

// powerCut cuts the power of some or all nodes of a zone at the same moment.
func (n *nemesis) powerCut(ctx context.Context) error {
	nodes := n.zone().Nodes
	return powerCut(ctx, nodes[:1+n.dice.IntN(len(nodes))])
}

func powerCut(ctx context.Context, nodes []*lab.NodeProc) error {
	errs := make(chan error, len(nodes))
	for _, o := range nodes {
		go func() { errs <- o.Machine.PowerCut() }()
	}
	for range nodes {
		if err := <-errs; err != nil {
			return err
		}
	}
	sums.fault("power cut", len(nodes))
	for _, o := range nodes {
		if err := o.Machine.Remount(); err != nil {
			return err
		}
	}
	for _, o := range nodes {
		go func() { errs <- o.Up(ctx) }()
	}
	var all []error
	for range nodes {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

func (n *nemesis) hangDisk(ctx context.Context) error {
	leader, _, err := n.leader(ctx)
	if err != nil {
		return err
	}
	err = leader.Machine.Hang()
	n.hold(ctx, 6*time.Second, 8*time.Second)
	return errors.Join(err, leader.Machine.Unhang())
}

// rest waits until every node answers and every zone has a leader.
func (n *nemesis) rest(ctx context.Context) error {
	return lab.Await(ctx, lab.SettleTimeout, func(ctx context.Context) error {
		for _, z := range n.zones() {
			for _, o := range z.Nodes {
				if err := o.AskReady(ctx); err != nil {
					return err
				}
			}
			if _, err := z.AskLeader(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}
