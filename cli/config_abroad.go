package cli

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"berth/api/rest"
)

// abroadFlags are the flags of what the zone does with others, and lets others do.
type abroadFlags struct {
	nets   listFlags
	fanout fanoutFlags
	public listFlags
	hides  bool
}

func (a *abroadFlags) addFlags(c *cobra.Command) {
	a.nets.addFlags(c,
		"webhook-network", "inner `NETWORK` that webhooks and the service for leases may reach, such as 10.1.0.0/16",
		"no-webhook-networks", "let webhooks reach public addresses alone")
	a.fanout.addFlags(c)
	a.public.addFlags(c,
		"public-attribute", "`ATTRIBUTE` of hosts that requests of other zones may ask for",
		"no-public-attributes", "let requests of other zones ask for arch, hypervisor_type and os alone")
	c.Flags().BoolVar(&a.hides, "hide-layout", false, "show requests of other zones a part of the hosts, so that they do not learn how many there are")
}

// changed reports whether any of the flags is given.
func (a *abroadFlags) changed(c *cobra.Command) bool {
	return a.nets.changed(c) || a.fanout.changed(c) || a.public.changed(c) || anyChanged(c, "hide-layout")
}

// apply changes in a configuration what is given.
func (a *abroadFlags) apply(c *cobra.Command, to *rest.ZoneConfig) {
	a.nets.apply(c, &to.WebhookNetworks)
	a.fanout.apply(c, &to.Fanout)
	a.public.apply(c, &to.PublicAttributes)
	if anyChanged(c, "hide-layout") {
		to.HidesLayout = a.hides
	}
}

// addShown adds the rows of what other zones may find out to those of a configuration.
func addShown(t *table, z *rest.ZoneConfig) {
	t.addRow("PUBLIC ATTRIBUTES", cmp.Or(strings.Join(z.PublicAttributes, ", "), "arch, hypervisor_type, os only"))
	hosts := "all"
	if z.HidesLayout {
		hosts = "a power of two of each kind"
	}
	t.addRow("HOSTS SHOWN TO PARENTS", hosts)
}
