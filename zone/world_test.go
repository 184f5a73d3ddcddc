package zone_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/buildplan/seal"
	"berth/costs"
	"berth/internal/backoff"
	"berth/internal/memstore"
	"berth/internal/watch"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/estimate"
	"berth/zone/fleet"
	"berth/zone/intake"
	"berth/zone/leases"
	"berth/zone/saga"
)

// world is a tree of zones in one process and in virtual time: the conduct of
// each is real, and so is what its log does to its state. Raft, HTTP and hosts
// are replaced by calls that can be made to fail.
type world struct {
	t    *testing.T
	stop context.CancelFunc
	ctx  context.Context //nolint:containedctx // the life of the world
	wg   sync.WaitGroup

	complaints *complaints

	mu      sync.Mutex // guards the fields below
	zones   []*member
	calls   map[call]int                                   // how often each call between zones was made
	ids     map[call]map[api.RequestID]bool                // and the ids with which
	disturb func(call) fault                               // what happens to a call; nil for nothing
	lag     func(call) time.Duration                       // how long a call and its answer take, each; nil for no time
	cut     map[string]bool                                // "a>b": nothing gets from a to b
	ran     map[api.InstanceID]string                      // where an instance was started
	digests map[api.ZoneID]heardDigest                     // what is known by gossip
	lies    map[api.LinkID]func(after uint64) *api.Changes // what a child says at once in place of its changes
	twists  map[api.LinkID]func(*api.SelectAnswer)         // what a child makes of its answers
	rooms   map[api.LinkID]func(*api.RoomAnswer)           // and of those about room over time
	full    map[string]bool                                // zones whose state takes nothing new

	agents api.Form // that agents read; 0 for the first; set before there are any
}

type heardDigest struct {
	digest api.Digest
	age    time.Duration
}

// member is one zone.
type member struct {
	w    *world
	name string
	id   api.ZoneID
	log  *log

	mu    sync.Mutex // guards the fields below
	zone  *conduct
	reign func()        // ends it; nil while nobody leads
	dead  bool          // cannot be reached by any zone
	mute  bool          // its agent says nothing
	skew  time.Duration // of the clock of the next leader
}

// conduct is all that a zone does, on one node.
type conduct struct {
	*zone.Zone
	*estimate.Estimator
	*saga.Saga
	*fleet.Fleet
	*leases.Leases
}

func newConduct(m *member, s zone.Store) *conduct {
	m.mu.Lock()
	skew := m.skew
	m.mu.Unlock()
	most := int64(0)
	if m.w.full[m.name] { // it is there before the zone is
		most = 1
	}
	now := func() time.Time { return time.Now().Add(skew) }
	z := zone.New(zone.Config{Store: s, Now: now, Log: slog.New(m.w.complaints), StateMaxBytes: most})
	e := estimate.New(estimate.Config{Zone: z, Peers: peers{m}, Digests: gossip{m.w}, Keys: keys{m.name}})
	return &conduct{
		Zone: z, Estimator: e, Fleet: fleet.New(z, e), Leases: leases.New(z, e, fleet.New(z, e)),
		Saga: saga.New(saga.Config{Zone: z, Estimator: e, Peers: peers{m}, Digests: gossip{m.w}}),
	}
}

// Boot records a boot, as a door does.
func (c *conduct) Boot(ctx context.Context, o *intake.BootOrder) (*state.Boot, error) {
	o.Digest, o.Fixed = append([]byte(o.Name), o.Blob...), o.Blob != nil
	return c.Saga.Boot(ctx, o.Command(c.Stamp()), o.Blob)
}

// specs returns n instances with fresh ids.
func specs(name string, n int) []api.InstanceSpec {
	out := make([]api.InstanceSpec, n)
	for i := range out {
		out[i] = api.InstanceSpec{ID: api.InstanceID(api.NewUUID()), Name: fmt.Sprintf("%s-%d", name, i+1)}
	}
	return out
}

