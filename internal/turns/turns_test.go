package turns

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/internal/await"
)

// workers are pieces of work by their names, in the order in which they had their turns.
type workers struct {
	mu    sync.Mutex // guards what follows
	had   []string
	turns map[string]*Turn
}

func (w *workers) begin(name string, turn *Turn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.had, w.turns[name] = append(w.had, name), turn
}

func (w *workers) names() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.had)
}

func (w *workers) turn(name string) *Turn {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.turns[name]
}

// take starts pieces of work that wait for a turn, one after the other. The first letter of a name is its party, and a
// capital letter at its end the kind of work.
func take(t *Turns, names ...string) *workers {
	out := &workers{turns: map[string]*Turn{}}
	for _, name := range names {
		go func() {
			turn, _ := t.Take(context.Background(), Queue{name[:1], strings.TrimLeft(name[1:], "0123456789")})
			out.begin(name, turn)
		}()
		synctest.Wait()
	}
	return out
}

// count returns how many turns are taken, when nothing runs.
func (t *Turns) count() int {
	synctest.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.taken
}

// idle checks that nothing is taken, waits or is kept of those who did.
func (t *Turns) idle(tb testing.TB) {
	tb.Helper()
	assert.Zero(tb, t.count())
	assert.Empty(tb, t.next)
	assert.Empty(tb, t.waiting)
	assert.Zero(tb, t.Waiting())
}

// TestTurnsAreFair: each party that waits has its turn, however much work of another came before, and the
// work of one party begins in order.
func TestTurnsAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Config{AtOnce: 2, Now: time.Now})
		had := take(w, "a1", "a2", "a3", "a4", "a5", "b1", "b2", "c1")
		assert.Equal(t, []string{"a1", "a2"}, had.names(), "two at once")
		assert.Equal(t, 6, w.Waiting())
		order := []string{"a1", "a2", "a3", "b1", "c1", "a4", "b2", "a5"}
		for _, name := range order {
			turn := had.turn(name)
			turn.Leave()
			turn.Leave() // which ends nothing more
			synctest.Wait()
		}
		assert.Equal(t, order, had.names())
		w.idle(t)
	})
}

// TestKindsDoNotDelayEachOther: work of one kind waits behind none of another kind of the same party.
func TestKindsDoNotDelayEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Config{AtOnce: 1, Now: time.Now})
		had := take(w, "a1W", "a2W", "a3W", "a1D")
		order := []string{"a1W", "a2W", "a1D", "a3W"}
		for _, name := range order {
			had.turn(name).Leave()
			synctest.Wait()
		}
		assert.Equal(t, order, had.names())
		w.idle(t)
	})
}

// TestATurnEnds though its work goes on, so that work which waits for others keeps nobody out; and work that rests has
// another turn.
func TestATurnEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lasts = 20 * time.Millisecond
		w := New(Config{AtOnce: 1, Lasts: lasts, Now: time.Now})
		had := take(w, "a1", "b1")
		await.Sleep(lasts - 1)
		synctest.Wait()
		assert.Equal(t, []string{"a1"}, had.names())
		await.Sleep(1)
		synctest.Wait()
		assert.Equal(t, []string{"a1", "b1"}, had.names())
		had.turn("a1").Leave() // it has ended
		assert.Equal(t, 1, w.count())
		had.turn("b1").Leave()
		await.Sleep(lasts)
		w.idle(t)
		require.True(t, had.turn("a1").Again(t.Context()))
		assert.Equal(t, 1, w.count())
		had.turn("a1").Leave()
		w.idle(t)
	})
}

// TestATurnIsKeptWhileProcessorsAreShort, however long its work lasts, and no longer.
func TestATurnIsKeptWhileProcessorsAreShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lasts = 20 * time.Millisecond
		var idle atomic.Bool
		share := func() float64 {
			if idle.Load() {
				return keepBelow
			}
			return keepBelow - 0.01
		}
		w := New(Config{AtOnce: 1, Lasts: lasts, Keep: true, Share: share, Now: time.Now})
		had := take(w, "a1", "a2")
		await.Sleep(10 * lasts)
		synctest.Wait()
		assert.Equal(t, []string{"a1"}, had.names())
		idle.Store(true)
		await.Sleep(lasts)
		synctest.Wait()
		assert.Equal(t, []string{"a1", "a2"}, had.names())
		idle.Store(false)
		had.turn("a1").Leave() // which has ended
		await.Sleep(10 * lasts)
		assert.Equal(t, 1, w.count())
		had.turn("a2").Leave()
		had.turn("a2").Leave()
		w.idle(t)
		await.Sleep(10 * lasts)
		w.idle(t)
	})
}

