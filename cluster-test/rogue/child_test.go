package rogue

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/api/rest"
	"berth/gossip"
	"berth/internal/codec"
)

// child has the gateway certificate of thief, and answers the root in its place. It offers nothing, or
// what nobody can take.
func child() party {
	return party{name: "child", lanes: 1, triesMin: 1, budget: childBudget, attacks: func(t *testing.T, p *phase) []attack {
		t.Helper()
		t.Cleanup(func() { // its parent believes to have heard what it will only say: as an operator would, it gives it no more work
			_, err := p.root.client(p.root.token).UpdateZone(p.ctx, p.thief.name, rest.ZoneSpec{State: new(api.LinkPaused)})
			assert.NoError(t, err)
		})
		c := newChild(t, p, p.thief)
		p.party.lacks = func() bool { return c.lied() <= len(c.lieTable())/2 }
		t.Cleanup(func() { assert.False(t, p.party.lacks(), "the parent has asked for %d lies", c.lied()) })
		return append(c.lies(c.lieTable()),
			attack{"calls of parents", c.callAsParent},
			attack{"decisions of others", c.askDecisions},
			attack{"questions about who is above", c.askAbove},
			attack{"gateways that move", c.moveGateways},
			attack{"another enrolment", c.enrol},
			attack{"connections that wait", c.wait},
			attack{"gossip that is none", c.gossip},
			attack{"bodies that are none", c.sendGarbage},
		)
	}}
}

// faithless is another child, which offers more than anybody and holds nothing. The parent remembers that: it
// is asked last from then on.
func faithless() party {
	return party{name: "child that holds nothing", lanes: 1, triesMin: 1, budget: childBudget, attacks: func(t *testing.T, p *phase) []attack {
		t.Helper()
		c := newChild(t, p, p.cheat)
		p.party.lacks = func() bool { return c.lied() == 0 }
		t.Cleanup(func() { assert.False(t, p.party.lacks(), "the parent has asked the child for nothing") })
		return c.lies(c.falseOffers())
	}}
}

// childBudget is what a child may make its parent keep.
var childBudget = size{state: 4 << 20, log: 24 << 20, index: 20_000}

func newChild(t *testing.T, p *phase, own *zone) *childCalls {
	t.Helper()
	c := &childCalls{
		phase: p, own: own, told: make(chan struct{}, 1), had: map[string]bool{},
		up: p.caller(over(own.gatewayTLS(p.root, api.ALPNHTTP)), "https://"+p.root.node.Addresses().Gateway, cborHead()),
	}
	c.tellNo()
	p.lies[own].start(c.serve)
	t.Cleanup(p.lies[own].stop)
	return c
}

// lies are attacks that tell them.
func (c *childCalls) lies(all []lie) []attack {
	var out []attack
	for _, l := range all {
		out = append(out, attack{l.name, func(ctx context.Context, r *record) error { return c.tell(ctx, r, &l) }})
	}
	return out
}

// childCalls are the calls and answers of the rogue child.
type childCalls struct {
	*phase
	own *zone
	up  *caller

	lie  atomic.Pointer[told]
	told chan struct{} // a lie was told, or a question was answered truly

	mu  sync.Mutex      // guards had
	had map[string]bool // lies that were told at least once
}

// lied returns how many lies were told.
func (c *childCalls) lied() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.had)
}

// told is what the child says now.
type told struct {
	*lie
	over chan struct{} // closed when it says something else
}

// lie is what the child answers to calls of the parent. Where it has no answer the child is
// unavailable.
type lie struct {
	name string
	sel  func(q *api.Request) api.SelectAnswer
	hold func(q *api.HoldRequest) (int, any)
	news func(after uint64) api.Changes
	any  http.HandlerFunc // in place of all of these
}

// nothing is what the child answers between two lies: that it has nothing. So the parent goes on to ask.
var nothing = lie{
	name: "nothing",
	sel: func(q *api.Request) api.SelectAnswer {
		return api.SelectAnswer{Reservation: q.Reservation, Weights: make([][]int64, len(q.Groups)), Blob: make([]byte, 1024), Expires: time.Minute}
	},
}

