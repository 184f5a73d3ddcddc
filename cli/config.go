package cli

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/api/client"
	"berth/api/rest"
)

func configShow(e *env) *cobra.Command {
	return &cobra.Command{
		Use:     "show",
		Short:   "Show the settings of the zone",
		Example: "  berth operator config show",
		Args:    exactArgs(),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return showAnswer(ctx, e, c.Config, configTables)
		}),
	}
}

func configTables(z rest.ZoneConfig) []table {
	var t table
	t.addRow("PLAN TTL", time.Duration(z.PlanTTL))
	t.addRow("HOST GRACE", time.Duration(z.HostGrace))
	t.addRow("TAGS", strings.Join(z.Tags, ", "))
	t.addRow("DEFAULT AVAILABILITY ZONE", z.DefaultAZ)
	addNetworks(&t, z.WebhookNetworks)
	addLeaseRule(&t, &z.Leases)
	addPreemptRule(&t, &z.Preemptibles)
	addBindingRule(&t, &z.Bindings)
	t.addRow("FANOUT", z.Fanout.Mode)
	t.addRow("FANOUT SLACK", z.Fanout.Slack)
	addShown(&t, &z)
	t.addRow("REMOVE DEAD AFTER", showRemoval(z))
	return []table{t}
}

const configSetLong = `Change settings of the zone; those without a flag stay as they are. The settings are
read and written back as a whole: of two concurrent changes the later one wins. The
filters and costs of the zone are changed with "berth scheduler set". Rules for leases
hold for leases that are made or changed from then on; 0 takes a limit away. Other inner
addresses than those of --webhook-network cannot be reached, neither by webhooks nor by
checks of leases. A token of a service is kept unless its URL changes, and never shown.

A flag with projects of preemptible instances replaces a list; +NAME adds one project to it,
-NAME removes one, "*" stands for all projects, and "!NAME" beside it for all but one.

Bindings keep the new work of a project in one child zone: with prefer it goes there first
and elsewhere only when that has no room, with strict all of it goes to one child.

A boot asks child zones for slots: with lean the cheapest ones by what they report, and others
only when these do not have enough; with all each one that may have room.

Requests of other zones see of attributes of hosts only arch, hypervisor_type, os and the public
ones: who may ask for an attribute finds out by trying what each host has. With --hide-layout they
see a power of two of the hosts of each kind, and learn by no question how many there are within a
factor of two; up to half of alike hosts, and three quarters of others, then serve no other zone.`

func configSet(e *env) *cobra.Command {
	var tags []string
	var az string
	var planTTL, hostGrace time.Duration
	var noTags bool
	var rule leaseRuleFlags
	var preempt preemptRuleFlags
	var bind bindingRuleFlags
	var abroad abroadFlags
	c := &cobra.Command{
		Use:   "set",
		Short: "Change settings of the zone",
		Long:  configSetLong,
		Example: `  berth operator config set --plan-ttl 90s --default-az az1
  berth operator config set --tag ssd --tag gpu
  berth operator config set --public-attribute gpu_model
  berth operator config set --lease-max-duration 168h --lease-extension-window 48h --lease-exempt ops
  berth operator config set --preemptible-grace 2m --preemptible-way hint --preemptible-way project
  berth operator config set --preemptible-project +batch --preemptible-project -web
  berth operator config set --binding-mode prefer --binding-weigher idle_capacity=10 --binding-headroom VCPU=10
  berth operator config set --webhook-network 10.1.0.0/16 --lease-check-url https://10.1.0.7/leases --lease-check-token-file token`,
		Args: exactArgs(),
	}
	f := c.Flags()
	f.DurationVar(&planTTL, "plan-ttl", 0, "how long an offer stays valid")
	f.DurationVar(&hostGrace, "host-grace", 0, "how long a host may be silent before it counts as down")
	f.StringVar(&az, "default-az", "", "availability zone of hosts that get none from an aggregate; empty for the zone's name")
	f.StringArrayVar(&tags, "tag", nil, "affinity `TAG` of the zone, replaces the present ones; may be repeated")
	f.BoolVar(&noTags, "no-tags", false, "remove all affinity tags")
	rule.addFlags(c)
	preempt.addFlags(c)
	bind.addFlags(c)
	abroad.addFlags(c)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		others := rule.changed(c) || preempt.changed(c) || bind.changed(c) || abroad.changed(c)
		switch {
		case !others && !anyChanged(c, "default-az", "tag", "no-tags", "plan-ttl", "host-grace"):
			return usageError(c, "%q needs something to set", c.CommandPath())
		case len(tags) > 0 && noTags:
			return usageError(c, "give --tag or --no-tags, not both")
		}
		if err := preempt.check(c); err != nil {
			return err
		}
		z, err := cl.Config(ctx)
		if err != nil {
			return err
		}
		if planTTL != 0 {
			z.PlanTTL = rest.Duration(planTTL)
		}
		if hostGrace != 0 {
			z.HostGrace = rest.Duration(hostGrace)
		}
		if len(tags) > 0 || noTags {
			z.Tags = append([]string{}, tags...)
		}
		if c.Flags().Changed("default-az") {
			z.DefaultAZ = az
		}
		abroad.apply(c, &z)
		if err = cmp.Or(rule.apply(e, c, &z.Leases), preempt.apply(c, &z.Preemptibles), bind.apply(c, &z.Bindings)); err != nil {
			return err
		}
		return showAnswer(ctx, e, func(ctx context.Context) (rest.ZoneConfig, error) { return cl.SetConfig(ctx, z) }, configTables)
	})
	return c
}
