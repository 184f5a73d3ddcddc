package zonetest

import (
	"bytes"
	"context"
	"maps"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/intake"
)

// Member is one zone.
type Member struct {
	World *World
	Name  string
	ID    api.ZoneID
	Log   *Log

	mu    sync.Mutex // guards the fields below
	zone  *Conduct
	reign func()        // ends it; nil while nobody leads
	dead  bool          // cannot be reached by any zone
	mute  bool          // its agent says nothing
	skew  time.Duration // of the clock of the next leader
}

// Agent adds an agent to a zone, with one host for each number.
func (m *Member) Agent(name string, hosts ...int64) *Agent {
	a := m.IdleAgent(name, hosts...)
	want := len(m.View().AllHosts()) + len(hosts)
	m.World.wg.Go(func() { a.run(m.World.Ctx) })
	m.Until("hosts are there", func(v *state.State) bool { return len(v.AllHosts()) == want })
	return a
}

// IdleAgent returns an agent of a zone that does nothing.
func (m *Member) IdleAgent(name string, hosts ...int64) *Agent {
	return &Agent{m: m, name: name, cpus: hosts, form: m.World.AgentForm, runs: map[api.InstanceID]fenced{}}
}

// Do applies a command that needs no leader.
func (m *Member) Do(c command.Command) {
	r, err := m.Log.apply(c)
	require.NoError(m.World.T, err)
	require.NoError(m.World.T, r[0].Err)
}

// Elect makes a new leader, which knows nothing but the log.
func (m *Member) Elect() {
	m.Depose()
	seat := &seat{log: m.Log, term: m.Log.nextTerm()}
	z := newConduct(m, seat)
	ctx, cancel := context.WithCancel(m.World.Ctx)
	var wg sync.WaitGroup
	z.BeginTerm()
	wg.Go(func() { z.Saga.Lead(ctx) })
	wg.Go(func() { z.Fleet.Lead(ctx) })
	wg.Go(func() { z.Leases.Lead(ctx) })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.zone = z
	m.reign = func() { cancel(); wg.Wait() }
}

// Depose ends the reign of the leader, if there is one. Proposals fail from now on.
func (m *Member) Depose() {
	m.Log.nextTerm()
	m.mu.Lock()
	end := m.reign
	m.reign = nil
	m.mu.Unlock()
	if end != nil {
		end()
	}
}

// Node returns the zone's conduct, and whether it leads.
func (m *Member) Node() (z *Conduct, leads bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.zone, m.reign != nil
}

// Lead returns what the zone does, on its leader or the last one.
func (m *Member) Lead() *Conduct {
	z, _ := m.Node()
	return z
}

func (m *Member) set(edit func(*Member)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	edit(m)
}

// Silence has the agents of a zone say nothing, or speak again.
func (m *Member) Silence(on bool) { m.set(func(m *Member) { m.mute = on }) }

// Kill has a zone be out of reach for all zones, or there again.
func (m *Member) Kill(dead bool) { m.set(func(m *Member) { m.dead = dead }) }

// SetSkew sets by how much the clock of the next leader is ahead.
func (m *Member) SetSkew(d time.Duration) { m.set(func(m *Member) { m.skew = d }) }

// Within returns a context for one call.
func (m *Member) Within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(m.World.Ctx, d)
}

// View returns the state of the zone.
func (m *Member) View() *state.State { return m.Log.latest() }

// Until waits until the zone's state is as it should be.
func (m *Member) Until(what string, ok func(*state.State) bool) {
	m.World.T.Helper()
	ctx, cancel := context.WithTimeout(m.World.Ctx, patience)
	defer cancel()
	for v := m.View(); !ok(v); {
		next, err := m.Log.Wait(ctx, v.Index())
		require.NoError(m.World.T, err, "zone %s: waiting until %s", m.Name, what)
		v = next
	}
}

// Boot records a boot.
func (m *Member) Boot(o *intake.BootOrder) {
	m.World.T.Helper()
	require.NoError(m.World.T, m.World.Retry(func() error {
		_, err := m.Lead().Boot(m.World.Ctx, o)
		return err
	}))
}

