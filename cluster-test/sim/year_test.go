package sim

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/identity"
	"berth/internal/await"
	"berth/internal/dice"
	"berth/node"
	"berth/raftstore"
	"berth/raftstore/state"
)

var weeksFlag = flag.Int("weeks", weeksMin, "how many weeks of the year in a day pass, at least 3")

// weeksMin is how many weeks have one of everything.
const weeksMin = 3

// week is a week of a year that takes a day.
const week = 24 * time.Hour / 365 * 7

// year is the life of two linked zones whose certificates are valid for a week.
type year struct {
	*world
	root, west *zone

	renewed  map[string]int // certificates that were seen, by their holder
	serial   map[string]string
	replaced int // nodes
	hired    int // agents in the place of others
	restarts int
}

// TestAYearInADay: for as many weeks as -weeks says, 52 in "make years", everything about two zones changes but their names. Certificates are
// valid for a week and are renewed; nodes and agents are restarted, and replaced by others elsewhere; all nodes are upgraded, turned back and
// upgraded again in the first week; the authorities change; and in the second week the child loses all of its nodes, comes back from a
// backup of the day before, and is confirmed. A short run has one of the first three weeks. Something is booted each week and runs for two. No instance runs twice, nothing is lost but what the
// child has forgotten by its return, and in the end nothing is left over.
func TestAYearInADay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, weeks, seed, form := 0, max(*weeksFlag, weeksMin), *seedFlag, api.FormFourth
		if seed == 0 {
			seed = dice.Seed(t)
		}
		if testing.Short() {
			first, weeks = dice.Rand(t).IntN(weeksMin), 1
		}
		if first > 0 {
			form = api.FormFifth // they were upgraded before
		}
		w := newWorldWith(t, seed, plot{"root", 1, []int{1, 1}, []plot{{"west", 3, []int{2, 1}, nil}}}, form, week)
		y := &year{world: w, root: w.root(), west: w.zone("west"), renewed: map[string]int{}, serial: map[string]string{}}
		require.Equal(t, api.BootActive, y.root.run("whole-year", 4, 4).State)
		if first > 0 {
			require.Equal(t, api.BootActive, y.root.run(fmt.Sprint("week-", first-1), 6, 6).State)
		}
		for n := first; n < first+weeks; n++ {
			ends := y.began.Add(time.Duration(n-first+1) * week)
			if n == 0 {
				y.upgrade()
			}
			require.Equal(t, api.BootActive, y.root.run(fmt.Sprint("week-", n), 6, 6).State)
			if n == 1 {
				y.loseChild()
			}
			if n%13 == 2 {
				y.changeAuthorities()
			}
			for time.Until(ends) > 0 {
				y.live()
				y.look()
			}
			if n == first+weeks-1 {
				y.catchUp()
			}
			if n > 0 {
				y.release(fmt.Sprint("week-", n-1))
			}
			w.settle()
			w.check()
		}
		assert.Equal(t, 4, y.running("whole-year"), "it outlives all of that")
		assert.Positive(t, y.replaced)
		assert.Positive(t, y.hired)
		t.Logf("%d nodes and %d agents were replaced, %d processes restarted, %d certificates issued", y.replaced, y.hired, y.restarts, y.total())
		assert.GreaterOrEqual(t, y.total(), 2*weeks)
		w.empty()
	})
}

// catchUp replaces a node and an agent if the year has not.
func (y *year) catchUp() {
	y.t.Helper()
	if y.replaced == 0 {
		y.west.replaceNode()
		y.replaced++
	}
	if y.hired == 0 {
		y.replaceAgent(y.west)
	}
	y.heal()
	y.settle()
}

// live lets some of a week pass, and lets one thing happen in it.
func (y *year) live() {
	await.Sleep(time.Duration(30+y.dice.IntN(240)) * time.Second)
	z := y.zones[y.dice.IntN(len(y.zones))]
	switch y.dice.IntN(8) {
	case 0, 1:
		z.replaceNode()
		y.replaced++
	case 2:
		y.replaceAgent(z)
	case 3:
		z.crews[y.dice.IntN(len(z.crews))].down(time.Duration(y.dice.IntN(60)) * time.Second)
		y.restarts++
	case 4, 5:
		p := z.nodes[y.dice.IntN(len(z.nodes))]
		p.kill()
		p.reap()
		await.Sleep(time.Duration(y.dice.IntN(60)) * time.Second)
		p.start()
		y.restarts++
	}
	y.heal()
	y.settle()
}

// look holds that no certificate has ended, and counts them.
func (y *year) look() {
	y.t.Helper()
	see := func(holder, dir string, r identity.Role) {
		c, err := identity.LoadDir(dir, r)
		require.NoError(y.t, err)
		leaf := c.Cert.Leaf
		require.True(y.t, time.Now().Before(leaf.NotAfter), "the certificate of %s has ended", holder)
		if is := leaf.SerialNumber.String(); y.serial[holder] != is {
			y.serial[holder] = is
			y.renewed[holder]++
		}
	}
	for _, z := range y.zones {
		for _, p := range z.nodes {
			for _, r := range []identity.Role{identity.RoleNode, identity.RoleGateway, identity.RoleAPI} {
				see(fmt.Sprint(z.name, " ", p.id, " ", r), p.dir, r)
			}
		}
		for _, c := range z.crews {
			see(fmt.Sprint(z.name, " ", c.name), c.dir, identity.RoleAgent)
		}
	}
}

// total returns how many certificates were seen.
func (y *year) total() (n int) {
	for _, of := range y.renewed {
		n += of
	}
	return n
}

