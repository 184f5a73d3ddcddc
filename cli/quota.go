package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

func quotaCommand(e *env) *cobra.Command {
	c := nounCommand("quota", "See and set what projects may have at any time", quotaList(e), quotaShow(e), quotaSet(e), quotaDelete(e))
	c.Aliases = []string{"quotas"}
	return c
}

func quotaList(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the limits of projects, and what they use",
		Long: `List the defaults of the zone, and the projects that have limits of their own or anything
that counts. Only what is limited or used is shown.`,
		Example: "  berth quota list",
		Args:    exactArgs(),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return showList(ctx, e, "quotas", c.Quotas, func(all []rest.Quota) []table {
				t := table{header: []string{"PROJECT", "QUOTA", "LIMIT", "USED", "PEAK"}, of: []int{}}
				for i, q := range all {
					addQuotaRows(&t, q)
					for len(t.of) < len(t.rows) {
						t.of = append(t.of, i)
					}
				}
				return []table{t}
			})
		}),
	}
}

// addQuotaRows adds what is limited or used of a project, or the defaults.
func addQuotaRows(t *table, q rest.Quota) {
	if q.Project == "" {
		for _, name := range slices.Sorted(maps.Keys(q.Limits)) {
			t.addRow("(default)", name, showLimit(q.Limits[name]), "", "")
		}
		return
	}
	for _, u := range q.Use {
		if u.Limit >= 0 || u.Peak > 0 {
			t.addRow(q.Project, u.Name, showLimit(u.Limit), u.Used, u.Peak)
		}
	}
}

// showLimit spells a limit.
func showLimit(n int64) string {
	if n < 0 {
		return "none"
	}
	return strconv.FormatInt(n, 10)
}

func quotaShow(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "show [PROJECT]",
		Short: "Show what a project may have and has (default: the caller's own project)",
		Long: `Show the limits of a project, what it uses now and the most that it uses at any time from
now on. A limit that is not of the project itself is the default of the zone.`,
		Example: "  berth quota show\n  berth quota show web",
		Args:    atMost(1),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			get := c.OwnQuota
			if len(args) > 0 {
				get = func(ctx context.Context) (rest.Quota, error) { return c.Quota(ctx, api.ProjectID(args[0])) }
			}
			return showAnswer(ctx, e, get, quotaTables)
		}),
	}
}

func quotaTables(q rest.Quota) []table {
	if q.Project == "" {
		t := table{header: []string{"QUOTA", "DEFAULT"}}
		for _, name := range slices.Sorted(maps.Keys(q.Limits)) {
			t.addRow(name, showLimit(q.Limits[name]))
		}
		return []table{t}
	}
	var head table
	head.addRow("PROJECT", q.Project)
	t := table{header: []string{"QUOTA", "LIMIT", "FROM", "USED", "PEAK", "AT"}}
	for _, u := range q.Use {
		from, at := "project", ""
		if u.Default {
			from = "default"
		}
		if u.Limit < 0 && u.Default {
			from = ""
		}
		if u.PeakAt != 0 {
			at = showInstant(u.PeakAt)
		}
		t.addRow(u.Name, showLimit(u.Limit), from, u.Used, u.Peak, at)
	}
	return []table{head, t}
}

func quotaSet(e *env) *cobra.Command {
	var defaults bool
	c := &cobra.Command{
		Use:   "set PROJECT|--default QUOTA=LIMIT...",
		Short: "Set limits of a project, or the defaults of the zone (admins)",
		Long: `Set how much a project may have at any instant. Quotas are leases, hosts (whole hosts
reserved), reserved (room for instances reserved), instances, preemptibles and volumes;
the last four also with a resource class, such as reserved.VCPU. What the zone keeps for a
project has limits from the start: boots (requests that are not decided), records (requests
that are kept), data (bytes of metadata and names of these) and server_groups. A LIMIT is a
number, none, or default for the limit of the zone. Limits that are not named stay. What a
project has already stays too, whatever the limits are.`,
		Example: `  berth quota set web hosts=4 reserved.VCPU=200
  berth quota set web hosts=default leases=none
  berth quota set --default leases=10`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) == 1 && !defaults {
				return usageError(c, "%q needs a PROJECT or --default, and limits such as hosts=4", c.CommandPath())
			}
			return nil
		},
	}
	c.Flags().BoolVar(&defaults, "default", false, "set the defaults of the zone")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		var p api.ProjectID
		if !defaults {
			p, args = api.ProjectID(args[0]), args[1:]
		}
		if strings.Contains(string(p), "=") {
			return usageError(c, "%q needs a PROJECT or --default, and limits such as hosts=4", c.CommandPath())
		}
		limits, err := parseLimits(args)
		if err != nil {
			return usageError(c, "%s", err)
		}
		return showAnswer(ctx, e, func(ctx context.Context) (rest.Quota, error) { return cl.SetQuota(ctx, p, limits) }, quotaTables)
	})
	return c
}

// parseLimits reads QUOTA=LIMIT; a nil limit stands for the default.
func parseLimits(args []string) (map[string]*int64, error) {
	out := map[string]*int64{}
	for _, arg := range args {
		name, text, ok := strings.Cut(arg, "=")
		if _, twice := out[name]; !ok || name == "" || twice {
			return nil, fmt.Errorf("%q is not QUOTA=LIMIT, or is given twice", arg)
		}
		switch text {
		case "default":
			out[name] = nil
			continue
		case "none":
			text = "-1"
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the limit of %q is a number, none or default, not %q", name, text)
		}
		out[name] = &n
	}
	return out, nil
}

func quotaDelete(e *env) *cobra.Command {
	var s sure
	c := &cobra.Command{
		Use: "delete PROJECT", Short: "Delete the limits of a project, which has the defaults then (admins)", Example: "  berth quota delete web --yes",
		Args: exactArgs("a PROJECT"),
	}
	s.addFlag(c)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		return e.confirmAndDelete(ctx, s, "delete the limits of project", args[0], func(ctx context.Context) error { return cl.DeleteQuota(ctx, api.ProjectID(args[0])) })
	})
	return c
}
