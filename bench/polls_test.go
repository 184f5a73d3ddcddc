package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore"
	"berth/raftstore/command"
	"berth/zone"
	"berth/zone/fleet"
)

const (
	polling       = 10_000           // agents, each with one host
	pollWait      = 30 * time.Second // as agents ask for
	entriesASec   = 1_000
	entryInterval = time.Second / entriesASec
)

// BenchmarkPolls measures the processors that a node needs while 10,000 agents poll
// for work and 1,000 entries a second put an instance on the host of one of them
// each. Every instance must have come to its agent in the end. Raft keeps its log in
// memory; HTTP and TLS are left out.
func BenchmarkPolls(b *testing.B) {
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	store := openStore(ctx, b)
	f := fleet.New(zone.New(zone.Config{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler)}), nil)
	registerAgents(ctx, b, store)

	var agents sync.WaitGroup
	defer agents.Wait()
	defer stop()
	came := make(chan struct{}, polling)
	first := store.View().Index()
	for n := range polling {
		agents.Go(func() { poll(ctx, f, agentID(n), first, came) })
	}
	time.Sleep(time.Second) // all of them wait

	entries := 0
	b.ResetTimer()
	begun, cpu := time.Now(), processTime(b)
	for b.Loop() {
		time.Sleep(time.Until(begun.Add(time.Duration(entries) * entryInterval))) // one that was late is made up for
		_, err := store.Propose(ctx, bootOn(entries)...)
		require.NoError(b, err)
		entries++
	}
	for range entries {
		<-came
	}
	wall, used := time.Since(begun), processTime(b)-cpu
	b.ReportMetric(used.Seconds()/wall.Seconds(), "cores")
	b.ReportMetric(float64(used.Microseconds())/float64(entries), "cpu-µs/entry")
	b.ReportMetric(float64(entries)/wall.Seconds(), "entries/s")
}

func agentID(n int) api.AgentID { return api.AgentID(fmt.Sprintf("agent-%05d", n)) }
func hostID(n int) api.HostID   { return api.HostID(fmt.Sprintf("host-%05d", n)) }

// poll asks for work as an agent does, and tells of each list that comes.
func poll(ctx context.Context, f *fleet.Fleet, a api.AgentID, after uint64, came chan<- struct{}) {
	known := 0
	for ctx.Err() == nil {
		w, err := f.Work(ctx, a, &api.AgentWork{After: after, Wait: pollWait})
		if err != nil {
			return
		}
		for _, h := range w.Hosts {
			after = w.Generation
			for ; known < len(h.Instances); known++ {
				came <- struct{}{}
			}
		}
	}
}

func registerAgents(ctx context.Context, b *testing.B, store *raftstore.Store) {
	b.Helper()
	cmds := []command.Command{command.Init{Zone: "z", Name: "zone"}}
	for n := range polling {
		cmds = append(cmds, command.HostsPut{Agent: agentID(n), Hosts: []command.HostEntry{{ID: hostID(n), Host: api.AgentHost{
			Name: string(hostID(n)), Driver: "fake", Pool: api.PoolShared,
			Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 1_000}},
		}}}})
		if len(cmds) == 1_000 || n == polling-1 {
			_, err := store.Propose(ctx, cmds...)
			require.NoError(b, err)
			cmds = nil
		}
	}
}

// bootOn returns the commands of the n-th boot: one instance, held and committed.
func bootOn(n int) []command.Command {
	res := api.ReservationID(fmt.Sprintf("r-%d", n))
	spec := api.InstanceSpec{ID: api.InstanceID(fmt.Sprintf("i-%08d", n)), Name: "i"}
	req := api.Request{
		Reservation: res, Project: "p", Class: api.Firm, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: 1, Flavor: "f", Resources: api.Resources{api.VCPU: 1}}},
	}
	return []command.Command{
		command.BootCreate{BootTerms: command.BootTerms{Digest: []byte(res), Name: "i", Request: req, Min: 1, Instances: []api.InstanceSpec{spec}}},
		command.Hold{ID: api.HoldID(res), Attempt: 1, Request: req, Commit: true, Expires: api.Forever, Slots: []command.Slot{{Instance: spec, Host: hostID(n * 7919 % polling)}}},
	}
}

// stream carries Raft over one socket of this machine.
type stream struct{ net.Listener }

func (stream) Dial(_ api.NodeID, addr string, timeout time.Duration) (net.Conn, error) {
	return net.DialTimeout("tcp", addr, timeout)
}

// openStore returns the store of a zone of one node, which leads.
func openStore(ctx context.Context, b *testing.B) *raftstore.Store {
	b.Helper()
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	require.NoError(b, err)
	store, err := raftstore.Open(raftstore.Config{
		ID: "n1", Memory: raftstore.NewMemory(), Advertise: l.Addr().String(), Stream: stream{l}, Bootstrap: true,
		Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(b, err)
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- store.Run(run) }()
	b.Cleanup(func() {
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			require.NoError(b, err)
		}
		require.NoError(b, store.Close())
	})
	deadline, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !store.IsLeader() {
		select {
		case <-deadline.Done():
			b.Fatal("nobody leads")
		case <-time.After(10 * time.Millisecond):
		}
	}
	return store
}
