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
			go func() { results <- h.sendItem(t.Context(), l, n, 3, h.send) }()
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
			go func() { results <- h.sendItem(t.Context(), "a", n, 3, h.send) }()
			synctest.Wait()
		}
		away := errors.New("nobody there")
		h.let <- away
		for range 5 {
			require.ErrorIs(t, <-results, away)
		}
		go func() { results <- h.sendItem(t.Context(), "a", 7, 3, h.send) }()
		h.let <- nil
		require.NoError(t, <-results)
		assert.Equal(t, [][]int{{0}, {7}}, h.calls)
	})
}
