package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/raftstore"
)

func operatorRecover(e *env) *cobra.Command {
	var (
		dir string
		key string
		s   sure
	)
	c := &cobra.Command{
		Use:   "recover --dir DIR",
		Short: "Bring a zone back from one stopped node, when the majority of its nodes is lost for good",
		Long: `Make a stopped node the only one of its zone, when the majority of the nodes is lost for good
and the zone has no leader any more. It keeps all that this node has; what only the lost
nodes had is gone. Use the node with the highest index, as it prints it before it asks.

The lost nodes must never run again: two of them could go on as another zone of the same
name. Agents do not listen to them once they have heard of this one. Links with other
zones go on, and they are told anew what is here. What they have agreed with the lost nodes
since, they keep, as after a restore: see "Backup and restore" in operate.md.

Afterwards start the node, and let new ones join:

  berth node --dir DIR
  berth join-token create --kind node`,
		Example: `  berth operator recover --dir /var/lib/berth
  berth operator recover --dir /var/lib/berth --yes -o json`,
		Args: exactArgs(),
	}
	hideCallerFlags(c)
	f := c.Flags()
	f.StringVar(&dir, "dir", "", "data directory of the node")
	f.StringVar(&key, "disk-key-file", "", "file with the disk key of the node, if it has one")
	s.addFlag(c)
	RequireFlags(c, "dir")
	c.RunE = RunLocally(func(c *cobra.Command, _ []string) error {
		if err := refuseCallerFlags(c); err != nil {
			return err
		}
		if err := e.checkFormat(); err != nil {
			return err
		}
		diskKey, err := ReadDiskKey(key)
		if err != nil {
			return err
		}
		return e.recoverNode(c.Context(), s, dir, diskKey)
	})
	return c
}

// recoverNode shows what a node has, asks, and makes it the only one of its zone.
func (e *env) recoverNode(ctx context.Context, s sure, dir string, key *raftstore.DiskKey) error {
	at := filepath.Join(dir, raftFolder)
	left, err := raftstore.Survey(at, key)
	if err != nil {
		return recoverError(err)
	}
	if err = e.noteTables(survivorTables(left)...); err != nil {
		return err
	}
	var lost []string
	for _, m := range left.Lost() {
		lost = append(lost, string(m.ID))
	}
	if len(lost) > 0 { // otherwise it is refused anyway
		what := fmt.Sprintf("make node %s the only one of its zone, and give up %s with all that only they have", left.Node, strings.Join(lost, " and "))
		if err = e.confirmAction(ctx, s, what); err != nil {
			return err
		}
	}
	kept, err := raftstore.Recover(raftstore.Config{ID: left.Node, Dir: at, DiskKey: key, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return recoverError(err)
	}
	e.printNote("node %s is the only one of its zone now; start it with: berth node --dir %s", kept.Node, dir)
	if e.format == formatTable { // it was shown before
		return nil
	}
	body, err := json.Marshal(map[string]any{"node": kept.Node, "index": kept.Index, "term": kept.Term, "at": kept.At, "lost": lost})
	if err != nil {
		return fmt.Errorf("printing what was kept: %w", err)
	}
	return e.printAnswer(body, func() []table { return survivorTables(kept) })
}

// recoverError returns an error of a recovery with the next step.
func recoverError(err error) error {
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return withHint(err, "stop the node first; a zone with a leader needs no recovery: see berth operator members")
	case api.CodeOf(err) == api.CodeNotFound:
		return withHint(err, "give the data directory of a node: the --dir of berth init or berth node")
	}
	return err
}

// survivorTables shows what a stopped node has, and who the others are.
func survivorTables(s *raftstore.Survivor) []table {
	var t table
	t.addRow("NODE", s.Node)
	t.addRow("INDEX", s.Index)
	t.addRow("TERM", s.Term)
	newest := ""
	if s.At > 0 {
		newest = showInstant(s.At)
	}
	t.addRow("NEWEST CHANGE", newest)
	members := table{header: []string{"MEMBER", "ADDR", "VOTER", "FATE"}}
	for _, m := range s.Members {
		fate := "given up"
		if m.ID == s.Node {
			fate = "goes on"
		}
		members.addRow(m.ID, m.Addr, showBool(m.Voter), fate)
	}
	return []table{t, members}
}
