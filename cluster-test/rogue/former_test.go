package rogue

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/identity"
	"berth/internal/await"
	"berth/node"
	"berth/raftstore"
	"berth/raftstore/state"
)

// former has the certificates of a node that was removed from root, which has changed its authority since.
func former() party {
	return party{name: "former node", budget: size{state: 1 << 20, log: 8 << 20, index: 200}, attacks: func(t *testing.T, p *phase) []attack {
		t.Helper()
		f := &formerCalls{phase: p, term: p.root.node.Store().Term}
		f.dir = p.removedNode(t)
		for _, role := range []identity.Role{identity.RoleNode, identity.RoleGateway} {
			creds, err := identity.LoadDir(f.dir, role)
			require.NoError(t, err)
			f.creds = append(f.creds, creds)
		}
		for _, z := range f.linkedZones() {
			await.True(t, z.name+" accepts it until then", func() bool { return len(f.shows(p.ctx, &record{outcomes: map[string]int{}}, z)) > 0 })
		}
		p.changeAuthority(t)
		f.led = f.term()
		return []attack{
			{"entries of a leader", f.append},
			{"votes", f.elect},
			{"calls of nodes", f.callNodes},
			{"gossip of nodes", f.gossip},
			{"calls of agents and zones", f.callOthers},
			{"calls of the zone that it was of", f.callLinked},
		}
	}}
}

// removedNode returns the directory of a node that was a member and is none any more.
func (p *phase) removedNode(t *testing.T) string {
	t.Helper()
	const id = "node-2"
	const any0 = "127.0.0.1:0"
	token, err := p.root.node.Federation().JoinToken(p.ctx, api.JoinNode, id, time.Minute)
	require.NoError(t, err)
	z := &zone{w: p.world, name: "root", dir: t.TempDir(), token: p.root.token}
	require.NoError(t, node.JoinNode(p.ctx, node.JoinOptions{
		Dir: z.dir, Token: token, Placement: node.Placement{Listen: node.Addresses{API: any0, Gateway: any0, Node: any0, Agent: any0, Admin: any0}}, Plain: true, Now: time.Now,
	}))
	p.timing = patient
	z.run(nil)
	p.timing = raftstore.Timing{}
	store := p.root.node.Store()
	known := func(v *state.State) bool { _, ok := v.Node(id); return ok }
	p.until(t, "the node is a member", func(v *state.State) bool { return known(v) && store.HasMember(id) })
	require.NoError(t, p.root.client(p.root.token).RemoveMember(p.ctx, id))
	z.stop()
	p.until(t, "the node is none", func(v *state.State) bool { return !known(v) && !store.HasMember(id) })
	require.NoError(t, p.root.node.Ready(p.ctx))
	return z.dir
}

// changeAuthority gives the root another authority. It waits for the parties that are honest, and for all
// linked zones, and not for agents that earlier parties have let join.
func (p *phase) changeAuthority(t *testing.T) {
	t.Helper()
	admin := p.root.client(p.root.token)
	waitsForRogues := func(v *state.State) bool {
		for _, w := range v.CAWaits() {
			if w.Kind == api.CAWaitNode || w.Kind == api.CAWaitLink || w.Name == "root-agent" {
				return false
			}
		}
		return true
	}
	require.NoError(t, admin.RotateCA(p.ctx, rest.CABrought{}))
	p.until(t, "all trust the next authority", waitsForRogues)
	require.NoError(t, admin.UseCA(p.ctx, true))
	p.until(t, "all have certificates of it", waitsForRogues)
	require.NoError(t, admin.FinishCA(p.ctx, true))
	p.until(t, "all links have been told", func(v *state.State) bool {
		for _, l := range v.Links() {
			if len(l.Told) != 1 {
				return false
			}
		}
		return v.CADue == 0
	})
}

// until waits for a state of the root.
func (p *phase) until(t *testing.T, what string, is func(*state.State) bool) {
	t.Helper()
	await.True(t, what, func() bool { return is(p.root.node.Store().View()) })
}

// formerCalls are the calls of the node that was removed.
type formerCalls struct {
	*phase
	dir   string
	creds []*identity.Credentials // node, gateway
	term  func() uint64
	led   uint64 // the term before it began
}

// dial is how it dials a listener of the root.
func (f *formerCalls) dial(creds *identity.Credentials, role identity.Role, alpn string) *tls.Config {
	v := f.root.node.Store().View()
	return identity.ClientTLS(func() *identity.Credentials { return creds }, alpn, identity.PinTo(v.CA), identity.Subject{Zone: v.Zone, Role: role}, time.Now)
}

// raftStream dials with the certificate of the removed node.
type raftStream struct {
	net.Listener // of a port that nobody knows
	conf         *tls.Config
}

// Dial implements raft.StreamLayer.
func (s raftStream) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	raw, err := from(rogueAddr)(ctx, string(to))
	if err != nil {
		return nil, err
	}
	c := tls.Client(raw, s.conf)
	if err := c.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // the handshake's error is more useful
		return nil, err
	}
	return c, nil
}

