package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/api/client"
	"berth/api/rest"
)

// weightsShown is how many weights a table shows of each group.
const weightsShown = 8

func selectCommand(e *env) *cobra.Command {
	var w wish
	c := &cobra.Command{
		Use:   "select --flavor FLAVOR --name NAME",
		Short: "Show the raw estimate for a boot: the weight of each slot",
		Long: `Select asks the zone and everything below it what they could offer now, and
changes nothing. It shows the weight of each slot; "berth boot --plan" shows the
same by zone, and keeps it. If fewer than the minimum are offered, the exit code
is 5.`,
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
	for _, g := range a.Weights {
		t.addRow("WEIGHTS", showWeights(g))
	}
	t.addRow("SEALED PLAN", countThings(int64(len(a.Blob)), "byte"))
	if checkOffer(a, s) == nil { // a plan that cannot be had is good for nothing
		t.addRow("GOOD FOR", time.Duration(a.ExpiresInMS)*time.Millisecond)
	}
	return append([]table{t}, whyTables(a.Zones, talesOf(a.Refusals, kinds))...)
}

// showWeights shows the first of them and says how many more there are.
func showWeights(g []int64) string {
	var parts []string
	for i, w := range g {
		if i == weightsShown {
			parts = append(parts, fmt.Sprintf("and %d more up to %d", len(g)-i, g[len(g)-1]))
			break
		}
		parts = append(parts, strconv.FormatInt(w, 10))
	}
	return strings.Join(parts, " ")
}
