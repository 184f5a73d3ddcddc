package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/internal/codec"
)

// gatewayNode is how one gateway of a child behaves.
type gatewayNode struct {
	after  time.Duration
	gone   bool     // nobody hears who dials it
	answer any      // nil for a refusal
	code   api.Code // of the refusal; "" for nobody there
}

// child is the transport to a zone whose gateways answer as a test wants.
type child struct {
	nodes map[string]gatewayNode

	mu     sync.Mutex // guards what follows
	asked  []string   // endpoints, in order
	heads  []http.Header
	calls  []string // methods and targets
	bodies [][]byte
	undone int // calls that were cancelled
	closed int // times that idle connections were closed
}

// RoundTrip implements http.RoundTripper.
func (c *child) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	n := c.nodes[r.URL.Host]
	trace := httptrace.ContextClientTrace(r.Context())
	trace.GetConn(r.URL.Host)
	if !n.gone && (n.answer != nil || n.code != "" || n.after > 0) {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	c.asked = append(c.asked, r.URL.Host)
	c.heads = append(c.heads, r.Header.Clone())
	c.calls = append(c.calls, r.Method+" "+r.URL.RequestURI())
	body, err := io.ReadAll(r.Body)
	c.bodies = append(c.bodies, body)
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	after := time.After(n.after)
	if n.gone {
		after = nil
	}
	select {
	case <-after:
	case <-r.Context().Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		c.undone++
		return nil, r.Context().Err()
	}
	if n.answer == nil && n.code == "" {
		return nil, errors.New("connection refused")
	}
	status, said := http.StatusOK, n.answer
	if n.code != "" {
		status, said = n.code.HTTPStatus(), api.ErrorBody{Error: api.ErrorDetail{Code: n.code, Message: "no"}}
	}
	b, err := codec.Marshal(said)
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {api.MediaCBOR}}, Body: io.NopCloser(bytes.NewReader(b)), Request: r,
	}, err
}

type callKey struct{}

// peersTo returns a caller of one child and the link to it.
func peersTo(c *child, endpoints ...string) (*client.Peers, *api.Link) {
	p := client.NewPeers(client.PeerConfig{
		Transport: func(*api.Link) http.RoundTripper { return c },
		Depth:     func(context.Context) int { return 2 },
		Request: func(ctx context.Context) api.RequestID {
			id, _ := ctx.Value(callKey{}).(api.RequestID)
			return id
		},
		Now: time.Now,
	})
	return p, &api.Link{ID: "l", Name: "east", Endpoints: endpoints}
}

func offer(reservation string) api.SelectAnswer {
	return api.SelectAnswer{Reservation: api.ReservationID(reservation), Blob: []byte("b")}
}

// placementValue is a request with one group.
var placementValue = &api.Request{Groups: []api.Group{{Count: 1}}}

// Each case asks a child of up to three gateways once.
func TestSelectIsHedged(t *testing.T) {
	const late = 10 * time.Second
	down := gatewayNode{}
	fast, slow := gatewayNode{answer: offer("fast")}, gatewayNode{answer: offer("slow"), after: time.Second}
	for name, c := range map[string]struct {
		nodes []gatewayNode // a, b, c
		asked []string
		takes time.Duration
		says  string // reservation of the answer, or the code of the error
	}{
		"a fast child": {[]gatewayNode{fast, slow}, []string{"a"}, 0, "fast"},
		"a slow node":  {[]gatewayNode{slow, fast}, []string{"a", "b"}, client.HedgeAfter, "fast"},
		"just in time": {[]gatewayNode{{answer: offer("x"), after: client.HedgeAfter - 1}, fast}, []string{"a"}, client.HedgeAfter - 1, "x"},
		"two nodes slow": { // the third is not a hedge, so it is asked later
			[]gatewayNode{slow, {answer: offer("b"), after: time.Second}, fast},
			[]string{"a", "b", "c"},
			client.HedgeAfter + 500*time.Millisecond,
			"fast",
		},
		"the hedge is slower":          {[]gatewayNode{{answer: offer("x"), after: 200 * time.Millisecond}, slow}, []string{"a", "b"}, 200 * time.Millisecond, "x"},
		"one node only":                {[]gatewayNode{slow}, []string{"a"}, time.Second, "slow"},
		"the first is down":            {[]gatewayNode{down, fast}, []string{"a", "b"}, 0, "fast"},
		"the first has no lead":        {[]gatewayNode{{code: api.CodeUnavailable}, fast}, []string{"a", "b"}, 0, "fast"},
		"the first gives up":           {[]gatewayNode{{code: api.CodeTimeout}, fast}, []string{"a", "b"}, 0, "fast"},
		"down, then slow":              {[]gatewayNode{down, slow, fast}, []string{"a", "b", "c"}, client.HedgeAfter, "fast"},
		"the hedge is down":            {[]gatewayNode{slow, down, fast}, []string{"a", "b", "c"}, client.HedgeAfter, "fast"},
		"all are down":                 {[]gatewayNode{down, down}, []string{"a", "b"}, 0, "unavailable"},
		"a refusal ends it":            {[]gatewayNode{{code: api.CodeInvalid}, fast}, []string{"a"}, 0, "invalid"},
		"a refusal of a hedge":         {[]gatewayNode{slow, {code: api.CodeForbidden}}, []string{"a", "b"}, client.HedgeAfter, "forbidden"},
		"nobody answers":               {[]gatewayNode{{after: late}, {after: late}}, []string{"a", "b"}, 5 * time.Second, "timeout"},
		"a zone that has no addresses": {nil, nil, 0, "unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := &child{nodes: map[string]gatewayNode{}}
				var at []string
				for i, n := range c.nodes {
					at = append(at, string(rune('a'+i)))
					to.nodes[at[i]] = n
				}
				p, l := peersTo(to, at...)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				begun := time.Now()
				a, err := p.Select(ctx, l, placementValue)
				assert.Equal(t, c.takes, time.Since(begun))
				if err == nil {
					assert.Equal(t, c.says, string(a.Reservation))
				} else {
					assert.Equal(t, c.says, string(api.CodeOf(err)), "%v", err)
				}
				synctest.Wait() // no call outlives the answer
				assert.Equal(t, c.asked, to.asked)
				if c.says == "fast" && len(c.asked) == 2 && c.takes > 0 {
					assert.Equal(t, 1, to.undone, "the loser is cancelled")
				}
			})
		})
	}
}

