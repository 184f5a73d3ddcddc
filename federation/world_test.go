package federation

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/identity"
	"berth/internal/await"
	"berth/internal/memstore"
	"berth/raftstore"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

var (
	keyA = bytes.Repeat([]byte("a"), 32)
	keyB = bytes.Repeat([]byte("b"), 32)
)

// world has zones of one node each, which lead and call each other without a network.
type world struct {
	t     testing.TB
	zones map[api.ZoneID]*place
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	return &world{t: tb, zones: map[api.ZoneID]*place{}}
}

// place is one zone of a world.
type place struct {
	*Federation
	w       *world
	id      api.ZoneID
	ca      *identity.CA
	keks    KEKs             // on its disk
	nodes   map[string]*Keys // the zone's other nodes that can be reached, by address
	store   *memstore.Store
	members fakeMembers
	ahead   atomic.Int64 // how far its clock is ahead of the real one
	away    atomic.Bool  // nobody reaches it
	shows   []byte       // the authority of its gateways, if it is not ca

	heard    map[api.ZoneID]api.Digest                         // by gossip
	above    func() (*api.AboveAnswer, error)                  // what all zones answer to it, if not nil
	below    func() (*api.BelowAnswer, error)                  // as well
	returned func(*api.Link) (api.Incarnation, error)          // of a zone that was brought back; nil for what it is
	greet    func(l *api.Link, h *api.Hello) error             // as well
	hangs    func(context.Context) error                       // what becomes of all questions that the above do not answer, if not nil
	answers  func(back *api.Enrolment) (*api.Enrolment, error) // how it answers enrolments, if not nil
}

// add founds a zone. key is its build_plan_encryption_key, or nil.
func (w *world) add(name string, key []byte) *place {
	w.t.Helper()
	return w.addOfForm(name, key, 0)
}

// addOfForm is add with nodes that read a form, and a log of it; 0 for commands as they are.
func (w *world) addOfForm(name string, key []byte, form api.Form) *place {
	w.t.Helper()
	ca, err := identity.NewCA(api.ZoneID("zone-"+name), time.Now())
	require.NoError(w.t, err)
	p := &place{w: w, id: ca.Zone(), ca: ca, store: memstore.NewOfForm(form), heard: map[api.ZoneID]api.Digest{}}
	p.members.form.Store(int64(form))
	p.keks = KEKs{{byte(len(w.zones) + 1)}}
	p.serve(key)
	first, _, err := Found(p.keys, ca, name, nil, 0, time.Now())
	require.NoError(w.t, err)
	require.NoError(w.t, p.Begin(w.t.Context(), first))
	p.joins("node-1")
	w.zones[p.id] = p
	return p
}

// serve starts the rules anew, as a node does that is started again.
func (p *place) serve(key []byte) {
	quiet := slog.New(slog.DiscardHandler)
	p.Federation = New(Config{
		Node:    "node-1",
		Zone:    zone.New(zone.Config{Store: p.store, Now: p.time, Log: quiet}),
		Members: &p.members, Peers: (*peers)(p), Digests: (*peers)(p), Keys: NewKeys(p.keks, p.keepKEKs, key), Enrol: p.dial,
		Nodes:  p,
		Digest: func() *api.Digest { return &api.Digest{Zone: p.id, Health: "up", Traits: []string{"CUSTOM_GPU"}} },
		Alive:  func(id api.NodeID) string { return "alive-" + string(id) },
		Now:    p.time, Log: quiet,
	})
}

func (p *place) keepKEKs(k KEKs) error {
	p.keks = k
	return nil
}

// ExchangeKEKs implements Nodes.
func (p *place) ExchangeKEKs(_ context.Context, addr string, keks KEKs) (KEKs, error) {
	to := p.nodes[addr]
	if to == nil {
		return nil, errors.New("it is down")
	}
	err := to.adoptKEKs(p.view(), keks)
	return to.KEKs(), err
}

func (p *place) time() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) }

func (p *place) setForward(by time.Duration) { p.ahead.Add(int64(by)) }

// joins makes a node a voter with a record, without a token.
func (p *place) joins(id api.NodeID) {
	p.w.t.Helper()
	addr := string(id) + ".zone:7602"
	p.members.edit("", func(list []raftstore.Member) []raftstore.Member {
		return append(list, raftstore.Member{ID: id, Addr: addr, Voter: true})
	})
	require.NoError(p.w.t, p.RecordNode(p.w.t.Context(), api.Node{
		ID: id, Form: api.Form(p.members.form.Load()), NodeAddr: addr, APIAddr: string(id) + ".api:7600", AgentAddr: string(id) + ".agent:7603",
		GatewayAddr: string(p.id) + "-" + string(id) + ":7601",
	}))
}