// Limits of the zone's parts that these tests wait for.
const (
	holdPatience    = time.Second      // for a child that has never held anything
	holdTimeout     = 10 * time.Second // for all children of one hold to answer
	holdAskAfter    = 15 * time.Second // after which an undecided hold asks upward
	failuresToPause = 3                // selects or holds in a row
	digestAgeMax    = 30 * time.Second // how old a digest may be and still rule a child out
	probeEvery      = 2 * time.Second  // how long a failing child is left alone at first,
	probeEveryMax   = time.Minute      // and at the most
	followWait      = 3 * time.Second  // long poll of a child's changes
	followNoteEvery = 10 * time.Second // how often is logged where to go on without news
	followIndexMax  = 1 << 62          // of a child's log
	pruneEvery      = time.Minute
	pruneAfter      = 24 * time.Hour                  // after an end
	pruneDead       = api.PlanTTLMax + 10*time.Minute // after the abort of a hold that never came
)

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

// newWorld returns a world without zones. It ends with the test, when everything
// that it started has stopped.
func newWorld(t *testing.T) *world {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	w := &world{
		t: t, ctx: ctx, stop: stop, calls: map[call]int{}, ids: map[call]map[api.RequestID]bool{}, cut: map[string]bool{},
		ran: map[api.InstanceID]string{}, complaints: &complaints{Handler: slog.DiscardHandler}, digests: map[api.ZoneID]heardDigest{},
	}
	t.Cleanup(w.end)
	return w
}

func (w *world) end() {
	w.stop()
	for _, m := range w.zones {
		m.depose()
	}
	w.wg.Wait()
}

// when says what happens to calls from now on; nil for nothing.
func (w *world) when(disturb func(call) fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.disturb = disturb
}

// delay sets how long each call takes on its way.
func (w *world) delay(lag func(call) time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lag = lag
}

// sever has nothing get from one zone to another one, or all again.
func (w *world) sever(from, to string, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[from+">"+to] = on
}

// calm ends all faults.
func (w *world) calm() {
	w.mu.Lock()
	w.disturb = nil
	clear(w.cut)
	w.mu.Unlock()
	for _, m := range w.zones {
		m.log.when(nil)
	}
}

// run has f run as long as the world, which waits for its end.
func (w *world) run(f func()) { w.wg.Go(f) }

// tell has all hear a digest of a zone, which is of some age.
func (w *world) tell(zone string, d api.Digest, age time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.digests[api.ZoneID("zone-"+zone)] = heardDigest{d, age}
}

// untell has all forget the digest of a zone.
func (w *world) untell(zone string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.digests, api.ZoneID("zone-"+zone))
}

// heard returns what is known of a zone by gossip.
func (w *world) heard(zone string) (d api.Digest, age time.Duration, ok bool) {
	return gossip{w}.Digest(api.ZoneID("zone-" + zone))
}

// unusable returns how many lists of changes were of no use.
func (w *world) unusable() int64 { return w.complaints.unusable.Load() }

// idsOf returns the ids with which a call was made.
func (w *world) idsOf(c call) map[api.RequestID]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.ids[c])
}

// ranAt returns where an instance runs: zone/host.
func (w *world) ranAt(id api.InstanceID) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ran[id]
}

// allMade returns how often each call was made.
func (w *world) allMade() map[call]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.calls)
}

// flavor is what the boots of these tests ask for.
var flavor = &api.Flavor{ID: "small", Name: "small", Resources: api.Resources{api.VCPU: 1, api.MemoryMB: 256}}

