package raftstore

import (
	"log/slog"
	"net"
	"time"

	"berth/api"
	"berth/internal/crash"
	"berth/raftstore/command"
)

// Limits and defaults of the store.
const (
	// commandsMax is the number of commands that one Propose may have.
	commandsMax = 1024
	// proposeMaxBytes is the encoded size of the commands of one Propose.
	proposeMaxBytes = 16 << 20
	// queueMax is the number of calls of Propose, and of Linearizable, that may wait at
	// once.
	queueMax = 8192
	// queueMaxBytes is the total size of the waiting proposals.
	queueMaxBytes = 64 << 20
	// membersMax is the number of nodes that a zone may have, voters or not.
	membersMax = 9
	// BackupMaxBytes is the largest backup that Restore takes.
	BackupMaxBytes = command.BackupMaxBytes
	// TimeoutDefault bounds each wait for Raft when Config.Timeout is zero.
	TimeoutDefault = 10 * time.Second
	// HungLeadingDefault is how long a write to the log may take on the leader: no
	// other can be elected meanwhile.
	HungLeadingDefault = 5 * time.Second
	// HungOtherwiseDefault is how long it may take on any other node.
	HungOtherwiseDefault = 15 * time.Second
)

// Timing is how fast Raft detects the loss of a leader. LeaderLease may not be
// above Heartbeat, and Heartbeat not above Election.
type Timing struct {
	Heartbeat   time.Duration // a follower without contact for this long seeks votes
	Election    time.Duration // a candidate without a majority for this long starts again
	LeaderLease time.Duration // a leader without a majority for this long steps down
	Commit      time.Duration // an idle leader sends the commit index this often
}

// defaultTiming returns the timing for a zone whose nodes are a millisecond or so apart: a
// lost leader is replaced in about a second.
func defaultTiming() Timing {
	return Timing{500 * time.Millisecond, 500 * time.Millisecond, 400 * time.Millisecond, 50 * time.Millisecond}
}

// Compaction is when the log is replaced by a snapshot of the state.
type Compaction struct {
	Threshold uint64        // entries since the last snapshot that call for another; 4,096 when zero
	Interval  time.Duration // how often to look, at random up to twice as long; 30 s when zero
	Trailing  uint64        // entries kept behind a snapshot for followers that lag; 4,096 when zero
}

// Stream carries Raft between the nodes of a zone. Each connection it accepts or
// dials is mutually authenticated and bound to api.ALPNRaft already: whoever can
// speak here can write the state of the zone.
type Stream interface {
	net.Listener
	// Dial connects to the node of that id, which advertises addr. It fails if another one
	// is there: it may have taken the place of a removed one.
	Dial(id api.NodeID, addr string, timeout time.Duration) (net.Conn, error)
}

// Config is what Open needs. ID, Advertise, Stream, Log and one of Dir and
// Memory are required.
type Config struct {
	ID        api.NodeID
	Dir       string  // data directory, made when it is missing; nobody else may write there
	Memory    *Memory // keeps everything in memory instead of in Dir
	Advertise string  // host:port at which the other nodes dial this one; the host may be a name
	Stream    Stream  // closed by Close
	Timing    Timing  // for nodes a millisecond apart when zero
	Compact   Compaction
	Timeout   time.Duration // bound on each wait for Raft; TimeoutDefault when zero
	Bootstrap bool          // make a zone of this one node, unless Dir holds one already

	// DiskKey seals what is written to Dir; nil for none. A directory keeps the key that it
	// was made with, or none.
	DiskKey *DiskKey

	// Ran says that this node has run before, so Dir must hold what it knows: a
	// node that has lost all of it has lost its votes, and starts no more than one
	// whose log is damaged. Made is called, once Dir is made and before the node
	// takes part in anything, for the caller to remember that; nil for none.
	Ran  bool
	Made func() error

	// Form is the newest form that this node reads and writes; api.FormNewest when
	// zero. An older one lets a zone go back to an older release.
	Form api.Form

	Log *slog.Logger
	// Now is the clock of what is measured and logged, and decides nothing; time.Now when nil.
	Now func() time.Time
	// HungLeading and HungOtherwise are how long one write to the log may take
	// while this node leads, and while it does not; HungLeadingDefault and
	// HungOtherwiseDefault when zero.
	HungLeading, HungOtherwise time.Duration
	// Crash is reached at the points of the disk. It may not return.
	Crash crash.Hook
	// Fatal is called once, from any goroutine, when the node must not go on: an
	// entry cannot be decoded, applying it panicked, the disk returned an error or
	// damage, or a write hangs. It should end the process at once, must wait for
	// nothing that may hang with the disk, and must not call Close. Nothing is
	// applied or written after it returns, and Run returns the same error. Nil
	// leaves it at that.
	Fatal func(error)

	wrap func(under) under // what lies under the checks; tests put faults there
}

func (c Config) withDefaults() Config {
	if c.Timing == (Timing{}) {
		c.Timing = defaultTiming()
	}
	if c.Compact.Threshold == 0 {
		c.Compact.Threshold = 4096
	}
	if c.Compact.Interval == 0 {
		c.Compact.Interval = 30 * time.Second
	}
	if c.Compact.Trailing == 0 {
		c.Compact.Trailing = 4096
	}
	if c.Timeout == 0 {
		c.Timeout = TimeoutDefault
	}
	if c.HungLeading == 0 {
		c.HungLeading = HungLeadingDefault
	}
	if c.HungOtherwise == 0 {
		c.HungOtherwise = HungOtherwiseDefault
	}
	if c.Form == 0 {
		c.Form = api.FormNewest
	}
	if c.Now == nil {
		c.Now = time.Now //nolint:forbidigo // it decides nothing
	}
	if c.Fatal == nil {
		c.Fatal = func(error) {}
	}
	return c
}

func (c Config) checkConfig() error {
	if err := api.CheckName("node id", string(c.ID)); err != nil {
		return err
	}
	if err := checkAddr(c.Advertise); err != nil {
		return err
	}
	switch {
	case c.Form > api.FormNewest:
		return api.Errorf(api.CodeInvalid, "form %d is unknown; this release reads forms from %d to %d", c.Form, api.FormFirst, api.FormNewest)
	case c.Stream == nil, c.Log == nil:
		return api.Errorf(api.CodeInvalid, "a stream and a log are required")
	case c.Memory != nil && c.DiskKey != nil:
		return api.Errorf(api.CodeInvalid, "a memory has no disk key")
	case (c.Dir == "") == (c.Memory == nil):
		return api.Errorf(api.CodeInvalid, "exactly one of a data directory and a memory is required")
	}
	return nil
}

func checkAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || port == "" {
		return api.Errorf(api.CodeInvalid, "node address %q is not host:port", addr)
	}
	return nil
}
