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

// weightsShown is the number of weights that a table shows for each group.
const weightsShown = 8

func selectCommand(e *env) *cobra.Command {
	var w wish
	c := &cobra.Command{
		Use:   "select --flavor FLAVOR --name NAME",
		Short: "Show the estimate for a boot with the weight of each slot",
		Long: `Show the slots that this zone and all zones below it could offer for a boot now, with
the weight of each slot. Nothing is changed. "berth boot --plan" shows the same by
zone and can save it. If fewer slots than the minimum are offered, the exit code is 5.`,
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
	if checkOffer(a, s) == nil { // too small a plan cannot be booted
		t.addRow("GOOD FOR", time.Duration(a.ExpiresInMS)*time.Millisecond)
	}
	return append([]table{t}, explainOffer(a, s)...)
}

// showWeights shows the first weights and the number of the others.
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
