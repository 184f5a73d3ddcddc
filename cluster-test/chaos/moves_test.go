//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cluster-test/check"
	"berth/cluster-test/lab"
	"berth/internal/await"
	"berth/internal/sysinfo"
	zonefleet "berth/zone/fleet"
)

// Sizes of the campaign against agents.
const (
	moverRoom    = 24 // instances on each host
	keptBoots    = 3  // boots of each flavor that are there all the time
	keptCount    = 2  // instances of each
	moverCallers = 3  // clients that boot and release meanwhile
	drains       = 6
	losses       = 1 // of each way to lose an agent

	// elsewhereMax is how long a zone may take to run elsewhere what was on a lost
	// host: 35 s of silence, and the start.
	heardMax  = 5 * time.Second        // how long before it was lost the zone may have heard an agent last
	lookEvery = 200 * time.Millisecond // at all processes of instances
)

// movers is a zone of three nodes with two hosts that run real processes, and one
// that runs none.
type movers struct {
	*fleet
	hosts  []*lab.AgentProc
	spare  string // name of the host that runs none; it is out of service but when it is needed
	quit   context.CancelFunc
	wg     sync.WaitGroup
	events map[string]int
	twice  error // what look has seen; set when wg is done

	mu   sync.Mutex // guards what follows
	acks []check.Ack
	done int
	gave []api.ReservationID // that were asked for by callers
}

// TestMoves drains hosts and loses agents while clients boot and release, and
// judges processes, journals and logs: nothing that moves ever runs twice, and all
// of it runs in the end.
func TestMoves(t *testing.T) {
	t.Parallel()
	w := lab.New(t, lab.Options{Machines: lab.Best(t), Quick: true, Env: []string{"BERTH_COMPACT=300:1000000"}})
	w.MayMove()
	m := &movers{fleet: &fleet{World: w, dice: rngOf(w.Seed)}, events: map[string]int{}}
	m.root = w.Zone("root", 3)
	m.root.Flavor("fixed", unitMB, "/bin/sleep", "36000")
	m.root.CreateFlavor(rest.FlavorSpec{
		Name: "roaming", RAM: new(int64(unitMB)), Command: []string{"/bin/sleep", "36000"}, ExtraSpecs: map[string]string{"berth:evacuate": "true"},
	})
	memory, err := sysinfo.MemoryMB()
	require.NoError(t, err)
	for _, name := range []string{"a", "b"} {
		m.hosts = append(m.hosts, m.root.ProcessAgent(name, memory-moverRoom*unitMB))
	}
	m.root.FakeAgent("spare", 1, moverRoom*unitMB)
	for _, h := range m.root.Hosts() {
		if h.Name != m.hosts[0].Name && h.Name != m.hosts[1].Name {
			m.spare = h.Name
		}
	}
	m.serve(t, m.spare, false)
	m.token = m.root.MemberToken("web", api.RoleMember)
	m.supervise()
	m.start(t)
	for range scaled(drains) {
		m.drain(t)
	}
	for range scaled(losses) {
		m.lose(t, "cut off")
		m.lose(t, "killed")
	}
	m.judge(t)
}

// start boots what is there all the time, lets callers boot and release, and looks
// at all processes.
func (m *movers) start(t *testing.T) {
	t.Helper()
	for _, flavor := range []string{"fixed", "roaming"} {
		for n := range keptBoots {
			id := api.ReservationID(fmt.Sprint(flavor, n))
			require.NoError(t, m.order(t.Context(), id, flavor, keptCount))
			b, err := m.ends(t.Context(), id, api.BootState.Outcome)
			require.NoError(t, err)
			require.Equal(t, api.BootActive, b.State, b.Reason)
		}
	}
	var ctx context.Context
	ctx, m.quit = context.WithCancel(t.Context())
	for n := range moverCallers {
		dice := rand.New(rand.NewPCG(m.Seed, uint64(n)+1))
		m.wg.Go(func() { m.call(ctx, n, dice) })
	}
	m.wg.Go(func() { m.twice = m.look(ctx) })
}

func (m *movers) order(ctx context.Context, id api.ReservationID, flavor string, count int) error {
	err := m.root.Do(ctx, m.token, func(ctx context.Context, c *client.Client) error {
		_, err := c.Boot(ctx, rest.ServerCreate{
			Name: string(id), FlavorRef: flavor, MinCount: &count, MaxCount: &count, Reservation: string(id),
		}, string(id))
		return err
	})
	m.note(check.Ack{Kind: check.AckBoot, Zone: "root", Outcome: check.OutcomeOf(err), Project: "web", Reservation: id})
	return err
}

