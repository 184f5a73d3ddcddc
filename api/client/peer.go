package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/api"
	"berth/internal/codec"
)

// PeerConfig is what calls to other zones need.
type PeerConfig struct {
	// Transport returns the transport to the zone at the other end of a link: TLS
	// that presents this zone's gateway certificate and pins the other's CA.
	Transport func(l *api.Link) http.RoundTripper
	// Depth returns how many links the call that ctx belongs to has crossed.
	Depth func(ctx context.Context) int
	// Request returns the id of the call that ctx belongs to, "" for none. The
	// other zone logs what it is asked under the same id.
	Request func(ctx context.Context) api.RequestID
	Now     func() time.Time
}

// Peers calls the gateways of linked zones. Each call tries the link's endpoints,
// the one that answered last first, until one answers; the caller's deadline
// travels along. Errors are *api.Error with the other zone's code, CodeTimeout
// when the outcome is unknown and CodeUnavailable when no endpoint was reached.
// Safe for concurrent use.
type Peers struct {
	conf   PeerConfig
	losers sync.WaitGroup // calls of hedged selects, whether or not somebody waits

	mu    sync.Mutex // guards links and what is in them
	links map[api.LinkID]*peerLink
}

// peerLink is what is remembered of one link.
type peerLink struct {
	client *http.Client
	good   string // endpoint that answered last
	hedges hedges
}

// NewPeers returns a caller of linked zones.
func NewPeers(c PeerConfig) *Peers {
	return &Peers{conf: c, links: map[api.LinkID]*peerLink{}}
}

// Select asks a child for a plan. It may be repeated: it changes nothing, so a
// child that takes its time is asked at another of its endpoints as well; see
// HedgeAfter. Refusals that cannot be right are dropped from the answer.
func (p *Peers) Select(ctx context.Context, l *api.Link, r *api.Request) (*api.SelectAnswer, error) {
	b, err := codec.Marshal(r)
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "client.Select", "", err)
	}
	a, err := hedged[api.SelectAnswer](ctx, p, l, http.MethodPost, "/zones/select", b)
	if err != nil {
		return nil, err
	}
	if !soundRefusals(a.Refusals, len(r.Groups)) {
		a.Refusals = nil
	}
	return a, nil
}

// Hold asks a child to take slots, or with r.Commit to take and decide them. It
// may be repeated: the same hold gives the same answer.
func (p *Peers) Hold(ctx context.Context, l *api.Link, r *api.HoldRequest) (*api.HoldAnswer, error) {
	path := "/zones/holds"
	if r.Commit {
		path = "/servers"
	}
	return peerCall[api.HoldAnswer](ctx, p, l, http.MethodPost, path, r)
}

// Decide tells a child what was decided of a hold. It may be repeated.
func (p *Peers) Decide(ctx context.Context, l *api.Link, id api.HoldID, d api.Decision) (*api.HoldAnswer, error) {
	path := "/zones/holds/" + url.PathEscape(string(id))
	if d == api.DecisionCommit {
		return peerCall[api.HoldAnswer](ctx, p, l, http.MethodPost, path+"/commit", nil)
	}
	return peerCall[api.HoldAnswer](ctx, p, l, http.MethodDelete, path, nil)
}

// Decision asks the parent what became of a hold.
func (p *Peers) Decision(ctx context.Context, l *api.Link, id api.HoldID) (api.Decision, error) {
	a, err := peerCall[api.DecisionAnswer](ctx, p, l, http.MethodGet, "/zones/holds/"+url.PathEscape(string(id))+"/decision", nil)
	if err != nil {
		return "", err
	}
	return a.Decision, nil
}

// Changes asks a child what changed of this zone's instances after an index,
// and waits up to wait for something.
func (p *Peers) Changes(ctx context.Context, l *api.Link, after uint64, wait time.Duration) (*api.Changes, error) {
	path := fmt.Sprintf("/zones/changes?after=%d&wait=%s", after, wait)
	return peerCall[api.Changes](ctx, p, l, http.MethodGet, path, nil)
}

