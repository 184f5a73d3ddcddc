package node

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"berth/api"
	"berth/httpd/wire"
	"berth/identity"
	"berth/internal/backoff"
	"berth/internal/requestid"
	"berth/internal/tracing"
	"berth/raftstore/state"
)

// Headers between the nodes of a zone. Only the node listener reads them, and it admits
// only nodes of the zone; every other listener drops them.
const (
	headerDoor = "Berth-Door" // the handler that the request is for
	headerPeer = "Berth-Peer" // "zone/pin" of the linked zone that made it
)

// headerRemoved is in the answer of a leader to a node that is no member of the zone.
const headerRemoved = "Berth-Removed"

// The handlers that a request can be forwarded to.
const (
	doorAPI     = "api"
	doorGateway = "gateway"
	doorEnrol   = "enrol"
)

// forwardTo forwards a request to the leader's node listener, and returns the answer
// once this node has caught up with it, so that callers read their own writes on this
// node.
func (n *Node) forwardTo(door string) http.Handler { return n.forwardOver(n.toNodes, door) }

func (n *Node) forwardOver(way http.RoundTripper, door string) http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport: way,
		ErrorLog:  slog.NewLogLogger(n.log.Handler(), slog.LevelDebug),
		Rewrite: func(p *httputil.ProxyRequest) {
			addr, _ := p.In.Context().Value(leaderKey{}).(string)
			p.SetURL(&url.URL{Scheme: "https", Host: addr})
			p.Out.Header.Set(headerDoor, door)
			p.Out.Header.Del(headerPeer)
			p.Out.Header.Set(api.HeaderRequestID, string(requestid.Of(p.In.Context())))
			p.Out.Header.Del(tracing.Header) // that of a caller from outside, which the leader would trust
			n.trace.Inject(p.In.Context(), p.Out.Header)
			if who, ok := peerOf(p.In.Context()); ok {
				p.Out.Header.Set(headerPeer, string(who.Zone)+"/"+hex.EncodeToString(who.pin[:]))
			}
		},
		ModifyResponse: func(r *http.Response) error {
			index, err := strconv.ParseUint(r.Header.Get(api.HeaderIndex), 10, 64)
			if err == nil && index > 0 {
				ctx, cancel := context.WithTimeout(r.Request.Context(), catchUp)
				defer cancel()
				if _, err := n.store.Wait(ctx, index-1); err != nil { // a lagging follower answers all the same
					n.noteShown(index)
				}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(err, errSlowBody) { // the caller's, not the leader's
				wire.Refuse(w, r, api.Wrap(api.CodeSlow, "node.forward", "the body did not arrive in time", err))
				return
			}
			n.log.InfoContext(r.Context(), "a request could not be passed on to the leader", "error", err)
			if sent, _ := r.Context().Value(sentKey{}).(*atomic.Bool); !sent.Load() {
				wire.Refuse(w, r, errNotLeader)
				return
			}
			wire.Refuse(w, r, errLeaderLost)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		addr, self := n.leaderAddress(r)
		if first, ok := r.Context().Value(arrivalKey{}).(*http.Request); self && ok { // elected meanwhile
			n.doorNamed(door).ServeHTTP(w, first)
			return
		}
		if addr == "" {
			wire.Refuse(w, r, errNotLeader)
			return
		}
		w.Header().Del(api.HeaderRequestID)
		ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), leaderKey{}, addr))
		defer cancel(nil)
		defer n.onLeaderChange(func() { cancel(errLeaderLost) })()
		if _, now := n.store.Leader(); now != addr { // it changed before anybody listened
			wire.Refuse(w, r, errNotLeader)
			return
		}
		proxy.ServeHTTP(w, r.WithContext(noteSent(ctx)))
	})
}

type sentKey struct{}

// noteSent lets a call record whether it ever got a connection. A call without one has
// changed nothing. It may get several: a request that fails on an old connection may be
// sent again, although the first attempt may have arrived.
func noteSent(ctx context.Context) context.Context {
	sent := new(atomic.Bool)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	return context.WithValue(ctx, sentKey{}, sent)
}

// watchLeader interrupts forwarded requests when the leader changes or is lost: the old
// one may never answer, for instance because its disk hangs.
func (n *Node) watchLeader(ctx context.Context) {
	var missing leaderWatch
	last, _ := n.store.Leader()
	for ctx.Err() == nil {
		backoff.Sleep(ctx, electionPoll)
		id, _ := n.store.Leader()
		missing.note(ctx, n, id != "", n.cutOff())
		if id != "" {
			n.noteLed()
		}
		if id == last {
			continue
		}
		last = id
		close(*n.leaderChanged.Swap(newSignal()))
	}
}

// newSignal returns a channel that is closed once.
func newSignal() *chan struct{} {
	c := make(chan struct{})
	return &c
}

// onLeaderChange calls f at the next change of leader, unless the returned function is
// called before.
func (n *Node) onLeaderChange(f func()) (stop func()) {
	changed, done := *n.leaderChanged.Load(), make(chan struct{})
	go func() {
		select {
		case <-changed:
			f()
		case <-done:
		}
	}()
	return func() { close(done) }
}

