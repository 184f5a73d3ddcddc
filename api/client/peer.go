package client

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"berth/api"
	"berth/internal/budget"
	"berth/internal/codec"
	"berth/internal/skew"
	"berth/internal/tracing"
)

// PeerConfig configures calls to other zones.
type PeerConfig struct {
	// Transport returns the transport to the zone at the other end of a link: TLS
	// that presents this zone's gateway certificate and pins the other's CA.
	Transport func(l *api.Link) http.RoundTripper
	// Depth returns the number of links that the call of ctx has crossed.
	Depth func(ctx context.Context) int
	// Request returns the id of the call that ctx belongs to, "" for none. The other zone
	// logs its part under the same id.
	Request func(ctx context.Context) api.RequestID
	Now     func() time.Time
	// Measure is told of each call that has ended: its name, such as "POST /zones/holds/{id}/commit",
	// the code of its error, "" for none, and how long it took. Nil for nobody.
	Measure func(l *api.Link, call string, code api.Code, took time.Duration)
	// Budget counts what answers hold; nil for nothing.
	Budget *budget.Budget
	// Trace follows the calls; nil for nobody.
	Trace *tracing.Tracer
	// Form is the newest form that this node reads; api.FormNewest when zero.
	Form api.Form
	// Incarnation returns that of this zone; nil for 0.
	Incarnation func() api.Incarnation
}

// Peers calls the gateways of linked zones. Each call tries the link's endpoints until one
// answers, starting with the one that answered last and ending with those that were late
// recently. The endpoints share the budget of a call, and the next one is tried while
// earlier ones may still answer. So a gateway that is dead, frozen or slow delays only a
// part of one call. The caller's deadline is passed on. Errors are *api.Error with the
// other zone's code, CodeTimeout if the outcome is unknown and CodeUnavailable if
// certainly nothing was done. Safe for concurrent use.
type Peers struct {
	conf   PeerConfig
	losers sync.WaitGroup // all tries, including those that nobody waits for

	mu    sync.Mutex // guards links and everything in them
	links map[api.LinkID]*peerLink
}

// NewPeers returns a client of linked zones.
func NewPeers(c PeerConfig) *Peers {
	c.Form = cmp.Or(c.Form, api.FormNewest)
	return &Peers{conf: c, links: map[api.LinkID]*peerLink{}}
}

// Select asks a child for a plan. It changes nothing and may be repeated, so a slow child
// is soon asked at another of its endpoints as well; see HedgeAfter. Impossible refusals
// are dropped from the answer.
func (p *Peers) Select(ctx context.Context, l *api.Link, r *api.Request) (*api.SelectAnswer, error) {
	p.earnHedge(l)
	a, err := peerCall[api.SelectAnswer](ctx, p, l, question{method: http.MethodPost, path: "/zones/select", hedge: true}, r)
	if err != nil {
		return nil, err
	}
	if !soundRefusals(a.Refusals, len(r.Groups)) {
		a.Refusals = nil
	}
	return a, nil
}

// Room asks a child how many slots would fit over time. It changes nothing and may be repeated.
func (p *Peers) Room(ctx context.Context, l *api.Link, q *api.RoomQuestion) (*api.RoomAnswer, error) {
	return peerCall[api.RoomAnswer](ctx, p, l, question{method: http.MethodPost, path: "/zones/room"}, q)
}

// Hold asks a child to hold slots, or with r.Commit to hold and decide them. It may be
// repeated: the same hold gets the same answer.
func (p *Peers) Hold(ctx context.Context, l *api.Link, r *api.HoldRequest) (*api.HoldAnswer, error) {
	path := "/zones/holds"
	if r.Commit {
		path = "/servers"
	}
	return peerCall[api.HoldAnswer](ctx, p, l, question{method: http.MethodPost, path: path}, r)
}

// SharesHolds reports whether a child is known to read api.FormFifth, so that holds may share a call
// to it.
func (p *Peers) SharesHolds(l *api.Link) bool { return p.formOf(l) >= api.FormFifth }

