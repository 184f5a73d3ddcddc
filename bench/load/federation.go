package load

import (
	"context"
	"slices"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

// OwnFlavor is the smallest flavor of a federation that is made to be measured.
const OwnFlavor = "tiny"

// Limits of a Federation.
const (
	ZonesMax    = 31 // and a root
	HostsMax    = 100_000
	StandingMax = 2_000_000
)

// Federation says how large a federation is that is made to be measured.
type Federation struct {
	Nodes    int // of each zone: 1, 3 or 5
	Zones    int // with hosts, 1 to ZonesMax; more than one are children of a root without hosts
	Hosts    int // of each zone that has some, 1 to HostsMax; they start instances at once
	Standing int // instances that run before the measurement begins, 0 to StandingMax
}

// Check returns an invalid-input error unless all of f is in range.
func (f *Federation) Check() error {
	switch {
	case !slices.Contains([]int{1, 3, 5}, f.Nodes):
		return api.Errorf(api.CodeInvalid, "nodes must be 1, 3 or 5, got %d", f.Nodes)
	case f.Zones < 1 || f.Zones > ZonesMax:
		return api.Errorf(api.CodeInvalid, "zones must be 1 to %d, got %d", ZonesMax, f.Zones)
	case f.Hosts < 1 || f.Hosts > HostsMax:
		return api.Errorf(api.CodeInvalid, "hosts must be 1 to %d, got %d", HostsMax, f.Hosts)
	case f.Standing < 0 || f.Standing > StandingMax:
		return api.Errorf(api.CodeInvalid, "standing must be 0 to %d instances, got %d", StandingMax, f.Standing)
	}
	return nil
}

// How standing instances are made.
const (
	standingCount   = 1000 // of one boot
	standingCallers = 4
)

// Fill boots count instances of a flavor at the zone of c and waits until all of them run.
// It returns the first error.
func Fill(ctx context.Context, c *client.Client, flavor api.FlavorID, count int) error {
	var boots []func(context.Context) error
	for made := 0; made < count; made += standingCount {
		n := min(standingCount, count-made)
		boots = append(boots, func(ctx context.Context) error {
			b, err := c.BootAndWait(ctx, rest.ServerCreate{Name: "standing", FlavorRef: string(flavor), MaxCount: &n}, "", TimeoutMax/2)
			if err != nil {
				return err
			}
			return bootError(&b)
		})
	}
	return CallAll(ctx, standingCallers, boots)
}