// TestNobodyWaitsInVain: work that is given up takes no turn, wherever it waited.
func TestNobodyWaitsInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Config{AtOnce: 1, Now: time.Now})
		had := take(w, "a1")
		ctx, giveUp := context.WithCancel(t.Context())
		for _, party := range []string{"a", "b", "b"} {
			go func() {
				turn, ok := w.Take(ctx, Queue{Party: party})
				assert.False(t, ok)
				turn.Leave()
			}()
		}
		synctest.Wait()
		more := take(w, "b3")
		giveUp()
		synctest.Wait()
		assert.Equal(t, 1, w.Waiting())
		had.turn("a1").Leave()
		synctest.Wait()
		assert.Equal(t, []string{"b3"}, more.names())
		more.turn("b3").Leave()
		w.idle(t)
		(*Turn)(nil).Leave()
	})
}

// TestAShareIsForSeveral: under pressure, several parties have less at once, and at least one turn; one alone has all.
func TestAShareIsForSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share := 0.5
		w := New(Config{AtOnce: 4, Share: func() float64 { return share }, Now: time.Now})
		await.Sleep(mixedFor) // the first party is another than none
		take(w, "a0")
		await.Sleep(mixedFor)
		had := take(w, "a1", "a2D", "a3", "a4", "b1")
		assert.Equal(t, []string{"a1", "a2D", "a3"}, had.names(), "a party alone, with two kinds of work")
		had.turn("a1").Leave()
		synctest.Wait()
		assert.Len(t, had.names(), 3, "three are more than half of four")
		had.turn("a2D").Leave()
		synctest.Wait()
		assert.Len(t, had.names(), 3, "and two are half")
		had.turn("a3").Leave()
		synctest.Wait()
		assert.Equal(t, []string{"a4"}, had.names()[3:])
		share = 0
		had.turn("a4").Leave()
		synctest.Wait()
		assert.Len(t, had.names(), 4, "one turn is taken already")
		share = 1
		later := take(w, "b2")
		assert.Equal(t, []string{"b1"}, had.names()[4:])
		assert.Equal(t, []string{"b2"}, later.names())
	})
}

// TestQuickTurnsMakeRoom: while work waits, turns that end soon make room for others, up to a limit, and slow ones take it
// back; when nobody waits there is as much room as at first.
func TestQuickTurnsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const atOnce, most = 2, 4
		s := New(Config{AtOnce: atOnce, Most: most, Quick: time.Second, Now: time.Now})
		end, stop := context.WithCancel(t.Context())
		var running atomic.Int32
		var all sync.WaitGroup
		var lasts atomic.Int64
		lasts.Store(int64(time.Second - 1))
		for range 100 * most {
			all.Go(func() {
				turn, ok := s.Take(end, Queue{Party: "p"})
				if !ok {
					return
				}
				running.Add(1)
				await.Sleep(time.Duration(lasts.Load()))
				running.Add(-1)
				turn.Leave()
			})
		}
		look := func(after time.Duration) int {
			await.Sleep(after)
			synctest.Wait()
			return int(running.Load())
		}
		assert.Equal(t, atOnce, look(0))
		assert.Equal(t, atOnce, look(time.Second), "they make room for half a turn")
		assert.Equal(t, atOnce+1, look(time.Second))
		assert.Equal(t, most, look(10*time.Second))
		assert.Equal(t, most, look(10*time.Second), "and no more")
		lasts.Store(int64(time.Second))
		assert.Equal(t, atOnce, look(10*time.Second), "slow ones take it back")
		lasts.Store(int64(time.Second - 1))
		assert.Equal(t, most, look(10*time.Second))
		stop()
		all.Wait()
		synctest.Wait()
		assert.InDelta(t, 0, s.more, 0, "nobody waits")
	})
}