// HoldAll asks a child, for which SharesHolds, to hold slots for several holds in one call: at most
// api.HoldsMax with at most api.HoldsBytesMax together. It returns the answer to each, nil for one
// that takes a call of its own. It may be repeated.
func (p *Peers) HoldAll(ctx context.Context, l *api.Link, rs []api.HoldRequest) ([]*api.HoldAnswer, error) {
	a, err := peerCall[api.HoldsAnswer](ctx, p, l, question{method: http.MethodPost, path: "/zones/holds/many"}, &api.Holds{Items: rs})
	if err != nil {
		return nil, err
	}
	if len(a.Items) != len(rs) {
		return nil, api.Errorf(api.CodeInternal, "the zone answered %d holds of %d", len(a.Items), len(rs))
	}
	out := make([]*api.HoldAnswer, len(rs))
	for i := range a.Items {
		out[i] = a.Items[i].Answer
	}
	return out, nil
}

// Decide sends a child the decision of a hold. It may be repeated.
func (p *Peers) Decide(ctx context.Context, l *api.Link, id api.HoldID, d api.Decision) (*api.HoldAnswer, error) {
	path := "/zones/holds/" + url.PathEscape(string(id))
	if d == api.DecisionCommit {
		return peerCall[api.HoldAnswer](ctx, p, l, question{method: http.MethodPost, path: path + "/commit"}, nil)
	}
	return peerCall[api.HoldAnswer](ctx, p, l, question{method: http.MethodDelete, path: path}, nil)
}

// DecideAll sends a child the decisions of at most api.DecisionsMax holds in one call. It
// returns for each why the child refused it, or nil. It may be repeated. To a child that
// does not read api.FormFifth, or that has not answered a call yet, it sends one call each.
func (p *Peers) DecideAll(ctx context.Context, l *api.Link, ds []api.HoldDecision) ([]error, error) {
	refusals := make([]error, len(ds))
	if p.formOf(l) < api.FormFifth {
		var wg sync.WaitGroup
		room := make(chan struct{}, decidesAtOnce)
		for i, d := range ds {
			if len(d.Lifted) > 0 {
				refusals[i] = p.refuseLifted(ctx, l)
				continue
			}
			room <- struct{}{}
			wg.Go(func() {
				defer func() { <-room }()
				_, refusals[i] = p.Decide(ctx, l, d.ID, d.Decision)
			})
		}
		wg.Wait()
		return refusals, nil
	}
	a, err := peerCall[api.DecisionsAnswer](ctx, p, l, question{method: http.MethodPost, path: "/zones/decisions"}, &api.Decisions{Holds: ds})
	if err != nil {
		return nil, err
	}
	if len(a.Codes) != len(ds) {
		return nil, api.Errorf(api.CodeInternal, "the zone answered %d decisions of %d", len(a.Codes), len(ds))
	}
	for i, code := range a.Codes {
		if code != "" {
			refusals[i] = api.Errorf(code, "the zone refused the decision")
		}
	}
	return refusals, nil
}

// refuseLifted returns why a zone that is not known to read api.FormFifth is not told yet of server groups that
// were deleted. It asks the zone what it reads, so that the next try need not.
func (p *Peers) refuseLifted(ctx context.Context, l *api.Link) error {
	form, err := p.ReadsForm(ctx, l)
	switch {
	case err != nil:
		return err
	case form < api.FormFifth:
		return api.Errorf(api.CodeUnavailable, "zone %q is of an earlier release, and cannot be told that a server group is deleted", l.Name)
	}
	return api.Errorf(api.CodeUnavailable, "zone %q is told at the next try that a server group is deleted", l.Name)
}

// decidesAtOnce is how many decisions are sent at the same time to a child that takes one
// in a call.
const decidesAtOnce = 16

// Decision asks the parent for the decision of a hold.
func (p *Peers) Decision(ctx context.Context, l *api.Link, id api.HoldID) (api.Decision, error) {
	a, err := peerCall[api.DecisionAnswer](ctx, p, l, question{method: http.MethodGet, path: "/zones/holds/" + url.PathEscape(string(id)) + "/decision"}, nil)
	if err != nil {
		return "", err
	}
	return a.Decision, nil
}

// Changes asks a child for the changes of this zone's instances after an index, and waits
// up to wait for one, or until it has gone back to a backup that is not noted in l.
func (p *Peers) Changes(ctx context.Context, l *api.Link, after uint64, wait time.Duration) (*api.Changes, error) {
	path := fmt.Sprintf("/zones/changes?after=%d&restored=%d&wait=%s", after, l.Restored, wait)
	return peerCall[api.Changes](ctx, p, l, question{method: http.MethodGet, path: path, wait: wait}, nil)
}