// Outcome waits for the outcome of a boot.
func (m *Member) Outcome(res string) *state.Boot {
	m.World.T.Helper()
	var out *state.Boot
	m.Until("boot "+res+" has an outcome", func(v *state.State) bool {
		b, ok := v.Boot("p", api.ReservationID(res))
		out = b
		return ok && b.State().Outcome()
	})
	return out
}

// Run boots and waits for the outcome.
func (m *Member) Run(o *intake.BootOrder) *state.Boot {
	m.World.T.Helper()
	m.Boot(o)
	return m.Outcome(string(o.Request.Reservation))
}

// Propose makes a user's command last.
func (m *Member) Propose(compose func(command.Stamp) command.Command) {
	m.World.T.Helper()
	require.NoError(m.World.T, m.World.Retry(func() error {
		z := m.Lead()
		_, err := z.Propose(m.World.Ctx, compose(z.Stamp()))
		return err
	}))
}

// Release ends a reservation.
func (m *Member) Release(res string) {
	m.World.T.Helper()
	m.Propose(func(at command.Stamp) command.Command {
		return command.BootRelease{Stamp: at, Project: "p", Reservation: api.ReservationID(res)}
	})
}

// Delete ends an instance. As for every client, that a repeat finds nothing means
// that the call before it did the work.
func (m *Member) Delete(id api.InstanceID) {
	m.World.T.Helper()
	err := m.World.Retry(func() error {
		z := m.Lead()
		_, err := z.Propose(m.World.Ctx, command.InstanceDelete{Stamp: z.Stamp(), ID: id})
		return err
	})
	require.True(m.World.T, err == nil || api.CodeOf(err) == api.CodeNotFound, "%v", err)
}

// Resize changes how many processors the first host of a zone has.
func (m *Member) Resize(cpus int64) {
	a := m.IdleAgent("", cpus)
	_, _ = m.Log.apply(command.HostsPut{Agent: a.ID(), Hosts: []command.HostEntry{{Host: a.Hosts()[0]}}}) // own bytes always decode
}

// Instances returns the live instances of a reservation of this zone, or of a parent.
func (m *Member) Instances(res string) []*api.Instance {
	return m.View().InstancesPage(state.InstanceQuery{
		Page: state.Page{Limit: api.CountMax}, Match: func(i *api.Instance) bool { return string(i.Reservation) == res },
	})
}

// SetTerms changes what is said of a child.
func (m *Member) SetTerms(child string, edit func(*api.LinkTerms)) {
	id := api.LinkID("link-" + child)
	l, ok := m.View().Link(id)
	require.True(m.World.T, ok)
	t := l.Terms
	edit(&t)
	headroom := map[api.ResourceClass]int64{}
	maps.Copy(headroom, t.Headroom)
	m.Do(command.LinkSet{
		Stamp: m.Lead().Stamp(), ID: id, AZ: &t.AZ, Maintenance: &t.Maintenance, Tags: append([]string{}, t.Tags...), Headroom: headroom,
	})
}

// Used returns how many processors of a zone are claimed.
func (m *Member) Used() int64 {
	var sum int64
	v := m.View()
	for _, h := range v.AllHosts() {
		full, _ := v.Host(h.ID)
		sum += full.Used[api.VCPU]
	}
	return sum
}

// Host returns the id of a host by its name.
func (m *Member) Host(name string) api.HostID {
	m.World.T.Helper()
	h, ok := m.View().HostByName(name)
	require.True(m.World.T, ok, name)
	return h.ID
}

// Drain takes a host out of service.
func (m *Member) Drain(host api.HostID, p api.DrainPolicy) {
	m.World.T.Helper()
	why := "new disks"
	m.Propose(func(at command.Stamp) command.Command {
		return command.HostSet{Stamp: at, ID: host, Maintenance: &why, Drain: &p}
	})
}

// Soft boots preemptible instances and waits until they run.
func (m *Member) Soft(res string, n int) {
	m.World.T.Helper()
	o := Order(res, n, n)
	o.Request.Class = api.Preemptible
	o.Instances = Specs(res, n)
	m.Boot(o)
	require.Equal(m.World.T, api.BootActive, m.Outcome(res).State())
}

// Evicted counts the instances of a zone that must leave or have left.
func (m *Member) Evicted() (n int) {
	for _, h := range m.View().Holds() {
		for _, id := range h.Held() {
			if i, ok := m.View().Instance(id); ok && i.Eviction != nil && i.Host != "" {
				n++
			}
		}
	}
	return n
}

