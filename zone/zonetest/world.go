// Package zonetest is a tree of zones for the tests of package zone and of those below it: in one process, in virtual
// time, with Raft, HTTP and hosts replaced by calls that can be made to fail. It must never decide what a zone decides.
package zonetest

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/costs"
	"berth/internal/await"
	"berth/raftstore/command"
)

// World is a tree of zones in one process and in virtual time: the conduct of
// each is real, and so is what its log does to its state. Raft, HTTP and hosts
// are replaced by calls that can be made to fail.
type World struct {
	T    *testing.T
	stop context.CancelFunc
	Ctx  context.Context //nolint:containedctx // the life of the world
	wg   sync.WaitGroup

	complaints *complaints

	AgentForm api.Form        // that agents read; 0 for the first; set before there are any
	Full      map[string]bool // zones whose state takes nothing new; set before they are there
	Share     func() float64  // of the processors that all zones have; nil for all; set before they are there

	mu      sync.Mutex // guards the fields below; zones are read when no more are added
	Zones   []*Member
	calls   map[Call]int                                   // how often each call between zones was made
	ids     map[Call]map[api.RequestID]bool                // and the ids with which
	disturb func(Call) Fault                               // what happens to a call; nil for nothing
	lag     func(Call) time.Duration                       // how long a call and its answer take, each; nil for no time
	cut     map[string]bool                                // "a>b": nothing gets from a to b
	ran     map[api.InstanceID]string                      // where an instance was started
	digests map[api.ZoneID]heardDigest                     // what is known by gossip
	lies    map[api.LinkID]func(after uint64) *api.Changes // what a child says at once in place of its changes
	stale   bool                                           // it confirms none of it
	twists  map[api.LinkID]func(*api.SelectAnswer)         // what a child makes of its answers
	rooms   map[api.LinkID]func(*api.RoomAnswer)           // and of those about room over time
}

type heardDigest struct {
	digest api.Digest
	age    time.Duration
}

// complaints is a log of which only what tests ask for is kept.
type complaints struct {
	slog.Handler
	unusable atomic.Int64 // lists of changes
}

// Handle implements slog.Handler.
func (c *complaints) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if strings.Contains(a.Value.String(), "unusable list of changes") {
			c.unusable.Add(1)
		}
		return true
	})
	return nil
}

// Enabled implements slog.Handler.
func (*complaints) Enabled(context.Context, slog.Level) bool { return true }

// NewWorld returns a world without zones. It ends with the test, when everything
// that it started has stopped.
func NewWorld(t *testing.T) *World {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	w := &World{
		T: t, Ctx: ctx, stop: stop, calls: map[Call]int{}, ids: map[Call]map[api.RequestID]bool{}, cut: map[string]bool{},
		ran: map[api.InstanceID]string{}, complaints: &complaints{Handler: slog.DiscardHandler}, digests: map[api.ZoneID]heardDigest{},
	}
	t.Cleanup(w.end)
	return w
}

func (w *World) end() {
	w.stop()
	for _, m := range w.Zones {
		m.Depose()
	}
	w.wg.Wait()
}

// When says what happens to calls from now on; nil for nothing.
func (w *World) When(disturb func(Call) Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.disturb = disturb
}

// Delay sets how long each call takes on its way.
func (w *World) Delay(lag func(Call) time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lag = lag
}

// Sever has nothing get from one zone to another one, or all again.
func (w *World) Sever(from, to string, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[from+">"+to] = on
}

// Calm ends all faults.
func (w *World) Calm() {
	w.mu.Lock()
	w.disturb = nil
	clear(w.cut)
	w.mu.Unlock()
	for _, m := range w.Zones {
		m.Log.When(nil)
	}
}

// Go has f run as long as the world, which waits for its end.
func (w *World) Go(f func()) { w.wg.Go(f) }

// Tell has all hear a digest of a zone, which is of some age.
func (w *World) Tell(zone string, d api.Digest, age time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.digests[api.ZoneID("zone-"+zone)] = heardDigest{d, age}
}

// Untell has all forget the digest of a zone.
func (w *World) Untell(zone string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.digests, api.ZoneID("zone-"+zone))
}

// Heard returns what is known of a zone by gossip.
func (w *World) Heard(zone string) (d api.Digest, age time.Duration, ok bool) {
	return gossip{w}.Digest(api.ZoneID("zone-" + zone))
}

// Unusable returns how many lists of changes were of no use.
func (w *World) Unusable() int64 { return w.complaints.unusable.Load() }

// IDsOf returns the ids with which a call was made.
func (w *World) IDsOf(c Call) map[api.RequestID]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.ids[c])
}

// AllRan returns where each instance runs at one moment: zone/host.
func (w *World) AllRan() map[api.InstanceID]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.ran)
}