// zone adds a zone with one host for each number, with that many processors, and
// elects its first leader. parent is nil for the root.
func (w *world) zone(name string, parent *member, hosts ...int64) *member {
	m := &member{w: w, name: name, id: api.ZoneID("zone-" + name)}
	m.log = newLog(w.t, name)
	w.mu.Lock()
	w.zones = append(w.zones, m)
	w.mu.Unlock()
	m.do(command.Init{
		Stamp: command.Stamp{At: api.InstantOf(time.Now())}, Zone: m.id, Name: name,
		Config: api.ZoneConfig{Costs: []api.CostWeight{{Name: costs.FillFirst, Weight: 1}}}, Epoch: command.Epoch{ID: []byte(name)},
	})
	m.do(command.FlavorPut{Flavor: *flavor})
	if parent != nil {
		link := api.LinkID("link-" + name)
		parent.do(command.LinkPut{Link: api.Link{ID: link, Name: name, Role: api.LinkChild, Zone: m.id, Scale: 1, State: api.LinkActive}})
		m.do(command.LinkPut{Link: api.Link{ID: link, Name: "parent", Role: api.LinkParent, Zone: parent.id, Scale: 1, State: api.LinkActive}})
	}
	m.elect()
	if len(hosts) > 0 {
		m.agent("", hosts...)
	}
	return m
}

// agent adds an agent to a zone, with one host for each number.
func (m *member) agent(name string, hosts ...int64) *agent {
	a := m.idleAgent(name, hosts...)
	want := len(m.view().AllHosts()) + len(hosts)
	m.w.wg.Go(func() { a.run(m.w.ctx) })
	m.until("hosts are there", func(v *state.State) bool { return len(v.AllHosts()) == want })
	return a
}

// idleAgent returns an agent of a zone that does nothing.
func (m *member) idleAgent(name string, hosts ...int64) *agent {
	return &agent{m: m, name: name, cpus: hosts, form: m.w.agents, runs: map[api.InstanceID]fenced{}}
}

// do applies a command that needs no leader.
func (m *member) do(c command.Command) {
	r, err := m.log.apply(c)
	require.NoError(m.w.t, err)
	require.NoError(m.w.t, r[0].Err)
}

// elect makes a new leader, which knows nothing but the log.
func (m *member) elect() {
	m.depose()
	seat := &seat{log: m.log, term: m.log.nextTerm()}
	z := newConduct(m, seat)
	ctx, cancel := context.WithCancel(m.w.ctx)
	var wg sync.WaitGroup
	z.Fleet.BeginTerm()
	wg.Go(func() { z.Saga.Lead(ctx) })
	wg.Go(func() { z.Fleet.Lead(ctx) })
	wg.Go(func() { z.Leases.Lead(ctx) })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.zone = z
	m.reign = func() { cancel(); wg.Wait() }
}

// depose ends the reign of the leader, if there is one. Proposals fail from now on.
func (m *member) depose() {
	m.log.nextTerm()
	m.mu.Lock()
	end := m.reign
	m.reign = nil
	m.mu.Unlock()
	if end != nil {
		end()
	}
}

// node returns the zone's conduct, and whether it leads.
func (m *member) node() (z *conduct, leads bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.zone, m.reign != nil
}

func (m *member) lead() *conduct {
	z, _ := m.node()
	return z
}

func (m *member) set(edit func(*member)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	edit(m)
}

// silence has the agents of a zone say nothing, or speak again.
func (m *member) silence(on bool) { m.set(func(m *member) { m.mute = on }) }

// kill has a zone be out of reach for all zones, or there again.
func (m *member) kill(dead bool) { m.set(func(m *member) { m.dead = dead }) }

// setSkew sets by how much the clock of the next leader is ahead.
func (m *member) setSkew(d time.Duration) { m.set(func(m *member) { m.skew = d }) }

// within returns a context for one call.
func (m *member) within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(m.w.ctx, d)
}

func (m *member) view() *state.State { return m.log.latest() }

// patience is how long anything may take in these tests, faults and all.
const patience = 10 * time.Minute

// until waits until the zone's state is as it should be.
func (m *member) until(what string, ok func(*state.State) bool) {
	m.w.t.Helper()
	ctx, cancel := context.WithTimeout(m.w.ctx, patience)
	defer cancel()
	for v := m.view(); !ok(v); {
		next, err := m.log.wait(ctx, v.Index())
		require.NoError(m.w.t, err, "zone %s: waiting until %s", m.name, what)
		v = next
	}
}

