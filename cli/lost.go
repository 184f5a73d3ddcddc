package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

// lostShown bounds how many names of what is given up a note has.
const lostShown = 10

func hostForget(e *env) *cobra.Command {
	var s sure
	var lost bool
	c := &cobra.Command{
		Use:   "forget HOST --lost",
		Short: "Forget a host whose agent is gone for good, with all that is on it",
		Long: `Forget a host that is down and whose agent will not come back, with all that is on it:
servers, volumes with all that is in them, slots of leases, and allocations of the placement
API. All of it counts as gone at once, although nobody confirms that. The command says first
what is given up, and asks. It is refused while the host is up, and until its agent has been
silent for 35 s.

Should the agent come back, it is told to end what it still has, and registers the host as a
new one. A host without instances is deleted instead: berth host delete.`,
		Example:           "  berth host forget h1 --lost",
		Args:              exactArgs("a HOST"),
		ValidArgsFunction: e.completeFirst(hostNames),
	}
	s.addFlag(c)
	c.Flags().BoolVar(&lost, "lost", false, "its agent is gone for good; needed")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		if !lost {
			return usageError(c, "%q needs --lost; a host without instances is deleted with: berth host delete", c.CommandPath())
		}
		write := func(ctx context.Context, dryRun bool) (rest.LostHost, error) {
			return cl.WriteOffHost(ctx, args[0], rest.LoseBody{DryRun: dryRun})
		}
		l, err := write(ctx, true)
		if err != nil {
			return err
		}
		e.printNote("%s", describeLost(&l))
		if err := e.confirmAction(ctx, s, fmt.Sprintf("forget host %q and all that is on it", args[0])); err != nil {
			return err
		}
		return showAnswer(ctx, e, func(ctx context.Context) (rest.LostHost, error) { return write(ctx, false) }, lostTables)
	})
	return c
}

// writeOffServers takes servers on lost hosts as gone. It finds out of all of them first if that is
// possible.
func (e *env) writeOffServers(ctx context.Context, cl *client.Client, s sure, refs []string, all bool) error {
	ids := make([]api.InstanceID, len(refs))
	for n, ref := range refs {
		found, err := findServerIn(ctx, cl, ref, all)
		if err != nil {
			return nameSubject("server "+ref, err)
		}
		ids[n] = found.ID
		l, err := cl.WriteOffServer(ctx, found.ID, rest.LoseBody{DryRun: true})
		if err != nil {
			return nameSubject("server "+ref, err)
		}
		e.printNote("%s", describeLost(&l))
	}
	if err := e.confirmAction(ctx, s, "take as gone "+strings.Join(refs, ", ")); err != nil {
		return err
	}
	for n, id := range ids {
		if _, err := cl.WriteOffServer(ctx, id, rest.LoseBody{}); err != nil {
			return nameSubject("server "+refs[n], err)
		}
		e.printNote("server %s counts as gone", refs[n])
	}
	return nil
}

// writeOffVolume takes a volume on a lost host as gone.
func (e *env) writeOffVolume(ctx context.Context, cl *client.Client, s sure, ref string, all bool) error {
	v, err := findVolumeIn(ctx, cl, ref, all)
	if err != nil {
		return nameSubject("volume "+ref, err)
	}
	l, err := cl.WriteOffVolume(ctx, v.ID, rest.LoseBody{DryRun: true})
	if err != nil {
		return nameSubject("volume "+ref, err)
	}
	e.printNote("%s", describeLost(&l))
	if v.Attached != "" {
		e.printNote("it is attached to server %s, which loses it", v.Attached)
	}
	if err := e.confirmAction(ctx, s, "take volume "+ref+" as gone, with all that is in it"); err != nil {
		return err
	}
	if _, err := cl.WriteOffVolume(ctx, v.ID, rest.LoseBody{}); err != nil {
		return nameSubject("volume "+ref, err)
	}
	e.printNote("volume %s counts as gone", ref)
	return nil
}

// describeLost says in a sentence what is given up on a host.
func describeLost(l *rest.LostHost) string {
	var counts []string
	for _, c := range []struct {
		n    int
		what string
	}{{l.Servers, "server"}, {l.Volumes, "volume"}, {l.Slots, "slot"}, {l.Allocations, "allocation"}} {
		if c.n > 0 {
			counts = append(counts, countThings(int64(c.n), c.what))
		}
	}
	text := fmt.Sprintf("on host %s, down since %s, ", stripControls(l.Host), showInstant(l.DownSince))
	if len(counts) == 0 {
		return text + "nothing is given up"
	}
	text += strings.Join(counts, ", ") + " would be given up"
	var names []string
	for _, i := range l.List {
		if len(names) < lostShown {
			names = append(names, stripControls(fmt.Sprintf("%s (%s of project %s, %s)", i.Name, i.Kind, i.Project, i.Status)))
		}
	}
	if len(names) == 0 {
		return text
	}
	if more := l.Servers + l.Volumes + l.Slots - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return text + ": " + strings.Join(names, ", ")
}

// lostTables show what was given up on a host.
func lostTables(l rest.LostHost) []table {
	var t table
	t.addRow("HOST", l.Host)
	t.addRow("DOWN SINCE", showInstant(l.DownSince))
	t.addRow("SERVERS GONE", l.Servers)
	t.addRow("VOLUMES GONE", l.Volumes)
	t.addRow("SLOTS GONE", l.Slots)
	t.addRow("ALLOCATIONS GONE", l.Allocations)
	t.addRow("FORGOTTEN", showBool(l.Forgotten))
	return []table{t}
}
