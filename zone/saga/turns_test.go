package saga

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"berth/api"
)

// TestTurnsAreFair: each project that waits has its turn, however many boots of another came before, and those
// of one project come in order.
func TestTurnsAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTurns(2)
		var order []string
		for _, name := range []string{"a1", "a2", "a3", "a4", "a5", "b1", "b2", "c1"} {
			go func() {
				w.take(api.ProjectID(name[:1]))
				order = append(order, name) // one after the other: each is waited for
			}()
			synctest.Wait()
		}
		assert.Equal(t, []string{"a1", "a2"}, order, "two at once")
		for range 8 {
			w.leave()
			synctest.Wait()
		}
		assert.Equal(t, []string{"a1", "a2", "a3", "b1", "c1", "a4", "b2", "a5"}, order)
		assert.Equal(t, 2, w.free)
		assert.Empty(t, w.next)
		assert.Empty(t, w.waiting)
	})
}