// running returns how many servers of a reservation at the root are active.
func (y *year) running(res string) (n int) {
	for _, i := range y.root.view().OfReservation(project, api.ReservationID(res)) {
		if i.Status == api.StatusActive {
			n++
		}
	}
	return n
}

func (y *year) release(res string) {
	y.t.Helper()
	y.root.insist("release", func(ctx context.Context, c *client.Client) error {
		_, err := c.Release(ctx, api.ReservationID(res), 0)
		return err
	})
	y.root.note(func(t *told) { t.released = append(t.released, api.ReservationID(res)) })
}

// upgrade starts all nodes as the release of the fifth form, then as the one of before, then as that again, and finishes.
func (y *year) upgrade() {
	y.t.Helper()
	for _, form := range []api.Form{api.FormFifth, api.FormFourth, api.FormFifth} {
		for _, z := range y.zones {
			for _, p := range z.nodes {
				p.release(form)
			}
		}
	}
	y.form = api.FormFifth
	for _, z := range y.zones {
		z.until("the upgrade is finished", func(*state.State) bool { return z.leads().Federation().FinishUpgrade(y.ctx) == nil })
	}
}

// changeAuthorities lets both zones change their certificate authorities.
func (y *year) changeAuthorities() {
	y.t.Helper()
	y.each(func(ctx context.Context, c *client.Client) error { return c.RotateCA(ctx, rest.CABrought{}) }, api.CATrusted)
	y.waitForNobody()
	y.each(func(ctx context.Context, c *client.Client) error { return c.UseCA(ctx, false) }, api.CAUsed)
	y.waitForNobody()
	y.each(func(ctx context.Context, c *client.Client) error { return c.FinishCA(ctx, false) }, api.CAStable)
}

// replaceAgent gives the zone as many hosts of another agent as its oldest one has, moves there what runs on those, and lets the agent go.
func (y *year) replaceAgent(z *zone) {
	y.t.Helper()
	old := z.crews[0]
	z.hireAs(fmt.Sprint("agent-", 100+y.hired), old.hosts)
	y.hired++
	z.drained.Store(true)
	var hosts []api.HostID
	for _, h := range z.view().AllHosts() {
		if h.Agent == old.name {
			hosts = append(hosts, h.ID)
		}
	}
	for _, h := range hosts {
		z.insist("drain", func(ctx context.Context, c *client.Client) error {
			_, err := c.DrainHost(ctx, string(h), api.DrainMove, "its turn")
			return err
		})
	}
	z.until("all run elsewhere", func(v *state.State) bool {
		return !slices.ContainsFunc(hosts, func(h api.HostID) bool { return len(v.OnHost(h)) > 0 })
	})
	z.insist("revoke", func(ctx context.Context, c *client.Client) error { return c.RevokeAgent(ctx, old.name) })
	old.kill()
	old.reap()
	z.crews = slices.Delete(slices.Clone(z.crews), 0, 1)
	for _, h := range hosts {
		z.insist("delete host", func(ctx context.Context, c *client.Client) error {
			if err := c.DeleteHost(ctx, string(h)); api.CodeOf(err) != api.CodeNotFound {
				return err
			}
			return nil
		})
	}
}

// loseChild ends all nodes of the child for good, a day after a backup, and brings it back from that.
func (y *year) loseChild() {
	y.t.Helper()
	z := y.west
	backup := z.backup()
	keks, err := node.ReadKEKs(filepath.Join(z.nodes[0].dir, "kek"), nil)
	require.NoError(y.t, err)
	await.Sleep(week / 7)
	require.Equal(y.t, api.BootActive, z.run("forgotten", 1, 1).State)
	require.Equal(y.t, api.BootActive, y.root.run("half-forgotten", 3, 3).State)
	y.settle()
	own := 0
	for _, i := range y.root.view().OfReservation(project, "half-forgotten") {
		if i.Link == "" {
			own++
		}
	}
	require.Less(y.t, own, 3, "some are in the child")
	for _, p := range z.nodes {
		p.kill()
		p.reap()
	}
	was := z.nodes[0]
	z.joined++
	p := &process{
		z: z, id: api.NodeID(fmt.Sprint("node-", z.joined)), host: was.host, mem: raftstore.NewMemory(), clock: newClock(), bomb: newBomb(), form: y.form,
	}
	p.dir = filepath.Join(y.dir, z.name, string(p.id))
	r, err := node.InitFromBackup(node.InitOptions{
		Dir: p.dir, Node: p.id, Placement: node.Placement{Listen: node.DefaultAddresses(p.host.Name())}, Now: p.clock.now(), CertificateTTL: y.ttl,
	}, bytes.Clone(backup.Bytes()), keks)
	require.NoError(y.t, err)
	z.mu.Lock()
	z.token, z.nodes = r.Token, []*process{p}
	z.told.booted = slices.DeleteFunc(z.told.booted, func(r api.ReservationID) bool { return r == "forgotten" })
	z.mu.Unlock()
	p.start()
	z.leads()
	for range 2 {
		z.addNodeAt(len(z.nodes), z.joined)
	}
	l, ok := y.root.view().LinkByZone(z.id)
	require.True(y.t, ok)
	y.root.insist("relink", func(ctx context.Context, c *client.Client) error {
		seen, err := c.RelinkZone(ctx, string(l.ID), rest.Relink{DryRun: true})
		if err == nil {
			_, err = c.RelinkZone(ctx, string(l.ID), rest.Relink{Incarnation: seen.Incarnation})
		}
		return err
	})
	y.settle()
	_, known := z.view().Boot(project, "forgotten")
	assert.False(y.t, known, "it was made after the backup")
	assert.Equal(y.t, own, y.running("half-forgotten"), "what the child has forgotten is gone, and no more")
	y.release("half-forgotten")
}
