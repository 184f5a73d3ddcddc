// Package zones runs a federation in this process to be measured: real Raft files, gateways
// and agents on loopback, and simulated hosts that start instances at once.
package zones

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"berth/agent"
	"berth/api/client"
	"berth/bench/load"
	"berth/dev"
	"berth/internal/turns"
	"berth/quota"
)

// shape has the resources of a host: 4,096 instances of load.OwnFlavor, so that room never runs out.
const shape = "vcpus=4096,memory_mb=1048576,disk_gb=4096"

// Running is a federation that runs.
type Running struct {
	Root    *client.Client
	Dev     *dev.Federation
	dir     string
	stop    context.CancelFunc
	stopped bool
}

// Start starts a federation of the size of f, with its standing instances, for as many
// callers at once. Its data is in a new directory below dir, "" for that of temporary files.
// The caller calls Stop.
func Start(ctx context.Context, f load.Federation, callers int, dir string, now func() time.Time) (*Running, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	hosts, err := agent.ParseShape(shape)
	if err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp(dir, "berth-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a data directory: %w", err)
	}
	running, stop := context.WithCancel(ctx)
	r := &Running{dir: data, stop: stop}
	r.Dev, err = dev.Start(running, dev.Options{
		Dir: data, Tree: treeOf(f), Nodes: f.Nodes, Hosts: f.Hosts, Shape: hosts,
		Version: "bench", Insecure: true, Log: slog.New(slog.DiscardHandler), Now: now,
		Share: turns.NewPressure(now).Share,
	})
	if err == nil {
		r.Root, err = client.New(client.Config{Addr: r.Dev.Zones[0].API(), Idle: callers})
	}
	if err == nil {
		err = liftQuotas(ctx, r.Root)
	}
	if err == nil {
		err = load.Fill(ctx, r.Root, load.OwnFlavor, f.Standing)
	}
	if err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	return r, nil
}

// liftQuotas takes the limits of projects away: one project makes all of the load.
func liftQuotas(ctx context.Context, c *client.Client) error {
	limits := map[string]*int64{}
	for item := range quota.Defaults() {
		limits[string(item)] = new(int64(quota.Unlimited))
	}
	_, err := c.SetQuota(ctx, "", limits)
	return err
}

// treeOf returns the zones of a federation.
func treeOf(f load.Federation) dev.Spec {
	if f.Zones == 1 {
		return dev.Spec{Name: "root"}
	}
	none := 0
	root := dev.Spec{Name: "root", Hosts: &none}
	for n := range f.Zones {
		root.Children = append(root.Children, dev.Spec{Name: fmt.Sprintf("zone-%d", n+1)})
	}
	return root
}

// Stop ends the federation, waits for its end and deletes its data. It may be repeated.
func (r *Running) Stop() error {
	if r.stopped {
		return nil
	}
	r.stopped = true
	r.stop()
	var err error
	if r.Root != nil {
		r.Root.Close()
	}
	if r.Dev != nil {
		err = r.Dev.Wait()
	}
	if removed := os.RemoveAll(r.dir); removed != nil {
		err = errors.Join(err, fmt.Errorf("deleting the data: %w", removed))
	}
	return err
}