// say changes what the child says.
func (c *childCalls) say(l *lie) {
	before := c.lie.Swap(&told{l, make(chan struct{})})
	if before != nil {
		close(before.over)
	}
	select {
	case <-c.told:
	default:
	}
}

func (c *childCalls) tellNo() { c.say(&nothing) }

// Limits of one lie.
const (
	lieTimes = 4                      // told at once
	lieFor   = 6 * time.Second        // for the parent to ask, which leaves a child that fails alone for a while
	lieAgain = 300 * time.Millisecond // for it to ask once more
)

// tell tells one lie a few times, and is honest until the parent asks again.
func (c *childCalls) tell(ctx context.Context, r *record, l *lie) error {
	c.say(l)
	if c.isAsked(ctx, r, "told", lieFor) {
		c.mu.Lock()
		c.had[l.name] = true
		c.mu.Unlock()
		for n := 1; n < lieTimes && c.isAsked(ctx, r, "told", lieAgain); n++ {
			continue
		}
	}
	c.tellNo()
	c.isAsked(ctx, r, "asked again", lieFor)
	return nil // what others notice of it is seen at their boots
}

// isAsked waits until the child has answered.
func (c *childCalls) isAsked(ctx context.Context, r *record, what string, d time.Duration) bool {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-c.told:
		r.note(what)
		return true
	case <-late.C:
	case <-ctx.Done():
	}
	r.note("not " + what)
	return false
}

// answered notes that an answer was given.
func (c *childCalls) answered() {
	select {
	case c.told <- struct{}{}:
	default:
	}
}

// cheap offers all that is asked for at the lowest weight that there is.
func cheap(q *api.Request) api.SelectAnswer {
	a := api.SelectAnswer{Reservation: q.Reservation, Blob: make([]byte, 1024), Expires: time.Minute}
	for _, g := range q.Groups {
		w := make([]int64, g.Count)
		for i := range w {
			w[i] = math.MinInt64
		}
		a.Weights = append(a.Weights, w)
	}
	return a
}

// lieTable has the lies that the parent forgives when it has heard something better.
func (c *childCalls) lieTable() []lie {
	return []lie{
		{name: "offers of other sizes", sel: func(q *api.Request) api.SelectAnswer {
			a := cheap(q)
			a.Weights = append(a.Weights, make([]int64, api.CountMax+1))
			return a
		}},
		{name: "a blob as large as can be", sel: func(q *api.Request) api.SelectAnswer {
			a := cheap(q)
			a.Blob = make([]byte, api.BlobMaxBytes)
			return a
		}},
		{name: "refusals that do not add up", sel: func(q *api.Request) api.SelectAnswer {
			a := cheap(q)
			a.Weights = make([][]int64, len(q.Groups))
			a.Refusals = []api.Refusals{{Considered: 1, Filters: []api.FilterCount{{Filter: "\x1b]0;pwn\x07", Hosts: math.MaxInt}}}}
			a.Contended = []api.Contended{{Younger: math.MaxInt, All: math.MaxInt}}
			return a
		}},
		{name: "fat changes", news: func(after uint64) api.Changes {
			var ch api.Changes
			for n := range 900 {
				ch.Items = append(ch.Items, api.InstanceChange{
					ID: api.InstanceID(api.NewUUID()), Status: api.StatusError, Fault: strings.Repeat("f", 3000), Index: after + 1 + uint64(n),
				})
			}
			ch.Next = after + 900
			return ch
		}},
		{name: "empty changes", news: func(after uint64) api.Changes { return api.Changes{Next: after} }},
		{name: "changes that run away", news: func(uint64) api.Changes { return api.Changes{Next: math.MaxUint64, More: true} }},
		{name: "changes of others", news: func(after uint64) api.Changes {
			var ch api.Changes
			for n, i := range c.standing.instances {
				ch.Items = append(ch.Items, api.InstanceChange{ID: i, Status: api.StatusDeleted, Index: after + 1 + uint64(n)})
			}
			ch.Next = after + uint64(len(ch.Items))
			return ch
		}},
		{name: "answers that never come", any: func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}},
		{name: "answers that trickle", any: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", api.MediaCBOR)
			for r.Context().Err() == nil {
				if _, err := w.Write([]byte{0}); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush() // as far as it gets
				select {
				case <-r.Context().Done():
				case <-time.After(50 * time.Millisecond):
				}
			}
		}},
		{name: "answers that are none", any: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", api.MediaCBOR)
			_, _ = w.Write(bytes.Repeat([]byte{0x81}, 1<<16)) // fails only if the caller is gone
		}},
		{name: "answers without end", any: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", api.MediaCBOR)
			for range 2 * api.ZoneBodyMaxBytes >> 20 {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		}},
		{name: "answers of another protocol", any: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusMovedPermanently)
		}},
	}
}

