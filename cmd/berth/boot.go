package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
)

// wish is what the flags say about instances that are wanted.
type wish struct {
	flavor, name, reservation string
	count, least              int
	metadata                  []string
}

func (w *wish) flags(e *env, c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&w.flavor, "flavor", "", "flavor of the instances (needed)")
	f.StringVar(&w.name, "name", "", "name of the instances; several are numbered (needed)")
	f.IntVar(&w.count, "count", 1, "how many are wanted")
	f.IntVar(&w.least, "min", 0, "how few are enough (default: --count, so all or nothing)")
	f.StringVar(&w.reservation, "reservation-id", "", "your own reservation id; a repeat with it returns the first answer")
	f.StringArrayVar(&w.metadata, "metadata", nil, "`KEY=VALUE` to keep with the instances; may be repeated")
	e.flagNames(c, "flavor", flavorNames)
}

// server returns the wish as the API takes it.
func (w *wish) server(c *cobra.Command) (api.ServerCreate, error) {
	var none api.ServerCreate
	for _, n := range []struct{ flag, v string }{{"flavor", w.flavor}, {"name", w.name}} {
		if n.v == "" {
			return none, usage(c, "%q needs --%s", c.CommandPath(), n.flag)
		}
	}
	if w.count < 1 || w.count > api.CountMax {
		return none, usage(c, "--count must be 1 to %d, got %d", api.CountMax, w.count)
	}
	if c.Flags().Changed("min") && (w.least < 1 || w.least > w.count) {
		return none, usage(c, "--min must be 1 to --count, which is %d, got %d", w.count, w.least)
	}
	metadata, err := pairs(c, "metadata", w.metadata)
	if err != nil {
		return none, err
	}
	s := api.ServerCreate{
		Name: w.name, FlavorRef: w.flavor, MaxCount: &w.count, Reservation: w.reservation, Metadata: metadata,
	}
	if w.least > 0 {
		s.MinCount = &w.least
	}
	return s, nil
}

// pairs reads flags of the form key=value.
func pairs(c *cobra.Command, flag string, given []string) (map[string]string, error) {
	if len(given) == 0 {
		return nil, nil
	}
	m := map[string]string{}
	for _, g := range given {
		k, v, ok := strings.Cut(g, "=")
		if !ok || k == "" {
			return nil, usage(c, "--%s must look like key=value, got %q", flag, g)
		}
		if _, twice := m[k]; twice {
			return nil, usage(c, "--%s gives %q twice", flag, k)
		}
		m[k] = v
	}
	return m, nil
}

func bootCommand(e *env) *cobra.Command {
	var w wish
	var p patience
	var plan string
	c := &cobra.Command{
		Use:   "boot --flavor FLAVOR --name NAME",
		Short: "Boot instances, in whichever zones have room",
		Long: `Boot asks for instances and waits until they run. They are all started, or none
is; with --min, at least that many. Progress goes to standard error, the boot and
a table by zone to standard output.

With --plan it takes up exactly the offer that "berth select --out" has saved, or
fails.`,
		Example: `  berth boot --flavor small --name web --count 400
  berth boot --flavor small --name batch --count 100 --min 60 --timeout 5m
  berth boot --flavor small --name web --reservation-id web-1 --no-wait
  berth select --flavor small --name web --count 4 --out plan.json && berth boot --plan plan.json`,
		Args: takes(),
	}
	w.flags(e, c)
	p.flags(c)
	c.Flags().StringVar(&plan, "plan", "", "file with the offer to take up, in place of the flags that say what is wanted")
	c.RunE = e.calls(func(ctx context.Context, cl *client.Client, _ []string) error {
		if err := p.check(c); err != nil {
			return err
		}
		ctx, stop := context.WithTimeout(ctx, p.timeout)
		defer stop()
		id, body, err := e.ask(ctx, cl, c, &w, plan)
		if err != nil {
			return err
		}
		if !p.waits() {
			return e.print(body, func() []table {
				t := table{header: []string{"RESERVATION"}}
				t.row(id)
				return []table{t}
			})
		}
		b, body, err := e.follow(ctx, cl, whose{}, id, p, api.BootState.Outcome)
		if err != nil {
			return err
		}
		if err := e.print(body, func() []table { return bootTables(b) }); err != nil {
			return err
		}
		return outcome(b)
	})
	return c
}

// ask asks for what the flags or the plan say, and returns its reservation id
// with the answer.
func (e *env) ask(ctx context.Context, cl *client.Client, c *cobra.Command, w *wish, plan string) (api.ReservationID, []byte, error) {
	var body []byte
	ctx = client.WithAnswer(ctx, func(a client.Answer) { body = a.Body })
	if plan == "" {
		s, err := w.server(c)
		if err != nil {
			return "", nil, err
		}
		id, err := cl.Boot(ctx, s, "")
		return id, body, err
	}
	for _, f := range []string{"flavor", "name", "count", "min", "reservation-id", "metadata"} {
		if c.Flags().Changed(f) {
			return "", nil, usage(c, "--plan says it all; leave out --%s", f)
		}
	}
	s, err := readPlan(plan)
	if err != nil {
		return "", nil, err
	}
	got, err := cl.CreateServer(ctx, s, "")
	return got.Reservation, body, err
}

// planFileMaxBytes bounds a file with a plan: an answer, and what was asked.
const planFileMaxBytes = client.AnswerMaxBytes + api.BodyMaxBytes

// planFile is what a file with a plan holds, beside the rest of the answer to a
// select: what was asked for, and what takes it up.
type planFile struct {
	Server      api.ServerCreate  `json:"server"`
	Reservation api.ReservationID `json:"reservation_id"`
	Blob        []byte            `json:"blob"`
}

// readPlan returns what takes up the plan in the file at path.
func readPlan(path string) (api.ServerCreate, error) {
	var none api.ServerCreate
	f, err := os.Open(path)
	if err != nil {
		return none, fail(exitUsage, "make one with: berth select --out FILE", "reading the plan: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(f, planFileMaxBytes+1))
	if err != nil {
		return none, fmt.Errorf("reading the plan: %w", err)
	}
	var p planFile
	if len(b) > planFileMaxBytes {
		err = errors.New("it is too long")
	} else {
		err = json.Unmarshal(b, &p)
	}
	if err != nil || p.Reservation == "" || len(p.Blob) == 0 || p.Server.FlavorRef == "" {
		return none, fail(exitUsage, "make one with: berth select --out FILE", "%s holds no plan", path)
	}
	s := p.Server
	s.Reservation, s.Blob, s.ReturnRes = string(p.Reservation), p.Blob, true
	return s, nil
}

// bootTables shows a boot, and what of it landed where.
func bootTables(b api.Boot) []table {
	var t table
	_, decided := counts(b.Instances)
	t.row("RESERVATION", b.Reservation)
	t.row("NAME", b.Name)
	t.row("STATE", b.State)
	if b.Reason != "" {
		t.row("REASON", b.Reason)
	}
	t.row("FLAVOR", b.Flavor)
	t.row("INSTANCES", fmt.Sprintf("%d of %d wanted, at least %d", decided, b.MaxCount, b.MinCount))
	t.row("ATTEMPTS", len(b.Attempts))
	t.row("CREATED", when(b.Created))
	t.row("UPDATED", when(b.Updated))
	if len(b.Zones) == 0 {
		return []table{t}
	}
	zones := table{header: []string{"ZONE", "INSTANCES", "STATUS"}}
	for _, z := range b.Zones {
		text, sum := counts(z.Counts)
		zones.row(z.Zone, sum, text)
	}
	return []table{t, zones}
}
