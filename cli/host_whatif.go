package cli

import (
	"context"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

// drainQuestion holds the flags about what a drain would do.
type drainQuestion struct {
	whatIf bool
	at     string
}

func (q *drainQuestion) addFlags(c *cobra.Command) {
	c.Flags().BoolVar(&q.whatIf, "what-if", false, "drain nothing, and show what would become of the leases and instances on the HOSTs")
	c.Flags().StringVar(&q.at, "at", "", "`TIME` of the drain for --what-if, as for berth lease create (default: now)")
}

func (q *drainQuestion) checkArgs(c *cobra.Command, args []string) error {
	switch {
	case q.whatIf && len(args) == 0:
		return usageError(c, "%q needs a HOST", c.CommandPath())
	case q.whatIf:
		return nil
	case q.at != "":
		return usageError(c, "--at goes with --what-if")
	}
	return exactArgs("a HOST")(c, args)
}

// planDrain shows what a drain of hosts would do.
func (e *env) planDrain(ctx context.Context, cl *client.Client, c *cobra.Command, q drainQuestion, hosts []string) error {
	for _, flag := range []string{"reason", "wait", "timeout", "yes"} {
		if c.Flags().Changed(flag) {
			return usageError(c, "--%s is for a drain, and --what-if drains nothing", flag)
		}
	}
	if policy := c.Flags().Lookup("policy"); policy.Changed && policy.Value.String() != string(api.DrainMove) {
		return usageError(c, "--what-if is about --policy %s", api.DrainMove)
	}
	var at api.Instant
	if q.at != "" {
		when, _, err := readTime(c, "at", q.at, e.now())
		if err != nil {
			return err
		}
		at = api.InstantOf(when)
	}
	var p rest.DrainPlan
	err := showAnswer(ctx, e, func(ctx context.Context) (_ rest.DrainPlan, err error) {
		p, err = cl.PlanDrain(ctx, hosts, at)
		return p, err
	}, drainPlanTables)
	if n := p.Leases.Breaks + p.Boots.Breaks; err == nil && n > 0 {
		return exitError(exitNoCapacity, "make room for them on other hosts, or drain fewer hosts at once", "%s and %s would break",
			countThings(int64(p.Leases.Breaks), "lease"), countThings(int64(p.Boots.Breaks), "boot"))
	}
	return err
}

// drainPlanTables show what would become of leases and boots, and of each slot and instance that
// would not simply move.
func drainPlanTables(p rest.DrainPlan) []table {
	var t table
	t.addRow("AT", showInstant(p.At))
	t.addRow("HOSTS", joinNames(p.Hosts))
	sums := table{header: []string{"OF", "BREAK", "MOVE", "STAY"}}
	for _, one := range []struct {
		of string
		n  rest.DrainOutcomes
	}{{"leases", p.Leases}, {"their slots", p.Slots}, {"boots", p.Boots}, {"their instances", p.Instances}} {
		sums.addRow(one.of, one.n.Breaks, one.n.Moves, one.n.Stays)
	}
	if len(p.Owners) == 0 {
		return []table{t, sums}
	}
	owners := table{header: []string{"KIND", "ID", "NAME", "PROJECT", "START", "END", "OUTCOME", "MOVES", "TO"}}
	reasons := table{title: "What would not move, and why", header: []string{"HOST", "NAME", "ID", "OUTCOME", "REASON"}}
	for n := range p.Owners {
		o := &p.Owners[n]
		name := o.Name
		if o.Parent != "" {
			name = "of zone " + o.Parent
		}
		var to []string
		moves := 0
		for _, part := range o.Parts {
			if part.To == "" {
				reasons.addRow(part.Host, name, part.ID, part.Outcome, part.Reason)
				continue
			}
			if moves++; !slices.Contains(to, part.To) {
				to = append(to, part.To)
			}
		}
		owners.addRow(o.Kind, o.ID, name, o.Project, showInstant(o.Start), showInstant(o.End), o.Outcome,
			strconv.Itoa(moves)+" of "+strconv.Itoa(len(o.Parts)), showNames(to))
	}
	tables := []table{t, sums, owners}
	if len(reasons.rows) > 0 {
		tables = append(tables, reasons)
	}
	return tables
}
