//go:build chaos

package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cluster-test/lab"
	"berth/internal/await"
	"berth/internal/crash"
	"berth/internal/dice"
	"berth/raftstore"
	"berth/raftstore/state"
)

// Sizes of one round.
const (
	sagasPerRound = 13
	sagaCount     = 14 // instances of each: more than there are hosts, so every zone takes part
	drainSagas    = 5  // fit on the other hosts of the zone when one is drained, wherever they are
	pointsRoom    = 80 // in each zone: an instance more on a host outweighs the rounding of weights

	repeatsMax  = 40 // further boots, while the point is not reached
	repeatEvery = 250 * time.Millisecond
	auditEvery  = 8 // rounds of a federation
	pointFleets = 2 // federations that share the points: a round waits most of the time
)

// act is what clients do while a process is to end at a point.
type act string

const (
	booting   act = "boot"
	releasing act = "release"
	deleting  act = "delete"
	draining  act = "drain"
	starting  act = "start" // the point is reached when the process is started
)

// will returns what a reservation comes to in the end.
func (a act) will() func(api.BootState) bool {
	if a == releasing || a == deleting {
		return gone
	}
	return api.BootState.Outcome
}

// where says which process ends at which point, and what leads there.
type where struct {
	point crash.Point
	zone  string
	act   act
}

// rounds lists every point of a node that boots, releases and restarts reach. Two
// more are reached when a parent is silent for long; those are for federations in
// virtual time, where long costs nothing.
func rounds() []where {
	var out []where
	add := func(a act, zone string, points ...crash.Point) {
		for _, p := range points {
			out = append(out, where{p, zone, a})
		}
	}
	add(booting, "root", crash.BootLogging, crash.BootLogged, crash.SelectPlanning, crash.SelectPlanned, crash.HoldLogging, crash.HoldLogged,
		crash.HoldAsking, crash.HoldAsked, crash.PartsLogging, crash.PartsLogged, crash.DecisionLogging, crash.DecisionLogged,
		crash.DecisionTelling, crash.DecisionTold, crash.AckLogging, crash.AckLogged, crash.ReportLogging, crash.ReportLogged,
		crash.FollowLogging, crash.FollowLogged, crash.LogWriting, crash.LogWritten,
		crash.SnapshotWriting, crash.SnapshotWritten, crash.SnapshotKept, crash.TruncateWriting, crash.TruncateWritten)
	add(booting, "west", crash.SelectSealed, crash.HoldLogging, crash.HoldLogged, crash.HoldAsking, crash.HoldAsked, crash.PartsLogged,
		crash.HoldAnswering, crash.VerdictLogging, crash.VerdictLogged, crash.DecisionTelling, crash.DecisionTold, crash.LogWritten)
	add(booting, "edge", crash.HoldLogged, crash.HoldAnswering, crash.VerdictLogging, crash.VerdictLogged, crash.ReportLogged)
	add(releasing, "root", crash.ReleaseLogging, crash.ReleaseLogged, crash.DecisionTelling, crash.AckLogged)
	add(releasing, "west", crash.VerdictLogged, crash.DecisionTelling)
	add(deleting, "root", crash.DeleteLogging, crash.DeleteLogged, crash.EndTelling, crash.EndTold)
	add(draining, "west", crash.MoveLogging, crash.MoveLogged)
	add(starting, "root", crash.VoteWriting, crash.VoteWritten, crash.RestoreLoading, crash.RestoreLoaded)
	add(booting, "root", crash.AttemptAborting, crash.AttemptAborted)
	return out
}

// TestNamedPoints ends a process at each point while a dozen boots are in flight,
// lets it come back, and waits until each of them is whole or gone. Each of pointFleets federations
// takes its share of the points. A run with -short has a drawn part of them.
func TestNamedPoints(t *testing.T) {
	t.Parallel()
	of := dice.Part(t, rounds(), roundsShort)
	for share := range pointFleets {
		t.Run(fmt.Sprint("share ", share), func(t *testing.T) {
			t.Parallel()
			endAtPoints(t, share, of)
		})
	}
}

// roundsShort is how many rounds a run with -short draws.
const roundsShort = 38

