package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/agent"
	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cli"
	"berth/dev"
)

func (e *env) demoCommand() *cobra.Command {
	var logs logFlags
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run a demonstration: leases, preemptible instances, and boots across four zones, with a crash in the middle",
		Long: `Start a federation of four zones in this process, lease room in two of them, boot into
the lease and end it, fill all zones with preemptible instances of which some leave for
another lease and run again after it, boot 100 instances across all zones, restart the
leader of a 3-node zone in the middle of a second boot, show which zones and hosts got
the instances, and clean up. It takes about ten seconds and leaves nothing behind.`,
		Example: `  berth demo`,
		Args:    cli.TakeNothing,
		RunE: cli.RunLocally(func(c *cobra.Command, _ []string) error {
			log, err := logs.newLogger(e)
			if err != nil {
				return err
			}
			dir, err := os.MkdirTemp("", "berth-demo-")
			if err != nil {
				return fmt.Errorf("making a data directory: %w", err)
			}
			defer func() { _ = os.RemoveAll(dir) }() // a leftover temporary directory is harmless
			shape, err := agent.ParseShape("vcpus=16,memory_mb=65536,disk_gb=1000")
			if err != nil {
				return err
			}
			ctx, stop := context.WithCancel(c.Context())
			defer stop()
			log = slog.New(untilDone{log.Handler(), ctx})
			d := &demo{env: e, start: readClock()}
			return d.runDemo(ctx, stop, dev.Options{
				Dir: dir, Hosts: 4, Shape: shape, StartDelay: dev.StartDelayDefault, Version: version, Log: log, Now: readClock,
				Tree: dev.Spec{Name: "root", Nodes: 3, Children: []dev.Spec{
					{Name: "west", Children: []dev.Spec{{Name: "edge"}}}, {Name: "east"},
				}},
			})
		}),
	}
	logs.addFlags(c, "error+4")
	return c
}

// demo is one run of the demonstration.
type demo struct {
	*env
	start time.Time
	fed   *dev.Federation
}

// printStep prints the current step with the time since the start.
func (d *demo) printStep(format string, args ...any) {
	d.printLine("%5.1fs  %s", readClock().Sub(d.start).Seconds(), fmt.Sprintf(format, args...))
}

func (d *demo) runDemo(ctx context.Context, stop func(), o dev.Options) (err error) {
	d.printStep("starting zones root (3 nodes), west, west/edge and east, 4 simulated hosts each")
	if d.fed, err = dev.Start(ctx, o); err != nil {
		return err
	}
	for _, z := range d.fed.Zones {
		d.printStep("zone %-14s %d node(s), public API %s", z.Path, len(z.Nodes), z.API())
	}
	root, err := d.clientOf(d.fed.Zones[0], 0)
	if err != nil {
		return err
	}
	defer root.Close()
	if err = d.showLease(ctx, root); err != nil {
		return err
	}
	if err = d.showPreemptibles(ctx, root); err != nil {
		return err
	}
	d.printStep("booting 100 instances at the root, all or nothing")
	first, err := d.bootInstances(ctx, root, "web", "small", 100)
	if err != nil {
		return err
	}
	if err := d.crashLeader(ctx); err != nil {
		return err
	}
	if err := d.showResult(ctx, first); err != nil {
		return err
	}
	d.printStep("booting 500 large instances, for which there is not enough room")
	if _, err := d.bootInstances(ctx, root, "too-much", "large", 500); err != nil {
		return err
	}
	d.printStep("cleaning up")
	stop()
	return d.fed.Wait()
}

// bootWait bounds each boot of the demonstration.
const bootWait = 40 * time.Second

// clientOf returns a client of one node of a zone.
func (d *demo) clientOf(z *dev.Zone, n int) (*client.Client, error) {
	return client.New(client.Config{Addr: "http://" + z.Nodes[n].Node.Addresses().API, Token: z.Token})
}

// bootInstances boots count instances, all or nothing, and follows them to an outcome.
func (d *demo) bootInstances(ctx context.Context, c *client.Client, name, flavor string, count int) (*rest.Boot, error) {
	id, err := c.Boot(ctx, rest.ServerCreate{Name: name, FlavorRef: flavor, MaxCount: &count}, name)
	if err != nil {
		return nil, err
	}
	return d.followBoot(ctx, c, id)
}

