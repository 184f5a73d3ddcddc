package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

func serverCommand(e *env) *cobra.Command {
	c := nounCommand("server", "See, create and delete single instances", serverList(e), serverShow(e), serverCreate(e), serverDelete(e), serverLogs(e))
	c.AddCommand(serverPower(e)...)
	c.Aliases = []string{"servers"}
	return c
}

func serverList(e *env) *cobra.Command {
	var q client.ServerQuery
	var reservation, status, flavor, since string
	c := &cobra.Command{
		Use:     "list",
		Short:   "List servers",
		Example: "  berth server list\n  berth server list --reservation r-0123456789ab --status ERROR\n  berth server list --all-projects --host h1\n  berth server list --preemptible",
		Args:    exactArgs(),
	}
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		if since != "" {
			at, err := time.Parse(time.RFC3339, since)
			if err != nil {
				return usageError(c, "--changed-since must be a time such as 2030-01-31T12:00:00Z, got %q", since)
			}
			q.Since = at
		}
		q.Flavor = api.FlavorID(flavor)
		q.Reservation, q.Status = api.ReservationID(reservation), api.Status(strings.ToUpper(status))
		rows := serverRows(q.AllProjects)
		e.list.usual = "-created"
		if q.Status == api.StatusError {
			rows = tableOf("ID|NAME|STATUS|FAULT|ZONE|FLAVOR|RESERVATION|CREATED", func(s rest.Server) []any {
				return []any{s.ID, s.Name, shownStatus(s), s.Fault, s.Zone, s.Flavor, s.Reservation, showInstant(s.Created)}
			})
		}
		if q.Preemptible {
			e.list.usual = ""
			rows = tableOf("ID|NAME|STATUS|ZONE|FLAVOR|RESERVATION|WHY|ROOM UNTIL|MUST LEAVE", func(s rest.Server) []any {
				return []any{s.ID, s.Name, shownStatus(s), s.Zone, s.Flavor, s.Reservation, s.By, shownUntil(s), shownDeadline(s)}
			})
		}
		return listAll(ctx, e, "servers", func(ctx context.Context, o client.ListOptions) (client.Page[rest.Server], error) {
			return cl.Servers(ctx, q, o)
		}, rows)
	})
	f := c.Flags()
	f.StringVar(&reservation, "reservation", "", "only servers of this reservation")
	f.StringVar(&q.Name, "name", "", "only servers with this text in their name")
	f.StringVar(&status, "status", "", "only servers with this status, such as ERROR; DELETED ones are kept for a day")
	mustFlag(c.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(serverStatuses(), cobra.ShellCompDirectiveNoFileComp)))
	f.BoolVar(&q.AllProjects, "all-projects", false, "servers of all projects, including those created for a parent zone (admins)")
	f.BoolVar(&q.Preemptible, "preemptible", false, "only preemptible servers, and until when they must leave")
	f.StringVar(&flavor, "flavor", "", "only servers of this flavor")
	f.StringVar(&q.Group, "group", "", "only servers of the group of a boot with this name")
	f.StringVar(&q.Zone, "zone", "", "only servers of this zone: the zone itself, or a direct child with all below it")
	f.StringVar(&q.Host, "host", "", "only servers on this host (admins)")
	f.StringVar(&since, "changed-since", "", "only servers changed since this `TIME`, such as 2030-01-31T12:00:00Z, including deleted ones")
	e.flagNames(c, "reservation", reservationNames)
	e.flagNames(c, "flavor", flavorNames)
	e.flagNames(c, "host", hostNames)
	e.flagNames(c, "zone", ownZoneNames)
	return c
}

// serverRows returns the table of servers, with their projects if there are several.
func serverRows(projects bool) func([]rest.Server) []table {
	header, wide := "ID|NAME|STATUS|ZONE|FLAVOR|RESERVATION|CREATED", "PROJECT|USER|HOST|UPDATED|FAULT"
	if projects {
		header, wide = "ID|PROJECT|NAME|STATUS|ZONE|FLAVOR|RESERVATION|CREATED", strings.TrimPrefix(wide, "PROJECT|")
	}
	return wideTableOf(header, wide, func(s rest.Server) []any {
		cells := []any{s.Name, shownStatus(s), s.Zone, s.Flavor, s.Reservation, showInstant(s.Created)}
		more := []any{s.User, s.Host, showInstant(s.Updated), s.Fault}
		if projects {
			return slices.Concat([]any{s.ID, s.Project}, cells, more)
		}
		return slices.Concat([]any{s.ID}, cells, []any{s.Project}, more)
	})
}

