package gossip

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// endpoints returns n canaries.
func endpoints(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("127.0.0.1:%d", 40001+i)
	}
	return list
}

func TestMembersAndDigestsConverge(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 10} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				at := endpoints(n)
				nodes := make([]*node, n)
				for i, e := range at {
					nodes[i] = w.start(e, fmt.Sprint("secret-", i), at, nil)
				}
				nodes[0].say(digestOf("z1", 7))
				nodes[n-1].say(digestOf("z2", 9))
				pass(20 * time.Second)
				for _, x := range nodes {
					assert.Equal(t, n, alive(x.Pool))
					got := x.Digests()
					assert.Equal(t, uint64(9), got["z2"].Digest.Sequence)
					if n > 1 {
						assert.Equal(t, uint64(7), got["z1"].Digest.Sequence)
						assert.WithinDuration(t, time.Now(), got["z1"].At, 20*time.Second)
					}
					c := x.count
					assert.Zero(t, c.garbage.Load()+c.malformed.Load()+c.foreign.Load()+c.tooLarge.Load())
				}
			})
		})
	}
}

func TestMembersSaysWhoIsWho(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		at := endpoints(2)
		a, b := w.start(at[0], "a", at, nil), w.start(at[1], "b", at, nil)
		assert.Equal(t, []Member(nil), (&Pool{}).Members())
		pass(5 * time.Second)
		got := a.Members()
		require.Len(t, got, 2)
		assert.Less(t, got[0].Name, got[1].Name)
		for _, m := range got {
			assert.Equal(t, m.Name == a.cfg.Self, m.Self)
			assert.Equal(t, memberAlive, m.State)
		}
		b.kill() // says goodbye, so it is gone at once
		got = a.Members()
		require.Len(t, got, 2)
		assert.Equal(t, 1, alive(a.Pool))
		pass(deadKept + time.Second)
		assert.Len(t, a.Members(), 1)
	})
}

func TestHigherSequenceWins(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		at := endpoints(3)
		a, b, c := w.start(at[0], "a", at, nil), w.start(at[1], "b", at, nil), w.start(at[2], "c", at, nil)
		a.say(digestOf("z1", 10))
		pass(10 * time.Second)
		b.say(digestOf("z1", 9)) // a node of the same zone that lags
		pass(40 * time.Second)
		for _, n := range []*node{a, b, c} {
			assert.Equal(t, uint64(10), n.Digests()["z1"].Digest.Sequence)
		}
		b.say(digestOf("z1", 11))
		pass(10 * time.Second)
		for _, n := range []*node{a, b, c} {
			assert.Equal(t, uint64(11), n.Digests()["z1"].Digest.Sequence)
		}
	})
}

func TestLargeDigestGoesByPushPull(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		at := endpoints(3)
		a, b, c := w.start(at[0], "a", at, nil), w.start(at[1], "b", at, nil), w.start(at[2], "c", at, nil)
		a.say(sized(t, digestMaxBytes))
		b.say(func() *api.Digest {
			d := sized(t, digestMaxBytes)
			d.Zone = "z2"
			return d
		}())
		pass(3 * time.Minute)
		for _, n := range []*node{a, b, c} {
			assert.Len(t, n.Digests(), 2)
		}
		larger := sized(t, digestMaxBytes+1)
		larger.Sequence++
		c.say(larger)
		pass(time.Minute)
		for _, n := range []*node{a, b, c} {
			assert.True(t, n.Digests()["z1"].Digest.Partial, "it was trimmed")
		}
		assert.Zero(t, c.count.unsent.Load())
		c.say(&api.Digest{Zone: "z1", Sequence: 7})
		pass(time.Minute)
		assert.NotZero(t, c.count.unsent.Load(), "it has no health")
	})
}

func TestForeignZonesAreIgnored(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		at := endpoints(2)
		a := w.start(at[0], "a", at, func(c *Config) { c.Zones = []api.ZoneID{"z1", "z2"} })
		b := w.start(at[1], "b", at, nil)
		b.say(digestOf("z3", 1))
		pass(20 * time.Second)
		assert.Empty(t, a.Digests())
		assert.NotZero(t, a.count.foreign.Load())
	})
}

func TestPartitionHeals(t *testing.T) {
	for _, how := range []cut{cutRefuse, cutHang} {
		t.Run(fmt.Sprint(how), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				at := endpoints(5)
				var nodes []*node
				for i, e := range at {
					nodes = append(nodes, w.start(e, strconv.Itoa(i), at, nil))
				}
				nodes[0].say(digestOf("z1", 1))
				pass(20 * time.Second)
				each := func(c cut) {
					for _, x := range at[:2] {
						for _, y := range at[2:] {
							w.set(x, y, c)
						}
					}
				}
				each(how)
				pass(3 * time.Second)
				pass(10 * time.Minute)
				nodes[0].say(digestOf("z1", 2))
				pass(time.Minute)
				for i, n := range nodes {
					want := 2
					if i >= 2 {
						want = 3
					}
					assert.Equal(t, want, alive(n.Pool), "node %d", i)
				}
				assert.Equal(t, uint64(1), nodes[4].Digests()["z1"].Digest.Sequence)
				each(0)
				pass(ZoneTuning().RejoinMax + 15*time.Second)
				for i, n := range nodes {
					assert.Equal(t, 5, alive(n.Pool), "node %d", i)
					assert.Equal(t, uint64(2), n.Digests()["z1"].Digest.Sequence)
				}
			})
		})
	}
}

