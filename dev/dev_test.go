package dev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"berth/agent"
	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cluster-test/simnet"
	"berth/internal/await"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is the machine on which the federations of a test run.
type world struct {
	*testing.T
	net  simnet.Loopback
	http *http.Transport // of callers
}

// farewell is longer than any timer that may be left when a federation has ended.
const farewell = 2 * time.Minute

// virtually runs a test in a bubble, over a network in memory and files on the disk. What it leaves running or open fails
// it. It has no subtests.
func virtually(t *testing.T, test func(t *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, net: simnet.Loopback{Network: simnet.New(1)}}
		w.http = &http.Transport{
			DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) { return w.net.Dial(ctx, addr) },
		}
		t.Cleanup(func() { await.Sleep(farewell) })
		t.Cleanup(w.http.CloseIdleConnections)
		test(w)
	})
}

// journal keeps what all nodes log.
type journal struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

// Write implements io.Writer.
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

func (j *journal) lines() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Split(j.b.String(), "\n")
}

// running is a federation under test.
type running struct {
	*Federation
	t    *world
	log  *journal
	ctx  context.Context //nolint:containedctx // the life of the federation
	stop func()
}

// start runs a federation in dir until the test or stop ends it.
func start(t *world, dir string, tree Spec, hosts int) *running {
	t.Helper()
	return startWith(t, Options{Dir: dir, Tree: tree, Hosts: hosts, StartDelay: StartDelayDefault})
}

// startWith runs a federation as o says until the test or stop ends it.
func startWith(t *world, o Options) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, ctx: ctx, log: &journal{}}
	o.Version, o.Now, o.net = "test", time.Now, t.net
	o.Shape = agent.Inventory{api.VCPU: {Total: 4}, api.MemoryMB: {Total: 8192}, api.DiskGB: {Total: 100}}
	o.Log = slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	r.Federation, err = Start(ctx, o)
	require.NoError(t, err)
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			cancel()
			assert.NoError(t, r.Wait())
		})
	}
	t.Cleanup(r.stop)
	return r
}

// zone returns the zone with a name.
func (r *running) zone(name string) *Zone {
	r.t.Helper()
	for _, z := range r.Zones {
		if z.Name == name {
			return z
		}
	}
	require.Fail(r.t, "no such zone", name)
	return nil
}

// client calls a zone as its admin.
func (r *running) client(name string) *client.Client {
	z := r.zone(name)
	return r.as(z, z.Token)
}

func (r *running) as(z *Zone, token string) *client.Client {
	r.t.Helper()
	c, err := client.New(client.Config{Addr: z.API(), Token: token, HTTP: &http.Client{
		Transport:     r.t.http,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}})
	require.NoError(r.t, err)
	r.t.Cleanup(c.Close)
	return c
}

// raw makes one call and returns the answer as it came.
func (r *running) raw(z *Zone, method, path, body string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, z.API()+path, strings.NewReader(body))
	require.NoError(r.t, err)
	req.Header.Set("Authorization", "Bearer "+z.Token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Close = true
	res, err := r.t.http.RoundTrip(req)
	require.NoError(r.t, err)
	b, err := io.ReadAll(res.Body)
	require.NoError(r.t, err)
	require.NoError(r.t, res.Body.Close())
	return res.StatusCode, string(b)
}

func count(n int) *int { return &n }

// boot boots and waits for the outcome.
func (r *running) boot(c *client.Client, name string, least, most int) rest.Boot {
	r.t.Helper()
	id, err := c.Boot(r.t.Context(), rest.ServerCreate{
		Name: name, FlavorRef: "small", Reservation: name, MinCount: count(least), MaxCount: count(most),
	}, "")
	require.NoError(r.t, err)
	b, err := c.Reservation(r.t.Context(), id, 20*time.Second)
	require.NoError(r.t, err)
	return b
}

func (r *running) servers(c *client.Client, res string) []rest.Server {
	r.t.Helper()
	p, err := c.Servers(r.t.Context(), client.ServerQuery{Reservation: api.ReservationID(res)}, client.ListOptions{})
	require.NoError(r.t, err)
	return p.Items
}

// left waits until so many servers of a reservation are left.
func (r *running) left(c *client.Client, res string, n int) {
	r.t.Helper()
	await.True(r.t, fmt.Sprint(n, " servers are left"), func() bool { return len(r.servers(c, res)) == n })
}