func serverShow(e *env) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:               "show SERVER",
		Short:             "Show one server, by its id or name",
		Example:           "  berth server show web-1\n  berth server show web-1 --all-projects",
		Args:              exactArgs("a SERVER"),
		ValidArgsFunction: e.completeFirst(serverNames),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return showAnswer(ctx, e, func(ctx context.Context) (rest.Server, error) { return findServerIn(ctx, c, args[0], all) }, serverTables)
		}),
	}
	everyProjectFlag(c, &all)
	return c
}

// everyProjectFlag adds the flag that finds names in all projects; an id is found without it.
func everyProjectFlag(c *cobra.Command, all *bool) {
	c.Flags().BoolVar(all, "all-projects", false, "find a name in all projects (admins)")
}

// findServer returns the server with the id ref, or the only server of the caller's project with the name ref.
func findServer(ctx context.Context, c *client.Client, ref string) (rest.Server, error) {
	return findServerIn(ctx, c, ref, false)
}

// findServerIn is findServer, with all for the names of all projects.
func findServerIn(ctx context.Context, c *client.Client, ref string, all bool) (rest.Server, error) {
	found, err := c.Server(ctx, api.InstanceID(ref))
	if api.CodeOf(err) != api.CodeNotFound {
		return found, err
	}
	id, err := findNamed(ctx, "server", ref, all, func(ctx context.Context, o client.ListOptions) (client.Page[rest.Server], error) {
		return c.Servers(ctx, client.ServerQuery{Name: ref, AllProjects: all}, o)
	}, func(s rest.Server) (api.InstanceID, string) { return s.ID, s.Name })
	if err != nil {
		return found, err
	}
	return c.Server(ctx, id)
}

// shownStatus returns the status of a server for a table, which is the last known one if
// its host or zone is unreachable.
func shownStatus(s rest.Server) string {
	if s.Reachable != nil && !*s.Reachable {
		return string(s.Status) + " (unreachable)"
	}
	return string(s.Status)
}

func serverTables(s rest.Server) []table {
	var t table
	t.addRow("ID", s.ID)
	t.addRow("NAME", s.Name)
	t.addRow("STATUS", shownStatus(s))
	if s.Since != 0 {
		t.addRow("UNREACHABLE SINCE", showInstant(s.Since))
	}
	if s.Fault != "" {
		t.addRow("FAULT", s.Fault)
	}
	t.addRow("RESERVATION", s.Reservation)
	t.addRow("PROJECT", s.Project)
	t.addRow("USER", s.User)
	t.addRow("FLAVOR", s.Flavor)
	t.addRow("RESOURCES", s.Resources)
	t.addRow("METADATA", sortedPairs(s.Metadata))
	if s.Group != "" {
		t.addRow("GROUP", s.Group)
	}
	t.addRow("ZONE", s.Zone)
	if s.Window.End != 0 && s.Window.End != api.Forever {
		t.addRow("ENDS", showInstant(s.Window.End))
	}
	addPreempted(&t, &s)
	if s.Host != "" {
		t.addRow("HOST", s.Host)
	}
	if s.Origin != "" {
		t.addRow("CREATED FOR", s.Origin)
	}
	if s.Restarts > 0 {
		t.addRow("RESTARTS", s.Restarts)
	}
	t.addRow("CREATED", showInstant(s.Created))
	t.addRow("UPDATED", showInstant(s.Updated))
	return []table{t}
}

// addPreempted adds the rows that only preemptible servers have.
func addPreempted(t *table, s *rest.Server) {
	addPreemptTerms(t, s.PreemptTerms)
	if s.Until != 0 {
		t.addRow("ROOM UNTIL", shownUntil(*s))
	}
	if v := s.Eviction; v != nil {
		t.addRow("MUST LEAVE", shownDeadline(*s))
		t.addRow("SINCE", showInstant(v.At))
		t.addRow("FOR", shownCause(v))
	}
}

// addPreemptTerms adds the rows of preemptible servers that their boot has too.
func addPreemptTerms(t *table, p rest.PreemptTerms) {
	if p.Preemptible {
		t.addRow("PREEMPTIBLE", cmp.Or(string(p.By), "true"))
		t.addRow("ON PREEMPT", p.OnPreempt)
	}
}

