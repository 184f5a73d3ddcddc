package client

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"berth/api"
	"berth/internal/budget"
	"berth/internal/codec"
)

// Limits of one call over a link.
const (
	triesMax   = 32                     // calls of endpoints
	againFirst = 100 * time.Millisecond // pause before an endpoint that was unavailable is tried again; doubles
	againMax   = 800 * time.Millisecond
)

// question is one call of a linked zone. Every question may be repeated, and may be sent
// to several endpoints at the same time.
type question struct {
	method, path string
	body         []byte
	answer       func() any    // returns where to decode an answer
	wait         time.Duration // how long the zone may wait for changes before it answers
	hedge        bool          // it is cheap enough to be sent twice after HedgeAfter
	once         bool          // it may not be repeated after it has reached the zone
}

// name returns the call without its ids and its query, such as "POST /zones/holds/{id}/commit".
func (q *question) name() string {
	path, _, _ := strings.Cut(q.path, "?")
	parts := strings.Split(path, "/")
	for i := 2; i < len(parts); i++ {
		if parts[i-1] == "servers" || parts[i-1] == "holds" && parts[i] != "many" {
			parts[i] = "{id}"
		}
	}
	return q.method + " " + strings.Join(parts, "/")
}

// outcomeOf returns the code of an error, "" for none.
func outcomeOf(err error) api.Code {
	if err == nil {
		return ""
	}
	return api.CodeOf(err)
}

// try is one attempt at one endpoint.
type try struct {
	to       *endpoint
	begun    time.Time
	patience time.Duration // how long it may take before another endpoint is tried
	cancel   context.CancelFunc

	// reached is set unless the zone certainly has not read the question: it is false
	// only from the start of the search for a connection until one is found.
	reached atomic.Bool
}

// reply is the result of a try.
type reply struct {
	*try
	answer  any
	err     error
	replied bool // the endpoint itself has answered, if only with a refusal
}

// linkCall is a question under way. It tries one endpoint after the other: the next one
// when the one before has refused, is unreachable or takes longer than it may, while the
// one before may still answer. The first answer counts and ends the other tries. When
// all have been tried and some still work on the call, those that were unavailable or
// unreachable are tried again: they may have restarted.
type linkCall struct {
	*question
	p       *Peers
	link    *api.Link
	left    []*endpoint // not tried yet
	again   []*endpoint // unavailable or unreachable
	failed  []*endpoint // with a recorded failure in this call
	working []*try
	replies chan reply
	tries   int
	rounds  int // number of repeated tries
	timer   *time.Timer
	hedged  bool  // the early second try has been used
	err     error // the most significant of those that did not end the call
}

// askLink makes one call over a link and returns its decoded answer.
//
// Errors: those of the other zone; CodeTimeout if it may have been carried out,
// CodeUnavailable if certainly not.
func (p *Peers) askLink(ctx context.Context, l *api.Link, q *question) (any, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // of the other tries
	moved := p.watchDoubtful(l)
	c := &linkCall{question: q, p: p, link: l, left: p.orderEndpoints(l), replies: make(chan reply, triesMax), hedged: !q.hedge}
	if len(c.left) == 0 {
		return nil, noAddress(l)
	}
	c.timer = time.NewTimer(time.Hour)
	defer c.timer.Stop()
	defer c.noteLate()
	c.askNext(ctx)
	for {
		select {
		case <-c.timer.C:
			c.onOverdue(ctx)
		case <-moved:
			moved = p.watchDoubtful(l)
			c.askGoodEndpoint(ctx)
		case r := <-c.replies:
			if a, err, done := c.takeReply(ctx, r); done {
				return a, err
			}
		}
	}
}

// noAddress is the error for a link without endpoints.
func noAddress(l *api.Link) *api.Error {
	return api.Errorf(api.CodeUnavailable, "zone %q has no gateway address", l.Name)
}