func (m *movers) note(a check.Ack) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.acks = append(m.acks, a)
	m.done++
}

// call boots and releases until ctx ends.
func (m *movers) call(ctx context.Context, n int, dice *rand.Rand) {
	flavors := []string{"fixed", "roaming"}
	for i := 0; ctx.Err() == nil; i++ {
		id := api.ReservationID(fmt.Sprintf("c%d-%d", n, i))
		m.mu.Lock()
		m.gave = append(m.gave, id)
		m.mu.Unlock()
		_ = m.order(context.WithoutCancel(ctx), id, flavors[dice.IntN(2)], 1+dice.IntN(2)) // it is noted
		lab.Pass(ctx, time.Duration(dice.Int64N(int64(2*time.Second))))
		err := m.release(context.WithoutCancel(ctx), id)
		m.note(check.Ack{Kind: check.AckRelease, Zone: "root", Outcome: check.OutcomeOf(err), Code: api.CodeOf(err), Project: "web", Reservation: id})
	}
}

// look returns an error as soon as two processes of one instance run, and nil when
// ctx ends.
func (m *movers) look(ctx context.Context) error {
	for ; ctx.Err() == nil; lab.Pass(ctx, lookEvery) {
		all, err := m.Instances()
		if err != nil {
			return err
		}
		seen := map[string]int{}
		for _, i := range all {
			if pid := seen[i.ID]; pid != 0 {
				return fmt.Errorf("instance %s runs twice: %d and %d", i.ID, pid, i.PID)
			}
			seen[i.ID] = i.PID
		}
	}
	return nil
}

// kept returns what is there all the time and runs on a host, by flavor.
func (m *movers) kept(on *lab.AgentProc) map[string][]api.InstanceID {
	out := map[string][]api.InstanceID{}
	for _, s := range m.root.Servers() {
		for _, flavor := range []string{"fixed", "roaming"} {
			if s.Host == on.Name && len(s.Reservation) == len(flavor)+1 && string(s.Reservation[:len(flavor)]) == flavor {
				out[flavor] = append(out[flavor], s.ID)
			}
		}
	}
	return out
}

// drain moves all that is on one host to the other, and breaks something meanwhile.
func (m *movers) drain(t *testing.T) {
	t.Helper()
	from := m.hosts[m.dice.IntN(2)]
	began, ops := time.Now(), m.count()
	var left rest.Host
	require.NoError(t, m.admin(t.Context(), func(ctx context.Context, c *client.Client) (err error) {
		left, err = c.DrainHost(ctx, from.Name, api.DrainMove, "its turn")
		return err
	}))
	what := "nothing"
	switch m.dice.IntN(3) {
	case 0:
		what = "kill leader"
		m.root.Leader().Crash()
	case 1:
		what = "kill agent"
		m.hosts[m.dice.IntN(2)].Crash()
	}
	await.Until(t, "the host is empty", func(ctx context.Context) error {
		var now rest.Host
		err := m.admin(ctx, func(ctx context.Context, c *client.Client) (err error) {
			now, err = c.Host(ctx, from.Name)
			return err
		})
		if err == nil && now.Leaving != nil && now.Leaving.Left == 0 {
			return nil
		}
		return lab.OrElse(err, "left: %+v", now.Leaving)
	})
	require.NoError(t, m.admin(t.Context(), func(ctx context.Context, c *client.Client) error {
		_, err := c.UndrainHost(ctx, from.Name)
		return err
	}))
	m.happened("drained host", what)
	t.Logf("%s drained of %+v in %s, meanwhile: %s, %d operations", from.Name, left.Leaving, time.Since(began).Round(time.Millisecond), what, m.count()-ops)
}

// happened counts an event, and what else went wrong in it.
func (m *movers) happened(events ...string) {
	for _, e := range events {
		if e != "nothing" {
			m.events[e]++
			sums.fault(e, 1)
		}
	}
}

func (m *movers) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.done
}

// admin makes a call as the zone's admin.
func (m *movers) admin(ctx context.Context, f func(ctx context.Context, c *client.Client) error) error {
	return m.root.Do(ctx, m.root.Token, f)
}

