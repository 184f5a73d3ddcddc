package state

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/capacity"
	"berth/raftstore/command"
	"berth/raftstore/state/table"
)

// start is the time of the first command.
const start api.Instant = 1_700_000_000_000

// world applies commands to one state, one index and one millisecond apart, and
// checks what must hold for every command.
type world struct {
	tb interface {
		require.TestingT
		Helper()
	}
	s     *State
	index uint64
	now   api.Instant
	form  api.Form // of entries; 0 for commands that were not read from one
	asked *State   // an earlier view, from which agents have their lists
	large bool     // too much for checks that scan everything
}

// newWorld returns an initialised zone without hosts.
func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{tb: tb, s: New(), now: start}
	w.ok(initial())
	return w
}

func initial() command.Init {
	return command.Init{
		Stamp: at(start), Zone: "z", Name: "zone", Config: api.ZoneConfig{PlanTTL: time.Minute},
		Admin: api.Token{ID: "t", Hash: []byte{1}, Expires: api.Forever},
		Epoch: command.Epoch{ID: []byte("e000"), Wrapped: []byte{2}}, CA: []byte{3}, CAKey: []byte{4},
	}
}

func at(t api.Instant) command.Stamp { return command.Stamp{At: t} }

// stamp returns the next instant.
func (w *world) stamp() command.Stamp {
	w.now++
	return at(w.now)
}

// do applies c at the next index. A refused command must change nothing, and a
// generation must rise by one at the most.
func (w *world) do(c command.Command) Result {
	w.tb.Helper()
	if w.form > 0 {
		c = w.reread(c)
	}
	due := c.Form() >= api.FormFourth && w.s.NextDue() <= max(c.Time(), w.s.Now()) // what is due is not the doing of c
	w.index++
	if w.large {
		return w.s.Apply(w.index, c)
	}
	before := w.s.Clone()
	r := w.s.Apply(w.index, c)
	after := w.s.Clone()
	checkTouched(w.tb, before, after, w.s.Touched())
	w.checkWorkLog(before, after)
	if p, ok := c.(command.Prune); ok && !due {
		checkPruned(w.tb, before, after, p)
	}
	if r.Err != nil && !due {
		require.Equal(w.tb, facts(w.tb, before), facts(w.tb, after), "refused, but something changed: %#v", c)
	}
	for _, h := range before.AllHosts() {
		if _, stays := after.hosts.Get(string(h.ID)); stays {
			rise := after.generationOf(h.ID) - before.generationOf(h.ID)
			require.LessOrEqual(w.tb, rise, uint64(1), "generation of %s after %#v", h.ID, c)
		}
	}
	for _, p := range before.providers.Values() {
		if now, stays := after.providers.Get(string(p.ID)); stays && now.Created == p.Created {
			rise := after.generationOf(p.ID) - before.generationOf(p.ID)
			require.LessOrEqual(w.tb, rise, uint64(1), "generation of %s after %#v", p.ID, c)
		}
	}
	return r
}

// reread returns a command as it is read from an entry.
func (w *world) reread(c command.Command) command.Command {
	w.tb.Helper()
	b, err := command.Encode(c, w.form)
	require.NoError(w.tb, err)
	c, err = command.Decode(b, w.form)
	require.NoError(w.tb, err)
	return c
}

// ok applies a command that must not be refused.
func (w *world) ok(c command.Command) Result {
	w.tb.Helper()
	r := w.do(c)
	require.NoError(w.tb, r.Err, "%#v", c)
	return r
}

// refused applies a command that must be refused with a code.
func (w *world) refused(code api.Code, c command.Command) {
	w.tb.Helper()
	require.Equal(w.tb, code, api.CodeOf(w.do(c).Err), "%#v", c)
}

// unchanged applies a command that is accepted and must change nothing.
func (w *world) unchanged(c command.Command) Result {
	w.tb.Helper()
	before := facts(w.tb, w.s)
	r := w.ok(c)
	require.Equal(w.tb, before, facts(w.tb, w.s), "%#v", c)
	return r
}

