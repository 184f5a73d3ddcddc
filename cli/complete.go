package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

// Limits of one completion.
const (
	completeTimeout = 2 * time.Second // how long a shell waits for names
	completeMax     = 100             // names that a shell is offered
	completePages   = 10              // pages of a list that are searched for what begins as typed
)

// names asks the zone for names that begin with start. It may return others too, and more
// than completeMax.
type names func(ctx context.Context, c *client.Client, start string) ([]string, error)

// completeFirst completes the first argument with names. If the zone does not answer, the
// shell offers nothing; that is not an error.
func (e *env) completeFirst(n names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
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
		found, err := n(ctx, c, start)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return offerNames(found, start), cobra.ShellCompDirectiveNoFileComp
	}
}

// offerNames returns those of found that begin with start, at most completeMax. If there
// are more, the shell shows a line that says so.
func offerNames(found []string, start string) []string {
	var out []string
	for _, name := range found {
		switch {
		case !strings.HasPrefix(name, start):
		case len(out) == completeMax:
			return cobra.AppendActiveHelp(out, fmt.Sprintf("only the first %d are shown; type more of the name", completeMax))
		default:
			out = append(out, name)
		}
	}
	return out
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

// namesOf returns the names in a list that begin as typed: of each item the first of its
// names that does. Without a start one page is enough; with one, some pages are searched.
func namesOf[T any](
	fetch func(*client.Client, context.Context, client.ListOptions) (client.Page[T], error), callings ...func(T) string,
) names {
	return func(ctx context.Context, c *client.Client, start string) ([]string, error) {
		var out []string
		o := client.ListOptions{}
		if start == "" {
			o.Limit = completeMax + 1
		}
		for range completePages {
			p, err := fetch(c, ctx, o)
			if err != nil {
				return out, ignoreLate(err, out)
			}
			for _, i := range p.Items {
				for _, called := range callings {
					if name := called(i); strings.HasPrefix(name, start) {
						out = append(out, name)
						break
					}
				}
			}
			if o.Marker = p.Next; o.Marker == "" || len(out) > completeMax {
				break
			}
		}
		return out, nil
	}
}

// ignoreLate returns nil for an error after which some names can be offered.
func ignoreLate(err error, found []string) error {
	if len(found) > 0 {
		return nil
	}
	return err
}

// ownZoneNames returns the names of the zone itself and of its direct children, which are what work can name.
func ownZoneNames(ctx context.Context, c *client.Client, start string) ([]string, error) {
	own, err := c.ZoneInfo(ctx)
	if err != nil {
		return nil, err
	}
	children, err := childNames(ctx, c, start)
	return append([]string{own.Name}, children...), err
}

// childNames returns the names of direct children.
func childNames(ctx context.Context, c *client.Client, _ string) ([]string, error) {
	var out []string
	for o := (client.ListOptions{}); ; {
		p, err := c.Zones(ctx, o)
		if err != nil {
			return out, ignoreLate(err, out)
		}
		for _, l := range p.Items {
			if l.Role == api.LinkChild {
				out = append(out, l.Name)
			}
		}
		if o.Marker = p.Next; o.Marker == "" {
			return out, nil
		}
	}
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
		func(s rest.Server) string { return s.Name + "\t" + string(s.ID) },
		func(s rest.Server) string { return string(s.ID) + "\t" + s.Name })
	volumeNames = namesOf(
		func(c *client.Client, ctx context.Context, o client.ListOptions) (client.Page[rest.Volume], error) {
			return c.Volumes(ctx, client.VolumeQuery{}, o)
		},
		func(v rest.Volume) string { return v.Name + "\t" + string(v.ID) },
		func(v rest.Volume) string { return string(v.ID) + "\t" + v.Name })
	aggregateNames   = namesOf((*client.Client).Aggregates, func(a rest.Aggregate) string { return a.Name })
	azNames          = namesOf((*client.Client).AvailabilityZones, func(a rest.AvailabilityZone) string { return a.Name })
	serverGroupNames = namesOf((*client.Client).ServerGroups, func(g rest.ServerGroup) string { return g.Name + "\t" + string(g.Policy) })
)
