package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

// operatorMembers lists the nodes, and says beside the list what is wrong with their number.
func operatorMembers(e *env) *cobra.Command {
	return &cobra.Command{
		Use:     "members",
		Short:   "List the nodes of the zone",
		Long:    "List the nodes of the zone. EXPIRES is when the first certificate of a node ends; a running node renews all of its own\nafter two thirds of their life. CLOCK is by how\nmuch the clock of a node is ahead of the leader's, and DISK FREE the room on the disk with its data folder.",
		Example: "  berth operator members",
		Args:    exactArgs(),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			var notes []string
			voters := 0
			defer func() {
				e.noteEvenVoters(voters)
				for _, w := range notes {
					e.printNote("%s", w)
				}
			}()
			return listAll(ctx, e, "members", onePage(c.Members), tableOf("ID|VOTER|LEADER|ALIVE|VERSION|API|GATEWAY|JOINED|EXPIRES|STATE|CLOCK|DISK FREE", func(n rest.Member) []any {
				if n.Voter {
					voters++
				}
				notes = append(notes, warningsOf(n)...)
				return []any{n.ID, showBool(n.Voter), showBool(n.Leader), n.Alive, n.Version, n.APIAddr, n.GatewayAddr, joinTime(n), showKnown(n.Expires), fmt.Sprintf("%d MiB", n.StateBytes>>20), showClock(n.Clock), showDisk(n.Disk)}
			}))
		}),
	}
}

// noteEvenVoters says that a zone has a voter too many, or one too few.
func (e *env) noteEvenVoters(n int) {
	if n > 0 && n%2 == 0 {
		e.printNote("%d voters may lose no more of them than %d could: let another node join, or remove one", n, n-1)
	}
}

func operatorCommand(e *env) *cobra.Command {
	return nounCommand("operator", "Manage the nodes, keys and settings of the zone (admins)",
		operatorMembers(e),
		operatorRemove(e),
		&cobra.Command{
			Use:     "transfer [NODE]",
			Short:   "Make another node the leader",
			Example: "  berth operator transfer n2",
			Args:    atMost(1),
			RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
				if err := c.Transfer(ctx, api.NodeID(optionalArg(args))); err != nil {
					return err
				}
				e.printNote("the leader is changing; see: berth operator members")
				return nil
			}),
		},
		nounCommand("snapshot", "Save, inspect and restore the whole state of the zone", snapshotSave(e), snapshotRestore(e), snapshotInspect(e)),
		operatorLog(e),
		operatorRecover(e),
		operatorAudit(e),
		operatorLogLevel(e),
		operatorAutopilot(e),
		operatorUpgrade(e),
		operatorDebug(e),
		nounCommand("config", "See and change the settings of the zone", configShow(e), configSet(e)),
		nounCommand("keyring", "Manage the keys that seal plans", &cobra.Command{
			Use:     "rotate",
			Short:   "Seal with a new key; plans sealed before stay valid",
			Example: "  berth operator keyring rotate",
			Args:    exactArgs(),
			RunE: e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
				if err := c.RotateKeyring(ctx); err != nil {
					return err
				}
				e.printNote("the zone now seals with a new key")
				return nil
			}),
		}),
		nounCommand("kek", "Manage the key that wraps the secrets of the zone", &cobra.Command{
			Use:   "rotate",
			Short: "Wrap all secrets by a new key, which every node of the zone gets",
			Long: "The key-encryption key is in the file kek of each node. The zone changes it by itself when a node is removed;\n" +
				"change it yourself when somebody may have read that file.\n" +
				"A majority of the nodes must take the new key. Backups sealed with an older one need --accept-unauthenticated from then on.",
			Example: "  berth operator kek rotate",
			Args:    exactArgs(),
			RunE: e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
				if err := c.RotateKEK(ctx); err != nil {
					return err
				}
				e.printNote("the secrets of the zone are wrapped by a new key")
				return nil
			}),
		}),
		nounCommand("ca", "Change the certificate authority of the zone", caStatus(e), caShow(e), caRotate(e), caUse(e), caFinish(e)),
	)
}

// joinTime returns when a node joined, "" for one without a record yet.
func joinTime(n rest.Member) string {
	if n.Joined == 0 {
		return ""
	}
	return showInstant(n.Joined)
}