func TestOnlySelectIsHedged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &child{nodes: map[string]gatewayNode{
			"a": {answer: api.HoldAnswer{}, after: 2 * client.HedgeAfter}, "b": {answer: api.HoldAnswer{}},
		}}
		p, l := peersTo(to, "a", "b")
		_, err := p.Hold(t.Context(), l, &api.HoldRequest{})
		require.NoError(t, err)
		_, err = p.Decide(t.Context(), l, "h", api.DecisionCommit)
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "a"}, to.asked)
	})
}

// A child that is always slow gets one hedge for ten selects, after ten at once.
func TestHedgesHaveABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := gatewayNode{answer: offer("x"), after: time.Second}
		to := &child{nodes: map[string]gatewayNode{"a": slow, "b": slow}}
		p, l := peersTo(to, "a", "b")
		hedged := func(selects int) int {
			to.asked = nil
			for range selects {
				_, err := p.Select(t.Context(), l, placementValue)
				require.NoError(t, err)
			}
			synctest.Wait() // for the losers
			return len(to.asked) - selects
		}
		assert.Equal(t, 11, hedged(11), "ten, and what eleven selects earn")
		assert.Equal(t, 0, hedged(8))
		assert.Equal(t, 10, hedged(100))
		other := *l
		other.ID = "other"
		l = &other
		assert.Equal(t, 1, hedged(1), "each link has its own")
		to.nodes["a"], to.nodes["b"] = gatewayNode{answer: offer("x")}, gatewayNode{answer: offer("x")}
		hedged(1000)
		to.nodes["a"], to.nodes["b"] = slow, slow
		assert.Equal(t, 11, hedged(12), "no more is saved up than a burst")
	})
}

func TestTheNodeThatAnsweredIsAskedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &child{nodes: map[string]gatewayNode{"a": {answer: offer("a"), after: time.Second}, "b": {answer: offer("b")}}}
		p, l := peersTo(to, "a", "b")
		for range 2 {
			a, err := p.Select(t.Context(), l, placementValue)
			require.NoError(t, err)
			assert.Equal(t, "b", string(a.Reservation))
		}
		assert.Equal(t, []string{"a", "b", "b"}, to.asked)
	})
}

func TestCallsSayWhatTheyBelongTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &child{nodes: map[string]gatewayNode{"a": {answer: offer("a")}}}
		p, l := peersTo(to, "a")
		_, err := p.Select(t.Context(), l, placementValue)
		require.NoError(t, err)
		assert.NotContains(t, to.heads[0], api.HeaderRequestID, "for nobody's call")
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), callKey{}, api.RequestID("req-7")), 2*time.Second)
		defer cancel()
		_, err = p.Select(ctx, l, placementValue)
		require.NoError(t, err)
		for head, want := range map[string]string{api.HeaderRequestID: "req-7", api.HeaderDepth: "3", api.HeaderDeadline: "2000"} {
			assert.Equal(t, want, to.heads[1].Get(head), head)
		}
	})
}