// facts returns the bytes of s but for index and time.
func facts(tb require.TestingT, s *State) string {
	c := s.Clone()
	c.index, c.now = 0, 0
	return saved(tb, c)
}

func saved(tb require.TestingT, s *State) string {
	var b bytes.Buffer
	require.NoError(tb, s.Save(&b))
	return b.String()
}

func loaded(tb require.TestingT, from string) *State {
	s, err := Load(bytes.NewReader([]byte(from)), api.FormNewest)
	require.NoError(tb, err)
	return s
}

// host adds a host of agent a1 with so many processors.
func (w *world) host(id string, cpus int64) { w.ok(hostPut(w.stamp(), "a1", id, cpus)) }

func hostPut(at command.Stamp, agent, id string, cpus int64) command.HostsPut {
	return command.HostsPut{Stamp: at, Agent: api.AgentID(agent), Hosts: []command.HostEntry{{
		ID: api.HostID(id), Host: api.AgentHost{
			Name: id, Driver: "fake", Pool: api.PoolShared,
			Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: cpus}},
		},
	}}}
}

// link adds a link whose name and zone follow from its id.
func (w *world) link(id string, role api.LinkRole) {
	w.ok(command.LinkPut{Stamp: w.stamp(), Link: linkOf(id, role)})
}

func linkOf(id string, role api.LinkRole) api.Link {
	return api.Link{
		ID: api.LinkID(id), Name: id, Role: role, Zone: api.ZoneID("zone-" + id), State: api.LinkActive, Scale: 1,
		Endpoints: []string{"https://" + id}, CA: []byte(id),
	}
}

// request asks for n instances of one processor for project p.
func request(res string, n int) api.Request {
	return api.Request{
		Reservation: api.ReservationID(res), Project: "p", User: "u", Class: api.Firm,
		Groups: []api.Group{{Count: n, Flavor: "small", Resources: api.Resources{api.VCPU: 1}}},
		Window: api.Window{End: api.Forever},
	}
}

func spec(id string) api.InstanceSpec {
	return api.InstanceSpec{ID: api.InstanceID(id), Name: "name-" + id}
}

func specs(ids ...string) []api.InstanceSpec {
	out := make([]api.InstanceSpec, len(ids))
	for i, id := range ids {
		out[i] = spec(id)
	}
	return out
}

func numbered(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%05d", prefix, i)
	}
	return out
}

func slots(host string, ids ...string) []command.Slot {
	out := make([]command.Slot, len(ids))
	for i, id := range ids {
		out[i] = command.Slot{Instance: spec(id), Host: api.HostID(host)}
	}
	return out
}

// create records a boot whose digest is its name.
func create(at command.Stamp, res string, n, least int) command.BootCreate {
	return command.BootCreate{
		Stamp: at, BootTerms: command.BootTerms{
			Digest: []byte(res), Name: res, Request: request(res, n), Min: least,
			Instances: specs(numbered(res, n)...),
		},
	}
}

// hold takes slots for boot res.
func hold(at command.Stamp, id, res string, sl []command.Slot, parts ...command.Part) command.Hold {
	c := command.Hold{Stamp: at, ID: api.HoldID(id), Attempt: 1, Expires: api.Forever, Slots: sl, Parts: parts}
	c.Request = request(res, 1)
	c.Request.Groups[0].Count = c.Count()
	return c
}

// asked takes slots for the parent "up".
func asked(at command.Stamp, id string, sl []command.Slot, parts ...command.Part) command.Hold {
	c := hold(at, id, "abroad", sl, parts...)
	c.Origin = "up"
	return c
}

func part(link string, ids ...string) command.Part {
	return command.Part{Link: api.LinkID(link), Instances: [][]api.InstanceSpec{specs(ids...)}}
}

func answer(link string, ids ...string) command.PartAnswer {
	a := command.PartAnswer{Link: api.LinkID(link)}
	for _, id := range ids {
		a.Held = append(a.Held, api.InstanceID(id))
	}
	return a
}

func bootDecide(at command.Stamp, res string, d api.Decision) command.BootDecide {
	return command.BootDecide{Stamp: at, Project: "p", Reservation: api.ReservationID(res), Decision: d}
}