// falseOffers has the lies that the parent does not forgive.
func (c *childCalls) falseOffers() []lie {
	return []lie{
		{name: "offers that are not held", sel: cheap, hold: func(*api.HoldRequest) (int, any) {
			return http.StatusServiceUnavailable, api.ErrorBody{Error: api.ErrorDetail{Code: api.CodeUnavailable}}
		}},
		{name: "holds of what was not asked for", sel: cheap, hold: func(q *api.HoldRequest) (int, any) {
			a := api.HoldAnswer{ID: q.ID, State: api.HoldHeld}
			for range 100 {
				a.Held = append(a.Held, api.InstanceID(api.NewUUID()))
			}
			a.Held = append(a.Held, c.standing.instances...)
			return http.StatusOK, a
		}},
		{name: "holds that are refused", sel: cheap, hold: func(q *api.HoldRequest) (int, any) {
			a := api.HoldAnswer{ID: q.ID, State: api.HoldHeld, Why: "\x1b]0;pwn\x07"}
			for _, g := range q.Instances {
				for _, i := range g {
					a.Refused = append(a.Refused, i.ID)
				}
			}
			return http.StatusOK, a
		}},
	}
}

// serve answers the parent. It confirms aborts: a boot that asked the child to hold and to decide in one call
// is not settled before that, also if others hold what it needs.
func (c *childCalls) serve(w http.ResponseWriter, r *http.Request) {
	l := c.lie.Load()
	body, err := io.ReadAll(io.LimitReader(r.Body, answerMax))
	if err != nil {
		return
	}
	if l.any != nil {
		c.answered()
		l.any(w, r)
		return
	}
	var q api.Request
	var h api.HoldRequest
	var d api.Decisions
	switch {
	case r.URL.Path == "/zones/select" && l.sel != nil && codec.Unmarshal(body, &q) == nil:
		if l.hold == nil {
			c.answered()
		}
		answer(w, http.StatusOK, l.sel(&q))
	case (r.URL.Path == "/zones/holds" || r.URL.Path == "/servers") && l.hold != nil && codec.Unmarshal(body, &h) == nil:
		c.answered()
		status, a := l.hold(&h)
		answer(w, status, a)
	case r.URL.Path == "/zones/changes":
		c.serveChanges(w, r, l)
	case r.Method == http.MethodDelete && strings.HasPrefix(r.URL.Path, "/zones/holds/"):
		answer(w, http.StatusOK, api.HoldAnswer{ID: api.HoldID(strings.TrimPrefix(r.URL.Path, "/zones/holds/")), State: api.HoldReleased})
	case r.URL.Path == "/zones/decisions" && codec.Unmarshal(body, &d) == nil:
		answer(w, http.StatusOK, api.DecisionsAnswer{Codes: make([]api.Code, len(d.Holds))})
	default:
		answer(w, http.StatusServiceUnavailable, api.ErrorBody{Error: api.ErrorDetail{Code: api.CodeUnavailable, Message: "no"}})
	}
}