// TestHeadersOfACall: a zone is told what it needs to know of a call and of its caller, and nothing that is not so.
func TestHeadersOfACall(t *testing.T) {
	always := map[string]string{
		"Content-Type": api.MediaCBOR, "Accept": api.MediaCBOR, "User-Agent": "", api.HeaderForm: "5", api.HeaderDepth: "1",
	}
	for name, c := range map[string]struct {
		own, theirs api.Incarnation
		id          api.RequestID
		more        map[string]string
	}{
		"nothing":              {},
		"the caller came back": {own: 5, more: map[string]string{api.HeaderIncarnation: "5"}},
		"the other came back":  {theirs: 7, more: map[string]string{api.HeaderMeant: "7"}},
		"somebody's":           {id: "req-7", more: map[string]string{api.HeaderRequestID: "req-7"}},
	} {
		to := &child{nodes: map[string]gatewayNode{"a": {answer: api.BelowAnswer{}}}}
		p := client.NewPeers(client.PeerConfig{
			Transport: func(*api.Link) http.RoundTripper { return to }, Now: time.Now, Form: api.FormFifth,
			Depth: func(context.Context) int { return 0 }, Request: func(context.Context) api.RequestID { return c.id },
			Incarnation: func() api.Incarnation { return c.own },
		})
		_, err := p.Below(t.Context(), &api.Link{ID: "l", Name: "east", Endpoints: []string{"a"}, Incarnation: c.theirs})
		require.NoError(t, err, name)
		got := map[string]string{}
		for key, values := range to.heads[0] {
			require.Len(t, values, 1, key)
			if key != api.HeaderDeadline { // each call has one
				got[key] = values[0]
			}
		}
		want := maps.Clone(always)
		maps.Copy(want, c.more)
		assert.Equal(t, want, got, name)
	}
}

func TestAbove(t *testing.T) {
	to := &child{nodes: map[string]gatewayNode{"a": {answer: api.AboveAnswer{Above: true, Zones: 3}}}}
	p, l := peersTo(to, "a")
	a, err := p.Above(t.Context(), l, "z")
	require.NoError(t, err)
	assert.Equal(t, &api.AboveAnswer{Above: true, Zones: 3}, a)
}

// CloseIdleConnections is what http.Client looks for in a transport.
func (c *child) CloseIdleConnections() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed++
}

func TestCloseIdle(t *testing.T) {
	to := &child{nodes: map[string]gatewayNode{"a": {answer: offer("x")}}}
	p, l := peersTo(to, "a")
	p.CloseIdle()
	assert.Zero(t, to.closed)
	_, err := p.Select(t.Context(), l, placementValue)
	require.NoError(t, err)
	p.CloseIdle()
	assert.Equal(t, 1, to.closed)
	_, err = p.Select(t.Context(), l, placementValue)
	require.NoError(t, err)
}

// TestCloseIdleBesideCalls: unused connections are closed at any time, also while calls are under way.
func TestCloseIdleBesideCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &child{nodes: map[string]gatewayNode{"a": {after: time.Second, answer: offer("x")}}}
		p, l := peersTo(to, "a")
		done := make(chan error)
		go func() {
			_, err := p.Select(t.Context(), l, placementValue)
			done <- err
		}()
		synctest.Wait()
		began := time.Now()
		p.CloseIdle()
		assert.Zero(t, time.Since(began))
		require.NoError(t, <-done)
		p.Close()
	})
}

func TestBelow(t *testing.T) {
	to := &child{nodes: map[string]gatewayNode{"a": {}, "b": {answer: api.BelowAnswer{Levels: 2}}}}
	p, l := peersTo(to, "a", "b")
	a, err := p.Below(t.Context(), l)
	require.NoError(t, err)
	assert.Equal(t, 2, a.Levels)
}

