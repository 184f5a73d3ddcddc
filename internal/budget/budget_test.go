package budget

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// TestAtTheLimitAndOneAbove: each limit of the defaults takes what it says, and one more is refused with the code that says
// whose fault it is; what is given back may be taken again.
func TestAtTheLimitAndOneAbove(t *testing.T) {
	shared := []Scope{Node, Listener, Strangers}
	for k, of := range Defaults(1, 2) {
		for s, most := range of {
			t.Run(string(k)+" of "+string(s), func(t *testing.T) {
				b := New(Limits{k: of})
				p, other := Party{s, "a"}, Party{s, "b"}
				a := b.Begin(p)
				require.NoError(t, a.Take(k, most-1))
				require.NoError(t, a.Take(k, 1))
				err := b.Begin(p).Take(k, 1)
				assert.Equal(t, slices.Contains(shared, s), api.CodeOf(err) == api.CodeUnavailable)
				assert.Equal(t, !slices.Contains(shared, s), api.CodeOf(err) == api.CodeOverloaded)
				assert.Contains(t, api.MessageOf(err), "under way at once")
				assert.Equal(t, uint64(1), b.Refused()[Refusal{k, s}])
				require.NoError(t, b.Begin(other).Take(k, most), "another party has its own")
				a.Give(k, 1)
				require.NoError(t, b.Begin(p).Take(k, 1))
			})
		}
	}
}

// TestEveryKindAndScopeHasWords: callers are told what they have too much of.
func TestEveryKindAndScopeHasWords(t *testing.T) {
	for k, of := range Defaults(1, 2) {
		assert.NotEmpty(t, kinds[k])
		for s := range of {
			assert.NotEmpty(t, scopes[s].name)
		}
	}
	assert.Len(t, kinds, len(Defaults(1, 2)))
}

// TestAnAddressHasItsShareOfPlaces of what a listener has.
func TestAnAddressHasItsShareOfPlaces(t *testing.T) {
	for k, of := range Defaults(3, 4) {
		assert.Equal(t, of[Listener]*3/4, of[Address], k)
	}
}

// TestARefusalTakesNothing of anybody, and a call that is over holds nothing.
func TestARefusalTakesNothing(t *testing.T) {
	b := New(Limits{Calls: {Node: 2, User: 1}})
	node, ann, bob := Party{Node, ""}, Party{User, "ann"}, Party{User, "bob"}
	first := b.Begin(node)
	require.NoError(t, first.Take(Calls, 1))
	require.NoError(t, first.For(ann))
	second := b.Begin(node)
	require.NoError(t, second.Take(Calls, 1))
	assert.Equal(t, api.CodeOverloaded, api.CodeOf(second.For(ann)), "a second call of hers")
	require.NoError(t, second.For(bob), "he has none")
	third := b.Begin(bob, node)
	require.Error(t, third.Take(Calls, 1))
	assert.Equal(t, map[Kind]float64{Calls: 1}, b.Held())
	second.End()
	second.End()
	second.Give(Calls, 1) // it was given back
	assert.Equal(t, map[Kind]float64{Calls: 0.5}, b.Held())
	require.NoError(t, second.Take(Calls, 5), "nobody looks at its answer")
	require.NoError(t, second.For(ann))
	require.NoError(t, third.Take(Calls, 1))
	first.End()
	third.End()
	assert.Empty(t, b.held)
	assert.Equal(t, map[Refusal]uint64{{Calls, Node}: 0, {Calls, User}: 2}, b.Refused())
}

// TestNoBudgetHasNoLimits.
func TestNoBudgetHasNoLimits(t *testing.T) {
	a := (*Budget)(nil).Begin(Party{Node, ""})
	require.NoError(t, a.Take(Calls, 1<<60))
	require.NoError(t, a.For(Party{User, "ann"}))
	a.Give(Calls, 1)
	a.End()
	assert.Nil(t, Of(With(t.Context(), a)))
	assert.Nil(t, Of(t.Context()))
}

// TestLimitsAreDocumented in docs/operate.md, each kind in a row.
func TestLimitsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/operate.md")
	require.NoError(t, err)
	for k, of := range Defaults(1, 2) {
		row := ""
		for _, s := range []Scope{Node, Listener, Strangers, Stranger, User, Agent} {
			text := ""
			switch n := of[s]; {
			case n >= 1<<20:
				text = fmt.Sprintf("%d MiB ", n>>20)
			case n >= 1000:
				text = fmt.Sprintf("%d,%03d ", n/1000, n%1000)
			case n > 0:
				text = fmt.Sprintf("%d ", n)
			}
			row += "| " + text
		}
		assert.Contains(t, string(doc), " "+row+"|\n", k)
		assert.Equal(t, of[User], of[Link], "%s are in one column", k)
	}
}
