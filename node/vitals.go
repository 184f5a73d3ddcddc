package node

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/native"
	"berth/httpd/wire"
	"berth/internal/backoff"
	"berth/internal/codec"
	"berth/internal/skew"
)

// Vitals of nodes.
const (
	pathVitals  = "/node/vitals"
	vitalsEvery = 10 * time.Second // between two calls of a node to its leader
	vitalsFresh = time.Minute      // after which what was told is forgotten
)

// nodeVitals is what a node tells its leader of itself, and the leader all others.
type nodeVitals struct {
	Node   api.NodeID    `cbor:"1,keyasint"`
	Known  bool          `cbor:"2,keyasint,omitempty"` // of the clock
	Offset time.Duration `cbor:"3,keyasint,omitempty"` // of the node's clock, positive if it is ahead of the leader's
	Error  time.Duration `cbor:"4,keyasint,omitempty"` // by which the offset may be wrong either way
	Free   int64         `cbor:"5,keyasint,omitempty"` // bytes of the disk
	Total  int64         `cbor:"6,keyasint,omitempty"`
	Full   time.Duration `cbor:"7,keyasint,omitempty"` // after which the disk is full, 0 for unforeseen
}

// toldVitals is the answer of the leader.
type toldVitals struct {
	Now         int64                          `cbor:"1,keyasint"` // by its clock, in nanoseconds since 1970
	Nodes       []nodeVitals                   `cbor:"2,keyasint"`
	Unconfirmed map[api.LinkID]api.Incarnation `cbor:"3,keyasint,omitempty"`
}

// vitals is what this node knows of all nodes. Its methods may be called concurrently.
type vitals struct {
	mu   sync.Mutex // guards all
	of   map[api.NodeID]timedVitals
	told timedTold // by the leader
	mine nodeVitals
	far  bool // this node's clock was, at the last look
}

type timedVitals struct {
	nodeVitals
	at time.Time
}

type timedTold struct {
	toldVitals
	at time.Time
}

// noteTold takes the answer of the leader to a call, and reports whether this clock is far from the leader's, and was not before.
func (v *vitals) noteTold(sent, got time.Time, told toldVitals) (offset time.Duration, warn bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.told = timedTold{told, got}
	s := skew.Of(sent, time.Unix(0, told.Now), got)
	v.mine.Known, v.mine.Offset, v.mine.Error = true, s.Ahead, s.Error
	warn = s.IsFar() && !v.far
	v.far = s.IsFar()
	return s.Ahead, warn
}

// noteReport takes what a node tells of itself. Those that are no members are forgotten.
func (v *vitals) noteReport(now time.Time, one nodeVitals, isMember func(api.NodeID) bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.of == nil {
		v.of = map[api.NodeID]timedVitals{}
	}
	maps.DeleteFunc(v.of, func(id api.NodeID, t timedVitals) bool { return !isMember(id) || now.Sub(t.at).Abs() > vitalsFresh })
	if isMember(one.Node) {
		v.of[one.Node] = timedVitals{one, now}
	}
}

// fresh returns what was told to this node as the leader, or by the leader, within vitalsFresh.
func (v *vitals) fresh(now time.Time, leads bool) (out []nodeVitals) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !leads {
		if now.Sub(v.told.at).Abs() <= vitalsFresh {
			return v.told.Nodes
		}
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(v.of)) {
		if t := v.of[id]; now.Sub(t.at).Abs() <= vitalsFresh {
			out = append(out, t.nodeVitals)
		}
	}
	return out
}

// unconfirmed returns what the leader has told of a link within vitalsFresh.
func (v *vitals) unconfirmed(now time.Time, l api.LinkID) api.Incarnation {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now.Sub(v.told.at).Abs() > vitalsFresh {
		return 0
	}
	return v.told.Unconfirmed[l]
}

// ownVitals returns what this node knows of itself.
func (n *Node) ownVitals() nodeVitals {
	n.vitals.mu.Lock()
	own := n.vitals.mine
	n.vitals.mu.Unlock()
	own.Node = n.rec.Node
	if n.leading.Load() {
		own.Known, own.Offset, own.Error = true, 0, 0
	}
	own.Free, own.Total, own.Full = n.disk.vitals()
	return own
}

// reportVitals tells the leader of this node from time to time, and learns from it of all others, until ctx ends.
func (n *Node) reportVitals(ctx context.Context) {
	for ctx.Err() == nil {
		if _, addr := n.store.Leader(); addr != "" && !n.leading.Load() {
			if err := n.tellVitals(ctx, addr); err != nil {
				n.log.DebugContext(ctx, "the leader was not told of this node's clock and disk", "error", err)
			}
		}
		backoff.Sleep(ctx, vitalsEvery)
	}
}