// serveChanges answers a long poll: with a lie at once, and otherwise when there is one.
func (c *childCalls) serveChanges(w http.ResponseWriter, r *http.Request, l *told) {
	var after uint64
	_, _ = fmt.Sscan(r.URL.Query().Get("after"), &after) // the parent sends a number
	if l.news == nil {
		select {
		case <-r.Context().Done():
			return
		case <-time.After(3 * time.Second): // as the parent asks for
		case <-l.over:
		}
		answer(w, http.StatusOK, api.Changes{Next: after})
		return
	}
	c.answered()
	answer(w, http.StatusOK, l.news(after))
}

// callAsParent makes the calls of a parent.
func (c *childCalls) callAsParent(ctx context.Context, r *record) error {
	h := holdOf(request("p", 1), make([]byte, 1024), "x")
	for _, q := range []struct {
		method, path string
		body         any
	}{
		{"POST", "/zones/select", h.Request},
		{"POST", "/zones/holds", h},
		{"POST", "/servers", h},
		{"POST", "/zones/holds/many", api.Holds{Items: []api.HoldRequest{h}}},
		{"POST", "/zones/decisions", api.Decisions{Holds: []api.HoldDecision{{ID: "h", Decision: api.DecisionCommit}}}},
		{"DELETE", "/servers/" + string(c.standing.instances[0]), nil},
		{"POST", "/volumes/detach", api.VolumeCall{Volume: c.standing.instances[0]}},
		{"GET", "/zones/changes?after=0", nil},
		{"GET", "/zones/below", nil},
	} {
		if status, b := c.up.call(ctx, r, q.method, q.path, q.body); !refused(status) {
			return fmt.Errorf("%s %s of a child: %d %x", q.method, q.path, status, b)
		}
	}
	return nil
}

// askDecisions asks what became of holds of the other child: it is told no more than of holds that
// never were.
func (c *childCalls) askDecisions(ctx context.Context, r *record) error {
	_, nothing := c.up.call(ctx, r, "GET", "/zones/holds/"+name("h")+"/decision", nil)
	holds := c.west.node.Store().View().Holds()
	if len(holds) == 0 {
		return nil
	}
	_, b := c.up.call(ctx, r, "GET", "/zones/holds/"+string(holds[0].ID)+"/decision", nil)
	if len(b) > 0 && len(nothing) > 0 && !bytes.Equal(b, nothing) {
		return fmt.Errorf("a child is told of a hold of another: %x, of none: %x", b, nothing)
	}
	return nil
}

func (c *childCalls) askAbove(ctx context.Context, r *record) error {
	for _, z := range []api.ZoneID{"", "nobody", api.ZoneID(strings.Repeat("x", 300)), c.west.node.Store().View().Zone} {
		status, b := c.up.call(ctx, r, "POST", "/zones/above", api.AboveQuestion{Zone: z})
		var a api.AboveAnswer
		if status == http.StatusOK && codec.Unmarshal(b, &a) == nil && a.Above {
			return fmt.Errorf("zone %.20q is above", z)
		}
	}
	return nil
}

func (c *childCalls) moveGateways(ctx context.Context, r *record) error {
	for n := range 20 {
		c.up.call(ctx, r, "POST", "/zones/hello", api.Hello{Endpoints: []string{fmt.Sprintf("127.0.0.1:%d", 1+n)}})
	}
	many := api.Hello{}
	for n := range api.GatewaysMax + 1 {
		many.Endpoints = append(many.Endpoints, fmt.Sprintf("127.0.0.1:%d", 1+n))
	}
	for _, h := range []api.Hello{many, {Endpoints: []string{"http://x/"}}, {KeyCheck: make([]byte, 1<<16)}} {
		if status, b := c.up.call(ctx, r, "POST", "/zones/hello", h); !refused(status) && h.KeyCheck == nil {
			return fmt.Errorf("gateways that cannot be: %d %x", status, b)
		}
	}
	c.up.call(ctx, r, "POST", "/zones/hello", api.Hello{Endpoints: []string{c.own.node.Addresses().Gateway}})
	return nil // what it costs is held against the budget
}

