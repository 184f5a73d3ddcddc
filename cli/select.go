package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/api/client"
	"berth/api/rest"
)

// weightsShown is the number of weights that a table shows for each group.
const weightsShown = 8

func selectCommand(e *env) *cobra.Command {
	var w wish
	c := &cobra.Command{
		Use:   "select --flavor FLAVOR --name NAME",
		Short: "Show the estimate for a boot with the weight of each slot",
		Long: `Show the slots that this zone and all zones below it could offer for a boot now, with
the weight of each slot. A weight is shown as the memory that it is worth beyond the
lowest one (see "berth help zone set"); -o json has it in points. Nothing is changed.
REQUEST is the id that "berth explain" takes.
"berth boot --plan" shows the same by zone and can save it. If fewer slots than the
minimum are offered, the exit code is 5.`,
		Example: "  berth select --flavor small --name web --count 400",
		Args:    exactArgs(),
	}
	w.addFlags(e, c)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		s, err := w.serverCreate(e, c)
		if err != nil {
			return err
		}
		var a rest.SelectAnswer
		err = showAnswer(ctx, e, func(ctx context.Context) (rest.SelectAnswer, error) {
			a, err = cl.Select(ctx, s)
			return a, err
		}, func(a rest.SelectAnswer) []table { return selectTables(a, s) })
		if err != nil {
			return err
		}
		return checkOffer(a, s)
	})
	return c
}

func selectTables(a rest.SelectAnswer, s rest.ServerCreate) []table {
	var t table
	kinds := kindsOf(s)
	wanted, offered := 0, 0
	for _, k := range kinds {
		wanted += k.wanted
	}
	for _, g := range a.Weights {
		offered += len(g)
	}
	t.addRow("RESERVATION", a.Reservation)
	t.addRow("OFFERED", fmt.Sprintf("%d of %d wanted", offered, wanted))
	lowest := lowestWeight(a.Weights)
	for _, g := range a.Weights {
		t.addRow("WEIGHTS", showWeights(g, lowest))
	}
	t.addRow("SEALED PLAN", countThings(int64(len(a.Blob)), "byte"))
	if checkOffer(a, s) == nil { // too small a plan cannot be booted
		t.addRow("GOOD FOR", time.Duration(a.ExpiresInMS)*time.Millisecond)
	}
	if a.Request != "" {
		t.addRow("REQUEST", a.Request)
	}
	return append([]table{t}, explainOffer(a, s)...)
}

// lowestWeight returns the lowest weight of all groups, each of which begins with its lowest; 0 without any.
func lowestWeight(groups [][]int64) int64 {
	var first []int64
	for _, g := range groups {
		if len(g) > 0 {
			first = append(first, g[0])
		}
	}
	if len(first) == 0 {
		return 0
	}
	return slices.Min(first)
}

// showWeights shows the first weights, beyond the lowest, and the number of the others.
func showWeights(g []int64, lowest int64) string {
	beyond := func(w int64) string {
		if w == lowest {
			return "lowest"
		}
		return "+" + roundPoints(w-lowest)
	}
	var parts []string
	for i, w := range g {
		if i == weightsShown {
			parts = append(parts, fmt.Sprintf("and %d more up to %s", len(g)-i, beyond(g[len(g)-1])))
			break
		}
		parts = append(parts, beyond(w))
	}
	return strings.Join(parts, " ")
}
