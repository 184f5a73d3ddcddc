package federation

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/internal/await"
)

// runs starts a loop, and returns what ends it and waits for that.
func runs(t *testing.T, loop func(context.Context)) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); loop(ctx) }()
	return func() {
		cancel()
		<-done
	}
}

// TestALinkedZoneThatHangs is asked one question at a time, again when that has taken too long, and by no loop that has ended.
func TestALinkedZoneThatHangs(t *testing.T) {
	for name, loop := range map[string]func(*place, context.Context){
		"authorities": func(p *place, ctx context.Context) { p.AnnounceAuthorities(ctx) },
		"gateways":    func(p *place, ctx context.Context) { p.AnnounceGateways(ctx) },
		"forms":       func(p *place, ctx context.Context) { p.FollowForms(ctx) },
		"keys":        func(p *place, ctx context.Context) { assert.NoError(t, p.CheckKeys(ctx)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				parent, child := w.addOfForm("p", keyA, api.FormFifth), w.addOfForm("c", keyB, api.FormFifth)
				child.isBelow(parent)
				require.NoError(t, child.RotateCA(t.Context(), rest.CABrought{}))
				var mu sync.Mutex // guards those below
				asked, now, most := 0, 0, 0
				child.hangs = func(ctx context.Context) error {
					mu.Lock()
					asked, now = asked+1, now+1
					most = max(most, now)
					mu.Unlock()
					<-ctx.Done()
					mu.Lock()
					defer mu.Unlock()
					now--
					return ctx.Err()
				}
				end := runs(t, func(ctx context.Context) { loop(child, ctx) })
				await.Sleep(time.Minute)
				synctest.Wait()
				mu.Lock()
				before := asked
				mu.Unlock()
				assert.GreaterOrEqual(t, before, 5, "each time for 5 seconds at the most, with 5 seconds of pause at the most")
				end()
				assert.Equal(t, 1, most)
				assert.Zero(t, now)
			})
		})
	}
}

// TestAnAnnouncementThatIsCutOff says nothing of the linked zone: this node leads no longer.
func TestAnAnnouncementThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		parent, child := w.addOfForm("p", nil, api.FormFifth), w.addOfForm("c", nil, api.FormFifth)
		child.isBelow(parent)
		require.NoError(t, parent.RotateCA(t.Context(), rest.CABrought{}))
		parent.reports("node-1")
		parent.hangs = func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		end := runs(t, parent.AnnounceAuthorities)
		synctest.Wait()
		end()
		assert.Equal(t, []rest.CAWait{{Kind: api.CAWaitLink, Name: "c"}}, parent.status().Waits)
		parent.hangs = nil
		parent.announces()
		assert.Empty(t, parent.status().Waits)
	})
}

// logs has the rules log to a buffer from now on.
func (p *place) logs() *bytes.Buffer {
	var b bytes.Buffer
	p.log = slog.New(slog.NewTextHandler(&b, nil))
	return &b
}

// TestWhatLoopsSay in an hour and a half: what begins and what ends once each, what stays as often as it is tried or as a reminder, and
// nothing while all is well.
func TestWhatLoopsSay(t *testing.T) {
	away := func(p *place) { p.nodes = nil }
	for name, c := range map[string]struct {
		loop   func(*place, context.Context)
		begin  func(*testing.T, *place) // before the loop
		middle func(*testing.T, *place) // after the first half of the time, if not nil
		want   map[string]int
	}{
		"a key that was changed meanwhile": {
			loop: func(p *place, ctx context.Context) { p.FollowKEK(ctx) },
			begin: func(t *testing.T, p *place) {
				t.Helper()
				first := p.keks
				require.NoError(t, p.RotateKEK(t.Context()))
				p.keks = first
				p.serve(nil)
			},
			want: map[string]int{"this node lacks the key": 1, "this node has the key": 1},
		},
		"a key that nobody gives": {
			loop: func(p *place, ctx context.Context) { p.FollowKEK(ctx) },
			begin: func(t *testing.T, p *place) {
				t.Helper()
				first := p.keks
				require.NoError(t, p.RotateKEK(t.Context()))
				p.keks = first
				p.serve(nil)
				away(p)
			},
			want: map[string]int{"this node lacks the key": 1, "could not be got from a node": 2, "this node has the key": 0},
		},
		"a key that nobody lacks": {
			loop: func(p *place, ctx context.Context) { p.FollowKEK(ctx) },
			want: map[string]int{"": 0},
		},
		"a key that a removed node has": {
			loop: func(p *place, ctx context.Context) { p.RotateKEKWhenDue(ctx) },
			begin: func(t *testing.T, p *place) {
				t.Helper()
				require.NoError(t, p.RemoveMember(t.Context(), "node-3"))
			},
			want: map[string]int{"the key-encryption key was changed": 1, "a removed node has": 0},
		},
		"a key that cannot be changed": {
			loop: func(p *place, ctx context.Context) { p.RotateKEKWhenDue(ctx) },
			begin: func(t *testing.T, p *place) {
				t.Helper()
				away(p)
				require.NoError(t, p.RemoveMember(t.Context(), "node-3"))
			},
			want: map[string]int{"it could not be changed": int(90 * time.Minute / kekRetryEvery)},
		},
		"a key that is good": {
			loop: func(p *place, ctx context.Context) { p.RotateKEKWhenDue(ctx) },
			want: map[string]int{"": 0},
		},
		"an authority that a removed node has": {
			loop: func(p *place, ctx context.Context) { p.WarnOfCA(ctx) },
			begin: func(t *testing.T, p *place) {
				t.Helper()
				require.NoError(t, p.RemoveMember(t.Context(), "node-3"))
			},
			middle: func(t *testing.T, p *place) {
				t.Helper()
				require.NoError(t, p.RotateCA(t.Context(), rest.CABrought{}))
			},
			want: map[string]int{"berth operator ca rotate": 1, "berth operator ca status": 1},
		},
		"an authority that is good": {
			loop: func(p *place, ctx context.Context) { p.WarnOfCA(ctx) },
			want: map[string]int{"": 0},
		},
		"an even number of voters": {
			loop:   func(p *place, ctx context.Context) { p.RunAutopilot(ctx) },
			begin:  func(_ *testing.T, p *place) { p.joins("node-4") },
			middle: func(_ *testing.T, p *place) { p.joins("node-5") },
			want:   map[string]int{"the zone has an even number": 1, "the zone has an odd number": 1},
		},
		"an odd number of voters": {
			loop: func(p *place, ctx context.Context) { p.RunAutopilot(ctx) },
			want: map[string]int{"": 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _ := threeNodes(t)
				if c.begin != nil {
					c.begin(t, p)
				}
				said := p.logs()
				end := runs(t, func(ctx context.Context) { c.loop(p, ctx) })
				await.Sleep(45*time.Minute - time.Millisecond)
				synctest.Wait()
				if c.middle != nil {
					c.middle(t, p)
				}
				await.Sleep(45 * time.Minute)
				synctest.Wait()
				end()
				for text, times := range c.want {
					got := strings.Count(said.String(), text)
					if text == "" {
						got = said.Len()
					}
					assert.Equal(t, times, got, "%q in\n%s", text, said)
				}
			})
		})
	}
}
