package sim

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api/client"
	"berth/internal/await"
	"berth/internal/crash"
	"berth/internal/dice"
	"berth/node"
)

// lines collects a log.
type lines struct {
	mu  sync.Mutex // guards all
	all bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.all.String(), text)
}

// refusal returns what a node answers to a caller, "" if it serves him.
func (p *process) refusal() string {
	ctx, cancel := context.WithTimeout(p.z.w.ctx, callTimeout)
	defer cancel()
	if _, err := p.z.client(p).Flavors(ctx, client.ListOptions{}); err != nil {
		return err.Error()
	}
	return ""
}

// readiness returns what a node says to its supervisor.
func (p *process) readiness() (status int, said string) {
	req, err := http.NewRequestWithContext(p.z.w.ctx, http.MethodGet, "http://"+node.DefaultAddresses(p.host.Name()).Admin+"/readyz", nil)
	require.NoError(p.z.w.t, err)
	res, err := p.z.w.http.RoundTrip(req)
	require.NoError(p.z.w.t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(p.z.w.t, err)
	return res.StatusCode, string(b)
}

// TestARemovedNodeSaysSo: a node that was removed and still runs, or runs again, refuses all callers
// with a sentence that says why, is not ready, and logs it once. One that only has no leader says
// that, and serves again when there is one.
func TestARemovedNodeSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const removed = "this node was removed from the zone"
		w := newWorld(t, dice.Seed(t), plot{"root", 3, nil, nil})
		z := w.root()
		z.leads()
		place := slices.IndexFunc(z.nodes, func(p *process) bool { return !p.running().Leads() })
		old := z.nodes[place]
		said := &lines{}
		w.log = slog.New(slog.NewTextHandler(said, nil))
		again := func() {
			old.kill()
			old.reap()
			old.start()
		}
		again()
		others := slices.Delete(slices.Clone(z.nodes), place, place+1)
		for _, p := range others {
			p.kill()
			p.reap()
		}
		await.Sleep(time.Minute)
		assert.Contains(t, old.refusal(), "no leader just now")
		_, why := old.readiness()
		assert.NotContains(t, why, removed)
		for _, p := range others {
			p.start()
		}
		z.leads()
		for old.refusal() != "" {
			await.Sleep(time.Second)
		}
		assert.Zero(t, said.count(removed))

		z.insistElsewhere(place, func(ctx context.Context, c *client.Client) error { return c.RemoveMember(ctx, old.id) })
		for began := time.Now(); !strings.Contains(old.refusal(), removed); await.Sleep(time.Second) {
			require.Less(t, time.Since(began), time.Minute)
		}
		status, why := old.readiness()
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.Contains(t, why, removed)
		await.Sleep(time.Minute)
		assert.Equal(t, 1, said.count(removed))
		for _, p := range others {
			assert.Empty(t, p.refusal())
		}

		again()
		await.Sleep(time.Minute)
		assert.Contains(t, old.refusal(), removed)
		assert.Equal(t, 2, said.count(removed), "once for each time that it runs")
		old.kill()
		old.reap()
	})
}

// TestARemovedNodeStaysRemoved: it announces itself for as long as its removal takes, twice a second. The leader takes a minute between
// the steps, or is killed there, and whoever leads next finishes it.
func TestARemovedNodeStaysRemoved(t *testing.T) {
	t.Parallel()
	for name, killed := range map[string]bool{"by a slow leader": false, "by one that is killed": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, plot{"root", 3, nil, nil})
				z := w.root()
				z.leads()
				lead := z.leader()
				place := slices.IndexFunc(z.nodes, func(p *process) bool { return p != lead })
				old := z.nodes[place]
				reached := make(chan struct{})
				lead.bomb.arm(crash.RemovalLogging, 1, func() {
					close(reached)
					if killed {
						lead.kill()
						return
					}
					await.Sleep(time.Minute)
				})
				removed := make(chan error, 1)
				go func() { removed <- lead.node.Federation().RemoveMember(w.ctx, old.id) }()
				<-reached
				old.kill()
				old.reap()
				old.start() // it has applied nothing of its log, so it announces itself
				err := <-removed
				if killed {
					require.Error(t, err)
					lead.reap()
					lead.start()
				} else {
					require.NoError(t, err)
				}
				for range 30 {
					await.Sleep(time.Second)
					n := z.leads()
					assert.False(t, n.Store().HasMember(old.id), "it is a member")
					_, known := n.Store().View().Node(old.id)
					assert.False(t, known, "it is on record")
					assert.False(t, n.Store().View().Admitted(old.id), "its join still counts")
				}
				assert.Len(t, z.leads().Federation().Members(), 2)
				old.kill()
				old.reap()
			})
		})
	}
}
