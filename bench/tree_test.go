package bench

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/dev"
	"berth/node"
	"berth/raftstore/state"
)

// The federation of the benchmark: a root without hosts above zones with hosts.
const (
	treeZones = 10
	treeHosts = 1_000
)

// BenchmarkTree measures boots at a root with 10 child zones of 1,000 hosts each, by many callers at once,
// from POST /zones/boot until the decision is in the root's log: over HTTP, real gateways and logs on disk.
// "spread" is all or none of 10 instances over at least 2 zones, "one" is one instance. Nothing is released.
//
// cpu-ms is what the whole process, which is all zones, agents and callers, has used for a boot; root-entries
// and child-entries are the log entries for a boot at the root and at all children together; calls is the number of
// calls between zones for a boot, attempts that of its attempts, and connections how many were made
// between zones in the whole run.
func BenchmarkTree(b *testing.B) {
	w := newTreeWorld(b)
	for _, c := range []struct {
		name    string
		order   rest.ServerCreate
		callers []int
	}{
		{"spread", spreadOrder(10, 2), []int{1, 32, 128, 512}},
		{"one", order(1), []int{1, 64}},
	} {
		for _, n := range c.callers {
			b.Run(fmt.Sprintf("%s/callers=%d", c.name, n), func(b *testing.B) { w.measure(b, c.order, n) })
		}
	}
}

// spreadOrder asks for n instances over at least so many zones, all or none.
func spreadOrder(n, zones int) rest.ServerCreate {
	s := order(n)
	s.Zones = &rest.ZoneRule{MinZones: zones}
	return s
}

// treeWorld is a running federation, the root first, and what it has sent between zones.
type treeWorld struct {
	zones       []*dev.Zone
	connections atomic.Int64
	calls       atomic.Int64
}

func newTreeWorld(b *testing.B) *treeWorld {
	b.Helper()
	none, hosts := 0, treeHosts
	tree := dev.Spec{Name: "root", Hosts: &none}
	for n := range treeZones {
		tree.Children = append(tree.Children, dev.Spec{Name: fmt.Sprint("zone", n), Hosts: &hosts})
	}
	w := &treeWorld{}
	w.zones = startTapped(b, tree, 1, w.tap).Zones
	return w
}

// tap counts the connections that zones make for calls, and the calls.
func (w *treeWorld) tap(at node.Crossing, c net.Conn) net.Conn {
	if at.ALPN != api.ALPNHTTP || !at.Dialled {
		return c
	}
	w.connections.Add(1)
	return &countedCalls{c, &w.calls}
}

// countedCalls counts the requests that are written to a connection.
type countedCalls struct {
	net.Conn
	calls *atomic.Int64
}

// Write implements net.Conn.
func (c *countedCalls) Write(p []byte) (int, error) {
	for _, method := range []string{"POST ", "GET ", "DELETE "} {
		if bytes.HasPrefix(p, []byte(method)) {
			c.calls.Add(1)
		}
	}
	return c.Conn.Write(p)
}

// entries returns the numbers of log entries of the root, and of all children together.
func (w *treeWorld) entries() (root, children uint64) {
	for _, z := range w.zones[1:] {
		children += viewOf(z).Index()
	}
	return viewOf(w.zones[0]).Index(), children
}

func viewOf(z *dev.Zone) *state.State { return z.Nodes[0].Node.Store().View() }

// treeRun is one run: how long each boot took, and how many attempts all together needed.
type treeRun struct {
	took     []time.Duration
	attempts atomic.Int64
}

// measure makes b.N boots, so many callers at once.
func (w *treeWorld) measure(b *testing.B, s rest.ServerCreate, callers int) {
	b.Helper()
	clients := make([]*client.Client, callers)
	for i := range clients {
		clients[i] = clientOf(b, w.zones[0])
	}
	run := &treeRun{took: make([]time.Duration, b.N)}
	root, children := w.entries()
	calls, connections := w.calls.Load(), w.connections.Load()
	cpu, began := processTime(b), time.Now()
	var next atomic.Int64
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
				w.boot(b, c, s, run, int(i))
			}
		})
	}
	wg.Wait()
	wall, used, n := time.Since(began), processTime(b)-cpu, float64(b.N)
	rootNow, childrenNow := w.entries()
	slices.Sort(run.took)
	b.ReportMetric(n/wall.Seconds(), "boots/s")
	b.ReportMetric(float64(run.took[b.N/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(run.took[b.N*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(used.Microseconds())/1000/n, "cpu-ms")
	b.ReportMetric(float64(rootNow-root)/n, "root-entries")
	b.ReportMetric(float64(childrenNow-children)/n, "child-entries")
	b.ReportMetric(float64(w.calls.Load()-calls)/n, "calls")
	b.ReportMetric(float64(w.connections.Load()-connections), "connections")
	b.ReportMetric(float64(run.attempts.Load())/n, "attempts")
}

// boot makes the i-th boot of a run and waits for its decision.
func (w *treeWorld) boot(b *testing.B, c *client.Client, s rest.ServerCreate, run *treeRun, i int) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.Context()), 2*patience)
	defer cancel()
	began := time.Now()
	id, err := c.Boot(ctx, s, "")
	if err != nil {
		b.Errorf("boot %d: %v", i, err)
		return
	}
	v, err := w.zones[0].Nodes[0].Node.Store().WaitFor(ctx, state.BootTopic("admin", id), func(v *state.State) bool {
		boot, ok := v.Boot("admin", id)
		return ok && boot.Decision != api.DecisionPending
	})
	run.took[i] = time.Since(began)
	if err != nil {
		b.Errorf("boot %d: %v", i, err)
		return
	}
	boot, _ := v.Boot("admin", id)
	run.attempts.Add(int64(len(boot.Attempts)))
	if boot.Decision != api.DecisionCommit {
		b.Errorf("boot %d: %s", i, boot.Reason)
	}
}