// lose takes an agent away until what may be started elsewhere runs there.
func (m *movers) lose(t *testing.T, how string) {
	t.Helper()
	a := m.hosts[0]
	if len(m.kept(a)["roaming"]) == 0 {
		a = m.hosts[1]
	}
	before, ops, began := m.kept(a), m.count(), time.Now()
	require.NotEmpty(t, before["roaming"])
	if how == "killed" {
		a.Kill()
	} else {
		for _, n := range m.root.Nodes {
			require.NoError(t, m.Cut(a.Machine, n.Machine))
		}
	}
	elsewhere := func(context.Context) error {
		if left := m.kept(a)["roaming"]; len(left) > 0 {
			return fmt.Errorf("still there: %v", left)
		}
		for _, id := range before["roaming"] {
			i, err := m.root.Admin().Server(t.Context(), id)
			if err != nil || i.Status != api.StatusActive {
				return lab.OrElse(err, "%s is %s", id, i.Status)
			}
		}
		return nil
	}
	await.Until(t, "what may be started elsewhere runs there", elsewhere)
	took := time.Since(began)
	assert.Greater(t, took, zonefleet.EvacuateAfter-zonefleet.AgentBeat, "its agent may not have ended them")
	assert.ElementsMatch(t, before["fixed"], m.kept(a)["fixed"], "what may not stays")
	if how == "killed" {
		a.Start()
	} else {
		require.NoError(t, m.Heal())
	}
	await.Until(t, "its host is up", func(ctx context.Context) error {
		h, err := m.root.Admin().Host(ctx, a.Name)
		if err == nil && h.State == api.HostUp {
			return nil
		}
		return lab.OrElse(err, "it is %s", h.State)
	})
	m.happened("agent " + how + " for longer than the fence")
	t.Logf("%s %s: %d instances run elsewhere after %s, %d operations", a.Name, how, len(before["roaming"]), took.Round(time.Millisecond), m.count()-ops)
}

// serve takes a host out of service, or puts it back; what is there stays.
func (m *movers) serve(t *testing.T, host string, does bool) {
	t.Helper()
	require.NoError(t, m.admin(t.Context(), func(ctx context.Context, c *client.Client) (err error) {
		if does {
			_, err = c.UndrainHost(ctx, host)
		} else {
			_, err = c.DrainHost(ctx, host, api.DrainWait, "it is not needed")
		}
		return err
	}))
}

// processes counts what runs, by instance: real processes, and what the spare host says.
func (m *movers) processes(t *testing.T) map[api.InstanceID]int {
	t.Helper()
	out := map[api.InstanceID]int{}
	running, err := m.Instances()
	require.NoError(t, err)
	for _, i := range running {
		out[api.InstanceID(i.ID)]++
	}
	for _, s := range m.root.Servers() {
		if s.Host == m.spare && s.Status == api.StatusActive {
			out[s.ID]++
		}
	}
	return out
}

// judge lets the zone come to rest and checks everything that it leaves.
func (m *movers) judge(t *testing.T) {
	t.Helper()
	m.quit()
	m.wg.Wait()
	require.NoError(t, m.twice)
	ctx := t.Context()
	for _, id := range m.gave {
		require.NoError(t, m.release(ctx, id))
		_, err := m.ends(ctx, id, gone)
		if api.CodeOf(err) != api.CodeNotFound {
			require.NoError(t, err, "a reservation is stuck")
		}
	}
	for _, flavor := range []string{"fixed", "roaming"} {
		for n := range keptBoots {
			b, err := m.ends(ctx, api.ReservationID(fmt.Sprint(flavor, n)), func(s api.BootState) bool { return s == api.BootActive })
			require.NoError(t, err)
			assert.Equal(t, rest.BootCounts{api.StatusActive: keptCount}, b.Instances)
		}
	}
	m.Audit()
	m.agree(t)
	processes := m.processes(t)
	evidence := m.stopAndRead(t, m.zones()...)
	ls, found := check.Log(evidence.logs["root"])
	t.Logf("log: %+v", ls)
	js, v := check.Journals(evidence.journals, check.JournalOptions{
		Active: evidence.active, Processes: processes, Moved: ls.Moved, Evacuated: ls.Evacuated, Returned: ls.Returned,
	})
	found = append(found, v...)
	t.Logf("journals: %+v", js)
	as, v := check.Acks(m.acks, evidence.finals)
	found = append(found, v...)
	t.Logf("acknowledgements: %+v", as)
	for _, one := range found {
		assert.Fail(t, "a promise was broken", one.String())
	}
	assert.NotEmpty(t, ls.Moved, "nothing has moved")
	assert.NotEmpty(t, ls.Evacuated, "nothing was evacuated")
	sums.acks(m.acks)
	sums.moved(len(ls.Moved))
}
