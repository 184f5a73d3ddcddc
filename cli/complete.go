package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"berth/api/client"
	"berth/api/rest"
)

// completeTimeout is how long a shell waits for names.
const completeTimeout = 2 * time.Second

// names asks the zone for names.
type names func(ctx context.Context, c *client.Client) ([]string, error)

// completeFirst completes the first argument with names. If the zone does not answer, the
// shell offers nothing; that is not an error.
func (e *env) completeFirst(n names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := e.newClient()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		found, err := n(ctx, c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// firstThen completes the first argument with names of one kind, and all others
// with those of another.
func (e *env) firstThen(n, others names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return e.completeFirst(others)(cmd, nil, start)
		}
		return e.completeFirst(n)(cmd, args, start)
	}
}

// flagNames completes the value of a flag with names.
func (e *env) flagNames(c *cobra.Command, flag string, n names) {
	mustFlag(c.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, start string) ([]string, cobra.ShellCompDirective) {
		return e.completeFirst(n)(cmd, nil, start)
	}))
}

// namesOf returns the names of the first page of a list.
func namesOf[T any](
	fetch func(*client.Client, context.Context, client.ListOptions) (client.Page[T], error), name func(T) string,
) names {
	return func(ctx context.Context, c *client.Client) ([]string, error) {
		p, err := fetch(c, ctx, client.ListOptions{})
		if err != nil {
			return nil, err
		}
		var out []string
		for _, i := range p.Items {
			out = append(out, name(i))
		}
		return out, nil
	}
}

// ownZoneNames returns the names of the zone itself and of those next to it.
func ownZoneNames(ctx context.Context, c *client.Client) ([]string, error) {
	own, err := c.ZoneInfo(ctx)
	if err != nil {
		return nil, err
	}
	others, err := zoneNames(ctx, c)
	return append([]string{own.Name}, others...), err
}

// The names that can be completed.
var (
	flavorNames      = namesOf((*client.Client).Flavors, func(f rest.Flavor) string { return f.Name })
	zoneNames        = namesOf((*client.Client).Zones, func(l rest.Zone) string { return l.Name })
	hostNames        = namesOf((*client.Client).Hosts, func(h rest.Host) string { return h.Name })
	reservationNames = namesOf((*client.Client).Reservations, func(b rest.Boot) string { return string(b.Reservation) + "\t" + b.Name })
	serverNames      = namesOf(
		func(c *client.Client, ctx context.Context, o client.ListOptions) (client.Page[rest.Server], error) {
			return c.Servers(ctx, client.ServerQuery{}, o)
		},
		func(s rest.Server) string { return string(s.ID) + "\t" + s.Name })
	volumeNames = namesOf(
		func(c *client.Client, ctx context.Context, o client.ListOptions) (client.Page[rest.Volume], error) {
			return c.Volumes(ctx, client.VolumeQuery{}, o)
		},
		func(v rest.Volume) string { return string(v.ID) + "\t" + v.Name })
	aggregateNames   = namesOf((*client.Client).Aggregates, func(a rest.Aggregate) string { return a.Name })
	azNames          = namesOf((*client.Client).AvailabilityZones, func(a rest.AvailabilityZone) string { return a.Name })
	serverGroupNames = namesOf((*client.Client).ServerGroups, func(g rest.ServerGroup) string { return g.Name + "\t" + string(g.Policy) })
)