// raft sends a message of Raft.
func (f *formerCalls) raft(r *record, send func(t *raft.NetworkTransport, to raft.ServerAddress) error) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	t := raft.NewNetworkTransport(raftStream{ln, f.dial(f.creds[0], identity.RoleNode, api.ALPNRaft)}, 1, time.Second, io.Discard)
	defer func() { _ = t.Close() }() // it served nobody
	if err := send(t, raft.ServerAddress(f.root.node.Addresses().Node)); err == nil {
		return errors.New("the zone answers a message of Raft of a removed node")
	}
	r.note("no answer")
	return unless(f.term() == f.led, "the term went from %d to %d", f.led, f.term())
}

// head is the head of its messages.
func (f *formerCalls) head() raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("node-2"), Addr: []byte("127.0.0.1:1")}
}

func (f *formerCalls) append(_ context.Context, r *record) error {
	return f.raft(r, func(t *raft.NetworkTransport, to raft.ServerAddress) error {
		var a raft.AppendEntriesResponse
		return t.AppendEntries("node-1", to, &raft.AppendEntriesRequest{RPCHeader: f.head(), Term: f.led + 1000}, &a)
	})
}

func (f *formerCalls) elect(_ context.Context, r *record) error {
	return f.raft(r, func(t *raft.NetworkTransport, to raft.ServerAddress) error {
		var a raft.RequestVoteResponse
		return t.RequestVote("node-1", to, &raft.RequestVoteRequest{RPCHeader: f.head(), Term: f.led + 1000, LastLogIndex: 1 << 40, LastLogTerm: 1 << 40}, &a)
	})
}

// callNodes makes calls as if it passed them on for a user, and for a linked zone.
func (f *formerCalls) callNodes(ctx context.Context, r *record) error {
	v := f.root.node.Store().View()
	for _, door := range []string{"", "native", "gateway", "agents", "enrol"} {
		rt := over(f.dial(f.creds[0], identity.RoleNode, api.ALPNHTTP))
		head := cborHead()
		head["Berth-Door"], head["Berth-Peer"] = door, fmt.Sprintf("%s/%x", v.Zone, identity.PinOf(v.CA))
		c := &caller{http: &http.Client{Transport: rt}, base: "https://" + f.root.node.Addresses().Node, head: head}
		status, b := c.call(ctx, r, "GET", "/zones/info", nil)
		rt.CloseIdleConnections()
		if status != 0 && status != http.StatusForbidden { // it is told that it was removed, and nothing else
			return fmt.Errorf("the listener of nodes answers: %d %x", status, b)
		}
	}
	return nil
}

func (f *formerCalls) gossip(ctx context.Context, r *record) error {
	b := hear(ctx, r, f.root.node.Addresses().Node, f.dial(f.creds[0], identity.RoleNode, api.ALPNGossip), "\x00\x01\xa0")
	return unless(len(b) == 0, "gossip of a removed node is answered: %x", b)
}

// callOthers shows its certificates at the listeners of agents and of zones.
func (f *formerCalls) callOthers(ctx context.Context, r *record) error {
	a := f.root.node.Addresses()
	for _, creds := range f.creds {
		for addr, theirs := range map[string]identity.Role{a.Agent: identity.RoleNode, a.Gateway: identity.RoleGateway, a.Node: identity.RoleNode} {
			b := hear(ctx, r, addr, f.dial(creds, theirs, api.ALPNHTTP), "GET /zones/info HTTP/1.1\r\nHost: x\r\n\r\n")
			if told := addr == a.Node && bytes.HasPrefix(b, []byte("HTTP/1.1 403 ")); len(b) > 0 && !told {
				return fmt.Errorf("a listener answers the certificate of a removed node: %q", b)
			}
		}
	}
	return nil
}

// linkedZones are those that accepted the gateways of the root with certificates of its first authority.
func (f *formerCalls) linkedZones() []*zone { return []*zone{f.crown, f.west} }

// shows shows the certificate of its gateway to a linked zone, and returns the answer.
func (f *formerCalls) shows(ctx context.Context, r *record, z *zone) []byte {
	v := z.node.Store().View()
	conf := identity.ClientTLS(func() *identity.Credentials { return f.creds[1] }, api.ALPNHTTP, identity.PinTo(v.CA),
		identity.Subject{Zone: v.Zone, Role: identity.RoleGateway}, time.Now)
	return hear(ctx, r, z.node.Addresses().Gateway, conf, "GET /zones/info HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
}

// callLinked shows the certificate of its gateway to the zones that accepted it before the root had another
// authority.
func (f *formerCalls) callLinked(ctx context.Context, r *record) error {
	for _, z := range f.linkedZones() {
		if b := f.shows(ctx, r, z); len(b) > 0 {
			return fmt.Errorf("zone %s answers the certificate of a removed node: %q", z.name, b)
		}
	}
	return nil
}