// ConfirmedChanges asks a child for the changes of this zone's instances after an index, without waiting for one: none that its log
// had confirmed before the call is missing. A child of an earlier release waits for a second, and answers from what its leader knows.
func (p *Peers) ConfirmedChanges(ctx context.Context, l *api.Link, after uint64) (*api.Changes, error) {
	path := fmt.Sprintf("/zones/changes?after=%d&wait=%s&confirmed=true", after, time.Second)
	return peerCall[api.Changes](ctx, p, l, question{method: http.MethodGet, path: path}, nil)
}

// EndInstance asks a child to end an instance. It may be repeated.
func (p *Peers) EndInstance(ctx context.Context, l *api.Link, id api.InstanceID) error {
	_, err := peerCall[struct{}](ctx, p, l, question{method: http.MethodDelete, path: "/servers/" + url.PathEscape(string(id))}, nil)
	return err
}

// Attach asks a child to attach a volume to an instance. It may be repeated.
func (p *Peers) Attach(ctx context.Context, l *api.Link, q *api.VolumeCall) error {
	_, err := peerCall[struct{}](ctx, p, l, question{method: http.MethodPost, path: "/volumes/attach"}, q)
	return err
}

// Detach asks a child to end the attachment of a volume. It may be repeated.
func (p *Peers) Detach(ctx context.Context, l *api.Link, q *api.VolumeCall) error {
	_, err := peerCall[struct{}](ctx, p, l, question{method: http.MethodPost, path: "/volumes/detach"}, q)
	return err
}

// Output asks a child for what an instance has printed. It changes nothing and may be repeated. A child of an
// earlier release is not asked: the answer says so. What it answers is to be checked.
func (p *Peers) Output(ctx context.Context, l *api.Link, q *api.OutputQuestion) (*api.OutputAnswer, error) {
	if p.formOf(l) < api.FormFifth {
		if form, err := p.ReadsForm(ctx, l); err != nil {
			return nil, err
		} else if form < api.FormFifth {
			return &api.OutputAnswer{Lack: api.OutputOlder}, nil
		}
	}
	return peerCall[api.OutputAnswer](ctx, p, l, question{method: http.MethodPost, path: "/zones/output", wait: api.OutputWait / 2}, q)
}

// Power asks a child for the run of an instance, or gives it an order. It may be repeated.
func (p *Peers) Power(ctx context.Context, l *api.Link, q *api.PowerCall) (*api.PowerAnswer, error) {
	return peerCall[api.PowerAnswer](ctx, p, l, question{method: http.MethodPost, path: "/servers/power"}, q)
}

// Info asks a linked zone to identify itself.
func (p *Peers) Info(ctx context.Context, l *api.Link) (*api.ZoneInfo, error) {
	return peerCall[api.ZoneInfo](ctx, p, l, question{method: http.MethodGet, path: "/zones/info"}, nil)
}

// ReadsForm asks a linked zone for the newest form that all of its nodes read.
func (p *Peers) ReadsForm(ctx context.Context, l *api.Link) (api.Form, error) {
	if _, err := p.Info(ctx, l); err != nil {
		return 0, err
	}
	return p.formOf(l), nil
}

// IncarnationOf asks a linked zone for its incarnation, which it tells also if it refuses calls until its
// incarnation is confirmed here.
func (p *Peers) IncarnationOf(ctx context.Context, l *api.Link) (api.Incarnation, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.mu.Lock()
	pl := p.linkState(l)
	pl.heard, pl.listening = false, append(pl.listening, cancel) // a refusal that may pass is not waited for
	p.mu.Unlock()
	_, err := p.Info(ctx, l)
	p.mu.Lock()
	defer p.mu.Unlock()
	if pl.heard {
		return pl.incarnation, nil
	}
	return 0, err
}

// Hello sends a linked zone the check of the sealing key and the addresses of this zone's
// gateways. It fails with CodeConflict if both seal with one key.
func (p *Peers) Hello(ctx context.Context, l *api.Link, h *api.Hello) error {
	_, err := peerCall[struct{}](ctx, p, l, question{method: http.MethodPost, path: "/zones/hello"}, h)
	return err
}