// endAtPoints goes through one share of these rounds in a federation of its own.
func endAtPoints(t *testing.T, share int, of []where) {
	t.Helper()
	f := newFleet(t, lab.Options{Env: []string{"BERTH_COMPACT=40:40"}}, 1, pointsRoom)
	f.realAgent(t, pointsRoom/4)
	for _, z := range f.zones() {
		askAll(t, z)
	}
	files := map[string]string{}
	p := &points{fleet: f, t: t, files: files, cut: map[string]bool{}}
	for _, z := range f.zones() {
		files[z.Name] = filepath.Join(f.Dir, z.Name+".point")
		z.Nodes[0].Env = append(z.Nodes[0].Env, "BERTH_CRASH_FILE="+files[z.Name])
		z.Nodes[0].Ended = func(lab.Exit) { p.look(z.Nodes[0]) }
		z.Nodes[0].Crash()
	}
	for _, z := range f.zones() {
		z.Nodes[0].Start()
		z.Nodes[0].Ready()
	}
	f.supervise()
	f.Allow(func(e lab.Exit) bool { return strings.Contains(e.Last, "berth: crash point") })
	for n := share; sums.sagas() < scaled(500) || n < len(of); n += pointFleets {
		p.round(n, of[n%len(of)])
	}
	p.clear()
	f.Audit()
	f.agree(t)
}

// askAll has a zone ask all its children for each boot, so that each takes part in the sagas that
// are to be cut there.
func askAll(t *testing.T, z *lab.Zone) {
	t.Helper()
	require.NoError(t, z.Do(t.Context(), z.Token, func(ctx context.Context, c *client.Client) error {
		conf, err := c.Config(ctx)
		if err != nil {
			return err
		}
		conf.Fanout.Mode = api.FanoutAll
		_, err = c.SetConfig(ctx, conf)
		return err
	}))
}

// points ends processes at points.
type points struct {
	*fleet
	t     *testing.T
	files map[string]string // where each zone's node reads its point at its start
	live  []api.ReservationID

	mu  sync.Mutex      // guards what follows
	cut map[string]bool // what was under way on the disk of a process that has ended in this round
	err error           // of the first disk that could not be read
}

// look reads the disk of a process that has ended, before the next one starts, and
// notes which sagas it had begun and not brought to an end.
func (p *points) look(n *lab.NodeProc) {
	s, err := stateOf(filepath.Join(n.Dir, "raft"))
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.err = errors.Join(p.err, fmt.Errorf("%s: %w", n.Name, err))
		return
	}
	for _, saga := range underWay(s) {
		p.cut[saga] = true
	}
}

// took returns how many sagas were cut since the last call.
func (p *points) took() int {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.NoError(p.t, p.err)
	defer clear(p.cut)
	return len(p.cut)
}

