package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
)

func operatorCommand(e *env) *cobra.Command {
	return noun("operator", "Look after the nodes, keys and settings of the zone (admins)",
		&cobra.Command{
			Use:     "members",
			Short:   "List the nodes of the zone",
			Example: "  berth operator members",
			Args:    takes(),
			RunE: e.calls(func(ctx context.Context, c *client.Client, _ []string) error {
				return list(ctx, e, "members", once(c.Members), tableOf("ID|VOTER|LEADER|ALIVE|VERSION|API|GATEWAY|JOINED", func(n api.Node) []any {
					return []any{n.ID, yes(n.Voter), yes(n.Leader), n.Alive, n.Version, n.APIAddr, n.GatewayAddr, when(n.Joined)}
				}))
			}),
		},
		operatorRemove(e),
		&cobra.Command{
			Use:     "transfer [NODE]",
			Short:   "Make another node the leader",
			Example: "  berth operator transfer n2",
			Args:    atMost(1),
			RunE: e.calls(func(ctx context.Context, c *client.Client, args []string) error {
				if err := c.Transfer(ctx, api.NodeID(optional(args))); err != nil {
					return err
				}
				e.note("the leader is changing; see: berth operator members")
				return nil
			}),
		},
		noun("snapshot", "Save and restore the whole state of the zone", snapshotSave(e), snapshotRestore(e)),
		operatorLog(e),
		noun("config", "See and change the settings of the zone", configShow(e), configSet(e)),
		noun("keyring", "Look after the keys that seal plans", &cobra.Command{
			Use:     "rotate",
			Short:   "Seal with a new key; plans that are out stay good",
			Example: "  berth operator keyring rotate",
			Args:    takes(),
			RunE: e.calls(func(ctx context.Context, c *client.Client, _ []string) error {
				if err := c.RotateKeyring(ctx); err != nil {
					return err
				}
				e.note("the zone seals with a new key")
				return nil
			}),
		}),
		holdList(e, "holds", "berth operator holds"),
	)
}

func operatorRemove(e *env) *cobra.Command {
	var s sure
	c := &cobra.Command{
		Use:     "remove NODE",
		Short:   "Take a node out of the zone for good",
		Example: "  berth operator remove n3 --yes",
		Args:    takes("a NODE"),
	}
	s.flag(c)
	c.RunE = e.calls(func(ctx context.Context, c *client.Client, args []string) error {
		return e.destroy(ctx, s, "remove node", args[0], func(ctx context.Context) error {
			return c.RemoveMember(ctx, api.NodeID(args[0]))
		})
	})
	return c
}

func snapshotSave(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "save FILE",
		Short: "Save the whole state of the zone to a new file",
		Long: `Save writes the zone's state to FILE, which must not exist yet, readable by you
alone. Its secrets are wrapped: keep the key-encryption key apart from it.`,
		Example: "  berth operator snapshot save zone.snapshot",
		Args:    takes("a FILE"),
		RunE: e.calls(func(ctx context.Context, c *client.Client, args []string) error {
			n, err := saveSnapshot(ctx, c, args[0])
			if err != nil {
				return err
			}
			e.note("%d bytes saved to %s", n, args[0])
			return nil
		}),
	}
}

// saveSnapshot writes a snapshot to a new file, which appears only when it is
// whole and on disk.
func saveSnapshot(ctx context.Context, c *client.Client, path string) (int64, error) {
	if _, err := os.Lstat(path); err == nil {
		return 0, fail(exitConflict, "choose another name", "%s: %w", path, fs.ErrExist)
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
		_ = os.Remove(part) // what is left of it is no snapshot
		return n, fmt.Errorf("saving the snapshot: %w", err)
	}
	return n, nil
}

func snapshotRestore(e *env) *cobra.Command {
	var s sure
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Replace the whole state of the zone by a snapshot",
		Long: `Restore replaces everything that the zone has agreed on by what FILE holds. What
was agreed after the snapshot was made is lost: instances started since are
stopped.`,
		Example: "  berth operator snapshot restore zone.snapshot --yes",
		Args:    takes("a FILE"),
	}
	s.flag(c)
	c.RunE = e.calls(func(ctx context.Context, c *client.Client, args []string) error {
		f, err := os.Open(args[0])
		if err != nil {
			return fail(exitUsage, "", "reading the snapshot: %w", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		return e.destroy(ctx, s, "replace the whole state of the zone by", args[0], func(ctx context.Context) error {
			return c.Restore(ctx, f)
		})
	})
	return c
}
