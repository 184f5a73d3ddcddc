package client

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/codec"
)

// formedZone is a transport to a zone that reads forms up to a number.
type formedZone struct {
	form  api.Form
	paths []string
	heads []http.Header
}

// RoundTrip implements http.RoundTripper.
func (z *formedZone) RoundTrip(r *http.Request) (*http.Response, error) {
	z.paths, z.heads = append(z.paths, r.URL.Path), append(z.heads, r.Header)
	b, err := codec.Marshal(api.ZoneInfo{})
	head := http.Header{"Content-Type": {api.MediaCBOR}, api.HeaderForm: {z.form.String()}}
	return &http.Response{StatusCode: http.StatusOK, Header: head, Body: io.NopCloser(bytes.NewReader(b)), Request: r}, err
}

// TestAZoneGetsNoBodyThatItDoesNotRead: a body with a newer field waits until the zone at
// the other end says that it reads it.
func TestAZoneGetsNoBodyThatItDoesNotRead(t *testing.T) {
	type body struct {
		Old int `cbor:"1,keyasint"`
		New int `cbor:"2,keyasint,omitempty" form:"2"`
	}
	to := &formedZone{form: api.FormFirst}
	p := NewPeers(PeerConfig{
		Transport: func(*api.Link) http.RoundTripper { return to },
		Depth:     func(context.Context) int { return 0 }, Request: func(context.Context) api.RequestID { return "" }, Now: time.Now,
	})
	l := &api.Link{ID: "l", Name: "east", Endpoints: []string{"a"}}
	send := func(b body) error {
		_, err := peerCall[api.ZoneInfo](t.Context(), p, l, question{method: http.MethodPost, path: "/body"}, b)
		return err
	}
	require.NoError(t, send(body{Old: 1}))
	err := send(body{New: 1})
	require.Equal(t, api.CodeUnavailable, api.CodeOf(err))
	require.ErrorContains(t, err, "reads forms up to 1")
	to.form = api.FormSecond
	require.NoError(t, send(body{New: 1}))
	require.NoError(t, send(body{New: 1}))
	assert.Equal(t, []string{"/body", "/zones/info", "/zones/info", "/body", "/body"}, to.paths)
	assert.Equal(t, api.FormNewest.String(), to.heads[0].Get(api.HeaderForm))
}