// retry repeats a call of a user until its outcome is known.
func (w *world) retry(f func() error) error {
	for began := time.Now(); ; {
		err := f()
		code := api.CodeOf(err)
		if code != api.CodeUnavailable && code != api.CodeTimeout || time.Since(began) > patience {
			return err
		}
		time.Sleep(300 * time.Millisecond)
	}
}

// order asks for the instances of a reservation.
func order(res string, least, most int) *intake.BootOrder {
	return &intake.BootOrder{BootTerms: command.BootTerms{Name: res, Request: api.Request{
		Reservation: api.ReservationID(res), Project: "p", User: "u", Groups: []api.Group{group("", least, most)},
		Window: api.Window{End: api.Forever}, Class: api.Firm,
	}}}
}

// group asks for instances of the flavor of these tests.
func group(name string, least, most int) api.Group {
	return ofFlavor(api.Group{Name: name, Min: least, Count: most}, flavor)
}

// ofFlavor returns a group as f has it.
func ofFlavor(g api.Group, f *api.Flavor) api.Group {
	g.Flavor, g.Resources, g.ExtraSpecs = f.ID, f.Resources, f.ExtraSpecs
	return g
}

// boot records a boot.
func (m *member) boot(o *intake.BootOrder) {
	m.w.t.Helper()
	require.NoError(m.w.t, m.w.retry(func() error {
		_, err := m.lead().Boot(m.w.ctx, o)
		return err
	}))
}

// outcome waits for the outcome of a boot.
func (m *member) outcome(res string) *state.Boot {
	m.w.t.Helper()
	var out *state.Boot
	m.until("boot "+res+" has an outcome", func(v *state.State) bool {
		b, ok := v.Boot("p", api.ReservationID(res))
		out = b
		return ok && b.State().Outcome()
	})
	return out
}

// run boots and waits for the outcome.
func (m *member) run(o *intake.BootOrder) *state.Boot {
	m.w.t.Helper()
	m.boot(o)
	return m.outcome(string(o.Request.Reservation))
}

// propose makes a user's command last.
func (m *member) propose(compose func(command.Stamp) command.Command) {
	m.w.t.Helper()
	require.NoError(m.w.t, m.w.retry(func() error {
		z := m.lead()
		_, err := z.Propose(m.w.ctx, compose(z.Stamp()))
		return err
	}))
}

func (m *member) release(res string) {
	m.w.t.Helper()
	m.propose(func(at command.Stamp) command.Command {
		return command.BootRelease{Stamp: at, Project: "p", Reservation: api.ReservationID(res)}
	})
}

// delete ends an instance. As for every client, that a repeat finds nothing means
// that the call before it did the work.
func (m *member) delete(id api.InstanceID) {
	m.w.t.Helper()
	err := m.w.retry(func() error {
		z := m.lead()
		_, err := z.Propose(m.w.ctx, command.InstanceDelete{Stamp: z.Stamp(), ID: id})
		return err
	})
	require.True(m.w.t, err == nil || api.CodeOf(err) == api.CodeNotFound, "%v", err)
}

// resize changes how many processors the first host of a zone has.
func (m *member) resize(cpus int64) {
	a := m.idleAgent("", cpus)
	_, _ = m.log.apply(command.HostsPut{Agent: a.id(), Hosts: []command.HostEntry{{Host: a.hosts()[0]}}}) // own bytes always decode
}

// instances returns the live instances of a reservation of this zone, or of a parent.
func (m *member) instances(res string) []*api.Instance {
	return m.view().InstancesPage(state.InstanceQuery{
		Page: state.Page{Limit: api.CountMax}, Match: func(i *api.Instance) bool { return string(i.Reservation) == res },
	})
}