func reports(at command.Stamp, agent, host string, st api.Status, ids ...string) command.InstanceReport {
	c := command.InstanceReport{Stamp: at, Agent: api.AgentID(agent)}
	for _, id := range ids {
		c.Items = append(c.Items, api.InstanceReport{Host: api.HostID(host), Instance: api.InstanceID(id), Status: st})
	}
	return c
}

func (w *world) used(host string) int64 {
	h, ok := w.s.Host(api.HostID(host))
	require.True(w.tb, ok, "host %s", host)
	return h.Used[api.VCPU]
}

func (w *world) generation(host string) uint64 { return w.s.generationOf(api.HostID(host)) }

func (w *world) boot(res string) *Boot {
	b, ok := w.s.Boot("p", api.ReservationID(res))
	require.True(w.tb, ok, "boot %s", res)
	return b
}

func (w *world) status(id string) api.Status {
	i, ok := w.s.Instance(api.InstanceID(id))
	require.True(w.tb, ok, "instance %s", id)
	return i.Status
}

func specIn(s *State, id api.HostID) capacity.Spec {
	v := s.Hosts()
	row, _ := v.Row(id)
	return v.Spec(row)
}

func claimsOn(s *State, id api.ProviderID) int {
	v := s.Hosts()
	row, _ := v.Row(id)
	return v.Instances(row)
}

// checkIndexes compares every index of s with the one that is built anew from
// its records, and so with a full scan, and what projects use with their records.
func checkIndexes(tb require.TestingT, s *State) {
	checkBuilt(tb, s)
	checkUsage(tb, s)
}

