package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/agent"
	"berth/agent/driver/fake"
	"berth/api"
	"berth/httpd/agents"
	"berth/internal/codec"
	"berth/raftstore"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/fleet"
)

const (
	manyHosts    = 10_000
	bootsAtOnce  = 16 // boots that are started and not ACTIVE yet
	fewAgents    = 100
	beatInterval = fleet.AgentBeat - fleet.AgentBeat/4 // as agents beat
)

// agentZone is a zone of one node with the door of its agents. Raft keeps its log in memory, and
// connections and TLS are left out.
type agentZone struct {
	store *raftstore.Store
	fleet *fleet.Fleet
	door  http.Handler
}

// agentKey is the key of the agent's id in the context of a call.
type agentKey struct{}

func startAgentZone(ctx context.Context, b *testing.B) *agentZone {
	b.Helper()
	log := slog.New(slog.DiscardHandler)
	store := openStore(ctx, b)
	z := zone.New(zone.Config{Store: store, Now: time.Now, Log: log})
	f := fleet.New(z, nil)
	_, err := store.Propose(ctx, command.Init{Zone: "z", Name: "zone"})
	require.NoError(b, err)
	w := &agentZone{store: store, fleet: f, door: agents.New(agents.Config{
		Zone: z, Fleet: f, Log: log, Leader: func() (string, bool) { return "", true },
		Agent: func(r *http.Request) (api.AgentID, bool) {
			id, ok := r.Context().Value(agentKey{}).(api.AgentID)
			return id, ok
		},
	})}
	return w
}

// agentCalls carries the calls of one agent to the door of its zone.
type agentCalls struct {
	zone  *agentZone
	agent api.AgentID
}

// RoundTrip implements http.RoundTripper.
func (c agentCalls) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	c.zone.door.ServeHTTP(rec, r.WithContext(context.WithValue(r.Context(), agentKey{}, c.agent)))
	return rec.Result(), nil
}

// runAgent runs one agent of many hosts, and returns the ids of its hosts when they are registered.
func (w *agentZone) runAgent(ctx context.Context, b *testing.B) []api.HostID {
	b.Helper()
	startAgent(ctx, b, agentCalls{w, "a"})
	v, err := w.store.WaitFor(ctx, state.WorkTopic("a"), func(v *state.State) bool { return v.Serves("a") })
	require.NoError(b, err)
	var ids []api.HostID
	for _, h := range v.AllHosts() {
		ids = append(ids, h.ID)
	}
	require.Len(b, ids, manyHosts)
	return ids
}

// startAgent runs one agent of many hosts, which starts instances at once, until the benchmark ends.
func startAgent(ctx context.Context, b *testing.B, calls http.RoundTripper) {
	b.Helper()
	drv := fake.New(fake.Options{})
	var hosts []agent.Host
	for _, h := range agent.FakeHosts("host", manyHosts, agent.Inventory{api.VCPU: {Total: 100_000}}) {
		hosts = append(hosts, agent.Host{AgentHost: h, Driver: drv})
	}
	a, err := agent.New(agent.Config{
		Addresses: []string{"zone:1"}, Transport: calls, Hosts: hosts, Dir: b.TempDir(),
		Log: slog.New(slog.DiscardHandler), Now: time.Now, Rand: rand.Float64,
	})
	require.NoError(b, err)
	done := make(chan error, 1)
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() { done <- a.Run(run) }()
	b.Cleanup(func() {
		stop()
		require.NoError(b, <-done)
		require.NoError(b, a.Close())
	})
}

// commitBoot commits a boot of count instances, on one host each.
func (w *agentZone) commitBoot(ctx context.Context, n, count int, hosts []api.HostID) (api.ReservationID, error) {
	res := api.ReservationID(fmt.Sprintf("r-%d", n))
	meta := map[string]string{"owner": "bench", "purpose": "to be sent to each host"}
	req := api.Request{
		Reservation: res, Project: "p", Class: api.Firm, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: count, Flavor: "f", Resources: api.Resources{api.VCPU: 1}}},
	}
	terms := command.BootTerms{Digest: []byte(res), Name: "i", Request: req, Min: count, Metadata: meta}
	hold := command.Hold{ID: api.HoldID(res), Attempt: 1, Request: req, Metadata: meta, Commit: true, Expires: api.Forever}
	for i := range count {
		spec := api.InstanceSpec{ID: api.InstanceID(fmt.Sprintf("%08d-1111-4111-8111-%012d", n, i)), Name: fmt.Sprintf("i-%d", i)}
		terms.Instances = append(terms.Instances, spec)
		hold.Slots = append(hold.Slots, command.Slot{Instance: spec, Host: hosts[(n*count+i)*7919%len(hosts)]})
	}
	if _, err := w.store.Propose(ctx, command.BootCreate{BootTerms: terms}); err != nil {
		return "", err
	}
	_, err := w.store.Propose(ctx, hold)
	return res, err
}