// shownUntil returns until when a preemptible server keeps its room at least; "" if that is not
// known.
func shownUntil(s rest.Server) string {
	switch s.Until {
	case 0:
		return ""
	case api.Forever:
		return "no end"
	}
	return showInstant(s.Until)
}

// shownCause returns for what a preemptible server must leave. Another zone does not say whose
// it is.
func shownCause(v *rest.Eviction) string {
	switch {
	case v.Lease != "":
		return "lease " + string(v.Lease)
	case v.Reservation == "":
		return "a " + v.For
	case v.For == rest.EvictedForLease:
		return fmt.Sprintf("reservation %s of a lease", v.Reservation)
	}
	return fmt.Sprintf("%s %s", v.For, v.Reservation)
}

// shownDeadline returns until when a preemptible server must leave; "" if it need not.
func shownDeadline(s rest.Server) string {
	if s.Eviction == nil {
		return ""
	}
	return showInstant(s.Eviction.Deadline)
}

func serverCreate(e *env) *cobra.Command {
	var flavor, key string
	var metadata []string
	c := &cobra.Command{
		Use:   "create NAME --flavor FLAVOR",
		Short: "Create one server",
		Long: `Create one server and wait until the zone has decided where it runs. Its status then
shows the progress. To create several at once, use berth boot.`,
		Example: "  berth server create web --flavor small",
		Args:    exactArgs("a NAME"),
	}
	c.Flags().StringVar(&flavor, "flavor", "", "flavor of the server (required)")
	c.Flags().StringArrayVar(&metadata, "metadata", nil, "`KEY=VALUE` to store with the server; may be repeated")
	c.Flags().StringVar(&key, "key", "", "idempotency `KEY` of your choice; repeating it returns the first server")
	e.flagNames(c, "flavor", flavorNames)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		if flavor == "" {
			return usageError(c, "%q needs --flavor", c.CommandPath())
		}
		kept, err := readPairs(c, "metadata", metadata)
		if err != nil {
			return err
		}
		key, named := keyed(key)
		return e.hintRepeat(showAnswer(ctx, e, func(ctx context.Context) (rest.ServerCreated, error) {
			return cl.CreateServer(ctx, rest.ServerCreate{Name: args[0], FlavorRef: flavor, Metadata: kept}, key)
		}, func(s rest.ServerCreated) []table {
			if s.Server == nil {
				return nil
			}
			return serverTables(*s.Server)
		}), named)
	})
	return c
}

func serverDelete(e *env) *cobra.Command {
	var s sure
	var lost, all bool
	c := &cobra.Command{
		Use:   "delete SERVER...",
		Short: "Delete servers, by id or name",
		Long: `Delete servers, by id or name. Each is DELETING until its host has ended it.

With --lost each counts as gone at once, although nobody confirms that: use that only for
servers on a host that is down for good. The command says first what is given up, and asks.
Should the host come back, its agent ends them. See also: berth host forget.`,
		Example:           "  berth server delete web-1 --yes\n  berth server delete web-1 --lost",
		ValidArgsFunction: e.completeFirst(serverNames),
	}
	s.addFlag(c)
	everyProjectFlag(c, &all)
	c.Flags().BoolVar(&lost, "lost", false, "take them as gone, as their host is down for good (for admins)")
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usageError(c, "%q needs a SERVER", c.CommandPath())
		}
		return nil
	}
	c.RunE = e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		if lost {
			return e.writeOffServers(ctx, c, s, args, all)
		}
		if err := e.confirmAction(ctx, s, "delete "+strings.Join(args, ", ")); err != nil {
			return err
		}
		for _, ref := range args {
			found, err := findServerIn(ctx, c, ref, all)
			if err == nil {
				err = c.DeleteServer(ctx, found.ID)
			}
			if err != nil {
				return nameSubject("server "+ref, err)
			}
			e.printNote("server %s is being deleted", ref)
		}
		return nil
	})
	return c
}

// serverStatuses returns the statuses that servers may have.
func serverStatuses() []string {
	var out []string
	for _, s := range []api.Status{api.StatusBuild, api.StatusActive, api.StatusShutoff, api.StatusError, api.StatusDeleting, api.StatusDeleted} {
		out = append(out, string(s))
	}
	return out
}
