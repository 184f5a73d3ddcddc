package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/backoff"
)

// volumeGap is the time between two looks at a volume that is being made.
const volumeGap = 200 * time.Millisecond

func volumeCommand(e *env) *cobra.Command {
	c := nounCommand("volume", "See, make, attach and delete volumes",
		volumeList(e), volumeShow(e), volumeCreate(e), volumeAttach(e), volumeDetach(e), volumeDelete(e))
	c.Aliases = []string{"volumes"}
	return c
}

func volumeList(e *env) *cobra.Command {
	var q client.VolumeQuery
	var status string
	c := &cobra.Command{
		Use:     "list",
		Short:   "List volumes",
		Example: "  berth volume list\n  berth volume list --status available --zone west",
		Args:    exactArgs(),
	}
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		q.Status = api.VolumeStatus(strings.ToLower(status))
		return listAll(ctx, e, "volumes", func(ctx context.Context, o client.ListOptions) (client.Page[rest.Volume], error) {
			return cl.Volumes(ctx, q, o)
		}, volumeRows(q.AllProjects))
	})
	f := c.Flags()
	f.StringVar(&q.Name, "name", "", "only volumes with this text in their name")
	f.StringVar(&status, "status", "", "only volumes with this status: creating, available, in-use, deleting or error")
	f.StringVar(&q.Type, "type", "", "only volumes of this type")
	f.StringVar(&q.Zone, "zone", "", "only volumes of this zone: the zone itself, or a direct child with all below it")
	f.BoolVar(&q.AllProjects, "all-projects", false, "volumes of all projects, including those made for a parent zone (admins)")
	e.flagNames(c, "zone", ownZoneNames)
	return c
}

// volumeRows returns the table of volumes, with their projects if there are several.
func volumeRows(projects bool) func([]rest.Volume) []table {
	header, wide := "ID|NAME|STATUS|SIZE|TYPE|SERVER|ZONE|CREATED", "PROJECT|USER|HOST|UPDATED|FAULT"
	if projects {
		header, wide = "ID|PROJECT|NAME|STATUS|SIZE|TYPE|SERVER|ZONE|CREATED", strings.TrimPrefix(wide, "PROJECT|")
	}
	return wideTableOf(header, wide, func(v rest.Volume) []any {
		cells := []any{v.Name, shownVolumeStatus(v), v.Size, v.Type, v.Attached, v.Zone, showInstant(v.Created)}
		more := []any{v.User, v.Host, showInstant(v.Updated), v.Fault}
		if projects {
			return slices.Concat([]any{v.ID, v.Project}, cells, more)
		}
		return slices.Concat([]any{v.ID}, cells, []any{v.Project}, more)
	})
}

func volumeShow(e *env) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:               "show VOLUME",
		Short:             "Show one volume, by its id or name",
		Example:           "  berth volume show data",
		Args:              exactArgs("a VOLUME"),
		ValidArgsFunction: e.completeFirst(volumeNames),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return showAnswer(ctx, e, func(ctx context.Context) (rest.Volume, error) { return findVolumeIn(ctx, c, args[0], all) }, volumeTables)
		}),
	}
	everyProjectFlag(c, &all)
	return c
}

// findVolume returns the volume with the id ref, or the only volume of the caller's project with the name ref.
func findVolume(ctx context.Context, c *client.Client, ref string) (rest.Volume, error) {
	return findVolumeIn(ctx, c, ref, false)
}

// findVolumeIn is findVolume, with all for the names of all projects.
func findVolumeIn(ctx context.Context, c *client.Client, ref string, all bool) (rest.Volume, error) {
	found, err := c.Volume(ctx, api.InstanceID(ref))
	if api.CodeOf(err) != api.CodeNotFound {
		return found, err
	}
	id, err := findNamed(ctx, "volume", ref, all, func(ctx context.Context, o client.ListOptions) (client.Page[rest.Volume], error) {
		return c.Volumes(ctx, client.VolumeQuery{Name: ref, AllProjects: all}, o)
	}, func(v rest.Volume) (api.InstanceID, string) { return v.ID, v.Name })
	if err != nil {
		return found, err
	}
	return c.Volume(ctx, id)
}

// shownVolumeStatus returns the status of a volume for a table, like shownStatus.
func shownVolumeStatus(v rest.Volume) string {
	if v.Reachable != nil && !*v.Reachable {
		return string(v.Status) + " (unreachable)"
	}
	return string(v.Status)
}

