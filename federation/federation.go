// Package federation decides who belongs to a zone and which zones it is linked with:
// it admits nodes, agents and child zones, keeps the tree of zones free of rings, makes
// and rotates keys, and decides what linked zones learn. The process around it dials,
// listens and runs its loops.
package federation

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"berth/api"
	"berth/identity"
	"berth/raftstore"
	"berth/raftstore/state"
	"berth/zone"
)

// Members are the members of the zone's Raft group. All methods may be called
// concurrently; *raftstore.Store has them.
type Members interface {
	Members() []raftstore.Member
	// Form returns the form that the zone writes, which all of them read.
	Form() api.Form
	// FormAllRead returns the newest form that all of them read.
	FormAllRead() api.Form
	// Admit makes a node a voter, reached at an address, in one or more changes. It asks may before each, and no other change of
	// members comes between the two.
	Admit(ctx context.Context, id api.NodeID, addr string, may func() error) error
	Remove(ctx context.Context, id api.NodeID) error
	// Transfer transfers the leadership to a node, or to any if to is "".
	Transfer(ctx context.Context, to api.NodeID) error
}

// Peers calls linked zones. Every method passes the caller's deadline on and returns
// *api.Error with the other zone's code.
type Peers interface {
	Above(ctx context.Context, l *api.Link, id api.ZoneID) (*api.AboveAnswer, error)
	Below(ctx context.Context, l *api.Link) (*api.BelowAnswer, error)
	Hello(ctx context.Context, l *api.Link, h *api.Hello) error
	// ReadsForm asks for the newest form that all nodes of the linked zone read.
	ReadsForm(ctx context.Context, l *api.Link) (api.Form, error)
	// IncarnationOf asks for the incarnation of the linked zone.
	IncarnationOf(ctx context.Context, l *api.Link) (api.Incarnation, error)
}

// Digests returns the newest digest of a zone that gossip has delivered, and its age.
type Digests interface {
	Digest(zone api.ZoneID) (d api.Digest, age time.Duration, ok bool)
}

// Config holds what a Federation needs.
type Config struct {
	Node    api.NodeID // this one
	Zone    *zone.Zone
	Members Members
	Peers   Peers
	Digests Digests
	Digest  func() *api.Digest // the zone's digest by this node's view; nil before there is a zone
	Keys    *Keys
	Nodes   Nodes
	// Enrol asks the zone that a link token names to be this zone's parent. It must
	// send nothing to a zone whose authority is not the one that the token pins.
	Enrol func(ctx context.Context, t identity.JoinToken, e *api.Enrolment) (*api.Enrolment, error)
	// Alive returns what gossip knows of a node of this zone, "" for nothing.
	Alive func(id api.NodeID) string
	// Silent returns the members that do not answer the heartbeats of this node, while it leads; nil for none.
	Silent func() []api.NodeID
	Now    func() time.Time
	Log    *slog.Logger
	// CertificateTTL is how long the certificates of nodes and agents are valid; 0 for identity.LeafTTL.
	CertificateTTL time.Duration
}

// Federation applies the rules of membership and linking on one node of a zone. Its
// methods may be called concurrently.
type Federation struct {
	node    api.NodeID
	zone    *zone.Zone
	members Members
	peers   Peers
	digests Digests
	digest  digestCache
	keys    *Keys
	nodes   Nodes
	attempt kekAttempt
	enrol   func(ctx context.Context, t identity.JoinToken, e *api.Enrolment) (*api.Enrolment, error)
	alive   func(id api.NodeID) string
	silent  func() []api.NodeID
	now     func() time.Time
	log     *slog.Logger
	leafTTL time.Duration

	// admitting is write-locked while an upgrade is finished, and read-locked while a node is admitted: one that is admitted
	// must read what the zone writes from then on.
	admitting sync.RWMutex

	// changing holds a value while a member is removed, or the record of one is written or deleted: a node that was removed
	// is not recorded again, and two removals do not meet.
	changing chan struct{}

	// linking is write-locked while this zone gains a parent, and read-locked while it
	// admits a child or reports its ancestors. Always TryLock: two zones that wait for
	// each other would deadlock.
	linking sync.RWMutex

	unknown lookupLimit // for join tokens unknown to this node

	forms linkForms // that parents read

	pinErrors pinErrors
}

// New returns the rules on one node of a zone. Nothing runs until a loop is called.
func New(c Config) *Federation {
	f := &Federation{
		node: c.Node, zone: c.Zone, members: c.Members, peers: c.Peers, digests: c.Digests, keys: c.Keys, nodes: c.Nodes,
		enrol: c.Enrol, alive: c.Alive, now: c.Now, log: c.Log, leafTTL: cmp.Or(c.CertificateTTL, identity.LeafTTL), forms: linkForms{of: map[api.LinkID]heardForm{}}, pinErrors: pinErrors{of: map[api.LinkID]pinError{}},
		changing: make(chan struct{}, 1),
	}
	if f.silent = c.Silent; f.silent == nil {
		f.silent = func() []api.NodeID { return nil }
	}
	f.digest = digestCache{now: c.Now, make: func() *api.Digest {
		d := c.Digest()
		if d != nil {
			d.Gateways = gatewaysOf(f.view())
		}
		return d
	}}
	return f
}

func (f *Federation) view() *state.State { return f.zone.View() }

// addressesOf returns the address of one listener of each node of the zone.
func addressesOf(v *state.State, of func(*api.Node) string) []string {
	var out []string
	for _, m := range v.Nodes() {
		out = append(out, of(m))
	}
	return out
}

// gatewaysOf returns the addresses of this zone's gateways.
func gatewaysOf(v *state.State) []string {
	return addressesOf(v, func(m *api.Node) string { return m.GatewayAddr })
}
