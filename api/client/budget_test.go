package client_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	limits "berth/internal/budget"
	"berth/internal/codec"
)

// unended is a body that has many bytes and no end.
type unended struct {
	ctx  context.Context //nolint:containedctx // of the call that it answers
	left int
}

func (e *unended) Read(p []byte) (int, error) {
	n := min(e.left, len(p))
	if n == 0 {
		<-e.ctx.Done()
		return 0, e.ctx.Err()
	}
	e.left -= n
	return n, nil
}

func (*unended) Close() error { return nil }

// TestAnswersOfAZoneAreCounted: a zone that sends much in several answers, and does not end them, makes its peer hold its share and
// no more. The outcome of such a call is unknown, and other zones are heard.
func TestAnswersOfAZoneAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, size = 4 << 20, 1 << 20
		b := limits.New(limits.Limits{limits.LargeBodies: {limits.Link: most}})
		answer := func(l *api.Link, r *http.Request) (io.ReadCloser, error) {
			if l.Zone == "rogue" {
				return &unended{ctx: r.Context(), left: size}, nil
			}
			good, err := codec.Marshal(api.BelowAnswer{Levels: 3})
			return io.NopCloser(bytes.NewReader(good)), err
		}
		p := client.NewPeers(client.PeerConfig{
			Transport: func(l *api.Link) http.RoundTripper {
				return transport(func(r *http.Request) (*http.Response, error) {
					body, err := answer(l, r)
					return &http.Response{StatusCode: http.StatusOK, ContentLength: -1, Request: r, Body: body, Header: http.Header{}}, err
				})
			},
			Depth: func(context.Context) int { return 0 }, Request: func(context.Context) api.RequestID { return "" }, Now: time.Now, Budget: b,
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		link := func(zone api.ZoneID) *api.Link {
			return &api.Link{ID: api.LinkID(zone), Zone: zone, Endpoints: []string{"a:1"}}
		}
		told := make(chan error, 20)
		for range cap(told) {
			go func() {
				_, err := p.Below(ctx, link("rogue"))
				told <- err
			}()
			synctest.Wait()
		}
		refused := len(told)
		for range refused {
			require.Equal(t, api.CodeTimeout, api.CodeOf(<-told))
		}
		assert.Positive(t, cap(told)-refused)
		assert.LessOrEqual(t, cap(told)-refused, most/size)
		a, err := p.Below(ctx, link("honest"))
		require.NoError(t, err)
		assert.Equal(t, 3, a.Levels)
		cancel()
		synctest.Wait()
		again := limits.Party{Scope: limits.Link, ID: "rogue"}
		require.NoError(t, b.Begin(again).Take(limits.LargeBodies, most), "all was given back")
	})
}