func (p *place) propose(c command.Command) {
	p.w.t.Helper()
	p.store.Must(p.w.t, c)
}

func (p *place) linkToken(name string) string {
	p.w.t.Helper()
	token, err := p.LinkToken(p.w.t.Context(), name, 0, 1)
	require.NoError(p.w.t, err)
	return token
}

func (p *place) joinToken(kind api.JoinKind, name string) string {
	p.w.t.Helper()
	token, err := p.JoinToken(p.w.t.Context(), kind, name, time.Minute)
	require.NoError(p.w.t, err)
	return token
}

// enrolledBy asks a zone to be the parent of this one.
func (p *place) enrolledBy(parent *place) error {
	p.w.t.Helper()
	_, err := p.Link(p.w.t.Context(), parent.linkToken(p.view().Name), "parent")
	return err
}

// isBelow links this zone to a parent.
func (p *place) isBelow(parent *place) {
	p.w.t.Helper()
	require.NoError(p.w.t, p.enrolledBy(parent))
}

func (p *place) linkTo(other *place) *api.Link {
	p.w.t.Helper()
	l, ok := p.view().LinkByZone(other.id)
	require.True(p.w.t, ok)
	return l
}

// linked records a link to a zone that is nowhere.
func (p *place) linked(name string, role api.LinkRole) {
	p.w.t.Helper()
	p.propose(command.LinkPut{Stamp: p.zone.Stamp(), Link: api.Link{
		ID: api.LinkID(name), Name: name, Role: role, Zone: api.ZoneID(name), Endpoints: []string{"127.0.0.1:1"},
		CA: p.ca.CertDER(), Scale: 1, State: api.LinkActive,
	}})
}

// enrolment is what this zone sends to a parent.
func (p *place) enrolment(token string) *api.Enrolment {
	return &api.Enrolment{
		Token: token, Zone: p.id, Name: p.view().Name, CA: p.ca.CertDER(), Endpoints: gatewaysOf(p.view()), KeyCheck: []byte("x"),
	}
}

// pin is of the authority that the gateways of the zone show.
func (p *place) pin() identity.Pin {
	if p.shows != nil {
		return identity.PinOf(p.shows)
	}
	return identity.PinOf(p.ca.CertDER())
}

var errAway = api.Errorf(api.CodeUnavailable, "no gateway answers")

// dial is Config.Enrol: it hands the enrolment to a zone that has the pinned authority.
func (p *place) dial(ctx context.Context, t identity.JoinToken, e *api.Enrolment) (*api.Enrolment, error) {
	parent, ok := p.w.zones[t.Zone]
	switch {
	case !ok || parent.away.Load() || parent.pin() != t.CA:
		return nil, errAway
	case parent.answers != nil:
		return parent.answers(&api.Enrolment{
			Link: "l1", Zone: parent.id, Name: "parent", CA: parent.ca.CertDER(), Endpoints: []string{"127.0.0.1:1"},
		})
	}
	return parent.Enrol(ctx, p.id, p.pin(), e)
}

// peers calls the other zones of a world, and knows what one hears by gossip.
type peers place

func (p *peers) at(ctx context.Context, l *api.Link) (*place, error) {
	if p.hangs != nil {
		return nil, p.hangs(ctx)
	}
	if other, ok := p.w.zones[l.Zone]; ok && !other.away.Load() {
		return other, nil
	}
	return nil, errAway
}

// Above implements Peers.
func (p *peers) Above(ctx context.Context, l *api.Link, id api.ZoneID) (*api.AboveAnswer, error) {
	if p.above != nil {
		return p.above()
	}
	other, err := p.at(ctx, l)
	if err != nil {
		return nil, err
	}
	return other.Above(ctx, id)
}

// Below implements Peers.
func (p *peers) Below(ctx context.Context, l *api.Link) (*api.BelowAnswer, error) {
	if p.below != nil {
		return p.below()
	}
	other, err := p.at(ctx, l)
	if err != nil {
		return nil, err
	}
	return &api.BelowAnswer{Levels: other.LevelsBelow(ctx)}, nil
}