func TestRefusalsOfAChildAreChecked(t *testing.T) {
	filter := func(n int) api.FilterCount {
		return api.FilterCount{Filter: "f" + strconv.Itoa(n), Hosts: 1, Tier: api.TierNotNow}
	}
	advice := api.Advice{Change: api.AdviceAmount, Class: api.VCPU, Value: 4}
	for name, c := range map[string]struct {
		change func(r *api.Refusals)
		ok     bool
	}{
		"as they should be":      {func(*api.Refusals) {}, true},
		"most filters":           {func(r *api.Refusals) { many(r, api.FiltersMax, filter) }, true},
		"one filter more":        {func(r *api.Refusals) { many(r, api.FiltersMax+1, filter) }, false},
		"most advice":            {func(r *api.Refusals) { r.Advice = slices.Repeat([]api.Advice{advice}, api.AdviceMax) }, true},
		"one advice more":        {func(r *api.Refusals) { r.Advice = slices.Repeat([]api.Advice{advice}, api.AdviceMax+1) }, false},
		"a sum that is off":      {func(r *api.Refusals) { r.Considered++ }, false},
		"less than nothing":      {func(r *api.Refusals) { r.Considered, r.Offering = -1, -3 }, false},
		"a negative offer":       {func(r *api.Refusals) { r.Considered, r.Offering = 1, -1 }, false},
		"a negative count":       {func(r *api.Refusals) { r.Filters[0].Hosts, r.Filters[1].Hosts = -1, 3 }, false},
		"more than there can be": {func(r *api.Refusals) { r.Considered, r.Offering = 1<<30+1, 1<<30-1 }, false},
		"as many as there can":   {func(r *api.Refusals) { r.Considered, r.Offering = 1<<30, 1<<30-2 }, true},
		"a filter with a space":  {func(r *api.Refusals) { r.Filters[0].Filter = "a b" }, false},
		"no tier":                {func(r *api.Refusals) { r.Filters[0].Tier = "" }, true},
		"an unknown tier":        {func(r *api.Refusals) { r.Filters[0].Tier = "x" }, false},
		"advice: a lifetime":     {func(r *api.Refusals) { r.Advice[0] = api.Advice{Change: api.AdviceLifetime, Value: 3600} }, true},
		"advice: no lifetime":    {func(r *api.Refusals) { r.Advice[0] = api.Advice{Change: api.AdviceLifetime} }, false},
		"when others come":       {func(r *api.Refusals) { r.Promised = 1 }, false},
		"unknown advice":         {func(r *api.Refusals) { r.Advice[0].Change = "x" }, false},
		"no class":               {func(r *api.Refusals) { r.Advice[0].Class = "" }, false},
		"a negative amount":      {func(r *api.Refusals) { r.Advice[0].Value = -1 }, false},
		"too large an amount":    {func(r *api.Refusals) { r.Advice[0].Value = api.AmountMax + 1 }, false},
		"advice: fewer":          {func(r *api.Refusals) { r.Advice[0] = api.Advice{Change: api.AdviceCount, Value: 1} }, true},
		"advice: fewer of a":     {func(r *api.Refusals) { r.Advice[0] = api.Advice{Change: api.AdviceCount, Value: 1, Name: "a"} }, false},
		"advice: drop":           {func(r *api.Refusals) { r.Advice[0] = api.Advice{Change: api.AdviceDrop, Name: "query"} }, true},
		"a limit":                {func(r *api.Refusals) { r.Limits = []api.FilterCount{filter(1)} }, true},
		"limits of too many":     {func(r *api.Refusals) { r.Limits = []api.FilterCount{filter(1), filter(1)} }, false},
		"advice: drop nothing":   {func(r *api.Refusals) { r.Advice[0] = api.Advice{Change: api.AdviceDrop} }, false},
		"advice: a long zone": {func(r *api.Refusals) {
			r.Advice[0] = api.Advice{Change: api.AdviceZone, Name: strings.Repeat("z", api.NameMaxBytes+1)}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := api.Refusals{
				Considered: 3, Offering: 1, Filters: []api.FilterCount{filter(1), filter(2)}, Advice: []api.Advice{advice},
			}
			c.change(&r)
			assert.Equal(t, c.ok, len(heardOf(t, 1, r)) == 1)
		})
	}
	groups := func(n int) []api.Refusals { return make([]api.Refusals, n) }
	assert.Len(t, heardOf(t, api.GroupsMax, groups(api.GroupsMax)...), api.GroupsMax)
	assert.Empty(t, heardOf(t, api.GroupsMax+1, groups(api.GroupsMax+1)...))
	assert.Empty(t, heardOf(t, 2, groups(1)...), "of another number of groups")
	assert.Empty(t, heardOf(t, 1))
}

// many gives refusals n filters that turned away a host each.
func many(r *api.Refusals, n int, filter func(int) api.FilterCount) {
	r.Considered, r.Filters = n+r.Offering, nil
	for i := range n {
		r.Filters = append(r.Filters, filter(i))
	}
}

// heardOf returns what is left of a child's refusals. The rest of its answer
// always counts.
func heardOf(t *testing.T, groups int, rs ...api.Refusals) []api.Refusals {
	t.Helper()
	said := offer("r")
	said.Refusals = rs
	p, l := peersTo(&child{nodes: map[string]gatewayNode{"a": {answer: said}}}, "a")
	a, err := p.Select(t.Context(), l, &api.Request{Groups: make([]api.Group, groups)})
	require.NoError(t, err)
	require.Equal(t, api.ReservationID("r"), a.Reservation)
	return a.Refusals
}
