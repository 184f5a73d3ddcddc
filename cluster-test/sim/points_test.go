package sim

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/await"
	"berth/internal/crash"
	"berth/internal/dice"
)

var twiceFlag = flag.Bool("twice", false, "end processes when they reach a point for the second time as well")

// line is a federation on three levels: a boot of ten fills more than two of them.
var line = plot{"root", 3, []int{1}, []plot{{"west", 1, []int{1}, []plot{{"edge", 1, []int{1}, nil}}}}}

// whole is how many instances use every host of line.
const whole = 12

// below are the points that only a zone reaches which is asked by another one, or
// has hosts of its own in the story.
var below = map[crash.Point]bool{
	crash.SelectSealed: true, crash.HoldAnswering: true, crash.VerdictLogging: true, crash.VerdictLogged: true,
	crash.QuestionAsking: true, crash.QuestionLogging: true,
}

// TestEveryPoint ends a process at each point on the way of a boot and of what
// follows it, starts it again, and holds that nothing was lost, nothing is done
// twice, and everything ends.
func TestEveryPoint(t *testing.T) {
	for _, p := range dice.Part(t, append(crash.Points(), crash.AgentPoints()...), 8) {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { pointStory(t, p, 1) })
		})
		if *twiceFlag {
			t.Run(string(p)+" twice", func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { pointStory(t, p, 2) })
			})
		}
	}
}

// pointStory ends a process the n-th time that a point is reached.
func pointStory(t *testing.T, p crash.Point, n int) {
	t.Helper()
	w := newWorld(t, dice.Seed(t), line)
	z := w.root()
	if below[p] {
		z = w.zone("west")
	}
	s := &shot{left: n}
	if slices.Contains(crash.AgentPoints(), p) {
		z.crews[0].bomb.arm(p, 0, func() { s.hit(func() { z.crews[0].down(pointRest) }) })
	} else {
		for _, o := range z.nodes {
			o.bomb.arm(p, 0, func() { s.hit(func() { o.down(pointRest) }) })
		}
	}
	for round := range n {
		switch {
		case strings.HasPrefix(string(p), "attempt."):
			z.lose(crash.HoldAsked)
		case strings.HasPrefix(string(p), "question."):
			w.holdUp()
		}
		w.round(p, round)
	}
	w.heal()
	w.settle()
	w.check()
	w.journals()
	w.empty()
	require.LessOrEqual(t, s.remains(), 0, "%s was not reached so often", p)
}

// pointRest is how long a process stays down that was ended at a point.
const pointRest = 5 * time.Second

// shot ends one process of several.
type shot struct {
	mu   sync.Mutex // guards left
	left int        // how often the point must still be reached
}

// hit calls f if the point has been reached so often now.
func (s *shot) hit(f func()) {
	s.mu.Lock()
	s.left--
	now := s.left == 0
	s.mu.Unlock()
	if now {
		f()
	}
}

func (s *shot) remains() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left
}

// lose ends the first node of a zone that reaches p.
func (z *zone) lose(p crash.Point) {
	var once sync.Once
	for _, o := range z.nodes {
		o.bomb.arm(p, 1, func() { once.Do(func() { o.down(pointRest) }) })
	}
}

// holdUp keeps the root from telling anybody what it has decided for so long that
// its children ask.
func (w *world) holdUp() {
	for _, o := range w.root().nodes {
		o.bomb.arm(crash.DecisionTelling, 1, func() { await.Sleep(time.Minute) })
	}
}

// round is everything that may happen to a boot, at the root.
func (w *world) round(p crash.Point, n int) {
	root := w.root()
	wide := fmt.Sprint("wide", n)
	b := root.run(wide, 2, whole)
	require.Equal(w.t, api.BootActive, b.State)
	root.insist("delete", func(ctx context.Context, c *client.Client) error {
		s, err := c.Servers(ctx, client.ServerQuery{Reservation: api.ReservationID(wide)}, client.ListOptions{})
		if err != nil {
			return err
		}
		for i, far := range s.Items {
			if far.Zone != root.name || i == len(s.Items)-1 {
				return c.DeleteServer(ctx, far.ID)
			}
		}
		return nil
	})
	w.disk(p, n)
	if strings.HasPrefix(string(p), "move.") {
		w.moveAll(n)
	}
	root.insist("release", func(ctx context.Context, c *client.Client) error {
		_, err := c.Release(ctx, api.ReservationID(wide), 0)
		return err
	})
	w.settle()
	again := fmt.Sprint("again", n)
	require.Equal(w.t, api.BootActive, root.run(again, 1, whole).State)
	w.settle()
	w.check()
	root.insist("release", func(ctx context.Context, c *client.Client) error {
		_, err := c.Release(ctx, api.ReservationID(again), 0)
		return err
	})
	w.settle()
}

// disk lets the disk do what it does otherwise only after a long time.
func (w *world) disk(p crash.Point, round int) {
	root := w.root()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	switch {
	case strings.HasPrefix(string(p), "vote."):
		_ = root.client(root.nodes[0]).Transfer(ctx, "") // the new leader may be the one that is ended
	case strings.HasPrefix(string(p), "snapshot."), strings.HasPrefix(string(p), "truncate."):
		for i := range 40 {
			root.insist("flavor", func(ctx context.Context, c *client.Client) error {
				_, err := c.CreateFlavor(ctx, rest.FlavorSpec{Name: fmt.Sprintf("f%d-%d", round, i), VCPUs: new(int64(1)), RAM: new(int64(64)), Disk: new(int64(1))})
				if api.CodeOf(err) == api.CodeConflict {
					return nil // an answer was lost
				}
				return err
			})
		}
		await.Sleep(6 * compact.Interval)
	case strings.HasPrefix(string(p), "restore."):
		b := root.backup()
		w.settle()
		_ = root.client(root.nodes[0]).Restore(ctx, b) // whoever is ended takes it up when it starts
		await.Sleep(2 * pointRest)
		w.settle()
		w.check()
	}
}

// TestLeaderCutOffInARestore cuts a leader off from its zone while it takes up a
// backup. The others go on without it, and it must agree with them again.
func TestLeaderCutOffInARestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dice.Seed(t), line)
		root := w.root()
		root.run("before", 1, 3)
		b := root.backup()
		s := &shot{left: 1}
		for _, o := range root.nodes {
			o.bomb.arm(crash.RestoreLoading, 1, func() {
				s.hit(func() { w.net.Isolate(o.host.Name(), root.hostsOf()...) })
			})
		}
		_ = root.client(root.nodes[0]).Restore(w.ctx, b) // it cannot know
		require.LessOrEqual(t, s.remains(), 0)
		root.insist("flavor", func(ctx context.Context, c *client.Client) error {
			_, err := c.CreateFlavor(ctx, rest.FlavorSpec{Name: "meanwhile", VCPUs: new(int64(1)), RAM: new(int64(64)), Disk: new(int64(1))})
			if api.CodeOf(err) == api.CodeConflict {
				return nil // an answer was lost
			}
			return err
		})
		w.heal()
		w.settle()
		w.check()
		require.Equal(t, api.BootActive, root.run("after", 1, 3).State)
		w.settle()
		w.check()
	})
}
