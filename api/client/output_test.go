package client

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// TestAnOlderZoneIsAskedForNoOutput: what it does not know is not taken for an instance that is not there.
func TestAnOlderZoneIsAskedForNoOutput(t *testing.T) {
	to := &formedZone{form: api.FormFourth}
	p := NewPeers(PeerConfig{
		Transport: func(*api.Link) http.RoundTripper { return to },
		Depth:     func(context.Context) int { return 0 }, Request: func(context.Context) api.RequestID { return "" }, Now: time.Now,
	})
	l := &api.Link{ID: "l", Name: "east", Endpoints: []string{"a"}}
	q := &api.OutputQuestion{Instance: "i", Stream: api.Stdout, Limit: 1}
	a, err := p.Output(t.Context(), l, q)
	require.NoError(t, err)
	assert.Equal(t, &api.OutputAnswer{Lack: api.OutputOlder}, a)
	assert.Equal(t, []string{"/zones/info"}, to.paths)
	to.form = api.FormFifth
	_, _ = p.Output(t.Context(), l, q) // this zone says the same to every question
	assert.Equal(t, []string{"/zones/info", "/zones/info", "/zones/output"}, to.paths[:3])
}
