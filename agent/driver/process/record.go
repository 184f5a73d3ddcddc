package process

import (
	"encoding/json"
	"fmt"
	"os"

	"berth/api"
	"berth/internal/durable"
)

// Names in an instance's folder.
const (
	recordFile   = "record.json"
	releasedFile = "released" // the gate has started the command
	stdoutFile   = "stdout.log"
	stderrFile   = "stderr.log"
	workFolder   = "work"    // where the command runs; of a volume, all that is in it
	volumeFolder = "volumes" // links to the work folders of attached volumes
	// privateFolder has what covers the places of the machine where every user may write.
	privateFolder = "private"
)

// record is the driver's record of an instance. It is written before the command may run,
// and again when it has ended.
type record struct {
	Instance api.InstanceID `json:"instance"`
	Host     api.HostID     `json:"host"`
	Name     string         `json:"name,omitempty"`
	Flavor   api.FlavorID   `json:"flavor,omitempty"`
	PID      int            `json:"pid,omitempty"`         // also its process group and session
	Start    uint64         `json:"start_ticks,omitempty"` // field 22 of /proc/<pid>/stat
	Boot     string         `json:"boot_id,omitempty"`
	Status   api.Status     `json:"status"`
	Fault    string         `json:"fault,omitempty"`
	UID      uint32         `json:"uid,omitempty"`     // the user that it alone runs as, whose group has the same number; 0 if it has none for itself
	Mark     string         `json:"mark,omitempty"`    // a secret of its processes, which makes their mark; "" for one of an earlier release
	Fenced   bool           `json:"fenced,omitempty"`  // it must not outlive its driver
	DiskGB   int64          `json:"disk_gb,omitempty"` // what its work folder may hold; 0 for any amount
	Volume   bool           `json:"volume,omitempty"`  // it is a volume: its work folder, and no process
	Runs     uint64         `json:"runs,omitempty"`    // of the workload that it was started with
	Again    bool           `json:"again,omitempty"`   // an earlier run of it has left its files here
	Halted   bool           `json:"halted,omitempty"`  // its end was ordered
}

// loadRecord reads the record of an instance; fs.ErrNotExist if it has none.
func loadRecord(root *os.Root, id api.InstanceID) (record, error) {
	text, err := root.ReadFile(string(id) + "/" + recordFile)
	if err != nil {
		return record{}, err
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return record{}, fmt.Errorf("reading the record of instance %s: %w", id, err)
	}
	if r.Instance != id {
		return record{}, fmt.Errorf("reading the record of instance %s: it is of %q", id, r.Instance)
	}
	return r, nil
}

// saveRecord replaces the record atomically and durably.
func saveRecord(root *os.Root, r record) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	dir, err := root.OpenRoot(string(r.Instance))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // nothing was written through it
	if err = durable.ReplaceIn(dir, recordFile, 0o600, append(text, '\n')); err != nil {
		return err
	}
	return durable.SyncDir(root)
}
