package leak

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent/driver/fake"
	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

// printing is a fake driver whose instances have all printed the same.
type printing struct{ *fake.Driver }

const printed = "hello from below"

func (printing) ReadOutput(_ context.Context, _ api.HostID, q *api.OutputQuestion) (*api.OutputAnswer, error) {
	first := min(q.After, uint64(len(printed)))
	return &api.OutputAnswer{Offset: first, Total: uint64(len(printed)), Data: []byte(printed[first:min(len(printed), int(first)+q.Limit)])}, nil //nolint:gosec // it is small
}

// outputs lets a zone read what a server has printed two zones below it, and ask for what it may not have.
func outputs(t *testing.T, answers map[*place]told, root, west, edge *place) {
	t.Helper()
	c := root.client()
	const n = slotsPerHost + 1 // one more than west has room for
	root.boots(t, rest.ServerCreate{
		Name: "talks", FlavorRef: "small", Reservation: "talks", MinCount: count(n), MaxCount: count(n), Zones: &rest.ZoneRule{Allowed: []string{west.name}},
	})
	below := 0
	for _, s := range serversOf(t, c, "talks") {
		got, err := c.ServerOutput(t.Context(), s.ID, client.OutputQuery{After: new(uint64(6)), Limit: 4})
		require.NoError(t, err)
		assert.Equal(t, rest.Output{Stream: api.Stdout, Offset: 6, Next: 10, Total: uint64(len(printed)), Data: []byte("from")}, got)
		answers[root].ask(t, root, "GET", "/servers/"+string(s.ID)+"/output?stream=stderr", nil)
		i, ok := edge.node.Store().View().Instance(s.ID)
		if !ok {
			continue
		}
		below++
		q := api.OutputQuestion{Instance: i.ID, Stream: api.Stdout, Limit: api.OutputMaxBytes, Last: true}
		up := edge.door(west, api.ALPNHTTP)
		for _, one := range []struct {
			change func(q *api.OutputQuestion)
			status int
		}{
			{func(*api.OutputQuestion) {}, http.StatusOK},
			{func(q *api.OutputQuestion) { q.Limit++ }, http.StatusBadRequest},
			{func(q *api.OutputQuestion) { q.Stream = "../record.json" }, http.StatusBadRequest},
			{func(q *api.OutputQuestion) { q.Instance = "none" }, http.StatusNotFound},
		} {
			q := q
			one.change(&q)
			status, b := up.call(t, "POST", "/zones/output", q)
			assert.Equal(t, one.status, status, "%s", b)
		}
		status, _ := west.door(edge, api.ALPNHTTP).call(t, "POST", "/zones/output", q)
		assert.Equal(t, http.StatusForbidden, status, "a child asks its parent nothing of the kind")
	}
	assert.Positive(t, below, "one is two zones below")
	release(t, root, "talks")
}
