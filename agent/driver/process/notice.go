package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"berth/agent/driver"
	"berth/api"
)

// noticeFile, in the folder in which a command runs, tells it that it must leave.
const noticeFile = "preempt-notice.json"

// notice is the content of noticeFile.
type notice struct {
	Reason      string            `json:"reason"`       // for people
	For         api.ReservationID `json:"for"`          // what needs the room
	Deadline    time.Time         `json:"deadline"`     // UTC: the instance is killed then
	SecondsLeft int64             `json:"seconds_left"` // when the file was written
	Action      api.PreemptAction `json:"action"`
}

// Notify writes a notice for an instance, and sends SIGTERM to its group unless the notice
// is quiet. See driver.Driver.
func (d *Driver) Notify(ctx context.Context, id api.InstanceID, n driver.Notice) error {
	i, r, leave, err := d.takeTurn(ctx, id)
	if err != nil || i == nil {
		return err
	}
	defer leave()
	if r.Status != api.StatusActive || r.Volume {
		return nil
	}
	err = d.writeNotice(id, n)
	if !n.Quiet && !i.asked {
		i.asked = true
		d.signalGroup(r, unix.SIGTERM)
	}
	return err
}

// writeNotice replaces the notice of an instance. The file is only for the command, which is
// gone after a power cut, so that nothing is synced.
func (d *Driver) writeNotice(id api.InstanceID, n driver.Notice) error {
	reason := "a boot needs the room"
	if n.Lease {
		reason = "a lease needs the room"
	}
	text, err := json.Marshal(notice{
		Reason: reason, For: n.For, Deadline: n.Deadline.UTC(), SecondsLeft: int64(n.Left / time.Second), Action: n.Action,
	})
	if err != nil {
		return err
	}
	// The folder belongs to the command, which may have left anything under these names.
	name := string(id) + "/" + workFolder + "/" + noticeFile
	next := name + ".next"
	err = d.root.Remove(next)
	if isNotExist(err) {
		err = nil
	}
	if err == nil {
		err = d.writeNew(next, append(text, '\n'), d.ownerOfWork(id))
	}
	if err == nil {
		err = d.root.Rename(next, name)
	}
	if err != nil {
		return fmt.Errorf("writing the notice of instance %s: %w", id, err)
	}
	return nil
}

// writeNew writes a file that only its owner may read.
func (d *Driver) writeNew(name string, content []byte, owner uint32) error {
	f, err := d.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Chown(int(owner), -1)
	}
	return errors.Join(err, f.Close())
}

// signalGroup sends a signal to the process group of an instance if its leader has not ended,
// and reports that: until then its number, and its group's, is its own.
func (d *Driver) signalGroup(r record, sig unix.Signal) bool {
	s, err := readStat(r.PID)
	if err != nil || s.start != r.Start || s.isOver() || r.Boot != d.boot {
		return false
	}
	_ = unix.Kill(-r.PID, sig) // a process that is gone needs no signal
	return true
}