func volumeTables(v rest.Volume) []table {
	var t table
	t.addRow("ID", v.ID)
	t.addRow("NAME", v.Name)
	t.addRow("STATUS", shownVolumeStatus(v))
	if v.Since != 0 {
		t.addRow("UNREACHABLE SINCE", showInstant(v.Since))
	}
	if v.Fault != "" {
		t.addRow("FAULT", v.Fault)
	}
	t.addRow("SIZE", v.Size)
	t.addRow("TYPE", v.Type)
	t.addRow("STORAGE CLASS", v.Class)
	if v.Attached != "" {
		t.addRow("SERVER", v.Attached)
	}
	t.addRow("RESERVATION", v.Reservation)
	t.addRow("PROJECT", v.Project)
	t.addRow("USER", v.User)
	t.addRow("METADATA", sortedPairs(v.Metadata))
	if v.Group != "" {
		t.addRow("GROUP", v.Group)
	}
	t.addRow("ZONE", v.Zone)
	if v.Host != "" {
		t.addRow("HOST", v.Host)
	}
	if v.Origin != "" {
		t.addRow("MADE FOR", v.Origin)
	}
	t.addRow("CREATED", showInstant(v.Created))
	t.addRow("UPDATED", showInstant(v.Updated))
	return []table{t}
}

func volumeCreate(e *env) *cobra.Command {
	var s rest.VolumeCreate
	var class, near, az, key string
	var metadata, specs, zones []string
	var p patience
	c := &cobra.Command{
		Use:   "create NAME --size GIB",
		Short: "Make one volume",
		Long: `Make one volume and wait until it is there. With --near it is on
the host of a server, to which it can be attached then. To make volumes together with
servers, give berth boot --groups a group with volume: {size, attach_to}.`,
		Example: "  berth volume create data --size 20\n  berth volume create data --size 20 --type fast --storage-class CUSTOM_SSD --near web-1",
		Args:    exactArgs("a NAME"),
	}
	p.addFlags(c)
	f := c.Flags()
	f.Int64Var(&s.Size, "size", 0, "size in `GIB` (required)")
	f.StringVar(&s.Type, "type", "", "type of the volume (default: standard)")
	f.StringVar(&class, "storage-class", "", "resource class that the size is of (default: DISK_GB)")
	f.StringArrayVar(&specs, "spec", nil, "condition for its place, such as an affinity tag of zones, as `KEY=VALUE`; may be repeated")
	f.StringVar(&near, "near", "", "on the host of this `SERVER`, by id or name")
	f.StringVar(&az, "availability-zone", "", "only on hosts of this availability zone")
	f.StringArrayVar(&zones, "zone", nil, "only in this `ZONE`: the zone itself, or a direct child with all below it; may be repeated")
	f.StringArrayVar(&metadata, "metadata", nil, "`KEY=VALUE` to store with the volume; may be repeated")
	f.StringVar(&key, "key", "", "idempotency `KEY` of your choice; repeating it returns the first volume")
	e.flagNames(c, "near", serverNames)
	e.flagNames(c, "availability-zone", azNames)
	e.flagNames(c, "zone", ownZoneNames)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		if s.Size < 1 {
			return usageError(c, "%q needs --size, in GiB", c.CommandPath())
		}
		err := p.checkFlags(c)
		if err != nil {
			return err
		}
		if s.Metadata, err = readPairs(c, "metadata", metadata); err != nil {
			return err
		}
		if s.ExtraSpecs, err = readPairs(c, "spec", specs); err != nil {
			return err
		}
		s.Name, s.Class, s.AvailabilityZone = args[0], api.ResourceClass(class), az
		if len(zones) > 0 {
			s.Zones = &rest.ZoneRule{Allowed: zones}
		}
		if near != "" {
			server, err := findServer(ctx, cl, near)
			if err != nil {
				return nameSubject("server "+near, err)
			}
			s.Hints = &rest.SchedulerHints{SameHost: []api.InstanceID{server.ID}}
		}
		ctx, stop := context.WithTimeout(ctx, p.timeout)
		defer stop()
		return e.createVolume(ctx, cl, s, key, p)
	})
	return c
}