// Above asks the parent whether a zone is the parent itself or above it, and for the number
// of zones above it. It changes nothing and may be repeated.
func (p *Peers) Above(ctx context.Context, l *api.Link, zone api.ZoneID) (*api.AboveAnswer, error) {
	return peerCall[api.AboveAnswer](ctx, p, l, question{method: http.MethodPost, path: "/zones/above"}, &api.AboveQuestion{Zone: zone})
}

// Below asks a child for the number of levels of zones below it.
func (p *Peers) Below(ctx context.Context, l *api.Link) (*api.BelowAnswer, error) {
	return peerCall[api.BelowAnswer](ctx, p, l, question{method: http.MethodGet, path: "/zones/below"}, nil)
}

// Enrol sends an enrolment to the first reachable gateway of a parent. A token is valid for
// one enrolment, so one that has reached the parent is not repeated.
func Enrol(ctx context.Context, rt http.RoundTripper, now func() time.Time, endpoints []string, e *api.Enrolment) (*api.Enrolment, error) {
	p := NewPeers(PeerConfig{
		Transport: func(*api.Link) http.RoundTripper { return rt },
		Depth:     func(context.Context) int { return 0 },
		Request:   func(context.Context) api.RequestID { return "" },
		Now:       now, Incarnation: func() api.Incarnation { return e.Incarnation },
	})
	l := &api.Link{Endpoints: endpoints}
	back, err := peerCall[api.Enrolment](ctx, p, l, question{method: http.MethodPost, path: "/links/enrol", once: true}, e)
	if err == nil {
		back.Incarnation = p.incarnationOf(l)
	}
	return back, err
}

// peerCall makes one call over a link and decodes its answer.
func peerCall[A any](ctx context.Context, p *Peers, l *api.Link, q question, body any) (*A, error) {
	if body != nil {
		err := p.checkForm(ctx, l, body)
		if err != nil {
			return nil, err
		}
		if q.body, err = codec.Marshal(body); err != nil {
			return nil, api.Wrap(api.CodeInternal, "client.call", "", err)
		}
	}
	q.answer = func() any { return new(A) }
	began := p.conf.Now()
	ctx, span := p.conf.Trace.Start(ctx, q.name(), tracing.Client)
	a, err := p.askLink(ctx, l, &q)
	span.End(string(outcomeOf(err)))
	if p.conf.Measure != nil {
		p.conf.Measure(l, q.name(), outcomeOf(err), p.conf.Now().Sub(began))
	}
	if err != nil {
		return nil, err
	}
	return a.(*A), nil
}

// checkForm refuses a body that the zone at the other end of a link cannot read. Each of
// that zone's answers has the newest form that it reads; if that is too old, it is asked
// again.
func (p *Peers) checkForm(ctx context.Context, l *api.Link, body any) error {
	if p.formOf(l) >= api.FormNewest { // it reads everything
		return nil
	}
	need := api.Form(codec.NeededForm(body))
	if need <= max(p.formOf(l), api.FormFirst) {
		return nil
	}
	if _, err := p.Info(ctx, l); err != nil {
		return err
	}
	if form := p.formOf(l); need > form {
		return api.Errorf(api.CodeUnavailable, "this needs form %d, and zone %q reads forms up to %d; upgrade that zone first", need, l.Name, form)
	}
	return nil
}

// formOf returns the newest form that a linked zone reads, 0 if it has not answered yet.
func (p *Peers) formOf(l *api.Link) api.Form {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.linkState(l).form
}

// incarnationOf returns the incarnation of a linked zone, from its last answer.
func (p *Peers) incarnationOf(l *api.Link) api.Incarnation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.linkState(l).incarnation
}

// NoteIncarnation notes the incarnation that a linked zone has named in a call of its own.
func (p *Peers) NoteIncarnation(l *api.Link, n api.Incarnation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noteNewest(p.linkState(l), n)
}

// noteNewest notes an incarnation that a linked zone has named, unless it cannot be: it would hide all true ones. The caller
// holds mu.
func (p *Peers) noteNewest(pl *peerLink, n api.Incarnation) {
	if !n.IsToCome(api.InstantOf(p.conf.Now())) {
		pl.newest = max(pl.newest, n)
	}
}