// TestDefaultTreeIsKept boots, lists and deletes in the default tree, stops it,
// and starts it again from the same directory: everything that was acknowledged
// is there, and more can be done.
func TestDefaultTreeIsKept(t *testing.T) {
	virtually(t, func(t *world) {
		dir := t.TempDir()
		first := start(t, dir, DefaultTree(), 1) // four zones with room for four each
		root := first.client("root")
		b := first.boot(root, "wide", 12, 12)
		require.Equal(t, api.BootActive, b.State, b.Reason)
		gone := first.servers(root, "wide")[0].ID
		require.NoError(t, root.DeleteServer(t.Context(), gone))
		first.left(root, "wide", 11)
		require.Equal(t, api.BootActive, first.boot(first.client("edge"), "own", 1, 1).State)
		edge := first.servers(first.client("edge"), "own")
		token := first.zone("root").Token
		first.stop()

		second := start(t, dir, DefaultTree(), 1)
		root = second.client("root")
		assert.Equal(t, token, second.zone("root").Token, "what callers hold stays good")
		again, err := root.Reservation(t.Context(), "wide", 20*time.Second)
		require.NoError(t, err)
		assert.Equal(t, api.BootActive, again.State)
		assert.Equal(t, b.Attempts, again.Attempts)
		assert.Len(t, second.servers(root, "wide"), 11)
		assert.Equal(t, edge, second.servers(second.client("edge"), "own"))
		zones, err := root.Zones(t.Context(), client.ListOptions{})
		require.NoError(t, err)
		assert.Len(t, zones.Items, 2, "linked once, not again")

		end, err := root.Release(t.Context(), "wide", 20*time.Second)
		require.NoError(t, err)
		assert.Equal(t, api.BootReleased, end.State)
		second.stop()
	})
}

// TestHostsOfSeveralAgents boots on all hosts of a zone, which are more than one agent serves, before and
// after a restart.
func TestHostsOfSeveralAgents(t *testing.T) {
	virtually(t, func(t *world) {
		dir := t.TempDir()
		for n := range 2 {
			r := startWith(t, Options{Dir: dir, Tree: Spec{Name: "root"}, Hosts: 5, agentHosts: 2})
			b := r.boot(r.client("root"), fmt.Sprint("wide", n), 20, 20)
			assert.Equal(t, api.BootActive, b.State)
			hosts, err := r.client("root").Hosts(t.Context(), client.ListOptions{})
			require.NoError(t, err)
			require.Len(t, hosts.Items, 5)
			for _, h := range hosts.Items {
				assert.Equal(t, 4, h.Instances, h.Name)
			}
			b, err = r.client("root").Release(t.Context(), b.Reservation, time.Minute)
			require.NoError(t, err)
			require.Equal(t, api.BootReleased, b.State)
			r.stop()
		}
	})
}

// TestWaitTellsWhatEndedIt: the first failure of a part, which ends all others.
func TestWaitTellsWhatEndedIt(t *testing.T) {
	virtually(t, func(t *world) {
		f, err := Start(t.Context(), Options{Dir: t.TempDir(), Tree: Spec{Name: "root"}, Version: "test", Now: time.Now, Log: slog.New(slog.DiscardHandler), net: t.net})
		require.NoError(t, err)
		broken := errors.New("the disk is gone")
		f.fail(broken)
		f.fail(errors.New("and more"))
		require.ErrorIs(t, f.Wait(), broken)
	})
}

// TestStartRefusesABadTree changes nothing.
func TestStartRefusesABadTree(t *testing.T) {
	_, err := Start(t.Context(), Options{Dir: t.TempDir(), Tree: Spec{Name: "-"}})
	assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
}

// TestStartDelay is at its bounds and beyond.
func TestStartDelay(t *testing.T) {
	for delay, ok := range map[time.Duration]bool{0: true, startDelayMax: true, -1: false, startDelayMax + 1: false} {
		err := (&Options{StartDelay: delay}).check()
		assert.Equal(t, ok, err == nil, "%s: %v", delay, err)
	}
}

// chain returns a tree of one zone a level.
func chain(depth int) Spec {
	s := Spec{Name: fmt.Sprint("z", depth)}
	if depth > 1 {
		s.Children = []Spec{chain(depth - 1)}
	}
	return s
}

