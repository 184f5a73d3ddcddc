package turns

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/internal/await"
)

// take starts pieces of work that wait for a turn, one after the other, and returns which have had theirs, in order. The
// first letter of a name is its party, and a capital letter at its end the kind of work.
func take(t *Turns, names ...string) (had *[]string, began map[string]*Turn) {
	had, began = new([]string), map[string]*Turn{}
	for _, name := range names {
		go func() {
			turn, _ := t.Take(context.Background(), Queue{name[:1], strings.TrimLeft(name[1:], "0123456789")})
			*had, began[name] = append(*had, name), turn // one after the other: each is waited for
		}()
		synctest.Wait()
	}
	return had, began
}

// idle checks that nothing is taken, waits or is kept of those who did.
func (t *Turns) idle(tb testing.TB) {
	tb.Helper()
	assert.Zero(tb, t.taken)
	assert.Empty(tb, t.next)
	assert.Empty(tb, t.waiting)
	assert.Zero(tb, t.Waiting())
}

// TestTurnsAreFair: each party that waits has its turn, however much work of another came before, and the
// work of one party begins in order.
func TestTurnsAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Config{AtOnce: 2, Now: time.Now})
		had, began := take(w, "a1", "a2", "a3", "a4", "a5", "b1", "b2", "c1")
		assert.Equal(t, []string{"a1", "a2"}, *had, "two at once")
		assert.Equal(t, 6, w.Waiting())
		order := []string{"a1", "a2", "a3", "b1", "c1", "a4", "b2", "a5"}
		for _, name := range order {
			began[name].Leave()
			began[name].Leave() // which ends nothing more
			synctest.Wait()
		}
		assert.Equal(t, order, *had)
		w.idle(t)
	})
}

// TestKindsDoNotDelayEachOther: work of one kind waits behind none of another kind of the same party.
func TestKindsDoNotDelayEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Config{AtOnce: 1, Now: time.Now})
		had, began := take(w, "a1W", "a2W", "a3W", "a1D")
		order := []string{"a1W", "a2W", "a1D", "a3W"}
		for _, name := range order {
			began[name].Leave()
			synctest.Wait()
		}
		assert.Equal(t, order, *had)
		w.idle(t)
	})
}

// TestATurnEnds though its work goes on, so that work which waits for others keeps nobody out; and work that rests has
// another turn.
func TestATurnEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lasts = 20 * time.Millisecond
		w := New(Config{AtOnce: 1, Lasts: lasts, Now: time.Now})
		had, began := take(w, "a1", "b1")
		await.Sleep(lasts - 1)
		synctest.Wait()
		assert.Equal(t, []string{"a1"}, *had)
		await.Sleep(1)
		synctest.Wait()
		assert.Equal(t, []string{"a1", "b1"}, *had)
		began["a1"].Leave() // it has ended
		assert.Equal(t, 1, w.taken)
		began["b1"].Leave()
		await.Sleep(lasts)
		w.idle(t)
		require.True(t, began["a1"].Again(t.Context()))
		assert.Equal(t, 1, w.taken)
		began["a1"].Leave()
		w.idle(t)
	})
}

// TestATurnIsKeptWhileProcessorsAreShort, however long its work lasts, and no longer.
func TestATurnIsKeptWhileProcessorsAreShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lasts = 20 * time.Millisecond
		share := keepBelow - 0.01
		w := New(Config{AtOnce: 1, Lasts: lasts, Keep: true, Share: func() float64 { return share }, Now: time.Now})
		had, began := take(w, "a1", "a2")
		await.Sleep(10 * lasts)
		synctest.Wait()
		assert.Equal(t, []string{"a1"}, *had)
		share = keepBelow
		await.Sleep(lasts)
		synctest.Wait()
		assert.Equal(t, []string{"a1", "a2"}, *had)
		share = 0
		began["a1"].Leave() // which has ended
		await.Sleep(10 * lasts)
		assert.Equal(t, 1, w.taken)
		began["a2"].Leave()
		began["a2"].Leave()
		w.idle(t)
		await.Sleep(10 * lasts)
		w.idle(t)
	})
}

// TestNobodyWaitsInVain: work that is given up takes no turn, wherever it waited.
func TestNobodyWaitsInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Config{AtOnce: 1, Now: time.Now})
		_, began := take(w, "a1")
		ctx, giveUp := context.WithCancel(t.Context())
		for _, party := range []string{"a", "b", "b"} {
			go func() {
				turn, ok := w.Take(ctx, Queue{Party: party})
				assert.False(t, ok)
				turn.Leave()
			}()
		}
		synctest.Wait()
		had, more := take(w, "b3")
		giveUp()
		synctest.Wait()
		assert.Equal(t, 1, w.Waiting())
		began["a1"].Leave()
		synctest.Wait()
		assert.Equal(t, []string{"b3"}, *had)
		more["b3"].Leave()
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
		had, began := take(w, "a1", "a2D", "a3", "a4", "b1")
		assert.Equal(t, []string{"a1", "a2D", "a3"}, *had, "a party alone, with two kinds of work")
		began["a1"].Leave()
		synctest.Wait()
		assert.Len(t, *had, 3, "three are more than half of four")
		began["a2D"].Leave()
		synctest.Wait()
		assert.Len(t, *had, 3, "and two are half")
		began["a3"].Leave()
		synctest.Wait()
		assert.Equal(t, []string{"a4"}, (*had)[3:])
		share = 0
		began["a4"].Leave()
		synctest.Wait()
		assert.Len(t, *had, 4, "one turn is taken already")
		share = 1
		more, _ := take(w, "b2")
		assert.Equal(t, []string{"b1"}, (*had)[4:])
		assert.Equal(t, []string{"b2"}, *more)
	})
}