// followBoot prints each change of a boot until its outcome.
func (d *demo) followBoot(ctx context.Context, c *client.Client, id api.ReservationID) (*rest.Boot, error) {
	ctx, cancel := context.WithTimeout(ctx, bootWait)
	defer cancel()
	told := ""
	for {
		b, err := c.Reservation(ctx, id, followEvery)
		if err != nil {
			return nil, err
		}
		line := fmt.Sprintf("  %s %s", id, b.State)
		for _, st := range []api.Status{api.StatusBuild, api.StatusActive, api.StatusError} {
			if n := b.Instances[st]; n > 0 {
				line += fmt.Sprintf("  %s %d", strings.ToLower(string(st)), n)
			}
		}
		if b.Reason != "" {
			line += "  " + b.Reason
		}
		if line != told {
			d.printStep("%s", line)
			told = line
		}
		if b.State.Outcome() {
			return &b, nil
		}
	}
}

// followEvery is how often progress is read.
const followEvery = 200 * time.Millisecond

// crashLeader restarts the leader of the root in the middle of a boot.
func (d *demo) crashLeader(ctx context.Context) error {
	zone := d.fed.Zones[0]
	leader, other := 0, 1
	for i, p := range zone.Nodes {
		if p.Node.Leads() {
			leader, other = i, (i+1)%len(zone.Nodes)
		}
	}
	c, err := d.clientOf(zone, other)
	if err != nil {
		return err
	}
	defer c.Close()
	d.printStep("booting 60 more, and stopping the root's leader (%s) in the middle", nodeName(zone.Nodes[leader]))
	count := 60
	id, err := c.Boot(ctx, rest.ServerCreate{Name: "batch", FlavorRef: "tiny", MaxCount: &count}, "batch")
	if err != nil {
		return err
	}
	if err = d.fed.Restart(ctx, zone.Nodes[leader]); err != nil {
		return err
	}
	d.printStep("%s is back; %s is the leader now and finishes the boot", nodeName(zone.Nodes[leader]), d.awaitLeader(ctx, zone))
	_, err = d.followBoot(ctx, c, id)
	return err
}

// awaitLeader waits until a zone has a leader, and returns its id.
func (d *demo) awaitLeader(ctx context.Context, z *dev.Zone) api.NodeID {
	for ctx.Err() == nil {
		for _, p := range z.Nodes {
			if id, _ := p.Node.Store().Leader(); p.Node.Leads() {
				return id
			}
		}
		_, _ = z.Nodes[0].Node.Store().Wait(ctx, z.Nodes[0].Node.Store().View().Index()) // an election changes the state
	}
	return ""
}

func nodeName(p *dev.Process) string {
	_, id := p.Node.Name()
	return string(id)
}

// showResult shows where the instances are, as seen by the root and by a zone's operator.
func (d *demo) showResult(ctx context.Context, b *rest.Boot) error {
	d.printLine("")
	d.printLine("Instances by zone:")
	d.printLine("  %-14s %9s %8s", "zone", "instances", "hosts")
	for _, z := range d.fed.Zones {
		own, hosts, err := d.countOwn(ctx, z)
		if err != nil {
			return err
		}
		d.printLine("  %-14s %9d %8d", z.Path, own, hosts)
	}
	d.printLine("")
	d.printLine("%s as the root's user sees it, active instances by direct child, without hosts:", b.Reservation)
	for _, z := range b.Zones {
		d.printLine("  %-14s %d", z.Zone, z.Counts[api.StatusActive])
	}
	d.printLine("")
	edge := d.fed.Zones[2]
	d.printLine("The same reservation as the operator of %s sees it, with hosts:", edge.Path)
	c, err := d.clientOf(edge, 0)
	if err != nil {
		return err
	}
	defer c.Close()
	page, err := c.Servers(ctx, client.ServerQuery{Reservation: b.Reservation, AllProjects: true}, client.ListOptions{Limit: 5})
	if err != nil {
		return err
	}
	for _, s := range page.Items {
		d.printLine("  %s  %-8s %-7s %s", s.ID, s.Name, s.Status, s.Host)
	}
	d.printLine("")
	return nil
}

// countOwn counts the instances on a zone's own hosts, and the hosts in use.
func (d *demo) countOwn(ctx context.Context, z *dev.Zone) (instances, hosts int, err error) {
	c, err := d.clientOf(z, 0)
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	page, err := c.Hosts(ctx, client.ListOptions{})
	for _, h := range page.Items {
		instances += h.Instances
		if h.Instances > 0 {
			hosts++
		}
	}
	return instances, hosts, err
}
