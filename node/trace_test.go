package node

import (
	"encoding/json"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/internal/tracing"
	"berth/raftstore/command"
)

// seenSpan is what the tests read of a span.
type seenSpan struct {
	Zone                                string
	TraceID, SpanID, ParentSpanID, Name string
}

// collector is a collector of spans.
type collector struct {
	mu    sync.Mutex // guards spans and texts
	spans []seenSpan
	texts string
}

func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var m struct {
		ResourceSpans []struct {
			Resource struct {
				Attributes []struct {
					Key   string
					Value struct{ StringValue string }
				}
			}
			ScopeSpans []struct{ Spans []seenSpan }
		}
	}
	b, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(b, &m) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.texts += string(b)
	for _, res := range m.ResourceSpans {
		for _, sc := range res.ScopeSpans {
			for _, s := range sc.Spans {
				s.Zone = res.Resource.Attributes[1].Value.StringValue
				c.spans = append(c.spans, s)
			}
		}
	}
}

// TestATraceOverTwoZones: one boot in a child is one trace, from the public route to what the child proposes.
func TestATraceOverTwoZones(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		seen := &collector{}
		at, err := t.net.Listen(t.Context(), "127.0.0.1:0")
		require.NoError(t, err)
		s := &http.Server{Handler: seen}
		collected := make(chan error, 1)
		go func() { collected <- s.Serve(at) }()
		p, c := newZone(t, "p"), newZone(t, "c")
		for _, h := range []*home{p, c} {
			h.opts.Trace = Trace{Endpoint: "http://" + at.Addr().String(), Ratio: 1}
		}
		parent, child := p.run(), c.run()
		parent.offers("small")
		child.propose(command.HostsPut{Stamp: child.zone.Stamp(), Agent: "agent-0", Hosts: []command.HostEntry{{
			ID: "host-hidden", Host: api.AgentHost{
				Name: "host-hidden", Driver: "fake", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}},
			},
		}}})
		child.isBelow(parent)
		await.True(t, "the child is heard", func() bool {
			d, _, heard := parent.pools.Digest(child.rec.Zone)
			return heard && d.Classes[api.VCPU].Total > 0
		})
		const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
		status, said := parent.answers(call{
			method: http.MethodPost, path: "/servers", token: p.token, body: `{"server": {"name": "web-hidden", "flavorRef": "small"}}`,
			header: map[string]string{tracing.Header: "00-" + trace + "-00f067aa0ba902b7-00"},
		})
		require.Equal(t, http.StatusAccepted, status, said)
		await.True(t, "the child builds it", func() bool {
			return child.view().CountByStatus()[api.StatusBuild] == 1 && len(child.view().PreparedHolds()) == 0
		})
		require.NoError(t, parent.stop()) // exports what is left
		require.NoError(t, child.stop())
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-collected, http.ErrServerClosed)

		seen.mu.Lock()
		defer seen.mu.Unlock()
		names, ids := map[string]bool{}, map[string]seenSpan{}
		for _, s := range seen.spans {
			if s.TraceID == trace {
				names[s.Zone+": "+s.Name], ids[s.SpanID] = true, s
			}
		}
		for _, want := range []string{"p: POST /servers", "p: saga settle", "p: estimate plan", "c: saga hold", "p: POST /zones/select", "c: POST /zones/select", "c: POST /servers", "p: raft propose", "c: raft propose"} {
			assert.True(t, names[want], "%s is not among %q", want, slices.Sorted(maps.Keys(names)))
		}
		for _, s := range ids {
			within, known := ids[s.ParentSpanID]
			if s.Name == "POST /servers" && s.Zone == "p" && !known {
				assert.Equal(t, "00f067aa0ba902b7", s.ParentSpanID, "the caller's")
				continue
			}
			assert.True(t, known, "%s of %s is within a span", s.Name, s.Zone)
			switch {
			case s.Zone == "c" && strings.HasPrefix(s.Name, "POST "):
				assert.Equal(t, "p", within.Zone, "%s was called by the parent", s.Name)
			case s.Zone == "c":
				assert.Equal(t, "c", within.Zone, s.Name)
			case s.Name == "POST /zones/select":
				assert.Equal(t, "estimate plan", within.Name)
			}
		}
		for _, hidden := range []string{"hidden", p.token, "127.0.0.1"} {
			assert.NotContains(t, seen.texts, hidden)
		}
	})
}

// TestNoTrace: without an endpoint nothing is traced, and what a trace is told wrongly is refused.
func TestNoTrace(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		h := newZone(t, "west")
		for _, ratio := range []float64{-0.1, 1.1, math.NaN()} {
			h.opts.Trace = Trace{Endpoint: "http://127.0.0.1:1", Ratio: ratio}
			refusedAs(t, api.CodeInvalid, h.refusedToOpen())
		}
		h.opts.Trace = Trace{Endpoint: "collector:4318", Ratio: 1}
		refusedAs(t, api.CodeInvalid, h.refusedToOpen())
		h.opts.Trace = Trace{}
		r := h.run()
		assert.Nil(t, r.trace)
		assert.Same(t, r.zone.Store(), r.store, "no layer around the store")
	})
}
