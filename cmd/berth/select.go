package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
)

// weightsShown is how many weights a table shows of each group.
const weightsShown = 8

func selectCommand(e *env) *cobra.Command {
	var w wish
	var out string
	c := &cobra.Command{
		Use:   "select --flavor FLAVOR --name NAME",
		Short: "See what a boot would get, without booting",
		Long: `Select asks the zone and everything below it what they could offer now, and
changes nothing. The offer is sealed and good for a short while; with --out it is
saved, and "berth boot --plan" takes up exactly that. If fewer than --min are
offered, the exit code is 5.`,
		Example: `  berth select --flavor small --name web --count 400
  berth select --flavor small --name web --count 4 --out plan.json`,
		Args: takes(),
	}
	w.flags(e, c)
	c.Flags().StringVar(&out, "out", "", "file to save the offer in")
	c.RunE = e.calls(func(ctx context.Context, cl *client.Client, _ []string) error {
		s, err := w.server(c)
		if err != nil {
			return err
		}
		var body []byte
		answered := e.waiting()
		a, err := cl.Select(client.WithAnswer(ctx, func(a client.Answer) { body = a.Body }), s)
		answered()
		if err != nil {
			return err
		}
		if out != "" {
			if err := savePlan(out, s, body); err != nil {
				return err
			}
			e.note("the offer is saved; take it up with: berth boot --plan %s", out)
		}
		if err := e.print(body, func() []table { return selectTables(a, w.count) }); err != nil {
			return err
		}
		return enough(a, s)
	})
	return c
}

// offered returns how many slots an estimate has.
func offered(a client.SelectAnswer) int {
	n := 0
	for _, g := range a.Weights {
		n += len(g)
	}
	return n
}

// enough returns the error of an offer that a boot of s could not be made from.
func enough(a client.SelectAnswer, s api.ServerCreate) error {
	least := *s.MaxCount
	if s.MinCount != nil {
		least = *s.MinCount
	}
	if n := offered(a); n < least {
		return fail(exitNoCapacity, "ask for fewer, or accept fewer with --min", "%d of at least %d instances would fit", n, least)
	}
	return nil
}

// savePlan writes the answer to a select, with what was asked for, to a file
// that only its owner can read: whoever has the plan can use up its room.
func savePlan(path string, s api.ServerCreate, answer []byte) error {
	var all map[string]json.RawMessage
	err := json.Unmarshal(answer, &all)
	if err == nil {
		all["server"], err = json.Marshal(s)
	}
	var b []byte
	if err == nil {
		b, err = json.MarshalIndent(all, "", "  ")
	}
	if err == nil {
		err = os.WriteFile(path, append(b, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("saving the plan: %w", err)
	}
	return nil
}

func selectTables(a client.SelectAnswer, wanted int) []table {
	var t table
	t.row("RESERVATION", a.Reservation)
	t.row("OFFERED", fmt.Sprintf("%d of %d wanted", offered(a), wanted))
	for _, g := range a.Weights {
		t.row("WEIGHTS", weights(g))
	}
	t.row("SEALED PLAN", fmt.Sprintf("%d bytes", len(a.Blob)))
	t.row("GOOD FOR", time.Duration(a.ExpiresInMS)*time.Millisecond)
	return append([]table{t}, whyTables(a.Zones, a.Refusals)...)
}

// weights shows the first of them and says how many more there are.
func weights(g []int64) string {
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