// AllMade returns how often each call was made.
func (w *World) AllMade() map[Call]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.calls)
}

// Zone adds a zone with one host for each number, with that many processors, and
// elects its first leader. parent is nil for the root.
func (w *World) Zone(name string, parent *Member, hosts ...int64) *Member {
	m := &Member{World: w, Name: name, ID: api.ZoneID("zone-" + name)}
	m.Log = newLog(w.T, name)
	w.mu.Lock()
	w.Zones = append(w.Zones, m)
	w.mu.Unlock()
	m.Do(command.Init{
		Stamp: command.Stamp{At: api.InstantOf(time.Now())}, Zone: m.ID, Name: name,
		Config: api.ZoneConfig{Costs: []api.CostWeight{{Name: costs.FillFirst, Weight: 1}}}, Epoch: command.Epoch{ID: []byte(name)},
	})
	m.Do(command.FlavorPut{Flavor: *Flavor})
	if parent != nil {
		link := api.LinkID("link-" + name)
		parent.Do(command.LinkPut{Link: api.Link{ID: link, Name: name, Role: api.LinkChild, Zone: m.ID, Scale: 1, State: api.LinkActive}})
		m.Do(command.LinkPut{Link: api.Link{ID: link, Name: "parent", Role: api.LinkParent, Zone: parent.ID, Scale: 1, State: api.LinkActive}})
	}
	m.Elect()
	if len(hosts) > 0 {
		m.Agent("", hosts...)
	}
	return m
}

// patience is how long anything may take in these tests, faults and all.
const patience = 10 * time.Minute

// Retry repeats a call of a user until its outcome is known.
func (w *World) Retry(f func() error) error {
	for began := time.Now(); ; {
		err := f()
		code := api.CodeOf(err)
		if code != api.CodeUnavailable && code != api.CodeTimeout || time.Since(began) > patience {
			return err
		}
		await.Sleep(300 * time.Millisecond)
	}
}

// gossip tells what the test has put there.
type gossip struct{ w *World }

func (g gossip) Digest(z api.ZoneID) (api.Digest, time.Duration, bool) {
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	h, ok := g.w.digests[z]
	return h.digest, h.age, ok
}

// stopped notes that an instance runs no longer where it was, so that it may be
// started elsewhere.
func (w *World) stopped(id api.InstanceID, where string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ran[id] == where {
		delete(w.ran, id)
	}
}

// started notes where an instance runs: never in two places.
func (w *World) started(id api.InstanceID, where string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if was, ok := w.ran[id]; ok {
		assert.Equal(w.T, was, where, "instance %s runs twice", id)
	}
	w.ran[id] = where
}

// HearAll spreads the digests of all zones as gossip does: those at the bottom first.
func (w *World) HearAll() {
	for _, m := range slices.Backward(w.Zones) {
		w.Hear(m, 0)
	}
}

// Hear spreads the digest of a zone.
func (w *World) Hear(m *Member, age time.Duration) {
	w.Tell(m.Name, *m.Lead().Digest(), age)
}

func (w *World) twistOf(id api.LinkID) func(*api.SelectAnswer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.twists[id]
}

// TellOfRoom makes a child say something else about its room over time.
func (w *World) TellOfRoom(l api.LinkID, twist func(*api.RoomAnswer)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rooms = map[api.LinkID]func(*api.RoomAnswer){l: twist}
}

func (w *World) roomLieOf(l api.LinkID) func(*api.RoomAnswer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rooms[l]
}

// Twist has a child make something else of its answers.
func (w *World) Twist(name string, f func(*api.SelectAnswer)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.twists == nil {
		w.twists = map[api.LinkID]func(*api.SelectAnswer){}
	}
	w.twists[api.LinkID("link-"+name)] = f
}

// lieOf returns how the child at the other end of a link lies; nil if it does not.
func (w *World) lieOf(id api.LinkID) func(after uint64) *api.Changes {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lies[id]
}

// confirmedLieOf is lieOf for what a child says that its log confirms.
func (w *World) confirmedLieOf(id api.LinkID) func(after uint64) *api.Changes {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stale {
		return nil
	}
	return w.lies[id]
}

// Lie has a child lie about its changes from now on.
func (w *World) Lie(id api.LinkID, lie func(after uint64) *api.Changes) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lies, w.stale = map[api.LinkID]func(uint64) *api.Changes{id: lie}, false
}

// LieUnconfirmed is Lie for a child whose leader does not confirm it, such as one with a node that is behind.
func (w *World) LieUnconfirmed(id api.LinkID, lie func(after uint64) *api.Changes) {
	w.Lie(id, lie)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stale = true
}

// Made returns how often a call was made.
func (w *World) Made(op, from, to string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[Call{Op: op, From: from, To: to}]
}
