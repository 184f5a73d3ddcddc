package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

// seriesCommand has the verbs about leases that repeat. They are made by "lease create".
func seriesCommand(e *env) *cobra.Command {
	return nounCommand("series", "Manage leases that repeat", seriesList(e), seriesShow(e), seriesDelete(e))
}

// repeatFlags holds the flags about a lease that repeats.
type repeatFlags struct {
	rule, timeZone string
}

func (r *repeatFlags) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&r.rule, "repeat", "", "repeat by this calendar `RULE`, such as 'FREQ=WEEKLY;BYDAY=MO,WE;COUNT=20'")
	f.StringVar(&r.timeZone, "time-zone", "", "time `ZONE` by whose clock it repeats, such as Europe/Berlin (default: UTC)")
}

func (r *repeatFlags) checkFlags(c *cobra.Command) error {
	switch {
	case r.timeZone != "" && r.rule == "":
		return usageError(c, "--time-zone goes with --repeat")
	case r.rule != "" && c.Flags().Changed("wait"):
		return usageError(c, "--wait is for one lease, not for --repeat")
	}
	return nil
}

// createSeries makes a series, and prints it.
func (e *env) createSeries(ctx context.Context, cl *client.Client, s rest.LeaseCreate, r repeatFlags, key string, named repeatable) error {
	if r.timeZone == "" {
		r.timeZone = "UTC"
	}
	var body []byte
	answered := e.noteWaitingFor(named.name)
	made, err := cl.CreateSeries(client.WithAnswer(ctx, func(a client.Answer) { body = a.Body }), rest.SeriesCreate{LeaseCreate: s, Rule: r.rule, TimeZone: r.timeZone}, key)
	answered()
	if err != nil {
		return e.hintRepeat(explainLease(err), named)
	}
	return e.printAnswer(body, func() []table { return seriesTables(made) })
}

// seriesTables shows a series and its leases.
func seriesTables(s rest.Series) []table {
	about := tableOf("ID|NAME|STATUS|RULE|TIME ZONE|LEASES|PROJECT", seriesRow)([]rest.Series{s})
	leases := tableOf("LEASE|STATUS|START|END|LOCAL START", func(l rest.SeriesLease) []any {
		return []any{l.ID, l.Status, showMinute(l.Start), showMinute(l.End), l.Local}
	})(s.Leases)
	return append(about, leases...)
}

func seriesRow(s rest.Series) []any {
	return []any{s.ID, s.Name, s.Status, s.Rule, s.TimeZone, len(s.Leases), s.Project}
}

func seriesList(e *env) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the series of leases that you may see, the oldest first",
		Example: "  berth lease series list",
		Args:    exactArgs(),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return showList(ctx, e, "series", c.AllSeries, tableOf("ID|NAME|STATUS|RULE|TIME ZONE|LEASES|PROJECT", seriesRow))
		}),
	}
}

// findSeries returns the series with the id ref, or the only one with the name ref.
func findSeries(ctx context.Context, c *client.Client, ref string) (rest.Series, error) {
	found, err := c.Series(ctx, api.SeriesID(ref))
	if api.CodeOf(err) != api.CodeNotFound {
		return found, err
	}
	all, err := c.AllSeries(ctx)
	if err != nil {
		return found, err
	}
	var ids []string
	for _, s := range all {
		if s.Name == ref {
			ids = append(ids, string(s.ID))
		}
	}
	switch len(ids) {
	case 0:
		return found, exitError(exitNotFound, "list them with: berth lease series list", "there is no series of leases %q", ref)
	case 1:
		return c.Series(ctx, api.SeriesID(ids[0]))
	}
	return found, exitError(exitConflict, "give the id of one: "+strings.Join(ids, ", "), "%d series of leases are named %q", len(ids), ref)
}

// seriesNames completes series.
func seriesNames(ctx context.Context, c *client.Client, _ string) ([]string, error) {
	all, err := c.AllSeries(ctx)
	var out []string
	for _, s := range all {
		out = append(out, string(s.ID)+"\t"+s.Name)
	}
	return out, err
}

func seriesShow(e *env) *cobra.Command {
	return &cobra.Command{
		Use:               "show SERIES",
		Short:             "Show one series of leases, by its id or name, and the leases that are left of it",
		Example:           "  berth lease series show class",
		Args:              exactArgs("a SERIES"),
		ValidArgsFunction: e.completeFirst(seriesNames),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			var body []byte
			s, err := findSeries(client.WithAnswer(ctx, func(a client.Answer) { body = a.Body }), c, args[0])
			if err != nil {
				return err
			}
			return e.printAnswer(body, func() []table { return seriesTables(s) })
		}),
	}
}

func seriesDelete(e *env) *cobra.Command {
	var s sure
	c := &cobra.Command{
		Use:   "delete SERIES",
		Short: "End every lease that is left of a series, and delete them",
		Long: `End every lease that is left of a series, by its id or name, and delete them. To end one
lease and keep the others: berth lease delete LEASE`,
		Example:           "  berth lease series delete class --yes",
		Args:              exactArgs("a SERIES"),
		ValidArgsFunction: e.completeFirst(seriesNames),
	}
	s.addFlag(c)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		found, err := findSeries(ctx, cl, args[0])
		if err != nil {
			return err
		}
		if err = e.confirmAction(ctx, s, "end and delete "+countThings(int64(len(found.Leases)), "lease")+" of series "+args[0]+", and every instance within"); err != nil {
			return err
		}
		answered := e.noteWaiting()
		err = cl.DeleteSeries(ctx, found.ID)
		answered()
		if err != nil {
			return err
		}
		left, err := cl.Series(ctx, found.ID)
		if err == nil {
			e.printNote("series %s is %s: instances in its leases are still ending", args[0], left.Status)
			return nil
		}
		e.printNote("series %s is deleted", args[0])
		return nil
	})
	return c
}