// log is the replicated state of a zone without Raft: what is proposed is applied
// at once. It outlives leaders.
type log struct {
	t    *testing.T
	name string
	form atomic.Uint32 // what all nodes read; 0 for the newest

	mu       sync.Mutex // guards the fields below
	state    *state.State
	view     *state.State
	next     chan struct{} // closed when view is replaced
	watchers watch.List[state.Topic]
	term     uint64
	kinds    map[command.Kind]int
	indexes  map[command.Kind]uint64            // of the last entry with one
	items    int                                // of a child's changes that were proposed at once, the most
	disturb  func(k command.Kind, n int) mishap // of the n-th command of a kind; nil for none
	waiting  []command.Command                  // delayed
}

// mishap is what befalls a proposal.
type mishap string

const (
	notLeader   mishap = "not leader"     // refused, and nothing was done
	unapplied   mishap = "lost"           // unknown to the caller; was not done
	unconfirmed mishap = "unconfirmed"    // unknown to the caller; was done
	doubled     mishap = "applied twice"  // as a client that repeats
	deposed     mishap = "leader changed" // done, and nobody is left to go on
	delayed     mishap = "delayed"        // unknown to the caller; done just before the caller tries again
)

func newLog(t *testing.T, name string) *log {
	t.Helper()
	l := &log{t: t, name: name, state: state.New(), next: make(chan struct{}), kinds: map[command.Kind]int{}, indexes: map[command.Kind]uint64{}}
	l.view = l.state.Clone()
	return l
}

// when says what befalls proposals from now on; nil for nothing.
func (l *log) when(disturb func(command.Kind, int) mishap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.disturb = disturb
}

// count returns how often a kind of command was proposed.
func (l *log) count(k command.Kind) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kinds[k]
}

// counts returns how often each kind of command was proposed.
func (l *log) counts() map[command.Kind]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.kinds)
}

// recount begins to count anew.
func (l *log) recount() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kinds = map[command.Kind]int{}
}

// mostChanges returns how many changes of a child were proposed at once, at most.
func (l *log) mostChanges() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.items
}

// setForm sets what all nodes read; 0 for the newest.
func (l *log) setForm(f api.Form) { l.form.Store(uint32(f)) }

// last returns the index of the last entry with a kind of command.
func (l *log) last(k command.Kind) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.indexes[k]
}

func (l *log) latest() *state.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view
}

func (l *log) nextTerm() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term++
	return l.term
}

func (l *log) wait(ctx context.Context, after uint64) (*state.State, error) {
	for {
		l.mu.Lock()
		v, next := l.view, l.next
		l.mu.Unlock()
		if v.Index() > after {
			return v, nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return v, api.Wrap(api.CodeTimeout, "log.wait", "", ctx.Err())
		}
	}
}

func (l *log) waitFor(ctx context.Context, topic state.Topic, ok func(*state.State) bool) (*state.State, error) {
	woken, remove := l.watchers.Add(topic)
	defer remove()
	for {
		v := l.latest()
		if ok(v) {
			return v, nil
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return l.latest(), api.Wrap(api.CodeTimeout, "log.waitFor", "", ctx.Err())
		}
	}
}

func (l *log) apply(cs ...command.Command) ([]state.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.applyLocked(cs)
}

// applyLocked applies what was spelt and read, as every node does, and checks
// that no host is ever promised twice.
func (l *log) applyLocked(cs []command.Command) ([]state.Result, error) {
	index := l.state.Index() + 1
	var out []state.Result
	var touched []state.Topic
	for _, c := range cs {
		b, err := command.Encode(c, api.FormNewest)
		if err != nil {
			return nil, err
		}
		if c, err = command.Decode(b, api.FormNewest); err != nil {
			return nil, err
		}
		out = append(out, l.state.Apply(index, c))
		touched = append(touched, l.state.Touched()...)
		l.indexes[c.Kind()] = index
	}
	l.view = l.state.Clone()
	defer l.watchers.Wake(touched...)
	close(l.next)
	l.next = make(chan struct{})
	for _, h := range l.view.AllHosts() {
		full, _ := l.view.Host(h.ID)
		for c, used := range full.Used {
			for _, i := range l.view.OnHost(h.ID) {
				if i.Overdue || i.Class == api.Preemptible && i.Within == "" { // it leaves if somebody has its room
					used -= i.Resources[c] // it is promised to nobody any more
				}
			}
			assert.LessOrEqual(l.t, used, full.Inventory[c].Capacity(), "zone %s: %s of %s at index %d", l.name, c, h.Name, index)
		}
	}
	return out, nil
}