// enrol asks for another link, as itself and as its sibling.
func (c *childCalls) enrol(ctx context.Context, r *record) error {
	rt := over(c.own.gatewayTLS(c.root, api.ALPNEnrol))
	defer rt.CloseIdleConnections()
	e := &caller{http: &http.Client{Transport: rt}, base: c.up.base, head: cborHead()}
	for _, z := range []*zone{c.own, c.west} {
		v := z.node.Store().View()
		status, b := e.call(ctx, r, "POST", "/links/enrol", api.Enrolment{
			Token: "berth_none", Zone: v.Zone, Name: z.name, CA: v.CA, Endpoints: []string{"127.0.0.1:1"}, KeyCheck: []byte("x"),
		})
		if !refused(status) {
			return fmt.Errorf("an enrolment as %s: %d %x", z.name, status, b)
		}
	}
	return nil
}

// wait opens authenticated connections and says nothing.
func (c *childCalls) wait(ctx context.Context, r *record) error {
	rt := over(c.own.gatewayTLS(c.root, api.ALPNHTTP))
	var open []net.Conn
	defer func() {
		for _, c := range open {
			_ = c.Close() // it was of no use
		}
	}()
	for range waiters {
		conn, err := rt.DialTLSContext(ctx, "tcp", c.root.node.Addresses().Gateway)
		if err != nil {
			r.note("not connected")
			return nil
		}
		open = append(open, conn)
		r.note("open")
	}
	return nil
}

// gossip joins the pools of others, and sends what no member does in its own.
func (c *childCalls) gossip(ctx context.Context, r *record) error {
	v := c.root.node.Store().View()
	own, _ := v.LinkByZone(c.own.node.Store().View().Zone)
	other, _ := v.LinkByZone(c.west.node.Store().View().Zone)
	conf := c.own.gatewayTLS(c.root, api.ALPNGossip)
	hello := func(pool string, kind gossip.Kind) string {
		b, _ := codec.Marshal(gossip.Hello{Version: 1, Pool: pool, Name: gossip.SyntheticName("x"), Kind: kind}) // our own types can be encoded
		return string(append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...))
	}
	frame := func(b string) string { return string(binary.BigEndian.AppendUint32(nil, uint32(len(b)))) + b }
	for _, pool := range []string{string(other.ID), "", "own", strings.Repeat("x", 200)} {
		if b := hear(ctx, r, c.root.node.Addresses().Gateway, conf, hello(pool, gossip.KindPacket)); len(b) > 0 {
			return fmt.Errorf("gossip in pool %q is answered: %x", pool, b)
		}
	}
	for _, kind := range []gossip.Kind{gossip.KindPacket, 2, 9} {
		for _, b := range []string{
			frame("\x09\x00\x00"), frame("\x06\x83\xa5Nodes\xce\x7f\xff\xff\xff"), "\xff\xff\xff\xff", frame(strings.Repeat("\x07\xff", 4000)), frame("\x04" + strings.Repeat("\x81", 8000)),
		} {
			hear(ctx, r, c.root.node.Addresses().Gateway, conf, hello(string(own.ID), kind)+b)
		}
	}
	return nil
}

func (c *childCalls) sendGarbage(ctx context.Context, r *record) error {
	for _, body := range [][]byte{nil, {0xff}, bytes.Repeat([]byte{0x81}, 1<<16), {0x9b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, make([]byte, api.ZoneBodyMaxBytes+1)} {
		for _, path := range []string{"/zones/above", "/zones/hello"} {
			if status, b := c.up.call(ctx, r, "POST", path, body); !refused(status) {
				return fmt.Errorf("POST %s of %.20x: %d %x", path, body, status, b)
			}
		}
	}
	return nil
}