// EndInstance tells a child that an instance must end. It may be repeated.
func (p *Peers) EndInstance(ctx context.Context, l *api.Link, id api.InstanceID) error {
	_, err := peerCall[struct{}](ctx, p, l, http.MethodDelete, "/servers/"+url.PathEscape(string(id)), nil)
	return err
}

// Info asks a linked zone who it is.
func (p *Peers) Info(ctx context.Context, l *api.Link) (*api.ZoneInfo, error) {
	return peerCall[api.ZoneInfo](ctx, p, l, http.MethodGet, "/zones/info", nil)
}

// Hello tells a linked zone what shows whether both seal with one key. It fails
// with CodeConflict if they do.
func (p *Peers) Hello(ctx context.Context, l *api.Link, h *api.Hello) error {
	_, err := peerCall[struct{}](ctx, p, l, http.MethodPost, "/zones/hello", h)
	return err
}

// Above asks the parent whether a zone is the parent itself or above it, and how
// many zones are. It changes nothing and may be repeated.
func (p *Peers) Above(ctx context.Context, l *api.Link, zone api.ZoneID) (*api.AboveAnswer, error) {
	return peerCall[api.AboveAnswer](ctx, p, l, http.MethodPost, "/zones/above", &api.AboveQuestion{Zone: zone})
}

// Below asks a child how many levels of zones are below it.
func (p *Peers) Below(ctx context.Context, l *api.Link) (*api.BelowAnswer, error) {
	return peerCall[api.BelowAnswer](ctx, p, l, http.MethodGet, "/zones/below", nil)
}

// Enrol sends an enrolment to the first of a parent's gateways that answers.
func Enrol(ctx context.Context, rt http.RoundTripper, now func() time.Time, endpoints []string, e *api.Enrolment) (*api.Enrolment, error) {
	p := NewPeers(PeerConfig{
		Transport: func(*api.Link) http.RoundTripper { return rt },
		Depth:     func(context.Context) int { return 0 },
		Request:   func(context.Context) api.RequestID { return "" },
		Now:       now,
	})
	return peerCall[api.Enrolment](ctx, p, &api.Link{Endpoints: endpoints}, http.MethodPost, "/links/enrol", e)
}

// peerCall makes one call over a link and decodes its answer.
func peerCall[A any](ctx context.Context, p *Peers, l *api.Link, method, path string, body any) (*A, error) {
	var b []byte
	if body != nil {
		var err error
		if b, err = codec.Marshal(body); err != nil {
			return nil, api.Wrap(api.CodeInternal, "client.call", "", err)
		}
	}
	var last error = noAddress(l)
	for _, e := range p.endpoints(l) {
		a := new(A)
		err := p.once(ctx, l, e, method, path, b, a)
		if err == nil {
			p.remember(l, e)
			return a, nil
		}
		last = err
		if api.CodeOf(err) != api.CodeUnavailable || ctx.Err() != nil {
			break
		}
	}
	return nil, last
}

func noAddress(l *api.Link) *api.Error {
	return api.Errorf(api.CodeUnavailable, "zone %q has no gateway address", l.Name)
}

// link returns what is remembered of a link. The caller holds p.mu.
func (p *Peers) link(l *api.Link) *peerLink {
	pl, ok := p.links[l.ID]
	if !ok {
		pl = &peerLink{hedges: hedges{credit: hedgeCost * hedgeBurst}, client: &http.Client{
			Transport:     p.conf.Transport(l),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}}
		p.links[l.ID] = pl
	}
	return pl
}

func (p *Peers) client(l *api.Link) *http.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link(l).client
}