// mishapOf says what befalls a proposal.
func (l *log) mishapOf(cs []command.Command) mishap {
	var out mishap
	for _, c := range cs {
		l.kinds[c.Kind()]++
		if ch, ok := c.(command.InstanceChanges); ok {
			l.items = max(l.items, len(ch.Items))
		}
		if l.disturb != nil {
			if m := l.disturb(c.Kind(), l.kinds[c.Kind()]); m != "" {
				out = m
			}
		}
	}
	return out
}

// seat is the log as one leader reaches it.
type seat struct {
	log  *log
	term uint64
}

var _ zone.Store = (*seat)(nil)

func (s *seat) View() *state.State { return s.log.latest() }

func (s *seat) Wait(ctx context.Context, after uint64) (*state.State, error) {
	return s.log.wait(ctx, after)
}

func (s *seat) WaitFor(ctx context.Context, topic state.Topic, ok func(*state.State) bool) (*state.State, error) {
	return s.log.waitFor(ctx, topic, ok)
}

func (s *seat) Feed(wanted func(state.Topic) bool) (f *watch.Feed[state.Topic], remove func()) {
	return s.log.watchers.AddFeed(wanted)
}

func (s *seat) Term() uint64 { return s.term }

// Form is the newest, unless a test has set another one.
func (s *seat) Form() api.Form { return cmp.Or(api.Form(s.log.form.Load()), api.FormNewest) }

func (s *seat) Linearizable(context.Context) (*state.State, error) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if s.term != s.log.term {
		return nil, api.Errorf(api.CodeUnavailable, "not the leader")
	}
	return s.log.view, nil
}

func (s *seat) Propose(ctx context.Context, cs ...command.Command) ([]state.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, api.Wrap(api.CodeUnavailable, "seat.Propose", "", err)
	}
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.term != l.term {
		return nil, api.Errorf(api.CodeUnavailable, "not the leader")
	}
	for _, c := range cs {
		assert.Positive(l.t, c.Time(), "%T says when it was proposed", c)
	}
	what := l.mishapOf(cs)
	if len(l.waiting) > 0 && l.waiting[0].Kind() == cs[0].Kind() {
		if _, err := l.applyLocked(l.waiting); err != nil {
			return nil, err
		}
		l.waiting = nil
	}
	switch what {
	case delayed:
		l.waiting = cs
		return nil, api.Errorf(api.CodeTimeout, "not known")
	case notLeader:
		return nil, api.Errorf(api.CodeUnavailable, "no leader just now")
	case unapplied:
		return nil, api.Errorf(api.CodeTimeout, "not known")
	case unconfirmed, deposed:
		if what == deposed {
			l.term++
		}
		if _, err := l.applyLocked(cs); err != nil {
			return nil, err
		}
		return nil, api.Errorf(api.CodeTimeout, "not known")
	case doubled:
		if _, err := l.applyLocked(cs); err != nil {
			return nil, err
		}
	}
	return l.applyLocked(cs)
}

func (s *seat) ProposeEach(ctx context.Context, lists [][]command.Command) []state.Answer {
	return memstore.Each(ctx, s.Propose, lists)
}

// keys seals with a fixed key for each zone.
type keys struct{ zone string }

func (k keys) Ring(*state.State) (seal.Keyring, error) {
	var key seal.Key
	copy(key.Epoch[:], k.zone)
	copy(key.Secret[:], fmt.Sprintf("%032s", k.zone))
	return seal.Keyring{key}, nil
}

// gossip tells what the test has put there.
type gossip struct{ w *world }

func (g gossip) Digest(z api.ZoneID) (api.Digest, time.Duration, bool) {
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	h, ok := g.w.digests[z]
	return h.digest, h.age, ok
}