func (n *Node) tellVitals(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	own, sent := n.ownVitals(), n.now()
	b, err := n.askNode(ctx, addr, pathVitals, own)
	got := n.now()
	if err != nil {
		return err
	}
	var told toldVitals
	if err = codec.Unmarshal(b, &told); err != nil {
		return err
	}
	if offset, warn := n.vitals.noteTold(sent, got, told); warn {
		n.log.WarnContext(ctx, "the clock of this node differs from the leader's: check the time synchronisation of both machines", "ahead", offset.Round(time.Millisecond))
	}
	return nil
}

// handleVitals is the leader's side. The certificate identifies the node.
func (n *Node) handleVitals(w http.ResponseWriter, r *http.Request) {
	who, _ := peerOf(r.Context()) // onlyMembers has checked it
	var one nodeVitals
	err := wire.ReadCBOR(r, api.BodyMaxBytes, &one)
	switch {
	case err != nil:
	case who.ID != string(one.Node):
		err = api.Errorf(api.CodeForbidden, "a node tells of itself alone")
	case !n.leading.Load():
		err = errNotLeader
	}
	if err != nil {
		wire.Refuse(w, r, err)
		return
	}
	n.vitals.noteReport(n.now(), one, n.store.HasMember)
	v, told := n.view(), toldVitals{Nodes: n.knownVitals(), Unconfirmed: map[api.LinkID]api.Incarnation{}}
	for _, l := range v.Links() {
		if at := n.peers.Unconfirmed(l); at > 0 {
			told.Unconfirmed[l.ID] = at
		}
	}
	told.Now = n.now().UnixNano()
	wire.CBOR(w, r, http.StatusOK, told)
}

// knownVitals returns what this node knows of each node of the zone, its own as it is now.
func (n *Node) knownVitals() []nodeVitals {
	others := slices.DeleteFunc(slices.Clone(n.vitals.fresh(n.now(), n.leading.Load())), func(o nodeVitals) bool { return o.Node == n.rec.Node })
	return append(others, n.ownVitals())
}

// vitalsOf returns what this node knows of a node, for people.
func (n *Node) vitalsOf(id api.NodeID) (out rest.Vitals) {
	for _, o := range n.knownVitals() {
		if o.Node != id {
			continue
		}
		if o.Known {
			out.Clock = native.ClockOf(skew.Skew{Ahead: o.Offset, Error: o.Error})
		}
		if o.Total > 0 {
			out.Disk = &rest.Disk{FreeBytes: o.Free, TotalBytes: o.Total, FullIn: rest.Duration(o.Full)}
		}
	}
	return out
}

// clockOffsets returns the offsets of the clocks of the nodes, nil on a node that does not lead.
func (n *Node) clockOffsets() map[api.NodeID]time.Duration {
	if !n.leading.Load() {
		return nil
	}
	out := map[api.NodeID]time.Duration{}
	for _, o := range n.knownVitals() {
		if o.Known {
			out[o.Node] = o.Offset
		}
	}
	return out
}

// unconfirmed returns the incarnation of a linked zone that is to be confirmed, as far as this node has heard or its leader has
// told it, 0 for none.
func (n *Node) unconfirmed(l *api.Link) api.Incarnation {
	if own := n.peers.Unconfirmed(l); own > 0 {
		return own
	}
	if told := n.vitals.unconfirmed(n.now(), l.ID); told > l.Incarnation {
		return told
	}
	return 0
}

// checkClock logs an error if the clock of the machine must be wrong, because nothing was issued or logged in the future, or if the
// certificate of this node has ended: either way it reaches no other node.
func (n *Node) checkClock() {
	now, leaf := n.now(), n.nodeCredentials().Cert.Leaf
	later, what := leaf.NotBefore, "its certificate"
	if known := n.store.KnownUntil(); known.After(later) {
		later, what = known, "the newest entry of its log"
	}
	switch behind := later.Sub(now); {
	case behind > clockSlack:
		n.log.Error("the clock of this machine is wrong: it is behind what the node has on its disk, and others refuse this node; set it, and start the node again",
			"clock", now.UTC(), "later", what, "at", later.UTC(), "behind", behind.Round(time.Second))
	case now.After(leaf.NotAfter):
		n.log.Error("the certificate of this node has ended, or the clock of this machine is ahead; no other node is reached",
			"clock", now.UTC(), "certificate_until", leaf.NotAfter)
	}
}