// createVolume makes a volume, waits until it is there or cannot be made, and shows it.
func (e *env) createVolume(ctx context.Context, cl *client.Client, s rest.VolumeCreate, key string, p patience) error {
	key, named := keyed(key)
	answered := e.noteWaitingFor(named.name)
	made, err := cl.CreateVolume(ctx, s, key)
	answered()
	switch {
	case err != nil:
		return e.hintRepeat(err, named)
	case made.Volume == nil:
		return api.Errorf(api.CodeInternal, "the zone does not say which volume it made for reservation %s", string(made.Reservation))
	}
	id := made.Volume.ID
	var v rest.Volume
	err = showAnswer(ctx, e, func(ctx context.Context) (rest.Volume, error) {
		for {
			if v, err = cl.Volume(ctx, id); err != nil || !p.isWaiting() || v.Status != api.VolumeCreating {
				return v, err
			}
			backoff.Sleep(ctx, volumeGap) // the next call sees the end of ctx
		}
	}, volumeTables)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return exitError(exitTimeout, "it continues; check with: berth volume show "+string(id), "volume %s is still being made after %s", id, p.timeout)
	case err == nil && v.Status == api.VolumeError:
		return exitError(exitNoneRuns, "free its room with: berth volume delete "+string(id), "volume %s could not be made: %s", id, v.Fault)
	}
	return err
}

func volumeAttach(e *env) *cobra.Command {
	return &cobra.Command{
		Use:               "attach VOLUME SERVER",
		Short:             "Attach a volume to a server, by ids or names",
		Long:              "Attach a volume to a server of the same project: on its host, or on one that shares the\npool that the volume is in.",
		Example:           "  berth volume attach data web-1",
		Args:              exactArgs("a VOLUME", "a SERVER"),
		ValidArgsFunction: e.completeFirst(volumeNames),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			v, err := findVolume(ctx, c, args[0])
			if err != nil {
				return nameSubject("volume "+args[0], err)
			}
			s, err := findServer(ctx, c, args[1])
			if err != nil {
				return nameSubject("server "+args[1], err)
			}
			if err := c.AttachVolume(ctx, v.ID, s.ID); err != nil {
				return nameSubject("volume "+args[0], err)
			}
			e.printNote("volume %s is attached to server %s", args[0], args[1])
			return nil
		}),
	}
}

func volumeDetach(e *env) *cobra.Command {
	return &cobra.Command{
		Use:               "detach VOLUME",
		Short:             "Detach a volume from its server",
		Example:           "  berth volume detach data",
		Args:              exactArgs("a VOLUME"),
		ValidArgsFunction: e.completeFirst(volumeNames),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			v, err := findVolume(ctx, c, args[0])
			if err == nil {
				err = c.DetachVolume(ctx, v.ID)
			}
			if err != nil {
				return nameSubject("volume "+args[0], err)
			}
			e.printNote("volume %s is detached", args[0])
			return nil
		}),
	}
}

func volumeDelete(e *env) *cobra.Command {
	var s sure
	var lost, all bool
	c := &cobra.Command{
		Use:   "delete VOLUME",
		Short: "Delete a volume and all that is in it",
		Long: `Delete a volume and all that is in it. It must not be attached.

With --lost it counts as gone at once, attached or not, although nobody confirms that: use
that only for a volume on a host that is down for good. The command says first what is given
up, and asks. Should the host come back, its agent deletes the volume. See also: berth host
forget.`,
		Example:           "  berth volume delete data --yes\n  berth volume delete data --lost",
		Args:              exactArgs("a VOLUME"),
		ValidArgsFunction: e.completeFirst(volumeNames),
	}
	s.addFlag(c)
	everyProjectFlag(c, &all)
	c.Flags().BoolVar(&lost, "lost", false, "take it as gone, as its host is down for good (for admins)")
	c.RunE = e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		if lost {
			return e.writeOffVolume(ctx, c, s, args[0], all)
		}
		if err := e.confirmAction(ctx, s, "delete volume "+args[0]+" and all that is in it"); err != nil {
			return err
		}
		v, err := findVolumeIn(ctx, c, args[0], all)
		if err == nil {
			err = c.DeleteVolume(ctx, v.ID)
		}
		if err != nil {
			return nameSubject("volume "+args[0], err)
		}
		e.printNote("volume %s is being deleted", args[0])
		return nil
	})
	return c
}