// Saved returns a backup of a zone.
func (m *Member) Saved() []byte {
	m.Log.mu.Lock()
	defer m.Log.mu.Unlock()
	var backup bytes.Buffer
	require.NoError(m.World.T, m.Log.state.Save(&backup))
	return backup.Bytes()
}

// BringBack begins a new life of a zone with the state of a backup, which the zone at the other end of a
// link accepts.
func (m *Member) BringBack(backup []byte, other *Member, link api.LinkID) {
	m.World.T.Helper()
	m.Depose()
	life := api.Incarnation(time.Now().Unix())
	s, err := state.Load(bytes.NewReader(backup), api.FormNewest)
	require.NoError(m.World.T, err)
	require.NoError(m.World.T, s.BringBack(state.Return{
		Incarnation: life, At: api.InstantOf(time.Now()),
		Admin: api.Token{ID: "a", Hash: []byte{1}, Roles: []api.UserRole{api.RoleAdmin}, Expires: api.Forever},
	}))
	l := m.Log
	l.mu.Lock()
	l.state, l.view = s, s.Clone()
	close(l.next)
	l.next = make(chan struct{})
	l.mu.Unlock()
	m.Elect()
	other.Propose(func(at command.Stamp) command.Command {
		return command.LinkRelink{Stamp: at, ID: link, Incarnation: life}
	})
}

// Spread returns how many live instances of a reservation lie where, by direct
// child or "" for the zone itself, of one group or "" for all.
func (m *Member) Spread(res, group string) map[api.LinkID]int {
	out := map[api.LinkID]int{}
	for _, i := range m.Instances(res) {
		if group == "" || i.Group == group {
			out[i.Link]++
		}
	}
	return out
}

// OnHosts counts the live instances of a reservation by own host.
func (m *Member) OnHosts(res string) map[api.HostID]int {
	out := map[api.HostID]int{}
	for _, i := range m.Instances(res) {
		if i.Host != "" {
			out[i.Host]++
		}
	}
	return out
}

// Pick selects n slots at a zone for a caller of its own.
func (m *Member) Pick(n int, budget time.Duration) *api.SelectAnswer {
	m.World.T.Helper()
	req := Order("b", n, n).Request
	ctx, cancel := m.Within(budget)
	defer cancel()
	a, err := m.Lead().Select(ctx, "", &req)
	require.NoError(m.World.T, err)
	return a
}

// Configure changes the configuration of the zone.
func (m *Member) Configure(edit func(*api.ZoneConfig)) {
	c := m.View().Config
	edit(&c)
	m.Do(command.ConfigSet{Stamp: m.Lead().Stamp(), Config: c})
}

// GiveDisk gives the first host of a zone a disk.
func (m *Member) GiveDisk(gb int64) { m.giveDisk(m.Name+"-host-1", gb) }

// GiveDisks gives every host of a zone a disk.
func (m *Member) GiveDisks(gb int64) {
	for _, h := range m.View().AllHosts() {
		m.giveDisk(h.Name, gb)
	}
}

func (m *Member) giveDisk(host string, gb int64) {
	m.Propose(func(at command.Stamp) command.Command {
		h, _ := m.View().HostByName(host)
		inventory := maps.Clone(h.Inventory)
		inventory[api.DiskGB] = api.Inventory{Total: gb}
		return command.ProviderSet{Stamp: at, ID: h.ID, Inventory: &inventory}
	})
}

// VolumesOf returns the volumes of a reservation, as a zone knows them.
func (m *Member) VolumesOf(res string) []*api.Instance {
	return m.View().InstancesPage(state.InstanceQuery{
		Volumes: true, Page: state.Page{Limit: api.CountMax}, Match: func(i *api.Instance) bool { return string(i.Reservation) == res },
	})
}

// UntilAttached waits until a zone knows what a volume is attached to.
func (m *Member) UntilAttached(volume, to api.InstanceID) {
	m.World.T.Helper()
	m.Until("the attachment is known", func(v *state.State) bool {
		i, ok := v.Instance(volume)
		return ok && i.Attached == to
	})
}
