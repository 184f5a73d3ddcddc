package saga

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// heldCalls is a joint whose calls wait until the test lets them go.
type heldCalls struct {
	joint[int]

	let   chan error // the result of the next call
	mu    sync.Mutex // guards calls
	calls [][]int
}

var errItem = errors.New("an item of its own")

// send refuses the items that are negative.
func (h *heldCalls) send(_ context.Context, items []int) ([]error, error) {
	h.mu.Lock()
	h.calls = append(h.calls, items)
	h.mu.Unlock()
	if err := <-h.let; err != nil {
		return nil, err
	}
	out := make([]error, len(items))
	for i, n := range items {
		if n < 0 {
			out[i] = errItem
		}
	}
	return out, nil
}

// TestItemsShareTheNextCall: what comes while a call is under way is in the next one, so
// many at the most, each with a result of its own; and another child has its own calls.
func TestItemsShareTheNextCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &heldCalls{let: make(chan error)}
		results := make(chan error, 10)
		put := func(l api.LinkID, n int) {
			go func() { results <- h.sendItem(t.Context(), l, n, 0, jointMax{items: 3}, h.send) }()
			synctest.Wait()
		}
		put("a", 1)
		for _, n := range []int{2, -3, 4, 5} {
			put("a", n)
		}
		put("b", 6)
		assert.Equal(t, [][]int{{1}, {6}}, h.calls)
		for range 4 {
			h.let <- nil
			synctest.Wait()
		}
		assert.Equal(t, [][]int{{1}, {6}, {2, -3, 4}, {5}}, h.calls)
		refused := 0
		for range 6 {
			if err := <-results; err != nil {
				require.ErrorIs(t, err, errItem)
				refused++
			}
		}
		assert.Equal(t, 1, refused)
		assert.Empty(t, h.of, "nothing is kept of idle children")
	})
}

// TestWhatWaitsForAFailedCallFails, and the next item is sent at once.
func TestWhatWaitsForAFailedCallFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &heldCalls{let: make(chan error)}
		results := make(chan error, 10)
		for n := range 5 {
			go func() { results <- h.sendItem(t.Context(), "a", n, 0, jointMax{items: 3}, h.send) }()
			synctest.Wait()
		}
		away := errors.New("nobody there")
		h.let <- away
		for range 5 {
			require.ErrorIs(t, <-results, away)
		}
		go func() { results <- h.sendItem(t.Context(), "a", 7, 0, jointMax{items: 3}, h.send) }()
		h.let <- nil
		require.NoError(t, <-results)
		assert.Equal(t, [][]int{{0}, {7}}, h.calls)
	})
}

// TestItemsOfACallAreSoLarge: a call has items up to the limit of their sizes, and at least one.
func TestItemsOfACallAreSoLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &heldCalls{let: make(chan error)}
		results := make(chan error, 10)
		most := jointMax{items: 10, size: 100}
		for n, size := range []int{1, 40, 60, 40, 60, 1, 101, 100, 1} {
			go func() { results <- h.sendItem(t.Context(), "a", n, size, most, h.send) }()
			synctest.Wait()
		}
		for range 6 {
			h.let <- nil
			synctest.Wait()
		}
		assert.Equal(t, [][]int{{0}, {1, 2}, {3, 4}, {5}, {6}, {7}}, h.calls[:6])
		h.let <- nil
		for range 9 {
			require.NoError(t, <-results)
		}
		assert.Equal(t, []int{8}, h.calls[6])
	})
}

// TestAnItemThatNobodyWaitsFor is in no later call, and delays none of the others.
func TestAnItemThatNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &heldCalls{let: make(chan error)}
		results := make(chan error, 10)
		gone, leave := context.WithCancel(t.Context())
		for n, ctx := range []context.Context{t.Context(), gone, t.Context(), gone} {
			go func() { results <- h.sendItem(ctx, "a", n, 0, jointMax{items: 3}, h.send) }()
			synctest.Wait()
		}
		leave()
		for range 2 {
			assert.Equal(t, api.CodeTimeout, api.CodeOf(<-results))
		}
		for range 2 {
			h.let <- nil
			require.NoError(t, <-results)
		}
		assert.Equal(t, [][]int{{0}, {2}}, h.calls)
		assert.Empty(t, h.of)
	})
}

// TestWhoLeavesTakesTheCallFromNobody: of several that share a call each may leave, the first as well: the others get their results. The
// call ends when nobody waits for it any more.
func TestWhoLeavesTakesTheCallFromNobody(t *testing.T) {
	for leaves := 1; leaves <= 3; leaves++ {
		synctest.Test(t, func(t *testing.T) {
			h := &heldCalls{let: make(chan error)}
			ended := false
			send := func(ctx context.Context, items []int) ([]error, error) {
				if len(items) == 1 {
					return h.send(ctx, items)
				}
				select {
				case <-h.let:
					return make([]error, len(items)), nil
				case <-ctx.Done():
					ended = true
					return nil, ctx.Err()
				}
			}
			results := make([]chan error, 4)
			var leave []context.CancelFunc
			for n := range results {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				leave, results[n] = append(leave, cancel), make(chan error, 1)
				go func() { results[n] <- h.sendItem(ctx, "a", n, 0, jointMax{items: 3}, send) }()
				synctest.Wait()
			}
			h.let <- nil
			require.NoError(t, <-results[0])
			synctest.Wait()
			for n := 1; n <= leaves; n++ {
				leave[n]()
				assert.Equal(t, api.CodeTimeout, api.CodeOf(<-results[n]))
			}
			synctest.Wait()
			assert.Equal(t, leaves == 3, ended)
			if !ended {
				h.let <- nil
			}
			for n := leaves + 1; n <= 3; n++ {
				require.NoError(t, <-results[n])
			}
			synctest.Wait()
			assert.Empty(t, h.of)
		})
	}
}

// TestATurnIsHandedOn: an item whose turn comes when nobody waits for it any more gives it to the next one
// of its batch that is waited for, or to what comes after the batch.
func TestATurnIsHandedOn(t *testing.T) {
	const l = api.LinkID("a")
	most := jointMax{items: 2}
	var j joint[int]
	items := make([]*jointItem[int], 5)
	for n := range items {
		items[n] = &jointItem[int]{item: n, turn: make(chan []*jointItem[int], 1), done: make(chan error, 1)}
		j.enter(l, items[n])
	}
	<-items[0].turn
	j.leave(l, most) // the turn is that of 1, with 2
	j.withdraw(l, items[2], most)
	j.withdraw(l, items[1], most)
	require.Len(t, items[3].turn, 1)
	j.withdraw(l, items[3], most)
	assert.Equal(t, []*jointItem[int]{items[4]}, <-items[4].turn)
	assert.Empty(t, items[2].turn)
	j.leave(l, most)
	assert.Empty(t, j.of)
}