// broad returns a tree of so many zones.
func broad(zones int) Spec {
	s := Spec{Name: "root"}
	for i := range zones - 1 {
		s.Children = append(s.Children, Spec{Name: fmt.Sprint("z", i)})
	}
	return s
}

// TestSpecLimits tries each limit of a tree, and one past it.
func TestSpecLimits(t *testing.T) {
	tree := DefaultTree()
	require.NoError(t, tree.Validate())
	for _, c := range []struct {
		name string
		spec Spec
		ok   bool
	}{
		{"zones", broad(zonesMax), true},
		{"a zone too many", broad(zonesMax + 1), false},
		{"depth", chain(api.DepthMax), true},
		{"a level too many", chain(api.DepthMax + 1), false},
		{"hosts", Spec{Name: "a", Hosts: count(hostsMax)}, true},
		{"a host too many", Spec{Name: "a", Hosts: count(hostsMax + 1)}, false},
		{"no hosts", Spec{Name: "a", Hosts: count(0)}, true},
		{"fewer than no hosts", Spec{Name: "a", Hosts: count(-1)}, false},
		{"special hosts", Spec{Name: "a", Hosts: count(2), Special: []HostSpec{{Number: 1}, {Number: 2}}}, true},
		{"a special host that is not there", Spec{Name: "a", Hosts: count(2), Special: []HostSpec{{Number: 3}}}, false},
		{"a special host before the first", Spec{Name: "a", Special: []HostSpec{{Number: 0}}}, false},
		{"a special host twice", Spec{Name: "a", Special: []HostSpec{{Number: 1}, {Number: 1}}}, false},
		{"most attributes", Spec{Name: "a", Attributes: attributes(api.AttributesMax)}, true},
		{"an attribute too many", Spec{Name: "a", Attributes: attributes(api.AttributesMax + 1)}, false},
		{"an attribute too many of one", Spec{Name: "a", Special: []HostSpec{{Number: 1, Attributes: attributes(api.AttributesMax + 1)}}}, false},
		{"default nodes", Spec{Name: "a"}, true},
		{"one node", Spec{Name: "a", Nodes: 1}, true},
		{"two nodes", Spec{Name: "a", Nodes: 2}, false},
		{"three nodes", Spec{Name: "a", Nodes: 3}, true},
		{"most nodes", Spec{Name: "a", Nodes: nodesMax}, true},
		{"a node too many", Spec{Name: "a", Nodes: nodesMax + 1}, false},
		{"name", Spec{Name: strings.Repeat("a", api.NameMaxBytes)}, true},
		{"a byte too many", Spec{Name: strings.Repeat("a", api.NameMaxBytes+1)}, false},
		{"no name", Spec{}, false},
		{"a name twice", Spec{Name: "a", Children: []Spec{{Name: "b", Children: []Spec{{Name: "a"}}}}}, false},
	} {
		err := c.spec.Validate()
		if c.ok {
			require.NoError(t, err, c.name)
			continue
		}
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), c.name)
	}
}

func attributes(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprint("a", i)] = "v"
	}
	return m
}

func TestDescribe(t *testing.T) {
	s := Spec{
		Name: "a", Attributes: map[string]string{"price": "2", "os": "plan9"}, Traits: []string{"CUSTOM_A"},
		Special: []HostSpec{{Number: 2, Attributes: map[string]string{"price": "3"}, Traits: []string{"CUSTOM_B", "CUSTOM_A"}}},
	}
	hosts := agent.FakeHosts("h", 2, agent.Inventory{api.VCPU: {Total: 1}})
	require.NoError(t, s.describeHosts(hosts))
	assert.Equal(t, "2", hosts[0].Attributes["price"])
	assert.Equal(t, "plan9", hosts[0].Attributes["os"], "what is said wins")
	assert.Equal(t, "fake", hosts[0].Attributes["hypervisor_type"])
	assert.Equal(t, []string{api.TraitVolumes, "CUSTOM_A"}, hosts[0].Traits)
	assert.Equal(t, "3", hosts[1].Attributes["price"])
	assert.Equal(t, []string{api.TraitVolumes, "CUSTOM_A", "CUSTOM_B"}, hosts[1].Traits)
	assert.Equal(t, api.CodeInvalid, api.CodeOf(s.describeHosts(hosts[:1])))
}