// agent serves the hosts of a zone: what should run runs at once.
type agent struct {
	m    *member
	name string // "" for the first of its zone
	cpus []int64

	heard time.Time                 // when the zone last answered
	runs  map[api.InstanceID]fenced // what runs, as far as it has a fence
	quiet bool                      // says nothing; guarded by m.mu
	deaf  bool                      // stops nothing; guarded by m.mu
	form  api.Form                  // that it reads; 0 for the first
}

func (a *agent) id() api.AgentID { return api.AgentID("agent-" + a.m.name + a.name) }

func (a *agent) hosts() []api.AgentHost {
	var out []api.AgentHost
	for i, n := range a.cpus {
		out = append(out, api.AgentHost{
			Name: fmt.Sprintf("%s-host-%s%d", a.m.name, a.name, i+1), Driver: "fake", Pool: api.PoolShared,
			Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: n}, api.MemoryMB: {Total: 1024 * n}},
		})
	}
	return out
}

func (a *agent) run(ctx context.Context) {
	var after, term uint64
	for ctx.Err() == nil {
		z, leads := a.m.node()
		a.m.mu.Lock()
		mute := a.m.mute || a.quiet
		a.m.mu.Unlock()
		if !leads || mute || a.serve(ctx, z, &after, &term) != nil {
			a.fence()
			backoff.Sleep(ctx, 500*time.Millisecond)
		}
	}
}

func (a *agent) isDeaf() bool {
	a.m.mu.Lock()
	defer a.m.mu.Unlock()
	return a.deaf
}

// fallSilent lets the agent say nothing any more, and waits until the poll that it may
// have made has ended.
func (a *agent) fallSilent() {
	a.m.set(func(*member) { a.quiet = true })
	time.Sleep(2 * fleet.AgentBeat)
}

// speak ends that the agent says nothing.
func (a *agent) speak() { a.m.set(func(*member) { a.quiet = false }) }

// ignoreStops lets the agent stop nothing any more.
func (a *agent) ignoreStops() { a.m.set(func(*member) { a.deaf = true }) }

// serve registers with a new leader, does what is wanted and reports it.
func (a *agent) serve(ctx context.Context, z *conduct, after, term *uint64) error {
	if now := z.Store().Term(); now != *term {
		if _, err := z.RegisterHosts(ctx, a.id(), &api.AgentRegister{Hosts: a.hosts()}); err != nil {
			return err
		}
		*term, *after = now, 0
	}
	work, err := z.Work(ctx, a.id(), &api.AgentWork{After: *after, Wait: fleet.AgentBeat, Form: a.form})
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
			where := a.m.name + "/" + string(h.Host)
			switch {
			case i.Stop && a.isDeaf():
				continue
			case i.Stop:
				a.m.w.stopped(i.Instance, where)
				delete(a.runs, i.Instance)
			case i.Halt:
				a.m.w.stopped(i.Instance, where)
				delete(a.runs, i.Instance)
				item.Status = api.StatusShutoff
			default:
				if i.Fence > 0 {
					a.runs[i.Instance] = fenced{where, i.Fence}
				}
				item.Status = api.StatusActive
				a.m.w.started(i.Instance, where)
			}
			r.Items = append(r.Items, item)
		}
	}
	if _, err := z.Report(ctx, a.id(), &r); err != nil {
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
func (a *agent) fence() {
	for id, f := range a.runs {
		if time.Since(a.heard) >= f.after {
			a.m.w.stopped(id, f.where)
			delete(a.runs, id)
		}
	}
}

// stopped notes that an instance runs no longer where it was, so that it may be
// started elsewhere.
func (w *world) stopped(id api.InstanceID, where string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ran[id] == where {
		delete(w.ran, id)
	}
}

// started notes where an instance runs: never in two places.
func (w *world) started(id api.InstanceID, where string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if was, ok := w.ran[id]; ok {
		assert.Equal(w.t, was, where, "instance %s runs twice", id)
	}
	w.ran[id] = where
}
