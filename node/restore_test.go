package node

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent"
	"berth/agent/driver/fake"
	"berth/api"
	"berth/identity"
	"berth/internal/actor"
	"berth/internal/requestid"
	"berth/raftstore/state"
)

func (r *running) backup() *bytes.Buffer {
	r.t.Helper()
	var b bytes.Buffer
	require.NoError(r.t, r.Snapshot(r.t.Context(), &b))
	return &b
}

// plainBackup returns a backup as older releases wrote it.
func (r *running) plainBackup() *bytes.Buffer {
	r.t.Helper()
	plain, _, err := r.store.Snapshot(r.t.Context())
	require.NoError(r.t, err)
	var b bytes.Buffer
	_, err = b.ReadFrom(plain)
	require.NoError(r.t, errors.Join(err, plain.Close()))
	return &b
}

func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		r, other := newZone(t, "a").run(), newZone(t, "b").run()
		r.offers("small")
		refuses := func(b *bytes.Buffer, says string) {
			t.Helper()
			for _, unauthenticated := range []bool{false, true} { // that is for files that are not sealed
				err := r.Restore(t.Context(), bytes.NewReader(b.Bytes()), unauthenticated)
				refusedAs(t, api.CodeInvalid, err)
				require.ErrorContains(t, err, says)
				require.ErrorContains(t, err, "nothing was changed")
			}
		}
		refuses(other.backup(), "not written by this zone")
		cut, longer, forged := r.backup(), r.backup(), r.backup()
		cut.Truncate(cut.Len() - 1)
		refuses(cut, "cut since")
		longer.WriteByte(0)
		refuses(longer, "changed")
		forged.Bytes()[forged.Len()/2] ^= 1
		refuses(forged, "changed")
		refusedAs(t, api.CodeInvalid, r.Restore(t.Context(), bytes.NewReader(nil), false))
		refusedAs(t, api.CodeInvalid, r.Restore(t.Context(), bytes.NewReader(nil), true))
		_, ok := r.view().Flavor("small")
		assert.True(t, ok, "nothing was changed")
		assert.Equal(t, r.rec.Zone, r.view().Zone)
	})
}

// lines keeps what is logged.
type lines struct {
	mu  sync.Mutex // guards all
	all bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

// TestASavedBackupIsRecorded: it has the whole state, so the log and the audit log say who got it.
func TestASavedBackupIsRecorded(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		h := newZone(t, "a")
		var log lines
		h.opts.Log = slog.New(slog.NewTextHandler(&log, nil))
		r := h.run()
		by := api.AuditActor{Kind: api.ActorToken, ID: "t-1", User: "ada", Project: "ops"}
		ctx := requestid.With(actor.With(t.Context(), actor.Call{By: by, Path: "GET /operator/snapshot"}), "req-9")
		require.NoError(t, r.Snapshot(ctx, io.Discard))
		records, _ := r.view().Audit()
		require.NotEmpty(t, records)
		last := records[len(records)-1]
		assert.Equal(t, by, last.Actor)
		assert.Equal(t, api.RequestID("req-9"), last.Request)
		assert.Equal(t, "GET /operator/snapshot", last.Call)
		assert.Equal(t, "saved backup", last.Target)
		log.mu.Lock()
		defer log.mu.Unlock()
		assert.Regexp(t, `level=INFO msg="the zone's state is handed out as a backup" zone=a node=node-1 actor=token id=t-1 user=ada project=ops request_id=req-9`, log.all.String())
	})
}

// TestABackupIsForThoseWithTheKey: what is in a backup cannot be read without the zone's key,
// and a backup that anybody could have written is restored only on demand.
func TestABackupIsForThoseWithTheKey(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		r := newZone(t, "a").run()
		r.offers("a-flavor-with-a-name")
		plain, sealed := r.plainBackup(), r.backup()
		require.Contains(t, plain.String(), "a-flavor-with-a-name")
		assert.NotContains(t, sealed.String(), "a-flavor-with-a-name")
		assert.Less(t, sealed.Len(), plain.Len()*11/10+200)

		r.offers("later")
		err := r.Restore(t.Context(), bytes.NewReader(plain.Bytes()), false)
		refusedAs(t, api.CodeInvalid, err)
		require.ErrorContains(t, err, "--accept-unauthenticated")
		_, ok := r.view().Flavor("later")
		require.True(t, ok, "nothing was changed")
		require.NoError(t, r.Restore(t.Context(), plain, true))
		_, ok = r.view().Flavor("later")
		require.False(t, ok)
		r.offers("later")
		require.NoError(t, r.Restore(t.Context(), sealed, false))
		_, ok = r.view().Flavor("later")
		require.False(t, ok)
	})
}

// runsAgent runs an agent with hosts until the test ends.
func (r *running) runsAgent(id string, hosts int) {
	r.t.Helper()
	home, wallet, err := LoadAgent(r.joinedAgent(id))
	require.NoError(r.t, err)
	var list []agent.Host
	drv := fake.New(fake.Options{})
	for _, h := range agent.FakeHosts(id, hosts, agent.Inventory{api.VCPU: {Total: 4}}) {
		list = append(list, agent.Host{AgentHost: h, Driver: drv})
	}
	a, err := agent.New(agent.Config{
		Addresses: home.Addresses, Hosts: list, Log: quiet, Now: time.Now, Rand: rand.Float64,
		Wait: 100 * time.Millisecond, // it learns that its hosts are forgotten when its question is answered
		TLS: identity.ClientTLS(wallet.Of(identity.RoleAgent), api.ALPNHTTP, wallet.Pins,
			identity.Subject{Zone: home.Zone, Role: identity.RoleNode}, time.Now),
		Dial: r.t.dial,
	})
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		assert.NoError(r.t, <-ended)
		assert.NoError(r.t, a.Close())
	})
}

func (r *running) hasHostsUp(want int) {
	r.t.Helper()
	r.until("hosts are up", func(v *state.State) bool {
		up := 0
		for _, h := range v.AllHosts() {
			if h.State == api.HostUp {
				up++
			}
		}
		return up == want
	})
}

// TestRestoreGoesOnWithWhoIsThere: members and agents that came after the backup
// are known again soon, what was deleted is back, and what was made is gone.
func TestRestoreGoesOnWithWhoIsThere(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		home := newZone(t, "a")
		home.opts.Timing = patient // a busy machine must not depose anybody
		first := home.run()
		first.offers("before")
		backup := first.backup()
		second := first.adopt("node-2")
		first.runsAgent("agent-1", 2)
		first.hasHostsUp(2)
		first.offers("after")

		require.NoError(t, first.Restore(t.Context(), backup, false))
		for _, r := range []*running{first, second} {
			r.until("both nodes are known", func(v *state.State) bool { return len(v.Nodes()) == 2 })
			r.hasHostsUp(2)
			_, ok := r.view().Flavor("before")
			assert.True(t, ok)
			_, ok = r.view().Flavor("after")
			assert.False(t, ok)
			m, ok := r.view().Node("node-2")
			require.True(t, ok)
			assert.Equal(t, second.Addresses().Node, m.NodeAddr)
			assert.Equal(t, second.Addresses().Gateway, m.GatewayAddr)
		}
		assert.Equal(t, []api.NodeID{"node-1", "node-2"}, first.members())
	})
}