// checkBuilt is checkIndexes for records that need not agree with each other.
func checkBuilt(tb require.TestingT, s *State) {
	require.Zero(tb, *api.NewInstance(nil, api.InstanceSpec{}, "").InstanceExtras, "what instances without extras share was changed")
	fresh := loaded(tb, saved(tb, s))
	for name, pair := range map[string][2]*table.Set{
		"changes":   {&s.changes, &fresh.changes},
		"undecided": {&s.undecided, &fresh.undecided}, "untold": {&s.untold, &fresh.untold}, "open": {&s.open, &fresh.open},
		"prepared": {&s.prepared, &fresh.prepared}, "unended": {&s.unended, &fresh.unended},
		"children": {&s.children, &fresh.children}, "byOwner": {&s.byOwner, &fresh.byOwner},
		"ends": {&s.ends, &fresh.ends}, "inAggregate": {&s.inAggregate, &fresh.inAggregate},
		"work": {&s.work, &fresh.work}, "endedInstances": {&s.endedInstances, &fresh.endedInstances},
		"endedHolds": {&s.endedHolds, &fresh.endedHolds}, "endedBoots": {&s.endedBoots, &fresh.endedBoots},
		"expiringPlans": {&s.expiringPlans, &fresh.expiringPlans},
		"begins":        {&s.begins, &fresh.begins}, "waiting": {&s.waiting, &fresh.waiting}, "within": {&s.within, &fresh.within},
		"reserved": {&s.reserved, &fresh.reserved}, "byProject": {&s.byProject, &fresh.byProject}, "sharedWith": {&s.sharedWith, &fresh.sharedWith}, "due": {&s.due, &fresh.due},
		"endedLeases": {&s.endedLeases, &fresh.endedLeases}, "keeping": {&s.keeping, &fresh.keeping},
		"bySeries": {&s.bySeries, &fresh.bySeries}, "closings": {&s.closings, &fresh.closings}, "lending": {&s.lending, &fresh.lending},
		"past": {&s.past, &fresh.past}, "choosing": {&s.choosing, &fresh.choosing},
	} {
		require.Equal(tb, pair[1].Keys(), pair[0].Keys(), name)
	}
	for name, pair := range map[string][2]*table.Pairs{
		"byTenant": {&s.byTenant, &fresh.byTenant}, "byRes": {&s.byRes, &fresh.byRes},
		"byHost": {&s.byHost, &fresh.byHost}, "byTarget": {&s.byTarget, &fresh.byTarget},
	} {
		require.Equal(tb, pair[1].Keys(), pair[0].Keys(), name)
	}
	require.Equal(tb, [3]int64{fresh.hostTexts, fresh.holdTexts, fresh.bootTexts}, [3]int64{s.hostTexts, s.holdTexts, s.bootTexts}, "bytes of texts")
	require.Equal(tb, fresh.held.Keys(), s.held.Keys(), "held")
	require.Equal(tb, fresh.held.Values(), s.held.Values(), "held")
	require.Equal(tb, fresh.keys.Keys(), s.keys.Keys(), "keys")
	require.Equal(tb, fresh.seriesKeys.Keys(), s.seriesKeys.Keys(), "seriesKeys")
	for name, pair := range map[string][2]table.Map[api.LeaseID]{
		"leaseOf": {s.leaseOf, fresh.leaseOf}, "reservedBy": {s.reservedBy, fresh.reservedBy}, "leaseKeys": {s.leaseKeys, fresh.leaseKeys},
	} {
		require.Equal(tb, pair[1].Keys(), pair[0].Keys(), name)
		require.Equal(tb, pair[1].Values(), pair[0].Values(), name)
	}
	require.Equal(tb, fresh.active.Keys(), s.active.Keys(), "active")
	require.Equal(tb, fresh.active.Values(), s.active.Values(), "active")
	require.Equal(tb, fresh.byName.Keys(), s.byName.Keys(), "byName")
	require.Equal(tb, fresh.byName.Values(), s.byName.Values(), "byName")
	for name, pair := range map[string][2]table.Map[int]{
		"members": {s.members, fresh.members}, "tenants": {s.tenants, fresh.tenants},
		"tombstones": {s.tombstones, fresh.tombstones}, "promised": {s.promised, fresh.promised}, "leased": {s.leased, fresh.leased},
		"lent": {s.lent, fresh.lent},
	} {
		require.Equal(tb, pair[1].Keys(), pair[0].Keys(), name)
		require.Equal(tb, pair[1].Values(), pair[0].Values(), name)
	}
	require.Equal(tb, fresh.draws.Keys(), s.draws.Keys(), "draws")
	require.Equal(tb, fresh.draws.Values(), s.draws.Values(), "draws")
	require.Equal(tb, fresh.usage.Keys(), s.usage.Keys(), "usage")
	require.Equal(tb, fresh.usage.Values(), s.usage.Values(), "usage")
	require.Equal(tb, fresh.lentTo.Keys(), s.lentTo.Keys(), "lentTo")
	require.Equal(tb, fresh.lentTo.Values(), s.lentTo.Values(), "lentTo")
	for _, class := range s.Hosts().Classes() {
		require.Equal(tb, fresh.Hosts().Stock(class), s.Hosts().Stock(class), "stock of %s", class)
	}
	for _, id := range slices.Concat(s.hosts.Keys(), s.providers.Keys()) {
		id := api.ProviderID(id)
		require.Equal(tb, fresh.Hosts().Usage(id), s.Hosts().Usage(id), "usage of %s", id)
		require.Equal(tb, fresh.generationOf(id), s.generationOf(id), "generation of %s", id)
		require.Equal(tb, specIn(fresh, id), specIn(s, id), "what the table knows of %s", id)
		require.Equal(tb, claimsOn(fresh, id), claimsOn(s, id), "claims on %s", id)
	}
	for _, volumes := range []bool{false, true} {
		var scan []*api.Instance
		for _, i := range s.instances.Values() {
			if i.Live() && !i.Reserved && volumes == (i.Volume != "") {
				scan = append(scan, i)
			}
		}
		all := s.InstancesPage(InstanceQuery{Volumes: volumes, Page: Page{Limit: s.instances.Len() + 1}})
		assert.Equal(tb, scan, all, "the listing of all")
	}
}

func idsOf(is []*api.Instance) []api.InstanceID {
	out := []api.InstanceID{}
	for _, i := range is {
		out = append(out, i.ID)
	}
	return out
}
