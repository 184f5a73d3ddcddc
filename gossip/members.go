package gossip

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// Limits of a pool's membership.
const (
	membersMax   = 64             // names that a pool knows at once, dead ones included
	nodesMax     = 2 * membersMax // that a push/pull may carry: memberlist drops the dead a little later
	metaMaxBytes = 16
	deadKept     = 10 * time.Minute // how long a dead member is still listed
	deadLocked   = 2 * time.Minute  // how long a dead member keeps its row in a full table
)

// MemberState is the reachability of a member.
type MemberState string

// The member states.
const (
	memberAlive   MemberState = "alive"
	memberSuspect MemberState = "suspect" // counted as alive by the pool, but this node's last attempt to reach it failed
	memberDead    MemberState = "dead"    // gone, or said goodbye, within the last ten minutes
)

// Member is one node of a pool.
type Member struct {
	Name  string // synthetic
	State MemberState
	Self  bool
	Since time.Time // when it came or went
}

// memberTable records the members of the pool as memberlist reports them, and decides
// who may join.
type memberTable struct {
	self string
	now  func() time.Time
	gone func(name string) // called when a member went; must not block

	mu   sync.Mutex // guards rows
	rows map[string]row
}

type row struct {
	live  bool
	since time.Time
}

var (
	_ memberlist.EventDelegate = (*memberTable)(nil)
	_ memberlist.AliveDelegate = (*memberTable)(nil)
)

var (
	errAddress = errors.New("gossip: the address is not the one of the name")
	errMeta    = errors.New("gossip: meta data of another version")
	errFull    = errors.New("gossip: the pool is full")
)

// NotifyAlive refuses a member whose name, address or meta data no Berth pool would
// use, and any above membersMax.
func (r *memberTable) NotifyAlive(n *memberlist.Node) error {
	if err := checkName(n.Name); err != nil {
		return err
	}
	if !n.Addr.Equal(ipOf(n.Name)) || n.Port != portOfAll {
		return errAddress
	}
	if len(n.Meta) == 0 || len(n.Meta) > metaMaxBytes || n.Meta[0] != wireVersion {
		return errMeta
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.rows[n.Name]; known {
		return nil
	}
	if len(r.rows) >= membersMax {
		r.forgetDead(deadLocked)
	}
	if len(r.rows) >= membersMax {
		return errFull
	}
	return nil
}

// NotifyJoin records that a member came or came back.
func (r *memberTable) NotifyJoin(n *memberlist.Node) { r.setMember(n.Name, true) }

// NotifyLeave records that a member went.
func (r *memberTable) NotifyLeave(n *memberlist.Node) {
	r.setMember(n.Name, false)
	r.gone(n.Name)
}

// NotifyUpdate does nothing: meta data is only the version.
func (r *memberTable) NotifyUpdate(*memberlist.Node) {}

func (r *memberTable) setMember(name string, live bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows[name] = row{live: live, since: r.now()}
}

// forgetDead drops the rows of members that have been dead for longer than age.
// The caller holds mu.
func (r *memberTable) forgetDead(age time.Duration) {
	for name, w := range r.rows {
		if !w.live && r.now().Sub(w.since) > age {
			delete(r.rows, name)
		}
	}
}

// isLive reports whether name is a member that counts as alive.
func (r *memberTable) isLive(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rows[name].live
}

// isKnown reports whether name is a member, alive or not.
func (r *memberTable) isKnown(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.rows[name]
	return known
}

// countLive returns the number of members that count as alive, this one included.
func (r *memberTable) countLive() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, w := range r.rows {
		if w.live {
			n++
		}
	}
	return n
}

// members returns all rows by name. cut reports whether the last attempt to
// reach a member failed; it is called without the lock.
func (r *memberTable) members(cut func(name string) bool) []Member {
	r.mu.Lock()
	r.forgetDead(deadKept)
	all := make([]Member, 0, len(r.rows))
	for name, w := range r.rows {
		m := Member{Name: name, State: memberDead, Self: name == r.self, Since: w.since}
		if w.live {
			m.State = memberAlive
		}
		all = append(all, m)
	}
	r.mu.Unlock()
	for i, m := range all {
		if m.State == memberAlive && cut(m.Name) {
			all[i].State = memberSuspect
		}
	}
	slices.SortFunc(all, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
