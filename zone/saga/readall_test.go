package saga

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// listing is a child that answers with lists of changes, one after the other.
type listing struct {
	Peers
	answers []api.Changes
	asked   []uint64
}

func (p *listing) ConfirmedChanges(_ context.Context, _ *api.Link, after uint64) (*api.Changes, error) {
	p.asked = append(p.asked, after)
	return &p.answers[len(p.asked)-1], nil
}

// TestAChildIsReadToItsEnd: as long as it has more, and not again; one that has more and gives nothing is not asked for ever.
func TestAChildIsReadToItsEnd(t *testing.T) {
	change := func(id string, at uint64) api.InstanceChange {
		return api.InstanceChange{ID: api.InstanceID(id), Index: at, Status: api.StatusActive}
	}
	for name, c := range map[string]struct {
		answers []api.Changes
		asked   []uint64
		n       int
		code    api.Code
	}{
		"one":      {[]api.Changes{{Items: []api.InstanceChange{change("a", 2)}, Next: 2}}, []uint64{0}, 1, ""},
		"two":      {[]api.Changes{{Items: []api.InstanceChange{change("a", 2)}, Next: 2, More: true}, {Items: []api.InstanceChange{change("b", 3)}, Next: 3}}, []uint64{0, 2}, 2, ""},
		"nothing":  {[]api.Changes{{}}, []uint64{0}, 0, ""},
		"no end":   {[]api.Changes{{More: true}}, []uint64{0}, 0, ""},
		"restored": {[]api.Changes{{Restored: 9}}, []uint64{0}, 0, api.CodeUnavailable},
		"unsound":  {[]api.Changes{{Next: 5}}, []uint64{0}, 0, api.CodeInternal},
	} {
		p := &listing{answers: c.answers}
		got, err := (&Saga{peers: p}).readAll(t.Context(), &api.Link{Name: "kid"})
		assert.Equal(t, c.asked, p.asked, name)
		if c.code != "" {
			assert.Equal(t, c.code, api.CodeOf(err), name)
			continue
		}
		require.NoError(t, err, name)
		assert.Len(t, got, c.n, name)
	}
}
