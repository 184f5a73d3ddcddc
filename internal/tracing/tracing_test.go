package tracing

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/requestid"
)

const outside = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func tracer(ratio float64) *Tracer {
	return New(Config{Ratio: ratio, Zone: "west", Now: func() time.Time { return time.Unix(1000, 0) }})
}

func request(header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	r.Header[Header] = header
	return r
}

func TestHeader(t *testing.T) {
	p, ok := parse(outside)
	require.True(t, ok)
	assert.Equal(t, outside, p.String())
	for _, bad := range []string{
		"", outside[:54], outside + "0", outside + "-" + strings.Repeat("x", 10_000), "01" + outside[2:], "ff" + outside[2:], strings.ToUpper(outside),
		strings.Replace(outside, "4bf9", "4bg9", 1), "00-" + strings.Repeat("0", 32) + outside[35:], outside[:36] + strings.Repeat("0", 16) + "-01", strings.ReplaceAll(outside, "-", "_"),
	} {
		_, ok := parse(bad)
		assert.False(t, ok, "%.80q", bad)
	}
}

// TestWhoDecides: the trace of a caller is continued, and exported as the own ratio says, unless he is a node of the zone.
func TestWhoDecides(t *testing.T) {
	for _, c := range []struct {
		ratio   float64
		header  string
		trusted bool
		sampled bool
	}{
		{0, outside, false, false},
		{0, outside, true, true},
		{1, outside[:53] + "00", false, true},
		{1, outside[:53] + "00", true, false},
		{0, "garbage", true, false},
		{1, "garbage", true, true},
	} {
		ctx, span := tracer(c.ratio).Receive(request(c.header), c.trusted)
		assert.Equal(t, c.sampled, span.at.sampled, c)
		h := http.Header{}
		span.tracer.Inject(ctx, h)
		told, ok := parse(h.Get(Header))
		require.True(t, ok)
		assert.Equal(t, c.sampled, told.sampled)
		assert.Equal(t, c.header != "garbage", told.String()[3:35] == outside[3:35], "the id is continued")
		assert.NotEqual(t, outside[36:52], h.Get(Header)[36:52], "by a span of its own")
	}
	_, two := tracer(1).Receive(request(outside, outside), false)
	assert.Zero(t, two.parent, "of two headers none counts")
}

// TestTracesInASecond: a caller who has found an id that is drawn does not have everything exported by it.
func TestTracesInASecond(t *testing.T) {
	now := time.Unix(1000, 0)
	tr := New(Config{Ratio: 1, Now: func() time.Time { return now }})
	draws := func(n int) (sampled int) {
		for range n {
			if _, s := tr.Receive(request(outside), false); s.at.sampled {
				sampled++
			}
		}
		return sampled
	}
	assert.Equal(t, TracesPerSecondMax, draws(TracesPerSecondMax))
	assert.Zero(t, draws(1))
	now = now.Add(time.Second)
	assert.Equal(t, TracesPerSecondMax, draws(TracesPerSecondMax+1))
}

func TestRatio(t *testing.T) {
	now := time.Unix(1000, 0)
	tr := New(Config{Ratio: 0.25, Now: func() time.Time { now = now.Add(time.Second); return now }})
	sampled := 0
	for range 10_000 {
		if _, s := tr.Receive(request(), false); s.at.sampled {
			sampled++
		}
	}
	assert.InDelta(t, 2500, sampled, 300)
}

// TestQueueIsBounded: what does not fit is dropped and counted.
func TestQueueIsBounded(t *testing.T) {
	tr := tracer(1)
	_, span := tr.Receive(request(), false)
	for range QueueMax {
		span.End("")
	}
	assert.Zero(t, tr.lost)
	span.End("")
	assert.Equal(t, 1, tr.lost)
}

// TestRequestsAreRemembered: work of later finds its trace by the id of its request, and the oldest ones are forgotten.
func TestRequestsAreRemembered(t *testing.T) {
	tr := tracer(1)
	id := func(i int) api.RequestID { return api.RequestID(fmt.Sprint("req-", i)) }
	known := func(i int) bool {
		_, s := tr.Start(requestid.With(t.Context(), id(i)), "work", Internal)
		return s != nil
	}
	_, span := tr.Receive(request(), false)
	for i := range RequestsMax {
		span.Remember(id(i))
	}
	assert.True(t, known(0))
	span.Remember(id(RequestsMax))
	assert.False(t, known(0))
	assert.True(t, known(1))
	assert.True(t, known(RequestsMax))
	assert.Len(t, tr.requests, RequestsMax)
	_, s := tr.Start(t.Context(), "work of nobody", Internal)
	assert.Nil(t, s)
}

// TestNothing: without a tracer there is neither a header nor an allocation.
func TestNothing(t *testing.T) {
	var tr *Tracer
	r := request()
	h := http.Header{}
	assert.Zero(t, testing.AllocsPerRun(10, func() {
		ctx, s := tr.Receive(r, false)
		s.SetName("x")
		s.Remember("req-1")
		_, c := tr.Start(ctx, "x", Client)
		tr.Inject(ctx, h)
		c.End("")
		s.End("")
	}))
	assert.Empty(t, h)
	tr.Run(t.Context())
}

func TestExport(t *testing.T) {
	got := make(chan string, 1)
	c := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type") + "\n" + string(b)
		w.WriteHeader(http.StatusTeapot)
	}))
	defer c.Close()
	endpoint, err := CheckEndpoint(c.URL)
	require.NoError(t, err)
	lost := make(chan int, 1)
	tr := New(Config{
		Endpoint: endpoint, Ratio: 1, Zone: "west", Version: "v1", Now: func() time.Time { return time.Unix(1000, 5) },
		Dropped: func(n int, err error) { assert.ErrorContains(t, err, "418"); lost <- n },
	})
	_, s := tr.Receive(request(outside), false)
	s.SetName("POST /servers")
	s.End("500")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	tr.Run(ctx)
	head, body, _ := strings.Cut(<-got, "\n")
	assert.Equal(t, "POST /v1/traces application/json", head)
	var m message
	require.NoError(t, json.Unmarshal([]byte(body), &m))
	span := m.Resources[0].Scopes[0].Spans[0]
	assert.Len(t, span.Span, 16)
	span.Span = ""
	assert.Equal(t, jsonSpan{
		Trace: outside[3:35], Parent: outside[36:52], Name: "POST /servers", Kind: Server, Start: "1000000000005", End: "1000000000005",
		Attributes: []attribute{attributeOf("berth.code", "500")}, Status: &status{2},
	}, span)
	assert.Equal(t, []attribute{attributeOf("service.name", "berth"), attributeOf("berth.zone", "west")}, m.Resources[0].Resource.Attributes)
	assert.Equal(t, 1, <-lost, "the collector took nothing")
}

func TestEndpoints(t *testing.T) {
	for text, want := range map[string]string{
		"http://127.0.0.1:4318": "http://127.0.0.1:4318/v1/traces", "https://c.example/": "https://c.example/v1/traces", "https://c.example/x": "https://c.example/x",
	} {
		got, err := CheckEndpoint(text)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, text := range []string{"", "127.0.0.1:4318", "ftp://a", "http://", "http://u:p@a", "http://a?b=c", "http://a#b", "::"} {
		_, err := CheckEndpoint(text)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), text)
	}
}