// askNext tries the next endpoint: one that was not tried yet, or the one whose refusal is
// the oldest.
func (c *linkCall) askNext(ctx context.Context) {
	from := &c.left
	if len(c.left) == 0 {
		from = &c.again
		c.rounds++
	}
	e := (*from)[0]
	*from = (*from)[1:]
	var remaining time.Duration
	if deadline, ok := ctx.Deadline(); ok {
		remaining = max(deadline.Sub(c.p.conf.Now()), patienceFloor)
	}
	ctx, cancel := context.WithCancel(ctx)
	t := &try{to: e, begun: c.p.conf.Now(), patience: c.p.patienceFor(e, c.wait, remaining, len(c.left)), cancel: cancel}
	c.tries++
	c.working = append(c.working, t)
	c.p.losers.Go(func() {
		defer cancel()
		a, replied, err := c.p.askOnce(ctx, c.link, t, c.question)
		c.replies <- reply{t, a, err, replied}
	})
	if c.hedged {
		c.timer.Reset(t.patience)
	} else {
		c.timer.Reset(min(HedgeAfter, t.patience))
	}
}

// onOverdue is called when the newest try takes longer than it may.
func (c *linkCall) onOverdue(ctx context.Context) {
	newest := c.working[len(c.working)-1]
	early := newest.patience - HedgeAfter
	may := len(c.left) > 0 || (len(c.again) > 0 && c.tries < triesMax)
	switch {
	case c.once:
		if len(c.left) > 0 && !newest.reached.Load() { // else it may have been carried out already
			newest.cancel() // and the next one is tried
		}
	case !c.hedged && early > 0:
		c.hedged = true
		if len(c.left) > 0 && c.p.mayHedge(c.link) {
			c.askNext(ctx)
			return
		}
		c.timer.Reset(early)
	case may:
		c.askNext(ctx)
	}
}

// askGoodEndpoint also tries the endpoint that answers other calls, if the newest try waits
// for one that does not.
func (c *linkCall) askGoodEndpoint(ctx context.Context) {
	newest := c.working[len(c.working)-1]
	good, doubtful := c.p.findDoubtful(c.link, newest.to, c.wait > 0)
	i := slices.Index(c.left, good)
	if c.once || !doubtful || i < 0 {
		return
	}
	c.left = slices.Insert(slices.Delete(c.left, i, i+1), 0, good)
	c.askNext(ctx)
}

// takeReply handles the result of a try, and reports whether it ends the call.
func (c *linkCall) takeReply(ctx context.Context, r reply) (answer any, err error, done bool) {
	c.working = slices.DeleteFunc(c.working, func(t *try) bool { return t == r.try })
	took := c.p.conf.Now().Sub(r.begun)
	switch {
	case r.err == nil:
		c.p.noteAnswer(c.link, r.to, took, c.wait)
		return r.answer, nil, true
	case r.replied && !mayPass(r.err):
		c.p.noteAnswer(c.link, r.to, took, c.wait)
		return nil, r.err, true
	case !r.replied && (ctx.Err() == nil || took >= r.patience):
		c.noteFailure(r.to)
	}
	c.err = worseOf(c.err, r.err)
	if code := api.CodeOf(r.err); code == api.CodeUnavailable || r.replied && code != api.CodeInternal {
		c.again = append(c.again, r.to)
	}
	switch {
	case ctx.Err() != nil, c.once && api.CodeOf(r.err) != api.CodeUnavailable:
		return nil, c.err, len(c.working) == 0
	case len(c.left) > 0:
		c.askNext(ctx)
	case len(c.working) == 0:
		return nil, c.err, true
	case len(c.again) > 0:
		c.timer.Reset(min(againFirst<<min(c.rounds, 3), againMax))
	}
	return nil, nil, false
}

// noteLate records the endpoints that had not answered in time at the end of the call.
func (c *linkCall) noteLate() {
	now := c.p.conf.Now()
	for _, t := range c.working {
		if now.Sub(t.begun) >= t.patience {
			c.noteFailure(t.to)
		}
	}
}

// noteFailure records once that an endpoint has failed this call.
func (c *linkCall) noteFailure(e *endpoint) {
	if !slices.Contains(c.failed, e) {
		c.failed = append(c.failed, e)
		c.p.noteFailure(c.link, e)
	}
}

// mayPass reports whether another endpoint, or this one later, may succeed.
func mayPass(err error) bool {
	return slices.Contains(mayPassCodes, api.CodeOf(err))
}

// mayPassCodes are the codes of errors that may pass, in increasing order of the
// possibility that the call was carried out.
var mayPassCodes = []api.Code{api.CodeUnavailable, api.CodeOverloaded, api.CodeInternal, api.CodeTimeout}

// worseOf returns the error to return for a call: one after which it may have been carried
// out takes precedence over one after which it was not.
func worseOf(a, b error) error {
	rank := func(err error) int {
		if err == nil {
			return -1
		}
		return slices.Index(mayPassCodes, api.CodeOf(err))
	}
	if rank(b) >= rank(a) {
		return b
	}
	return a
}