// Unconfirmed returns the incarnation in which the zone at the other end of a link was brought back from a backup and which
// has not been confirmed here, 0 for none. It knows what this process has heard: a node that exchanges no calls with that
// zone knows of none.
func (p *Peers) Unconfirmed(l *api.Link) api.Incarnation {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.linkState(l).newest; n > l.Incarnation {
		return n
	}
	return 0
}

// Skew returns by how much the clock of the zone at the other end of a link is ahead of this node's, as the calls of this process have
// measured it; false if none of the last two minutes did.
func (p *Peers) Skew(l *api.Link) (skew.Skew, bool) {
	p.mu.Lock()
	clock := &p.linkState(l).clock
	p.mu.Unlock()
	s, known := clock.Skew(p.conf.Now())
	s.Ahead = -s.Ahead
	return s, known
}

// noteHead notes what the headers of an answer say of a linked zone. A zone of an earlier release does not tell its time.
func (p *Peers) noteHead(l *api.Link, h http.Header, began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pl := p.linkState(l)
	if ms, err := strconv.ParseInt(h.Get(api.HeaderTime), 10, 64); err == nil {
		now := p.conf.Now()
		pl.clock.Note(skew.Of(began, time.UnixMilli(ms), now), now)
	}
	pl.form = api.ParseForm(h.Get(api.HeaderForm))
	pl.incarnation, pl.heard = api.ParseIncarnation(h.Get(api.HeaderIncarnation)), true
	p.noteNewest(pl, pl.incarnation)
	for _, heard := range pl.listening {
		heard()
	}
	pl.listening = nil
}

// Close waits for superfluous calls to end, and closes unused connections. No call may be started
// during that; later ones may.
func (p *Peers) Close() {
	p.losers.Wait()
	p.CloseIdle()
}

// CloseIdle closes unused connections: later calls are made over new ones.
func (p *Peers) CloseIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pl := range p.links {
		for _, e := range pl.endpoints {
			e.client.CloseIdleConnections()
		}
	}
}

// soundRefusals reports whether another zone's refusals can be shown and counted: one
// entry per group or none, within the limits, with valid names, and sums that add up.
func soundRefusals(rs []api.Refusals, groups int) bool {
	return len(rs) <= api.GroupsMax && (len(rs) == 0 || len(rs) == groups) && !slices.ContainsFunc(rs, isUnsound)
}

// refusedMax bounds the number of examined hosts that another zone may report.
const refusedMax = 1 << 30

func isUnsound(r api.Refusals) bool {
	if len(r.Filters) > api.FiltersMax || len(r.Advice) > api.AdviceMax ||
		r.Considered < 0 || r.Considered > refusedMax || r.Offering < 0 || r.Promised != 0 {
		return true
	}
	rest := r.Considered - r.Offering
	for i := range r.Filters {
		f := &r.Filters[i]
		if !api.ValidName(f.Filter) || f.Hosts < 0 || f.Hosts > rest || !knownTier(f.Tier) {
			return true
		}
		rest -= f.Hosts
	}
	return rest != 0 || unsoundLimits(r) || slices.ContainsFunc(r.Advice, func(a api.Advice) bool { return !soundAdvice(a) })
}

// unsoundLimits reports whether limits are too many, or more than hosts offered.
func unsoundLimits(r api.Refusals) bool {
	rest := r.Offering
	for i := range r.Limits {
		l := &r.Limits[i]
		if !api.ValidName(l.Filter) || l.Hosts < 0 || l.Hosts > rest || !knownTier(l.Tier) {
			return true
		}
		rest -= l.Hosts
	}
	return len(r.Limits) > api.FiltersMax
}

func knownTier(t api.Tier) bool {
	switch t {
	case "", api.TierInvalid, api.TierNotAllowed, api.TierNeverFits, api.TierNotNow, api.TierNotAsked:
		return true
	}
	return false
}

func soundAdvice(a api.Advice) bool {
	if a.Value < 0 || a.Value > api.AmountMax {
		return false
	}
	switch a.Change {
	case api.AdviceCount:
		return a.Class == "" && a.Name == ""
	case api.AdviceLifetime:
		return a.Class == "" && a.Name == "" && a.Value > 0
	case api.AdviceAmount:
		return a.Class.Valid() && a.Name == ""
	case api.AdviceZone, api.AdviceDrop:
		return a.Class == "" && api.ValidName(a.Name)
	}
	return false
}
