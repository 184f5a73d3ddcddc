package check

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

// Entry is one entry of a log on one node. Data are its bytes. Without these give Commands
// instead, and Sum if there is one.
type Entry struct {
	Index, Term uint64
	Type        uint8  // as Raft numbers them; 0 is a command entry, all others change no state
	Sum         uint32 // a checksum that the node keeps of the entry, 0 if it keeps none
	Data        []byte
	Commands    []command.Command
}

// NodeLog is the log of one node. Committed is the last index that is known to be committed
// there; entries above it prove nothing and are ignored. One node may be given several
// times, such as when its log was read before it was truncated.
type NodeLog struct {
	Node      string
	Committed uint64
	Entries   []Entry // in order of index, without gaps
}

// NodeState is the whole state of one node, as state.Save writes it. Index is
// the last command entry that it contains.
type NodeState struct {
	Node  string
	Index uint64
	Bytes []byte
}

// ZoneLog is the evidence from one zone. Together the nodes must have every entry from the
// first one: entries removed by a snapshot have to be read before. Otherwise Base is the
// oldest snapshot after which all entries are present; the history before it is then not
// judged. A backup that the zone restores is such a base as well.
type ZoneLog struct {
	Zone     string
	Nodes    []NodeLog
	States   []NodeState
	Base     NodeState       // optional; its Index is Raft's, of the last entry in it
	Projects []api.ProjectID // whose boots may be in Base, or in a backup
}

// LogSummary counts what Log has checked.
type LogSummary struct {
	Entries, Commands, Refused int
	Claims                     int // slots that were granted on hosts
	Boots, Instances           int // that were ever made
	Reloads                    int // states that went through a snapshot and were compared
	States                     int // states of nodes that were compared
	Ruled                      int // slots and parts that were granted under a rule
	Drawn                      int // parts of slots that were granted on others than hosts
	Allocated                  int // consumers that were granted allocations by the placement API
	Untold                     int // commands after which events about leases were not compared: a backup was taken up
	Outcomes                   Outcomes
	// Moved are the instances that moved to another host; Evacuated are those of them that
	// moved before they were known to have stopped. Returned is how often each moved to a
	// host where it had been before. All are for JournalOptions.
	Moved, Evacuated map[api.InstanceID]bool
	Returned         map[api.InstanceID]int
}

// decodeEntry returns the commands of a command entry: each follows its length as an
// unsigned varint.
func decodeEntry(data []byte) ([]command.Command, error) {
	var out []command.Command
	for len(data) > 0 {
		size, n := binary.Uvarint(data)
		if n <= 0 || size > uint64(len(data)-n) {
			return nil, fmt.Errorf("command %d is cut short", len(out))
		}
		var before command.Command
		if len(out) > 0 {
			before = out[len(out)-1]
		}
		c, err := command.DecodeAfter(before, data[n:n+int(size)], api.FormNewest)
		if err != nil {
			return nil, fmt.Errorf("command %d: %w", len(out), err)
		}
		out, data = append(out, c), data[n+int(size):]
	}
	if len(out) == 0 {
		return nil, errors.New("the entry holds no command")
	}
	return out, nil
}

// rawBytes returns the bytes that must be equal on all nodes.
func (e *Entry) rawBytes() ([]byte, error) {
	if e.Data != nil || len(e.Commands) == 0 {
		return e.Data, nil
	}
	var out []byte
	for _, c := range e.Commands {
		b, err := command.Encode(c, max(c.Form(), command.NeededForm(c)))
		if err != nil {
			return nil, err
		}
		out = append(binary.AppendUvarint(out, uint64(len(b))), b...)
	}
	return out, nil
}

// Log replays the log of one zone through a model of its own and through the real
// state side by side, sweeps the windows of every host that a claim lands on,
// takes a second state through snapshots on the way, and compares everything that
// can be compared. It stops at the first command on which model and state disagree: the
// rest proves nothing.
func Log(z ZoneLog) (LogSummary, []Violation) {
	return logWith(z, newReplay)
}

// logWith lets a test replay with a state that errs.
func logWith(z ZoneLog, start func(*list) *replay) (LogSummary, []Violation) {
	l := &list{zone: z.Zone}
	entries := mergeLogs(l, z.Nodes, z.Base.Index)
	if len(l.all) > 0 {
		return LogSummary{Entries: len(entries)}, l.all
	}
	r := start(l)
	for _, p := range z.Projects {
		r.owns[p] = true
	}
	if z.Base.Bytes != nil {
		if err := r.beginFrom(&z); err != nil {
			l.addViolation(promise.Input, z.Base.Index, "%v", err)
			return r.sum, l.all
		}
	}
	r.replayAll(entries, z.States)
	return r.sum, l.all
}

// known is an entry and the nodes that have it.
type known struct {
	Entry
	raw  []byte
	node string
}

// mergeLogs returns the entries of all nodes by index, from the one after base on.
// Entries of one index must be the same on every node, and none may be missing.
func mergeLogs(l *list, nodes []NodeLog, base uint64) []known {
	byIndex, last := map[uint64]known{}, uint64(0)
	for _, n := range nodes {
		for i, e := range n.Entries {
			if i > 0 && e.Index != n.Entries[i-1].Index+1 {
				l.addViolation(promise.Input, e.Index, "the log of %s goes on here after index %d", n.Node, n.Entries[i-1].Index)
			}
			if e.Index <= n.Committed {
				last = max(last, e.Index)
				meetEntry(l, byIndex, n.Node, e)
			}
		}
	}
	out := make([]known, 0, len(byIndex))
	for i := base + 1; i <= last; i++ {
		e, ok := byIndex[i]
		if !ok {
			l.addViolation(promise.Input, i, "no node has this entry")
			return out
		}
		out = append(out, e)
	}
	return out
}

// meetEntry records an entry of a node, or compares it with the known one.
func meetEntry(l *list, byIndex map[uint64]known, node string, e Entry) {
	raw, err := e.rawBytes()
	if err != nil {
		l.addViolation(promise.Input, e.Index, "an entry of %s cannot be spelt: %v", node, err)
		return
	}
	o, ok := byIndex[e.Index]
	if !ok {
		byIndex[e.Index] = known{e, raw, node}
		return
	}
	sums := o.Sum != 0 && e.Sum != 0 && o.Sum != e.Sum
	if o.Term != e.Term || o.Type != e.Type || sums || !bytes.Equal(o.raw, raw) {
		l.addViolation(promise.Agree, e.Index, "%s has term %d, type %d and %d bytes; %s has term %d, type %d and %d bytes, or other ones",
			o.node, o.Term, o.Type, len(o.raw), node, e.Term, e.Type, len(raw))
	}
}