// askOnce tries one endpoint, and reports whether it has answered, if only with a refusal.
func (p *Peers) askOnce(ctx context.Context, l *api.Link, t *try, q *question) (answer any, replied bool, err error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { t.reached.Store(false) },
		GotConn: func(httptrace.GotConnInfo) { t.reached.Store(true) },
	})
	req, err := http.NewRequestWithContext(ctx, q.method, "https://"+t.to.addr+q.path, bytes.NewReader(q.body))
	if err != nil {
		return nil, false, api.Wrap(api.CodeUnavailable, "client.once", "the zone's address is malformed", err)
	}
	p.writeHead(ctx, l, req.Header)
	began := p.conf.Now()
	res, err := t.to.client.Do(req)
	if err != nil {
		return nil, false, unansweredError(err, t.reached.Load())
	}
	defer func() { _ = res.Body.Close() }() // read to the end or given up: the error does not matter
	p.noteHead(l, res.Header, began)
	account := p.conf.Budget.Begin(budget.Party{Scope: budget.Listener, ID: "zones"}, budget.Party{Scope: budget.Link, ID: string(l.Zone)})
	defer account.End()
	b, err := account.ReadAll(res.Body, res.ContentLength, api.ZoneBodyMaxBytes)
	switch {
	case errors.Is(err, budget.ErrLong):
		return nil, true, api.Errorf(api.CodeInternal, "the zone's answer is larger than %d bytes", api.ZoneBodyMaxBytes)
	case err != nil: // also one for which there is no room: the call may have been carried out
		return nil, false, api.Wrap(api.CodeTimeout, "client.call", "the zone's answer was cut off", err)
	case res.StatusCode >= http.StatusBadRequest:
		return nil, true, peerRefusal(res, b)
	}
	a := q.answer()
	if res.StatusCode == http.StatusNoContent {
		return a, true, nil
	}
	if err := codec.Unmarshal(b, a); err != nil {
		return nil, true, api.Wrap(api.CodeInternal, "client.call", "", err)
	}
	return a, true, nil
}

// unansweredError returns the error of a call without an answer.
func unansweredError(err error, reached bool) error {
	switch late := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled); {
	case !reached:
		return api.Wrap(api.CodeUnavailable, "client.call", "the zone cannot be reached", err)
	case late:
		return api.Wrap(api.CodeTimeout, "client.call", "the zone did not answer in time", err)
	}
	return api.Wrap(api.CodeTimeout, "client.call", "the connection to the zone was lost before it answered", err)
}

// writeHead writes the headers of each call. The remaining budget is that of this moment:
// a later try has less.
func (p *Peers) writeHead(ctx context.Context, l *api.Link, h http.Header) {
	h.Set("Content-Type", api.MediaCBOR)
	h.Set("Accept", api.MediaCBOR)
	h.Set("User-Agent", "") // reveals nothing about this program
	h.Set(api.HeaderForm, p.conf.Form.String())
	h.Set(api.HeaderDepth, strconv.Itoa(p.conf.Depth(ctx)+1))
	if l.Incarnation > 0 {
		h.Set(api.HeaderMeant, l.Incarnation.String())
	}
	if p.conf.Incarnation != nil {
		if own := p.conf.Incarnation(); own > 0 {
			h.Set(api.HeaderIncarnation, own.String())
		}
	}
	if id := p.conf.Request(ctx); id != "" {
		h.Set(api.HeaderRequestID, string(id))
	}
	p.conf.Trace.Inject(ctx, h)
	if deadline, ok := ctx.Deadline(); ok {
		h.Set(api.HeaderDeadline, strconv.FormatInt(deadline.Sub(p.conf.Now()).Milliseconds(), 10))
	}
}

// peerRefusal reads the error body of another zone. Its code counts; its sentence is
// kept as the cause, for the log.
func peerRefusal(res *http.Response, b []byte) error {
	var e api.ErrorBody
	if !strings.HasPrefix(res.Header.Get("Content-Type"), api.MediaCBOR) || codec.Unmarshal(b, &e) != nil {
		return api.Errorf(api.CodeUnavailable, "the zone answered with status %d", res.StatusCode)
	}
	return api.Errorf(e.Error.Code, "%s", e.Error.Message)
}
