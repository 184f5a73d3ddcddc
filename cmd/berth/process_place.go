package main

import (
	"github.com/spf13/cobra"

	"berth/node"
)

// placeFlags are where a node listens, and what others are told.
type placeFlags struct{ names []string }

func (l *placeFlags) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.String("host", "127.0.0.1", "address of all listeners without an address of their own")
	f.String("api-addr", "", "public API (default HOST:7600)")
	f.String("gateway-addr", "", "gateway, for linked zones (default HOST:7601)")
	f.String("node-addr", "", "Raft and requests between the nodes of the zone (default HOST:7602)")
	f.String("agent-addr", "", "agents of the zone (default HOST:7603)")
	f.String("admin-addr", "", "metrics and health, plain HTTP (default 127.0.0.1:7604)")
	f.String("advertise-host", "", "`HOST` that others dial, an address or a DNS name, where it is not that of the listeners: behind NAT, in a container, with 0.0.0.0")
	f.String("advertise-api-addr", "", "`ADDR` of the public API that others dial; port 0 is the port of the listener (default ADVERTISE-HOST:0)")
	f.String("advertise-gateway-addr", "", "`ADDR` of the gateway that linked zones dial")
	f.String("advertise-node-addr", "", "`ADDR` that the other nodes of the zone dial")
	f.String("advertise-agent-addr", "", "`ADDR` that the agents of the zone dial")
	f.StringSliceVar(&l.names, "api-name", nil, "additional host name or IP in the certificate of the public API; may be repeated")
}

// read returns the flags that were given, and the names, nil if they were not.
func (l *placeFlags) read(c *cobra.Command) (given map[string]string, names []string) {
	given = map[string]string{}
	for _, name := range node.AddressFlags() {
		if f := c.Flags().Lookup(name); f != nil && f.Changed {
			given[name] = f.Value.String()
		}
	}
	if c.Flags().Changed("api-name") {
		names = append([]string{}, l.names...)
	}
	return given, names
}

// firstPlacement returns the placement of a node that is new.
func (l *placeFlags) firstPlacement(c *cobra.Command) (node.Placement, error) {
	given, names := l.read(c)
	return node.DefaultPlacement().Change(given, names)
}
