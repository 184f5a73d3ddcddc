package node

import (
	"context"
	"io"
	"sync"
	"sync/atomic"

	"berth/api"
	"berth/httpd/admin"
	"berth/httpd/rates"
	"berth/internal/backoff"
)

// SetRates changes the calls that one party may make in a second, while the node runs.
func (n *Node) SetRates(r rates.Rates) { n.rates.SetRates(r) }

// SetBackups changes the schedule of backups while the node runs. A backup that is being written is
// given up, and begun again if it is due. A schedule out of range is refused and changes nothing.
func (n *Node) SetBackups(s BackupSchedule) error {
	if err := s.Validate(); err != nil {
		return err
	}
	n.backups.replace(newBackups(n, s))
	return nil
}

// backupsNow is the schedule of backups that a node has now. Its methods may be called concurrently.
type backupsNow struct {
	now atomic.Pointer[backups] // nil without a schedule

	mu      sync.Mutex // guards changed
	changed chan struct{}
}

// replace puts a schedule in place of the one that there is; nil for none. What was counted counts on.
func (s *backupsNow) replace(b *backups) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.now.Load(); before != nil && b != nil {
		was := before.currentStatus()
		b.status.Written, b.status.Failures = was.Written, was.Failures
	}
	s.now.Store(b)
	if s.changed != nil {
		close(s.changed)
	}
	s.changed = make(chan struct{})
}

// current returns the schedule, nil for none, and a channel that is closed when there is another.
func (s *backupsNow) current() (*backups, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now.Load(), s.changed
}

// run writes backups on the schedule that there is, until ctx ends.
func (s *backupsNow) run(ctx context.Context) {
	for ctx.Err() == nil {
		b, changed := s.current()
		one, stop := context.WithCancel(ctx)
		var done sync.WaitGroup
		if b != nil {
			done.Go(func() { b.runSchedule(one) })
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
		stop()
		done.Wait()
	}
}

// newBackups returns a schedule as a node carries it out, nil for none.
func newBackups(n *Node, s BackupSchedule) *backups {
	if s.Dir == "" {
		return nil
	}
	return &backups{
		BackupSchedule: s, zone: n.rec.ZoneName, now: n.now, log: n.log,
		write: n.writeOwnBackup,
		verify: func(r io.Reader) error {
			b, _, err := ReadBackup(r, n.keys.KEKs())
			if err == nil && b.State.Zone != n.rec.Zone {
				err = api.Errorf(api.CodeInternal, "it is of zone %q", b.State.Name)
			}
			return err
		},
	}
}

// writeBackups writes backups on the schedule of the node until ctx ends.
func (n *Node) writeBackups(ctx context.Context) {
	n.backups.run(ctx)
}

// writeOwnBackup writes a backup of what this node has, whoever leads, once it has caught up with its zone.
func (n *Node) writeOwnBackup(ctx context.Context, w io.Writer) error {
	ready, cancel := context.WithTimeout(ctx, backupReadyWait)
	defer cancel()
	if err := n.Ready(ready); err != nil {
		return err
	}
	for !n.current() {
		if ready.Err() != nil {
			return api.Wrap(api.CodeTimeout, "node.writeOwnBackup", "this node has not caught up with its zone in time", ready.Err())
		}
		backoff.Sleep(ready, readyPoll)
	}
	return n.writeSnapshot(ctx, w)
}

// backupStatus returns what became of the backups of this node, false if it has no schedule.
func (n *Node) backupStatus() (admin.Backups, bool) {
	b, _ := n.backups.current()
	if b == nil {
		return admin.Backups{}, false
	}
	return b.currentStatus(), true
}

// Alive returns nil if this node works: its replica answers, and Raft too. It returns the error of ctx if they
// do not before ctx ends.
func (n *Node) Alive(ctx context.Context) error {
	if err := n.store.Alive(ctx); err != nil {
		return err
	}
	n.view().Index()
	return nil
}

// Describe says in one line what this node does, for people.
func (n *Node) Describe() string {
	leader, _ := n.store.Leader()
	what := "waits for a leader"
	switch {
	case n.removed.Load():
		what = "was removed"
	case n.leading.Load():
		what = "leads"
	case leader != "":
		what = "follows " + string(leader)
	}
	return string(n.rec.Node) + " of zone " + n.rec.ZoneName + " " + what
}
