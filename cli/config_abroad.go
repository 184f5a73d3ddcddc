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
}

func (a *abroadFlags) addFlags(c *cobra.Command) {
	a.nets.addFlags(c,
		"webhook-network", "inner `NETWORK` that webhooks and the service for leases may reach, such as 10.1.0.0/16",
		"no-webhook-networks", "let webhooks reach public addresses alone")
	a.fanout.addFlags(c)
	a.public.addFlags(c,
		"public-attribute", "`ATTRIBUTE` of hosts that requests of other zones may ask for",
		"no-public-attributes", "let requests of other zones ask for arch, hypervisor_type and os alone")
}

// changed reports whether any of the flags is given.
func (a *abroadFlags) changed(c *cobra.Command) bool {
	return a.nets.changed(c) || a.fanout.changed(c) || a.public.changed(c)
}

// apply changes in a configuration what is given.
func (a *abroadFlags) apply(c *cobra.Command, to *rest.ZoneConfig) {
	a.nets.apply(c, &to.WebhookNetworks)
	a.fanout.apply(c, &to.Fanout)
	a.public.apply(c, &to.PublicAttributes)
}

// addPublic adds the row of public attributes to those of a configuration.
func addPublic(t *table, names []string) {
	t.addRow("PUBLIC ATTRIBUTES", cmp.Or(strings.Join(names, ", "), "arch, hypervisor_type, os only"))
}