func operatorRemove(e *env) *cobra.Command {
	var s sure
	c := &cobra.Command{
		Use:     "remove NODE",
		Short:   "Remove a node from the zone for good",
		Example: "  berth operator remove n3 --yes",
		Args:    exactArgs("a NODE"),
	}
	s.addFlag(c)
	c.RunE = e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		return e.confirmAndDelete(ctx, s, "remove node", args[0], func(ctx context.Context) error {
			return c.RemoveMember(ctx, api.NodeID(args[0]))
		})
	})
	return c
}

func snapshotSave(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "save FILE",
		Short: "Save the whole state of the zone to a new file",
		Long: `Save the whole state of the zone to FILE, which must not exist yet and will be
readable by you alone; - means standard output, and then the exit code says whether it is whole.
It is sealed with the key-encryption key of the zone: keep the two apart.`,
		Example: "  berth operator snapshot save zone.snapshot",
		Args:    exactArgs("a FILE"),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			answered := e.noteWaiting()
			save := saveSnapshot
			if args[0] == "-" {
				save = func(ctx context.Context, c *client.Client, _ string) (int64, error) { return c.Snapshot(ctx, e.out) }
			}
			n, err := save(ctx, c, args[0])
			answered()
			if err != nil {
				return err
			}
			e.printNote("%d bytes saved to %s", n, nameOutput(args[0]))
			return nil
		}),
	}
}

// nameOutput returns the path of a file, or what - stands for.
func nameOutput(path string) string {
	if path == "-" {
		return "standard output"
	}
	return path
}

// saveSnapshot writes a snapshot to a new file, which appears only once it is complete
// and on disk.
func saveSnapshot(ctx context.Context, c *client.Client, path string) (int64, error) {
	if _, err := os.Lstat(path); err == nil {
		return 0, exitError(exitConflict, "choose another name", "%s: %w", path, fs.ErrExist)
	}
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, fmt.Errorf("saving the snapshot: %w", err)
	}
	n, err := c.Snapshot(ctx, f)
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		_ = os.Remove(part) // an incomplete file is not a snapshot
		return n, fmt.Errorf("saving the snapshot: %w", err)
	}
	return n, nil
}

func snapshotRestore(e *env) *cobra.Command {
	var s sure
	var unauthenticated bool
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Replace the whole state of the zone with a snapshot",
		Long: `Replace the whole state of the zone with the snapshot in FILE. All later changes are
lost, and instances started since then are stopped. A file that this zone has not
written, or that was changed since, is refused.`,
		Example: "  berth operator snapshot restore zone.snapshot --yes",
		Args:    exactArgs("a FILE"),
	}
	s.addFlag(c)
	c.Flags().BoolVar(&unauthenticated, "accept-unauthenticated", false,
		"accept a file that does not prove that this zone wrote it: a backup of an older release")
	c.RunE = e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		f, err := os.Open(args[0])
		if err != nil {
			return exitError(exitUsage, "", "reading the snapshot: %w", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		return e.confirmAndDelete(ctx, s, "replace the whole state of the zone with", args[0], func(ctx context.Context) error {
			if unauthenticated {
				return restoreError(c.RestoreUnauthenticated(ctx, f))
			}
			return restoreError(c.Restore(ctx, f))
		})
	})
	return c
}

// restoreError returns the error of a restore with a hint. A restore whose answer was
// lost may have happened, and it has no id to be repeated with.
func restoreError(err error) error {
	e, ok := errors.AsType[*api.Error](err)
	if !ok {
		return err
	}
	told := client.RequestIDOf(e) != ""
	switch {
	case e.Code == api.CodeTimeout && told:
		lost := *e
		lost.Msg = "the zone's leader was lost or late during the restore, which has happened entirely or not at all"
		return withHint(&lost, restoreLost)
	case e.Code == api.CodeTimeout, e.Code == api.CodeUnavailable && !told:
		return withHint(err, restoreLost)
	case e.Code == api.CodeInvalid:
		return withHint(err, "use an intact copy of a backup of this zone")
	}
	return err
}

// restoreLost is the hint for a restore with an unknown outcome.
const restoreLost = "see berth operator members, and check whether changes since the backup are gone; " +
	"if they are still there, restore again: repeating is safe"