func TestCutMemberIsSuspectThenDead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		at := endpoints(2)
		a, b := w.start(at[0], "a", at, nil), w.start(at[1], "b", at, nil)
		pass(10 * time.Second)
		w.set(at[0], at[1], cutRefuse)
		seen := map[MemberState]bool{}
		for range 60 {
			pass(500 * time.Millisecond)
			for _, m := range a.Members() {
				if !m.Self {
					seen[m.State] = true
				}
			}
		}
		assert.True(t, seen[memberSuspect])
		assert.True(t, seen[memberDead])
		assert.Equal(t, 1, alive(b.Pool))
		assert.NotZero(t, a.count.dropped.Load())
	})
}

func TestRestartWithPersistedPeersOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		at := endpoints(3)
		// a and b do not know where c is, and wait to be dialled.
		a, b := w.start(at[0], "a", at[:2], nil), w.start(at[1], "b", at[:2], nil)
		c := w.start(at[2], "c", at, nil)
		pass(20 * time.Second)
		assert.Equal(t, 3, alive(c.Pool))
		assert.Equal(t, 3, alive(a.Pool))
		assert.Equal(t, at[:2], c.store.peers)
		store := c.store
		w.crash(c)
		pass(2 * time.Minute)
		assert.Equal(t, 2, alive(a.Pool))
		d := w.start(at[2], "c", nil, func(cfg *Config) { cfg.Peers = store })
		a.say(digestOf("z1", 3))
		pass(20 * time.Second)
		for _, n := range []*node{a, b, d} {
			assert.Equal(t, 3, alive(n.Pool))
			assert.Equal(t, uint64(3), n.Digests()["z1"].Digest.Sequence)
		}
	})
}

func TestEndpointsMayChange(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		at := endpoints(3)
		var mu sync.Mutex // guards current
		current := at[:2]
		a := w.start(at[0], "a", nil, func(c *Config) {
			c.Endpoints = func() []string {
				mu.Lock()
				defer mu.Unlock()
				return current
			}
		})
		b := w.start(at[1], "b", nil, nil)
		pass(10 * time.Second)
		assert.Equal(t, 2, alive(a.Pool))
		w.crash(b)
		w.start(at[2], "b", nil, nil) // the same member elsewhere, who knows nobody
		pass(time.Minute)
		assert.Equal(t, 1, alive(a.Pool))
		mu.Lock()
		current = at[2:]
		mu.Unlock()
		pass(10 * time.Second)
		assert.Equal(t, 2, alive(a.Pool))
	})
}

func TestFailingStoreDoesNotStopThePool(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		at := endpoints(2)
		store := &memory{err: errDisk}
		a := w.start(at[0], "a", at, func(c *Config) { c.Peers = store })
		w.start(at[1], "b", at, nil)
		pass(10 * time.Second)
		assert.Equal(t, 2, alive(a.Pool))
		store.mu.Lock()
		store.err = nil
		store.mu.Unlock()
		pass(2 * time.Second)
		got, err := store.Load()
		require.NoError(t, err)
		assert.Equal(t, at[1:], got)
	})
}

func TestWrongPoolIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		at := endpoints(2)
		a := w.start(at[0], "a", at, nil)
		b := w.start(at[1], "b", at, func(c *Config) { c.Name = "other" })
		pass(30 * time.Second)
		assert.Equal(t, 1, alive(a.Pool))
		assert.Equal(t, 1, alive(b.Pool))
		assert.NotZero(t, a.count.refused.Load())
		assert.Empty(t, a.store.peers)
	})
}

func TestPoolAtRestRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.start("127.0.0.1:1", "a", nil, nil)
		pass(time.Second)
		assert.Equal(t, api.CodeConflict, api.CodeOf(n.Run(t.Context())), "runs once")
		n.kill()
		near, far := net.Pipe()
		n.Accept(Hello{Version: 1, Pool: "zone", Name: SyntheticName("x"), Kind: KindPacket}, far)
		_, err := near.Read(make([]byte, 1))
		assert.Error(t, err)
	})
}

// rogue opens a connection to a node and says hello as a member that is none.
func rogue(t *testing.T, n *node, kind Kind) net.Conn {
	t.Helper()
	near, far := net.Pipe()
	name := SyntheticName("zone", "rogue")
	go n.Accept(Hello{Version: helloVersion, Pool: "zone", Name: name, Kind: kind}, far)
	h, err := ReadHello(near, time.Now().Add(time.Second))
	require.NoError(t, err)
	assert.Equal(t, n.cfg.Self, h.Name)
	return near
}