// CloseIdle waits for calls that a hedge has made superfluous, and closes the
// connections that no call uses. No call may be begun meanwhile; later ones may.
func (p *Peers) CloseIdle() {
	p.losers.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pl := range p.links {
		pl.client.CloseIdleConnections()
	}
}

// endpoints returns where a link's zone is, the endpoint that answered last first.
func (p *Peers) endpoints(l *api.Link) []string {
	p.mu.Lock()
	good := p.link(l).good
	p.mu.Unlock()
	out := make([]string, 0, len(l.Endpoints)+1)
	for _, e := range l.Endpoints {
		if e == good {
			out = append([]string{e}, out...)
		} else {
			out = append(out, e)
		}
	}
	return out
}

func (p *Peers) remember(l *api.Link, endpoint string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.link(l).good = endpoint
}

// once makes a call to one endpoint.
func (p *Peers) once(ctx context.Context, l *api.Link, endpoint, method, path string, body []byte, answer any) error {
	req, err := http.NewRequestWithContext(ctx, method, "https://"+endpoint+path, bytes.NewReader(body))
	if err != nil {
		return api.Wrap(api.CodeInternal, "client.once", "", err)
	}
	req.Header.Set("Content-Type", api.MediaCBOR)
	req.Header.Set("Accept", api.MediaCBOR)
	req.Header.Set("User-Agent", "") // says nothing of what runs here
	req.Header.Set(api.HeaderDepth, strconv.Itoa(p.conf.Depth(ctx)+1))
	if id := p.conf.Request(ctx); id != "" {
		req.Header.Set(api.HeaderRequestID, string(id))
	}
	if deadline, ok := ctx.Deadline(); ok {
		req.Header.Set(api.HeaderDeadline, strconv.FormatInt(deadline.Sub(p.conf.Now()).Milliseconds(), 10))
	}
	res, err := p.client(l).Do(req)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			return api.Wrap(api.CodeTimeout, "client.call", "the zone did not answer in time", err)
		}
		return api.Wrap(api.CodeUnavailable, "client.call", "the zone cannot be reached", err)
	}
	defer func() { _ = res.Body.Close() }() // read to the end or given up: nothing to learn
	b, err := io.ReadAll(io.LimitReader(res.Body, api.ZoneBodyMaxBytes+1))
	switch {
	case err != nil:
		return api.Wrap(api.CodeTimeout, "client.call", "the zone's answer was cut off", err)
	case len(b) > api.ZoneBodyMaxBytes:
		return api.Errorf(api.CodeInternal, "the zone's answer is larger than %d bytes", api.ZoneBodyMaxBytes)
	case res.StatusCode == http.StatusNoContent:
		return nil
	case res.StatusCode >= http.StatusBadRequest:
		return peerRefusal(res, b)
	}
	if err := codec.Unmarshal(b, answer); err != nil {
		return api.Wrap(api.CodeInternal, "client.call", "", err)
	}
	return nil
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

// soundRefusals reports whether what another zone says of turned-away hosts can be
// shown and counted with: one entry per group or none, within the limits, names
// that are names, and sums that add up.
func soundRefusals(rs []api.Refusals, groups int) bool {
	return len(rs) <= api.GroupsMax && (len(rs) == 0 || len(rs) == groups) && !slices.ContainsFunc(rs, unsound)
}

// refusedMax is how many hosts another zone may say that it looked at.
const refusedMax = 1 << 30

func unsound(r api.Refusals) bool {
	if len(r.Filters) > api.FiltersMax || len(r.Advice) > api.AdviceMax ||
		r.Considered < 0 || r.Considered > refusedMax || r.Offering < 0 {
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
	return rest != 0 || slices.ContainsFunc(r.Advice, func(a api.Advice) bool { return !soundAdvice(a) })
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
	case api.AdviceAmount:
		return a.Class.Valid() && a.Name == ""
	case api.AdviceZone, api.AdviceDrop:
		return a.Class == "" && api.ValidName(a.Name)
	}
	return false
}