// Hello implements Peers.
func (p *peers) Hello(ctx context.Context, l *api.Link, h *api.Hello) error {
	if p.greet != nil {
		return p.greet(l, h)
	}
	other, err := p.at(ctx, l)
	if err != nil {
		return err
	}
	return other.Hello(ctx, other.linkTo((*place)(p)), (*place)(p).pin(), h)
}

// ReadsForm implements Peers.
func (p *peers) ReadsForm(ctx context.Context, l *api.Link) (api.Form, error) {
	other, err := p.at(ctx, l)
	if err != nil {
		return 0, err
	}
	return other.members.Form(), nil
}

// IncarnationOf implements Peers.
func (p *peers) IncarnationOf(ctx context.Context, l *api.Link) (api.Incarnation, error) {
	if p.returned != nil {
		return p.returned(l)
	}
	other, err := p.at(ctx, l)
	if err != nil {
		return 0, err
	}
	return other.view().Incarnation, nil
}

// Digest implements Digests.
func (p *peers) Digest(id api.ZoneID) (api.Digest, time.Duration, bool) {
	d, ok := p.heard[id]
	return d, time.Duration(d.Sequence), ok
}

// fakeMembers is a Raft group that does at once what it is told.
type fakeMembers struct {
	mu   sync.Mutex // guards list and told while a zone works
	list []raftstore.Member
	told []string
	form atomic.Int64 // that the zone writes

	allRead atomic.Int64 // newest form that all of them read, if newer

	admitting func(change int) // called before each change of an admission, 0 and 1; nil for nothing
	removed   func() error     // called once a node is no member any more, with what the removal returns; nil for nothing
}

var _ Members = (*fakeMembers)(nil)

// Members implements Members.
func (m *fakeMembers) Members() []raftstore.Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.list)
}

// Form implements Members.
func (m *fakeMembers) Form() api.Form { return max(api.Form(m.form.Load()), api.FormFirst) }

func (m *fakeMembers) FormAllRead() api.Form { return max(api.Form(m.allRead.Load()), m.Form()) }

// Admit implements Members, in two changes.
func (m *fakeMembers) Admit(_ context.Context, id api.NodeID, addr string, may func() error) error {
	for i, votes := range []bool{false, true} {
		if m.admitting != nil {
			m.admitting(i)
		}
		if err := may(); err != nil {
			return err
		}
		m.edit("", func(list []raftstore.Member) []raftstore.Member {
			list = slices.DeleteFunc(list, func(o raftstore.Member) bool { return o.ID == id })
			return append(list, raftstore.Member{ID: id, Addr: addr, Voter: votes})
		})
	}
	m.edit("add "+string(id), nil)
	return nil
}

// Remove implements Members.
func (m *fakeMembers) Remove(_ context.Context, id api.NodeID) error {
	is := func(o raftstore.Member) bool { return o.ID == id }
	if !slices.ContainsFunc(m.Members(), is) {
		return api.Errorf(api.CodeNotFound, "the zone has no node %s", id)
	}
	m.edit("remove "+string(id), func(list []raftstore.Member) []raftstore.Member { return slices.DeleteFunc(list, is) })
	if m.removed != nil {
		return m.removed()
	}
	return nil
}

// Transfer implements Members.
func (m *fakeMembers) Transfer(_ context.Context, to api.NodeID) error {
	m.edit("transfer "+string(to), nil)
	return nil
}

// edit changes the list, and notes what was asked for; "" and nil for nothing.
func (m *fakeMembers) edit(told string, change func([]raftstore.Member) []raftstore.Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if told != "" {
		m.told = append(m.told, told)
	}
	if change != nil {
		m.list = change(m.list)
	}
}

// until waits for a state of a zone.
func (p *place) until(is func(*state.State) bool) {
	p.w.t.Helper()
	await.True(p.w.t, "a state of the zone", func() bool { return is(p.view()) })
}

func refusedAs(tb testing.TB, want api.Code, err error) {
	tb.Helper()
	require.Error(tb, err)
	assert.Equal(tb, want, api.CodeOf(err), "%v", err)
}

// altered returns a token that somebody has changed.
func altered(tb testing.TB, token string, change func(*identity.JoinToken)) string {
	tb.Helper()
	j, err := identity.ParseJoinToken(token)
	require.NoError(tb, err)
	change(&j)
	text, err := j.Text()
	require.NoError(tb, err)
	return text.Reveal()
}

func certificateRequest(tb testing.TB) []byte {
	tb.Helper()
	key, err := identity.NewKey()
	require.NoError(tb, err)
	csr, err := identity.CSR(key)
	require.NoError(tb, err)
	return csr
}
