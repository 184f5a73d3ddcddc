package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/node"
	"berth/raftstore"
)

// backupReport is what a file with a backup is. What is sealed is known with the key alone.
type backupReport struct {
	File    string      `json:"file"`
	Bytes   int64       `json:"bytes"`
	Written api.Instant `json:"written"` // when the file was changed last, as the disk says
	Sealed  bool        `json:"sealed"`
	Content int64       `json:"content_bytes"` // of the state in it

	*backupContent
}

type backupContent struct {
	Zone         string         `json:"zone"`
	ZoneID       api.ZoneID     `json:"zone_id"`
	At           api.Instant    `json:"at"` // of the newest change, by the clock of the zone
	Form         api.Form       `json:"form"`
	Index        uint64         `json:"index"`
	Term         uint64         `json:"term"`
	Node         api.NodeID     `json:"node"` // the writer
	Reservations int            `json:"reservations"`
	Instances    int            `json:"instances"`
	Hosts        int            `json:"hosts"`
	Links        int            `json:"links"`
	Agents       int            `json:"agents"`
	Records      map[string]int `json:"records"`
}

func snapshotInspect(e *env) *cobra.Command {
	var kek, disk string
	c := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Say what is in a file with a snapshot, and whether it is whole",
		Long: `Say what is in a file with a snapshot. No zone is called and nothing is changed.

Without a key, only the size of a sealed file can be told. With the key-encryption key of the
zone, which is the file kek in the directory of each of its nodes, the whole file is opened, verified
and loaded: a file for which that succeeds can be restored. Keep a copy of that key apart from the
snapshots: without it they are of no use.`,
		Example: `  berth operator snapshot inspect zone.snapshot
  berth operator snapshot inspect zone.snapshot --kek /var/lib/berth/kek -o json`,
		Args: exactArgs("a FILE"),
		RunE: RunLocally(func(c *cobra.Command, args []string) error {
			if err := refuseCallerFlags(c); err != nil {
				return err
			}
			if err := e.checkFormat(); err != nil {
				return err
			}
			report, err := inspectBackup(args[0], kek, disk)
			if err != nil {
				return err
			}
			body, err := json.Marshal(report)
			if err != nil {
				return fmt.Errorf("printing what is in the snapshot: %w", err)
			}
			if report.backupContent == nil {
				e.printNote("give the key-encryption key of the zone to see what is in it: --kek FILE")
			}
			return e.printAnswer(body, report.tables)
		}),
	}
	hideCallerFlags(c)
	c.Flags().StringVar(&kek, "kek", "", "file with the key-encryption key of the zone: kek in the directory of one of its nodes, or a copy")
	c.Flags().StringVar(&disk, "disk-key-file", "", "file with the disk key that seals the file of --kek, if that node has one")
	return c
}

// inspectBackup reads a file with a backup, to its end if that can be opened.
func inspectBackup(path, kek, disk string) (*backupReport, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, exitError(exitUsage, "", "reading the snapshot: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	}
	start := make([]byte, 64)
	n, err := f.ReadAt(start, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	}
	out := &backupReport{File: path, Bytes: info.Size(), Written: api.InstantOf(info.ModTime()), Content: info.Size()}
	if content, sealed := node.SealedBackup(start[:n], info.Size()); sealed {
		out.Sealed, out.Content = true, content
	}
	if out.Sealed && kek == "" {
		return out, nil
	}
	b, err := readBackup(f, kek, disk)
	if err != nil {
		return nil, err
	}
	out.backupContent = contentOf(b)
	return out, nil
}

// readBackup reads the whole backup in f with the key in a file, "" for none.
func readBackup(f io.Reader, kek, disk string) (*raftstore.BackupFile, error) {
	diskKey, err := ReadDiskKey(disk)
	if err != nil {
		return nil, err
	}
	var keks [][32]byte
	if kek != "" {
		if keks, err = node.ReadKEKs(kek, diskKey); err != nil {
			return nil, withHint(err, "give the file kek of a node of the zone, or a copy; --disk-key-file opens it if the node has a disk key")
		}
	}
	b, _, err := node.ReadBackup(f, keks)
	if api.CodeOf(err) == api.CodeInvalid {
		return nil, withHint(err, "use another copy, or the kek of the zone that wrote it: a zone changes its key when a node is removed")
	}
	return b, err
}

func contentOf(b *raftstore.BackupFile) *backupContent {
	v, records := b.State, b.State.Records()
	return &backupContent{
		Zone: v.Name, ZoneID: v.Zone, At: v.Now(), Form: v.Form(), Index: b.Index, Term: b.Term, Node: b.Node,
		Reservations: records["boots"] + records["leases"], Instances: records["instances"], Hosts: records["hosts"],
		Links: records["links"], Agents: len(v.AgentIDs()), Records: records,
	}
}

func (r *backupReport) tables() []table {
	var t table
	t.addRow("FILE", r.File)
	t.addRow("BYTES", r.Bytes)
	t.addRow("WRITTEN", showInstant(r.Written))
	t.addRow("SEALED", showBool(r.Sealed))
	t.addRow("CONTENT BYTES", r.Content)
	c := r.backupContent
	if c == nil {
		return []table{t}
	}
	t.addRow("ZONE", c.Zone)
	t.addRow("ZONE ID", c.ZoneID)
	t.addRow("NEWEST CHANGE", showInstant(c.At))
	t.addRow("FORM", c.Form)
	t.addRow("INDEX", c.Index)
	t.addRow("TERM", c.Term)
	t.addRow("WRITER", c.Node)
	t.addRow("RESERVATIONS", c.Reservations)
	t.addRow("AGENTS", c.Agents)
	records := table{header: []string{"RECORDS", "COUNT"}}
	for _, name := range slices.Sorted(maps.Keys(c.Records)) {
		records.addRow(name, c.Records[name])
	}
	return []table{t, records}
}
