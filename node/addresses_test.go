package node

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/identity"
	"berth/internal/await"
	"berth/raftstore"
	"berth/raftstore/state"
)

func TestPlacementChanges(t *testing.T) {
	t.Parallel()
	at := Placement{Listen: Addresses{"10.0.0.5:443", "10.0.0.5:7601", "10.0.0.5:41234", "10.0.0.5:7603", "127.0.0.1:7604"}}
	for name, c := range map[string]struct {
		given map[string]string
		want  func(*Placement)
	}{
		"nothing": {nil, func(*Placement) {}},
		"a host": {map[string]string{"host": "10.0.0.6"}, func(p *Placement) {
			p.Listen = Addresses{"10.0.0.6:443", "10.0.0.6:7601", "10.0.0.6:41234", "10.0.0.6:7603", "127.0.0.1:7604"}
		}},
		"the same host": {map[string]string{"host": "10.0.0.5"}, func(*Placement) {}},
		"an IPv6 host": {map[string]string{"host": "::1", "gateway-addr": "[::1]:1"}, func(p *Placement) {
			p.Listen = Addresses{"[::1]:443", "[::1]:1", "[::1]:41234", "[::1]:7603", "127.0.0.1:7604"}
		}},
		"any port":           {map[string]string{"node-addr": "10.0.0.5:0"}, func(*Placement) {}},
		"any port elsewhere": {map[string]string{"node-addr": "10.0.0.6:0"}, func(p *Placement) { p.Listen.Node = "10.0.0.6:0" }},
		"the admin listener": {map[string]string{"admin-addr": "0.0.0.0:65535"}, func(p *Placement) { p.Listen.Admin = "0.0.0.0:65535" }},
		"a wildcard with a name": {map[string]string{"host": "0.0.0.0", "advertise-host": "n1.example", "advertise-api-addr": "berth.example:443"}, func(p *Placement) {
			p.Listen = Addresses{"0.0.0.0:443", "0.0.0.0:7601", "0.0.0.0:41234", "0.0.0.0:7603", "127.0.0.1:7604"}
			p.Advertise = Addresses{API: "berth.example:443", Gateway: "n1.example:0", Node: "n1.example:0", Agent: "n1.example:0"}
		}},
	} {
		want := at
		c.want(&want)
		got, err := at.Change(c.given, nil)
		require.NoError(t, err, name)
		assert.Equal(t, want, got, name)
	}
	got, err := Placement{Listen: at.Listen, Advertise: Addresses{API: "a.example:1", Agent: "a.example:2"}}.Change(map[string]string{"advertise-host": ""}, []string{"x.example"})
	require.NoError(t, err)
	assert.Equal(t, Placement{Listen: at.Listen, Names: []string{"x.example"}}, got, "an empty one ends it")
}

func TestPlacementRefusesWhatNobodyCanDial(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]string{
		"host=0.0.0.0":                                 "give --advertise-host with the address or DNS name that others reach, or --advertise-api-addr",
		"host=::":                                      "--advertise-host",
		"host=":                                        "--advertise-host",
		"agent-addr=:7603":                             "--advertise-agent-addr",
		"node-addr=[::ffff:0.0.0.0]:1":                 "--advertise-node-addr",
		"host=0.0.0.0 advertise-host=0.0.0.0":          "nobody can dial a wildcard address",
		"advertise-gateway-addr=[::]:1":                "nobody can dial a wildcard address",
		"advertise-node-addr=:1":                       "nobody can dial a wildcard address",
		"advertise-node-addr=n1.example":               "must be host:port",
		"advertise-host=n_1":                           "neither an IP address nor a DNS name",
		"node-addr=1:2:3":                              "--node-addr \"1:2:3\": it must be host:port",
		"admin-addr=127.0.0.1:65536":                   "the port must be 0 to 65535",
		"api-addr=127.0.0.1:https":                     "the port must be 0 to 65535",
		"api-addr=127.0.0.1:":                          "the port must be 0 to 65535",
		"host=0.0.0.0 advertise-api-addr=a.example:01": "the port must be 0 to 65535",
	} {
		given := map[string]string{}
		for f := range strings.FieldsSeq(flags) {
			k, v, _ := strings.Cut(f, "=")
			given[k] = v
		}
		_, err := DefaultPlacement().Change(given, nil)
		refusedAs(t, api.CodeInvalid, err)
		assert.ErrorContains(t, err, want, flags)
	}
}