func TestGarbageIsSurvived(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		at := endpoints(2)
		a, b := w.start(at[0], "a", at, nil), w.start(at[1], "b", at, nil)
		pass(5 * time.Second)
		packet := rogue(t, a, KindPacket)
		for _, b := range [][]byte{{9, 1, 2}, {msgAlive, 0xff}, {msgUser}, {msgCompound, 200}, {msgPing}, {255}, {msgUser, 1, 0x9f}} {
			require.NoError(t, writeFrame(packet, b, frameMaxBytes))
		}
		require.NoError(t, writeFrame(packet, bytes.Repeat([]byte{msgUser}, frameMaxBytes), frameMaxBytes), "at the limit")
		pass(time.Second)
		assert.Equal(t, uint64(3), a.count.garbage.Load())
		assert.NotZero(t, a.count.malformed.Load())
		_, err := packet.Write(binary.BigEndian.AppendUint32(nil, frameMaxBytes+1))
		require.NoError(t, err)
		_, err = packet.Read(make([]byte, 1))
		require.Error(t, err, "above the limit the connection is closed")
		assert.Equal(t, uint64(4), a.count.garbage.Load())

		for _, b := range [][]byte{{msgUser, 1}, {9, 9}, {msgPushPull}, {msgPushPull, 0x83, 0xa5}, {msgAck}} {
			stream := rogue(t, a, kindStream)
			require.NoError(t, writeFrame(stream, b, streamMaxBytes))
			pass(15 * time.Second)
			_ = stream.Close()
		}
		pass(5 * time.Second)
		assert.Equal(t, 2, alive(a.Pool))
		assert.Equal(t, 2, alive(b.Pool))
	})
}

func TestStreamsInAreLimited(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.start("127.0.0.1:1", "a", nil, nil)
		pass(time.Second)
		open := make([]net.Conn, streamsInMax)
		for i := range open {
			open[i] = rogue(t, n, kindStream)
		}
		pass(time.Millisecond)
		assert.Zero(t, n.count.refused.Load(), "at the limit")
		one := rogue(t, n, kindStream)
		_, err := one.Read(make([]byte, 1))
		require.Error(t, err)
		assert.Equal(t, uint64(1), n.count.refused.Load())
		for _, c := range open {
			_ = c.Close()
		}
		pass(time.Second)
		one = rogue(t, n, kindStream)
		pass(time.Millisecond)
		assert.Equal(t, uint64(1), n.count.refused.Load(), "there is room again")
		_ = one.Close()
	})
}

func TestNothingInternalIsWritten(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		at := endpoints(4)
		ids := []string{"node-canary-1", "node-canary-2", "node-canary-3", "node-canary-4"}
		nodes := make([]*node, len(at))
		for i, e := range at {
			nodes[i] = w.start(e, ids[i], at, nil)
		}
		nodes[0].say(digestOf("z1", 1))
		pass(time.Minute)
		w.set(at[0], at[1], cutHang)
		pass(time.Minute)
		w.set(at[0], at[1], cutRefuse)
		pass(time.Minute)
		w.set(at[0], at[1], 0)
		pass(time.Minute)
		for range 3 { // streams that time out: memberlist tells the peer why
			quiet := rogue(t, nodes[0], kindStream)
			require.NoError(t, quiet.SetReadDeadline(time.Now().Add(time.Minute)))
			_, _ = quiet.Read(make([]byte, 1)) // closed by then
			_ = quiet.Close()
		}
		nodes[3].kill()
		pass(time.Minute)

		w.mu.Lock()
		defer w.mu.Unlock()
		all := w.taped.Bytes()
		require.Greater(t, len(all), 10_000)
		for _, canary := range append(append(at, ids...), "127.0.0.1", "canary", "\x7f\x00\x00\x01", "z1\x00secret", "tcp") {
			assert.False(t, bytes.Contains(all, []byte(canary)), "%q was written", canary)
		}
		for i := 40001; i <= 40004; i++ { // ports, as text and as two bytes after an address
			assert.NotContains(t, string(all), strconv.Itoa(i))
		}
		assert.Contains(t, string(all), nodes[0].cfg.Self, "the tape is real")
	})
}

func TestNewRefusesBadConfig(t *testing.T) {
	good := Config{
		Name: "zone", Self: SyntheticName("zone"), Endpoints: func() []string { return nil },
		Digest: func() *api.Digest { return nil }, Logger: testLogger(), Now: time.Now,
	}
	cases := map[string]func(*Config){
		"dial":   func(*Config) {},
		"name":   func(c *Config) { c.Name = "no name" },
		"self":   func(c *Config) { c.Self = "host-1" },
		"zones":  func(c *Config) { c.Zones = make([]api.ZoneID, DigestsMax+1) },
		"probe":  func(c *Config) { c.Tuning.ProbeTimeout = time.Minute },
		"rejoin": func(c *Config) { c.Tuning.RejoinMin = time.Hour },
		"tiny":   func(c *Config) { c.Tuning.GossipInterval = 1 },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			c := good
			if name != "dial" {
				c.Dial = newWorld(t).dialer()
			}
			change(&c)
			_, err := New(c)
			assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
		})
	}
}