// noteShown records that this node has passed on an answer of a log index.
func (n *Node) noteShown(index uint64) {
	for {
		old := n.shown.Load()
		if index <= old || n.shown.CompareAndSwap(old, index) {
			return
		}
	}
}

// current reports whether this node may answer from its view: that holds the entries
// agreed on before the node started, without which current tokens and reservations are
// missing, and all that the node has shown of the leader's.
func (n *Node) current() bool {
	return n.leading.Load() || n.store.CaughtUp() && n.view().Index() >= n.shown.Load()
}

// requireCurrent forwards every request to the leader while this node may not answer from
// its view, and refuses all of them once it was removed.
func (n *Node) requireCurrent(door string, h http.Handler) http.Handler {
	pass := wire.WithRequestID(n.forwardTo(door))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.removed.Load() {
			wire.Refuse(w, r, errRemoved)
			return
		}
		arrived := r.WithContext(context.WithValue(r.Context(), arrivalKey{}, r))
		if n.current() {
			h.ServeHTTP(w, arrived)
			return
		}
		pass.ServeHTTP(w, arrived)
	})
}

type leaderKey struct{}

// arrivalKey is the context key of the request as it arrived: a router stores in its
// own context how much of the path it has matched, and would continue from there.
type arrivalKey struct{}

// catchUp bounds how long a node waits for an entry that the leader has just
// acknowledged.
const catchUp = 2 * time.Second

var (
	errNotLeader  = api.Errorf(api.CodeUnavailable, "the zone has no leader just now; try again")
	errRemoved    = api.Errorf(api.CodeUnavailable, "this node was removed from the zone; use the address of another one")
	errLeaderLost = api.Errorf(api.CodeTimeout, "the zone's leader was lost while it worked on this; it may have been done: repeat it with the same reservation id or Idempotency-Key")
)

// leaderAddress returns the node listener of the leader, or whether this node leads.
// Both are empty if there is no leader, or if the request was forwarded already and
// leadership has moved since. It waits a moment for an election to end, and for this
// node to lead once elected.
func (n *Node) leaderAddress(r *http.Request) (addr string, self bool) {
	passed := r.Header.Get(headerDoor) != ""
	for deadline := n.now().Add(electionWait); ; {
		id, addr := n.store.Leader()
		switch {
		case n.leading.Load():
			return "", true
		case id == n.rec.Node: // it leads once it has caught up
		case passed:
			return "", false
		case addr != "":
			return addr, false
		}
		if n.now().After(deadline) || r.Context().Err() != nil {
			return "", false
		}
		backoff.Sleep(r.Context(), electionPoll)
	}
}

// How long a request waits for an election.
const (
	electionWait = 3 * time.Second
	electionPoll = 50 * time.Millisecond
)

// doorNamed returns the handler of a door, nil if there is none of that name.
func (n *Node) doorNamed(name string) http.Handler {
	switch name {
	case doorAPI:
		return n.api
	case doorGateway:
		return n.gateway
	case doorEnrol:
		return n.enrolment
	}
	return nil
}

// fromNodes handles requests of other nodes of the zone: forwarded ones, the announcement
// of a node that has started, key-encryption keys, new certificates, uses of tokens, and vitals.
func (n *Node) fromNodes() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(headerDoor) == "" {
			switch r.URL.Path {
			case pathAnnounce:
				n.handleAnnouncement(w, r)
				return
			case pathKEKs:
				n.handleKEKs(w, r)
				return
			case pathRenew:
				n.handleRenewal(w, r)
				return
			case pathUses:
				n.handleUses(w, r)
				return
			case pathVitals:
				n.handleVitals(w, r)
				return
			}
		}
		h := n.doorNamed(r.Header.Get(headerDoor))
		if h == nil {
			wire.Refuse(w, r, api.Errorf(api.CodeNotFound, "no such call between nodes"))
			return
		}
		ctx := context.WithValue(r.Context(), peerKey{}, peerFrom(r.Header.Get(headerPeer)))
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// peerFrom reads the header that forwardTo wrote.
func peerFrom(s string) (p peer) {
	zone, pin, _ := strings.Cut(s, "/")
	p.Subject = identity.Subject{Zone: api.ZoneID(zone), Role: identity.RoleGateway}
	if b, err := hex.DecodeString(pin); err == nil && len(b) == len(p.pin) {
		copy(p.pin[:], b)
	}
	return p
}

// stripNodeHeaders drops headers that only nodes of the zone may send.
func stripNodeHeaders(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del(headerDoor)
		r.Header.Del(headerPeer)
		h.ServeHTTP(w, r)
	})
}

// peerZone returns, for the gateway, the zone that makes a request, if its authority is trusted still.
func (n *Node) peerZone(r *http.Request) (api.ZoneID, bool) {
	p, ok := peerOf(r.Context())
	return p.Zone, ok && p.Zone != "" && n.checkAuthority(p) == nil
}

// leaderAgentAddr returns the leader's agent listener.
func (n *Node) leaderAgentAddr() (string, bool) {
	id, _ := n.store.Leader()
	if id == n.rec.Node && n.leading.Load() {
		return "", true
	}
	if m, ok := n.view().Node(id); ok {
		return m.AgentAddr, false
	}
	return "", false
}

func (n *Node) view() *state.State { return n.store.View() }