// TestANodeMoves: what an operator gives at a later start holds from then on. The zone learns the new
// addresses, also Raft, and the certificate of the public API gets the new names.
func TestANodeMoves(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		first := newZone(t, "a").run()
		was := first.Addresses()
		require.NoError(t, first.stop())
		before, err := os.ReadFile(first.home.path(fileNode))
		require.NoError(t, err)

		first.home.opts.Given = map[string]string{"host": "192.0.2.1"} // no address of this machine
		_, err = Open(first.home.opts)
		require.ErrorContains(t, err, "--api-addr moves")
		unchanged, err := os.ReadFile(first.home.path(fileNode))
		require.NoError(t, err)
		assert.Equal(t, string(before), string(unchanged), "nothing is recorded that does not work")

		first.home.opts.Given = map[string]string{"host": "127.0.0.7", "advertise-agent-addr": "localhost:0"}
		first.home.opts.Names = []string{"berth.example"}
		moved := first.home.run()
		_, agentPort, err := net.SplitHostPort(was.Agent)
		require.NoError(t, err)
		now := moved.Addresses()
		for before, after := range map[string]string{was.API: now.API, was.Gateway: now.Gateway, was.Node: now.Node} {
			assert.Equal(t, strings.Replace(before, "127.0.0.1", "127.0.0.7", 1), after, "it keeps its port")
		}
		assert.Equal(t, "localhost:"+agentPort, now.Agent)
		assert.Equal(t, was.Admin, now.Admin)
		moved.until("the zone knows", func(v *state.State) bool {
			m, ok := v.Node("node-1")
			return ok && m.APIAddr == now.API && m.GatewayAddr == now.Gateway && m.NodeAddr == now.Node && m.AgentAddr == now.Agent
		})
		await.True(t, "Raft, too", func() bool { return !moved.hasMoved() }) // which has no index in the state
		assert.Equal(t, now.Node, moved.store.Members()[0].Addr)
		moved.home.clock.setForward(2 * identity.RenamableAge)
		await.True(t, "its certificate has the new names", func() bool {
			names := identity.APIHosts(moved.apiCredentials().Cert.Leaf)
			return sameHosts(names, []string{"localhost", "127.0.0.1", "127.0.0.7", "berth.example"})
		})
		assert.False(t, moved.isMisnamed())

		moved.home.opts.Given, moved.home.opts.Names = nil, nil
		again := moved.again()
		assert.Equal(t, now, again.Addresses(), "it is remembered")
		second := again.adopt("node-2") // which is told the address of the first by Raft
		require.NoError(t, second.stop())
		second.home.opts.Given = map[string]string{"host": "127.0.0.8"}
		other := second.home.run()
		again.until("the zone knows where the second is", func(v *state.State) bool {
			m, ok := v.Node("node-2")
			return ok && m.NodeAddr == other.Addresses().Node && strings.HasPrefix(m.NodeAddr, "127.0.0.8:")
		})
		await.True(t, "Raft, too", func() bool { return !other.hasMoved() })
		await.True(t, "at the leader, too", func() bool { return again.store.Members()[1].Addr == other.Addresses().Node })
	})
}

// TestAWildcardIsNeverAdvertised: whatever is in the record of a node.
func TestAWildcardIsNeverAdvertised(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		_, err := Init(InitOptions{Dir: t.TempDir(), Name: "a", Now: time.Now(), Placement: Placement{Listen: DefaultAddresses("0.0.0.0")}})
		refusedAs(t, api.CodeInvalid, err)
		h := newZone(t, "a")
		text, err := os.ReadFile(h.path(fileNode))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(h.path(fileNode), []byte(strings.ReplaceAll(string(text), "127.0.0.1:0", "0.0.0.0:0")), 0o600)) // of an earlier release
		h.opts.Plain = false
		assert.ErrorContains(t, h.refusedToOpen(), "--advertise-host")
		h.opts.Given = map[string]string{"advertise-host": "localhost"}
		r := h.run()
		host, port, err := net.SplitHostPort(r.Addresses().API)
		require.NoError(t, err)
		assert.Equal(t, "localhost", host)
		assert.NotEqual(t, "0", port)
		h.opts.Given = nil
		assert.Equal(t, r.Addresses(), r.again().Addresses())
	})
}

// TestAllNodesMoveAtOnce: nodes that are started elsewhere, all of them, know each other only at addresses that lead
// nowhere. With a list of the new ones they find each other, and the zone and Raft learn them; later starts need no list.
func TestAllNodesMoveAtOnce(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		first := newZone(t, "a").run()
		nodes := []*running{first, first.adopt("node-2"), first.adopt("node-3")}
		peers := map[api.NodeID]string{}
		for i, n := range nodes {
			require.NoError(t, n.stop())
			_, port, err := net.SplitHostPort(n.Addresses().Node)
			require.NoError(t, err)
			host := fmt.Sprintf("127.0.1.%d", i+1)
			n.home.opts.Given = map[string]string{"host": host}
			peers[n.rec.Node] = net.JoinHostPort(host, port)
		}
		lost := nodes[0].home.start()
		await.Sleep(time.Minute)
		assert.Contains(t, lost.dials.describe(), "node-2 at 127.0.0.1:", "nobody is where it was")
		require.NoError(t, lost.stop())

		for i, n := range nodes {
			n.home.opts.Given, n.home.opts.Peers = nil, peers
			if i > 0 {
				n.home.opts.Given = map[string]string{"host": fmt.Sprintf("127.0.1.%d", i+1)}
			}
			nodes[i] = n.home.start()
		}
		for _, n := range nodes {
			n.until("the zone knows where all are", func(v *state.State) bool {
				for id, at := range peers {
					if m, ok := v.Node(id); !ok || m.NodeAddr != at {
						return false
					}
				}
				return true
			})
			await.True(t, "Raft, too", func() bool {
				return !slices.ContainsFunc(n.store.Members(), func(m raftstore.Member) bool { return m.Addr != peers[m.ID] })
			})
		}
		for _, n := range nodes {
			require.NoError(t, n.stop())
			n.home.opts.Given, n.home.opts.Peers = nil, nil
		}
		for i, n := range nodes {
			nodes[i] = n.home.start()
		}
		for _, n := range nodes {
			n.becomesReady() // without the list
		}
	})
}
