package client

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/codec"
	"berth/internal/filled"
)

// TestEachCallOfAPeerSaysThatItWasRefused: the code of the zone at the other end of a link comes through, whether that zone is known to read
// the newest form or has not answered yet.
func TestEachCallOfAPeerSaysThatItWasRefused(t *testing.T) {
	none := []string{"Close", "CloseIdle", "SharesHolds", "NoteIncarnation", "Unconfirmed", "Skew"}
	kind, tried := reflect.TypeFor[*Peers](), 0
	for i := range kind.NumMethod() {
		m := kind.Method(i)
		results := m.Type.NumOut()
		if slices.Contains(none, m.Name) || results == 0 || m.Type.Out(results-1) != reflect.TypeFor[error]() {
			continue
		}
		for _, known := range []api.Form{0, api.FormFourth, api.FormNewest} {
			p := NewPeers(PeerConfig{
				Transport: func(*api.Link) http.RoundTripper { return refusing{} },
				Depth:     func(context.Context) int { return 0 }, Request: func(context.Context) api.RequestID { return "" }, Now: time.Now,
			})
			l := &api.Link{ID: "l", Name: "east", Endpoints: []string{"a"}}
			p.linkState(l).form = known
			args := []reflect.Value{reflect.ValueOf(p), reflect.ValueOf(t.Context()), reflect.ValueOf(l)}
			for n := len(args); n < m.Type.NumIn(); n++ {
				args = append(args, some(m.Type.In(n)))
			}
			out := m.Func.Call(args)
			err, _ := out[results-1].Interface().(error)
			if refusals, ok := out[0].Interface().([]error); ok && err == nil {
				err = refusals[0]
			}
			if m.Name == "IncarnationOf" { // it is told with a refusal
				require.NoError(t, err)
				continue
			}
			assert.Equal(t, api.CodeForbidden, api.CodeOf(err), "%s, form %d: %v", m.Name, known, err)
			tried++
		}
	}
	assert.Greater(t, tried, 50)
}

// TestTheIncarnationOfAZoneThatIsNotReached is unknown, and no other.
func TestTheIncarnationOfAZoneThatIsNotReached(t *testing.T) {
	var told []string
	to := http.RoundTripper(refusing{})
	p := NewPeers(PeerConfig{
		Transport: func(*api.Link) http.RoundTripper { return to },
		Depth:     func(context.Context) int { return 0 }, Request: func(context.Context) api.RequestID { return "" }, Now: time.Now,
		Measure: func(l *api.Link, call string, code api.Code, took time.Duration) {
			told = append(told, string(l.ID)+" "+call+" "+string(code))
			assert.GreaterOrEqual(t, took, time.Duration(0))
		},
	})
	l := &api.Link{ID: "l", Endpoints: []string{"a"}}
	_, err := p.Info(t.Context(), l)
	require.Error(t, err)
	assert.Equal(t, []string{"l GET /zones/info forbidden"}, told)
	to = gone{}
	l = &api.Link{ID: "m", Endpoints: []string{"a"}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n, err := p.IncarnationOf(ctx, l)
	require.Error(t, err)
	assert.Zero(t, n)
}

// some returns a value of a type with all fields that a call may have.
func some(t reflect.Type) reflect.Value {
	switch t {
	case reflect.TypeFor[[]api.HoldDecision]():
		return reflect.ValueOf([]api.HoldDecision{{ID: "a", Decision: api.DecisionAbort, Lifted: []api.ServerGroupID{"g"}}})
	case reflect.TypeFor[[]api.HoldRequest]():
		return reflect.ValueOf(make([]api.HoldRequest, 1))
	case reflect.TypeFor[*api.PowerCall]():
		return reflect.ValueOf(new(filled.Of[api.PowerCall]()))
	}
	if t.Kind() == reflect.Pointer {
		return reflect.New(t.Elem())
	}
	v := reflect.New(t).Elem()
	if t.Kind() == reflect.String {
		v.SetString("x")
	}
	return v
}

// refusing is a transport to a zone that refuses all calls.
type refusing struct{}

// RoundTrip implements http.RoundTripper.
func (refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	b, err := codec.Marshal(api.ErrorBody{Error: api.ErrorDetail{Code: api.CodeForbidden, Message: "no"}})
	head := http.Header{"Content-Type": {api.MediaCBOR}, api.HeaderForm: {api.FormNewest.String()}}
	return &http.Response{StatusCode: http.StatusForbidden, Header: head, Body: io.NopCloser(bytes.NewReader(b)), Request: r}, err
}

// gone is a transport to a zone that is not there.
type gone struct{}

// RoundTrip implements http.RoundTripper.
func (gone) RoundTrip(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }

// TestABodyThatCannotBeSpelled is an error, and is not sent.
func TestABodyThatCannotBeSpelled(t *testing.T) {
	to := &formedZone{form: api.FormNewest}
	p := NewPeers(PeerConfig{
		Transport: func(*api.Link) http.RoundTripper { return to },
		Depth:     func(context.Context) int { return 0 }, Request: func(context.Context) api.RequestID { return "" }, Now: time.Now,
	})
	_, err := peerCall[api.ZoneInfo](t.Context(), p, &api.Link{Endpoints: []string{"a"}}, question{method: http.MethodPost, path: "/x"}, func() {})
	assert.Equal(t, api.CodeInternal, api.CodeOf(err))
	assert.Empty(t, to.paths)
}

// TestLimitsOfBodies: that of the call, if it has one, and otherwise that of all.
func TestLimitsOfBodies(t *testing.T) {
	for _, c := range []struct {
		limit, bytes int
		ok           bool
	}{{1, 2, false}, {2, 2, true}, {3, 2, true}, {0, 2, true}, {0, api.BodyMaxBytes + 1, false}} {
		in := string(slices.Repeat([]byte("x"), c.bytes-2)) // within quotes
		b, err := encodeBody(call{in: in, limit: c.limit})
		assert.Equal(t, c.ok, err == nil, "%+v: %v", c, err)
		if c.ok {
			assert.Len(t, b, c.bytes)
		} else {
			assert.Equal(t, api.CodeTooLarge, api.CodeOf(err))
		}
	}
}
