package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

func capacityCommand(e *env) *cobra.Command {
	var at, zone string
	c := &cobra.Command{
		Use:   "capacity",
		Short: "Show how much there is and how much is free, by zone and class",
		Long: `Capacity shows for the zone itself, exactly, what its providers have: TOTAL, of that
RESERVED, the CAPACITY that can be handed out, and what of it is USED and FREE now; with
--at also what nothing firm has at that time. A shared pool counts once. For each
direct child it shows what the child says of itself and of all below it: CAPACITY and
FREE of hosts that serve, rounded. Below the table stands how old that is.`,
		Example: "  berth capacity\n  berth capacity --at 2030-01-31T12:00:00Z --zone west",
		Args:    exactArgs(),
	}
	c.Flags().StringVar(&at, "at", "", "tell also what is free at this `TIME`, such as 2030-01-31T12:00:00Z")
	c.Flags().StringVar(&zone, "zone", "", "only this zone: the zone itself or a direct child")
	e.flagNames(c, "zone", zoneNames)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		var when time.Time
		if at != "" {
			var err error
			if when, err = time.Parse(time.RFC3339, at); err != nil {
				return usageError(c, "--at must be a time such as 2030-01-31T12:00:00Z, got %q", at)
			}
		}
		return showAnswer(ctx, e, func(ctx context.Context) (rest.Capacity, error) { return cl.Capacity(ctx, when, zone) },
			func(v rest.Capacity) []table { return capacityTables(v, at != "") })
	})
	return c
}

// capacityTables shows capacities, and how good the figures are.
func capacityTables(v rest.Capacity, later bool) []table {
	t := table{header: []string{"ZONE", "CLASS", "TOTAL", "RESERVED", "CAPACITY", "USED", "FREE"}}
	if later {
		t.header = append(t.header, "FREE AT "+showInstant(v.At))
	}
	about := table{header: []string{"ZONE", "FIGURES"}}
	add := func(zone string, classes map[api.ResourceClass]rest.ClassCapacity) {
		for _, class := range slices.Sorted(maps.Keys(classes)) {
			n := classes[class]
			cells := []any{zone, class, optionalNumber(n.Total), optionalNumber(n.Reserved), n.Capacity, optionalNumber(n.Used), n.Free}
			if later {
				cells = append(cells, optionalNumber(n.FreeAt))
			}
			t.addRow(cells...)
		}
	}
	for _, z := range v.Zones {
		add(z.Name, z.Classes)
		about.addRow(z.Name, describeFigures(z))
	}
	if v.Sum != nil && len(v.Zones) > 1 {
		add("all", v.Sum.Classes)
		quality := "sum of all that are not paused"
		if v.Sum.Rounded {
			quality += ", in part rounded"
		}
		if v.Sum.Partial {
			quality += "; something is missing or old"
		}
		about.addRow("all", quality)
	}
	return []table{t, about}
}

// optionalNumber returns a number, "" if nobody said it.
func optionalNumber(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}

// describeFigures says how good the figures of a zone are.
func describeFigures(z rest.ZoneCapacity) string {
	if z.Exact {
		return "exact, as of now"
	}
	var parts []string
	if z.Heard {
		age := time.Duration(z.AgeMS) * time.Millisecond
		parts = append(parts, fmt.Sprintf("rounded up, %s old", age.Round(time.Second)))
	} else {
		parts = append(parts, "none: it has said nothing yet")
	}
	if z.Heard && z.Partial {
		parts = append(parts, "something is missing or old")
	}
	if z.Paused {
		parts = append(parts, "paused, and not in the sum")
	}
	return strings.Join(parts, "; ")
}
