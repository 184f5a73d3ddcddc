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
		Short: "Show total and free capacity, by zone and class",
		Long: `Show the capacity of this zone and of its direct children, by resource class.

The figures of this zone are exact: TOTAL, the part of it that is RESERVED, the
CAPACITY that can be allocated, and how much of that is USED and FREE now; with --at
also how much no firm claim takes at that time. A shared pool counts once.

Each direct child reports CAPACITY and FREE, rounded, for the serving hosts of its
own and of all zones below it. The age of the children's figures is shown below the
table.`,
		Example: "  berth capacity\n  berth capacity --at 2030-01-31T12:00:00Z --zone west",
		Args:    exactArgs(),
	}
	c.Flags().StringVar(&at, "at", "", "show also what is free at this `TIME`, such as 2030-01-31T12:00:00Z")
	c.Flags().StringVar(&zone, "zone", "", "only this zone: the zone itself or a direct child")
	e.flagNames(c, "zone", ownZoneNames)
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

// capacityTables shows capacities, and the quality of the figures.
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
		quality := "sum of all zones that are neither paused nor down"
		if v.Sum.Rounded {
			quality += ", partly rounded"
		}
		if v.Sum.Partial {
			quality += "; some figures are missing or old"
		}
		about.addRow("all", quality)
	}
	return []table{t, about}
}

// optionalNumber returns a number, "" for an unknown one.
func optionalNumber(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}

// describeFigures describes the quality of a zone's figures.
func describeFigures(z rest.ZoneCapacity) string {
	if z.Exact {
		return "exact, as of now"
	}
	var parts []string
	if z.Heard {
		age := time.Duration(z.AgeMS) * time.Millisecond
		parts = append(parts, fmt.Sprintf("rounded up, %s old", age.Round(time.Second)))
	} else {
		parts = append(parts, "none: not reported yet")
	}
	if z.Silent {
		parts = append(parts, "down: nothing of it can be had, not in the sum")
	} else if z.Heard && z.Partial {
		parts = append(parts, "some are missing or old")
	}
	if z.Paused {
		parts = append(parts, "paused, not in the sum")
	}
	return strings.Join(parts, "; ")
}