// stateOf returns what the disk of a node holds that was the only one of its zone
// and has ended: all of its log is committed.
func stateOf(dir string) (*state.State, error) {
	d, err := raftstore.OpenDisk(dir, nil)
	if err != nil {
		return nil, err
	}
	s := state.New()
	var newest raftstore.SnapshotInfo
	for _, info := range d.Snapshots() {
		if info.Index > newest.Index {
			newest = info
		}
	}
	if newest.ID != "" {
		if s, err = d.State(newest.ID); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	for e, err := range d.Entries() {
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		for _, c := range e.Commands {
			if e.Index > newest.Index {
				s.Apply(e.Index, c)
			}
		}
	}
	return s, d.Close()
}

// underWay names the boots, releases, deletions and moves that a zone has begun and
// not brought to an end: undecided, or not confirmed by all who take part.
func underWay(s *state.State) []string {
	var out []string
	saga := func(id api.ReservationID) {
		if !slices.Contains(out, string(id)) {
			out = append(out, string(id))
		}
	}
	s.FindBoot(func(b *state.Boot) bool {
		if b.Decision == api.DecisionPending || b.Unacked > 0 {
			saga(b.Request.Reservation)
		}
		return false // all of them
	})
	for _, h := range slices.Concat(s.PreparedHolds(), s.UntoldHolds()) {
		saga(h.Request.Reservation)
	}
	for _, i := range s.UnendedInstances() {
		saga(i.Reservation)
	}
	for _, i := range s.InstancesPage(state.InstanceQuery{Page: state.Page{Limit: api.CountMax}}) {
		if i.Target != "" { // each moves by itself
			out = append(out, string(i.ID))
		}
	}
	return out
}

// round ends one process at one point.
func (p *points) round(n int, at where) {
	t := p.t
	t.Helper()
	ctx := t.Context()
	zone := p.zones()[map[string]int{"root": 0, "west": 1, "edge": 2}[at.zone]]
	node := zone.Nodes[0]
	var ids []api.ReservationID
	for i := range sagasPerRound {
		ids = append(ids, api.ReservationID(fmt.Sprintf("r%d-%d", n, i)))
	}
	if at.act == draining {
		ids = ids[:drainSagas]
	}
	if at.act == releasing || at.act == deleting || at.act == draining {
		p.bootAll(ctx, ids)
	}
	before := p.deaths(node.Name)
	due := p.arm(ctx, at, node)
	p.act(ctx, at, ids)
	count := 1 // not enough was written yet
	if at.zone != "root" {
		count = sagaCount // or the zone was not asked, because it has not answered in the round before
	}
	for more := range repeatsMax {
		if p.deaths(node.Name) >= before+due {
			break
		}
		id := api.ReservationID(fmt.Sprintf("r%d-more-%d", n, more))
		require.NoError(t, p.boot(ctx, id, count))
		ids = append(ids, id)
		lab.Pass(ctx, repeatEvery)
	}
	await.Until(t, fmt.Sprintf("round %d: %s of %s is reached", n, at.point, at.zone), func(ctx context.Context) error {
		if p.deaths(node.Name) == before+due {
			return nil
		}
		hits, err := node.Points(ctx)
		return lab.OrElse(err, "points: %v", hits)
	})
	cut := p.took()
	sums.cut(at.point, cut)
	ends := p.settle(ctx, at, ids)
	t.Logf("round %d: %s of %s ended at %s with %d under way: %v", n, at.act, at.zone, at.point, cut, ends)
	p.clear()
	if n/pointFleets%auditEvery == 0 {
		p.Audit()
	}
}

// arm lets the process end at the point, at once or when it is started again, and
// returns how many processes will have ended when that is done.
func (p *points) arm(ctx context.Context, at where, node *lab.NodeProc) int {
	p.t.Helper()
	nth := 1 + p.dice.IntN(3)
	switch at.point {
	case crash.VoteWriting, crash.VoteWritten, crash.RestoreLoading, crash.RestoreLoaded:
		require.NoError(p.t, os.WriteFile(p.files[at.zone], []byte(string(at.point)+" 1"), 0o600))
		return 2
	case crash.AttemptAborting, crash.AttemptAborted:
		// The first process ends with attempts undecided; the next finds them.
		require.NoError(p.t, os.WriteFile(p.files[at.zone], []byte(string(at.point)+" 1"), 0o600))
		require.NoError(p.t, node.Arm(ctx, crash.PartsLogging, nth))
		return 2
	case crash.SnapshotWriting, crash.SnapshotWritten, crash.SnapshotKept, crash.TruncateWriting, crash.TruncateWritten,
		crash.BootLogging, crash.BootLogged, crash.ReportLogging, crash.ReportLogged, crash.FollowLogging, crash.FollowLogged:
		require.NoError(p.t, node.Arm(ctx, at.point, 1))
	default:
		require.NoError(p.t, node.Arm(ctx, at.point, nth))
	}
	return 1
}

// act does what leads to the point, for all reservations at once.
func (p *points) act(ctx context.Context, at where, ids []api.ReservationID) {
	p.t.Helper()
	switch at.act {
	case starting:
		p.root.Nodes[0].Crash()
	case draining:
		p.drain(ctx, p.west)
		return
	case booting, releasing, deleting:
	}
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex // guards what follows
		errs []error
	)
	for _, id := range ids {
		wg.Go(func() {
			err := p.one(ctx, at.act, id)
			if err == nil {
				_, err = p.ends(ctx, id, at.act.will())
			}
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	wg.Wait()
	require.NoError(p.t, errors.Join(errs...))
}

func (p *points) one(ctx context.Context, a act, id api.ReservationID) error {
	switch a {
	case booting, starting:
		return p.boot(ctx, id, sagaCount)
	case releasing:
		return p.release(ctx, id)
	case deleting:
		return p.deleteAll(ctx, id)
	case draining: // all at once
	}
	return fmt.Errorf("nobody knows how to %s", a)
}

// drain moves what is on the fullest host of a zone to others.
func (p *points) drain(ctx context.Context, z *lab.Zone) {
	p.t.Helper()
	hosts := z.Hosts()
	from := slices.MaxFunc(hosts, func(a, b rest.Host) int { return cmp.Compare(a.Used[api.MemoryMB], b.Used[api.MemoryMB]) })
	p.MayMove()
	require.NoError(p.t, z.Do(ctx, z.Token, func(ctx context.Context, c *client.Client) error {
		_, err := c.DrainHost(ctx, string(from.ID), api.DrainMove, "its turn")
		return err
	}))
	before := int(from.Used[api.MemoryMB] / unitMB)
	await.Until(p.t, "the host is empty", func(ctx context.Context) error {
		var now rest.Host
		err := z.Do(ctx, z.Token, func(ctx context.Context, c *client.Client) (err error) {
			now, err = c.Host(ctx, string(from.ID))
			return err
		})
		if err == nil && now.Leaving != nil && now.Leaving.Left == 0 {
			return nil
		}
		return lab.OrElse(err, "left: %+v", now.Leaving)
	})
	require.NoError(p.t, z.Do(ctx, z.Token, func(ctx context.Context, c *client.Client) error {
		_, err := c.UndrainHost(ctx, string(from.ID))
		return err
	}))
	sums.moved(before)
}

// deleteAll deletes the servers of a reservation one by one.
func (p *points) deleteAll(ctx context.Context, id api.ReservationID) error {
	var servers client.Page[rest.Server]
	err := p.root.Do(ctx, p.token, func(ctx context.Context, c *client.Client) error {
		var err error
		servers, err = c.Servers(ctx, client.ServerQuery{Reservation: id}, client.ListOptions{})
		return err
	})
	for _, s := range servers.Items {
		e := p.root.Do(ctx, p.token, func(ctx context.Context, c *client.Client) error { return c.DeleteServer(ctx, s.ID) })
		if api.CodeOf(e) != api.CodeNotFound { // it was deleted, and the answer lost
			err = errors.Join(err, e)
		}
	}
	return err
}

// bootAll boots all reservations and waits until they are active.
func (p *points) bootAll(ctx context.Context, ids []api.ReservationID) {
	p.t.Helper()
	errs := make(chan error, len(ids))
	for _, id := range ids {
		go func() {
			err := p.boot(ctx, id, sagaCount)
			if err == nil {
				_, err = p.ends(ctx, id, func(s api.BootState) bool { return s == api.BootActive })
			}
			errs <- err
		}()
	}
	for range ids {
		require.NoError(p.t, <-errs)
	}
}

// settle waits until every reservation is whole or gone, and returns how many
// ended how.
func (p *points) settle(ctx context.Context, at where, ids []api.ReservationID) map[api.BootState]int {
	p.t.Helper()
	ends := map[api.BootState]int{}
	for _, id := range ids {
		b, err := p.ends(ctx, id, at.act.will())
		require.NoError(p.t, err, "%s of %s", at.point, at.zone)
		sums.outcome()
		ends[b.State]++
		if at.act == booting || at.act == starting || at.act == draining {
			require.NoError(p.t, whole(&b))
			p.live = append(p.live, id)
		}
	}
	return ends
}

// clear gives everything back.
func (p *points) clear() {
	p.t.Helper()
	ctx := p.t.Context()
	for _, id := range p.live {
		require.NoError(p.t, p.release(ctx, id))
	}
	for _, id := range p.live {
		_, err := p.ends(ctx, id, gone)
		require.NoError(p.t, err)
		sums.outcome()
	}
	p.live = nil
}

// deaths counts the ends of a service's processes.
func (p *points) deaths(service string) int {
	n := 0
	for _, e := range p.Exits() {
		if e.Service == service {
			n++
		}
	}
	return n
}
