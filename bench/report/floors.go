package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"berth/api"
	"berth/bench/load"
	"berth/bench/score"
	"berth/bench/zones"
	"berth/node"
	"berth/raftstore/command"
)

// Names of the floors.
const (
	floorHTTP     = "http"
	floorHTTPCPU  = "http-cpu"
	floorRaft1    = "raft-1"
	floorRaft1CPU = "raft-1-cpu"
	floorRaft1P50 = "raft-1-alone"
	floorRaft3    = "raft-3"
	floorRaft3CPU = "raft-3-cpu"
	floorRaft3P50 = "raft-3-alone"
	floorScan1    = "scan-1"
	floorScan1000 = "scan-1000"
)

// floorCallers is how many call at once where many do.
const floorCallers = 256

// measureFloors measures what the parts can do alone.
func (b *bencher) measureFloors(ctx context.Context) ([]score.Floor, error) {
	b.note("measuring the floors ...")
	web, err := b.measureHTTP(ctx)
	if err != nil {
		return nil, fmt.Errorf("floor http: %w", err)
	}
	floors := []score.Floor{
		{Name: floorHTTP, Title: "HTTP on loopback, a call with a small body in JSON, 256 callers", Unit: "/s", Value: web.Rate},
		{Name: floorHTTPCPU, Title: "its CPU for a call, client and server", Unit: "ms", Value: web.CPUMsOperation, Lower: true},
	}
	for _, x := range []struct {
		nodes           int
		rate, cpu, wait string
	}{{1, floorRaft1, floorRaft1CPU, floorRaft1P50}, {3, floorRaft3, floorRaft3CPU, floorRaft3P50}} {
		many, alone, err := b.measureRaft(ctx, x.nodes)
		if err != nil {
			return nil, fmt.Errorf("floor %s: %w", x.rate, err)
		}
		of := fmt.Sprintf("the log of a zone of %d, each write synced", x.nodes)
		floors = append(floors,
			score.Floor{Name: x.rate, Title: of + ", commands of 256 callers in batches", Unit: "/s", Value: many.Rate},
			score.Floor{Name: x.cpu, Title: "its CPU for a command", Unit: "ms", Value: many.CPUMsOperation, Lower: true},
			score.Floor{Name: x.wait, Title: "one command, one caller, p50", Unit: "ms", Value: alone.Latency.P50Ms, Lower: true})
	}
	return append(floors,
		score.Floor{Name: floorScan1, Title: "scan of 10,000 hosts in three columns, for the best one", Unit: "ms", Value: b.measureScan(1), Lower: true},
		score.Floor{Name: floorScan1000, Title: "the same, for 1,000 slots out of a heap", Unit: "ms", Value: b.measureScan(1000), Lower: true}), nil
}

// floorPlan is the load of a floor.
func (b *bencher) floorPlan(callers int) *load.Plan {
	p := b.planOf(load.Boots, 1, callers)
	p.Warmup, p.Duration = time.Second/2, 2*time.Second
	if b.short {
		p.Duration = time.Second
	}
	return &p
}

// floorBody is about what a boot of one instance sends.
const floorBody = `{"server": {"name": "bench", "flavorRef": "tiny", "max_count": 1, "reservation_id": "r-00000000"}}`

// measureHTTP calls a server that answers with what it was sent.
func (b *bencher) measureHTTP(ctx context.Context) (*load.Result, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.Copy(w, r.Body) // the caller sees an answer that is cut short
	})}
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(listener) }()
	t := &http.Transport{MaxIdleConnsPerHost: floorCallers}
	target := "http://" + listener.Addr().String() + "/"
	call := func(ctx context.Context) error {
		req, failed := http.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader(floorBody))
		if failed != nil {
			return failed
		}
		res, failed := t.RoundTrip(req)
		if failed != nil {
			return failed
		}
		_, failed = io.Copy(io.Discard, res.Body)
		return errors.Join(failed, res.Body.Close())
	}
	result, err := b.measureCalls(ctx, floorCallers, call)
	t.CloseIdleConnections()
	err = errors.Join(err, server.Close())
	if served := <-stopped; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return result, err
}

// measureCalls measures a call that must succeed.
func (b *bencher) measureCalls(ctx context.Context, callers int, call func(context.Context) error) (*load.Result, error) {
	result, _, err := load.Measure(ctx, b.floorPlan(callers), b.meter(), func(ctx context.Context, _ int64) load.Outcome {
		return load.Outcome{Work: load.Boots, Err: call(ctx)}
	})
	if err == nil && result.Failed > 0 {
		err = fmt.Errorf("%d calls failed: %s", result.Failed, result.Errors[0].Example)
	}
	return result, err
}

// measureRaft proposes commands at the leader of a zone without hosts, for many callers and
// for one. Each replaces a flavor by itself.
func (b *bencher) measureRaft(ctx context.Context, nodes int) (many, alone *load.Result, err error) {
	r, err := zones.Start(ctx, load.Federation{Nodes: nodes, Zones: 1, Hosts: 1}, 1, "", b.now)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	leader, err := leaderOf(r)
	if err != nil {
		return nil, nil, err
	}
	known, err := r.Root.Flavor(ctx, load.OwnFlavor)
	if err != nil {
		return nil, nil, err
	}
	flavor := api.Flavor{ID: known.ID, Name: known.Name, Resources: known.Resources}
	propose := func(ctx context.Context) error {
		_, failed := leader.Zone().Propose(ctx, command.FlavorPut{Stamp: leader.Zone().Stamp(), Flavor: flavor, Replace: true})
		return failed
	}
	if many, err = b.measureCalls(ctx, floorCallers, propose); err != nil {
		return nil, nil, err
	}
	alone, err = b.measureCalls(ctx, 1, propose)
	return many, alone, err
}

// leaderOf returns the leader of the root.
func leaderOf(r *zones.Running) (*node.Node, error) {
	for _, p := range r.Dev.Zones[0].Nodes {
		if p.Node.Leads() {
			return p.Node, nil
		}
	}
	return nil, errors.New("the zone has no leader")
}