// awaitActive waits until all instances of a boot are reported ACTIVE.
func (w *agentZone) awaitActive(ctx context.Context, res api.ReservationID) error {
	_, err := w.store.WaitFor(ctx, state.BootTopic("p", res), func(v *state.State) bool {
		b, ok := v.Boot("p", res)
		return ok && b.State() == api.BootActive
	})
	return err
}

// BenchmarkAgent measures how fast one agent of 10,000 hosts takes up the instances of boots that
// are committed, some at a time, until all are logged as ACTIVE. The processor time is that of
// the node and the agent. standing is how many instances each host has before.
func BenchmarkAgent(b *testing.B) {
	for _, standing := range []int{0, 10} {
		for _, count := range []int{100, 1_000} {
			b.Run(fmt.Sprintf("standing=%d/count=%d", standing, count), func(b *testing.B) { benchmarkAgent(b, standing, count) })
		}
	}
}

func benchmarkAgent(b *testing.B, standing, count int) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 10*patience)
	defer cancel()
	w := startAgentZone(ctx, b)
	hosts := w.runAgent(ctx, b)
	for n := range standing * len(hosts) / 1_000 {
		res, err := w.commitBoot(ctx, 1_000_000+n, 1_000, hosts)
		require.NoError(b, err)
		require.NoError(b, w.awaitActive(ctx, res))
	}
	b.ResetTimer()
	begun, cpu := time.Now(), processTime(b)
	var wg sync.WaitGroup
	next := make(chan int)
	errs := make(chan error, bootsAtOnce)
	for range bootsAtOnce {
		wg.Go(func() {
			for n := range next {
				res, err := w.commitBoot(ctx, n, count, hosts)
				if err == nil {
					err = w.awaitActive(ctx, res)
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	for n := range b.N {
		select {
		case next <- n:
		case err := <-errs:
			b.Fatal(err)
		}
	}
	close(next)
	wg.Wait()
	wall, used := time.Since(begun), processTime(b)-cpu
	b.StopTimer()
	require.Empty(b, errs)
	b.ReportMetric(float64(b.N*count)/wall.Seconds(), "instances/s")
	b.ReportMetric(float64(used.Microseconds())/float64(b.N*count), "cpu-µs/instance")
}

// BenchmarkBeats measures the processor time of a node for the heartbeats of 10,000 hosts: of one
// agent each, and of one agent for all. The calls come through the door, without connections and
// TLS; the loops of a leader run. cores is the part of one processor that this takes.
func BenchmarkBeats(b *testing.B) {
	for _, per := range []int{1, manyHosts / fewAgents, manyHosts} {
		b.Run(fmt.Sprintf("hosts-an-agent=%d", per), func(b *testing.B) {
			ctx, stop := context.WithCancel(b.Context())
			defer stop()
			w := startAgentZone(ctx, b)
			for n := range manyHosts / per {
				var hosts []command.HostEntry
				for h := range per {
					id := hostID(n*per + h)
					hosts = append(hosts, command.HostEntry{ID: id, Host: api.AgentHost{
						Name: string(id), Driver: "fake", Pool: api.PoolShared,
						Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 1_000}},
					}})
				}
				_, err := w.store.Propose(ctx, command.HostsPut{Agent: agentID(n), Hosts: hosts})
				require.NoError(b, err)
			}
			var wg sync.WaitGroup
			defer wg.Wait()
			defer stop()
			wg.Go(func() { w.fleet.Lead(ctx) })
			beat, err := codec.Marshal(api.AgentReport{})
			require.NoError(b, err)
			agentsAll := manyHosts / per
			b.ResetTimer()
			begun, cpu := time.Now(), processTime(b)
			beats := 0
			for b.Loop() { // one interval each
				for n := range agentsAll {
					r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://zone"+api.PathAgentReport, bytes.NewReader(beat))
					require.NoError(b, err)
					r.Header.Set("Content-Type", api.MediaCBOR)
					answer, err := agentCalls{w, agentID(n)}.RoundTrip(r)
					require.NoError(b, err)
					require.Equal(b, http.StatusOK, answer.StatusCode)
					_, err = io.Copy(io.Discard, answer.Body)
					require.NoError(b, errors.Join(err, answer.Body.Close()))
					if n%100 == 99 {
						time.Sleep(time.Until(begun.Add(time.Duration(beats) * beatInterval).Add(beatInterval * time.Duration(n) / time.Duration(agentsAll))))
					}
				}
				beats++
				time.Sleep(time.Until(begun.Add(time.Duration(beats) * beatInterval)))
			}
			wall, used := time.Since(begun), processTime(b)-cpu
			b.ReportMetric(used.Seconds()/wall.Seconds(), "cores")
			b.ReportMetric(float64(used.Microseconds())/float64(beats*agentsAll), "cpu-µs/beat")
		})
	}
}

// scriptedZone answers one agent without a log: it sends changes of lists and counts what is reported.
type scriptedZone struct {
	lists   chan api.AgentWorkload
	reports atomic.Int64
	active  chan int // instances that were reported ACTIVE, by report
}

// RoundTrip implements http.RoundTripper.
func (z *scriptedZone) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var out any
	switch r.URL.Path {
	case api.PathAgentRegister:
		var in api.AgentRegister
		err = codec.Unmarshal(body, &in)
		got := api.AgentRegistered{Term: 1, Beat: time.Hour}
		for _, h := range in.Hosts {
			got.Hosts = append(got.Hosts, api.HostID(h.Name))
		}
		out = got
	case api.PathAgentWork:
		select {
		case list := <-z.lists:
			out = list
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	default:
		var in api.AgentReport
		if err = codec.Unmarshal(body, &in); err == nil && len(in.Items) > 0 {
			z.reports.Add(1)
			z.active <- len(in.Items)
		}
		out = api.AgentAck{Term: 1}
	}
	if err != nil {
		return nil, err
	}
	rec := httptest.NewRecorder()
	rec.Header().Set("Content-Type", api.MediaCBOR)
	rec.Header().Set(api.HeaderForm, api.FormNewest.String())
	text, err := codec.Marshal(out)
	if err != nil {
		return nil, err
	}
	_, err = rec.Write(text)
	return rec.Result(), err
}

// listOf returns changes with one new instance on each of some hosts, or the empty lists of all.
func (z *scriptedZone) listOf(generation uint64, hosts int) api.AgentWorkload {
	w := api.AgentWorkload{Term: 1, Generation: generation, Terms: []api.WorkTerms{{Flavor: "f", Resources: api.Resources{api.VCPU: 1}, Project: "p"}}}
	for n := range manyHosts {
		hw := api.HostWorkload{Host: api.HostID(fmt.Sprintf("host-%04d", n+1)), Generation: generation}
		if generation > 1 {
			if n == hosts {
				break
			}
			id := api.InstanceID(fmt.Sprintf("%08d-1111-4111-8111-%012d", generation, n))
			hw.Since, hw.Instances = generation-1, []api.Workload{{Instance: id, Name: "i", Stay: generation, Terms: 1}}
		}
		w.Hosts = append(w.Hosts, hw)
	}
	return w
}

// BenchmarkAgentAlone measures an agent of 10,000 hosts without its zone: how fast it takes up
// instances that start at once, of answers with some each, until they are reported. What the
// scripted zone costs, and the encoding of lists and reports on both sides, is in it.
func BenchmarkAgentAlone(b *testing.B) {
	for _, count := range []int{1, 100, 1_000, manyHosts} {
		b.Run(fmt.Sprint("count=", count), func(b *testing.B) {
			ctx, cancel := context.WithTimeout(b.Context(), 10*patience)
			defer cancel()
			z := &scriptedZone{lists: make(chan api.AgentWorkload), active: make(chan int, 1)}
			startAgent(ctx, b, z)
			z.lists <- z.listOf(1, manyHosts)
			b.ResetTimer()
			begun, cpu := time.Now(), processTime(b)
			go func() {
				for n := range b.N {
					select {
					case z.lists <- z.listOf(uint64(n)+2, count):
					case <-ctx.Done():
					}
				}
			}()
			for left := b.N * count; left > 0; {
				select {
				case n := <-z.active:
					left -= n
				case <-ctx.Done():
					b.Fatal(ctx.Err())
				}
			}
			wall, used := time.Since(begun), processTime(b)-cpu
			b.StopTimer()
			b.ReportMetric(float64(b.N*count)/wall.Seconds(), "instances/s")
			b.ReportMetric(float64(used.Microseconds())/float64(b.N*count), "cpu-µs/instance")
			b.ReportMetric(float64(b.N*count)/float64(z.reports.Load()), "instances/report")
		})
	}
}
