package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
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
	Now   func() time.Time
}

// Peers calls the gateways of linked zones. Each call tries the link's endpoints,
// the one that answered last first, until one answers; the caller's deadline
// travels along. Errors are *api.Error with the other zone's code, CodeTimeout
// when the outcome is unknown and CodeUnavailable when no endpoint was reached.
// Safe for concurrent use.
type Peers struct {
	conf PeerConfig

	mu      sync.Mutex // guards clients and good
	clients map[api.LinkID]*http.Client
	good    map[api.LinkID]string // endpoint that answered last
}

// NewPeers returns a caller of linked zones.
func NewPeers(c PeerConfig) *Peers {
	return &Peers{conf: c, clients: map[api.LinkID]*http.Client{}, good: map[api.LinkID]string{}}
}

// Select asks a child for a plan. It may be repeated.
func (p *Peers) Select(ctx context.Context, l *api.Link, r *api.Request) (*api.SelectAnswer, error) {
	return peerCall[api.SelectAnswer](ctx, p, l, http.MethodPost, "/zones/select", r)
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

// Enrol sends an enrolment to the first of a parent's gateways that answers.
func Enrol(ctx context.Context, rt http.RoundTripper, now func() time.Time, endpoints []string, e *api.Enrolment) (*api.Enrolment, error) {
	p := NewPeers(PeerConfig{
		Transport: func(*api.Link) http.RoundTripper { return rt },
		Depth:     func(context.Context) int { return 0 },
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
	var last error = api.Errorf(api.CodeUnavailable, "zone %q has no gateway address", l.Name)
	for _, e := range p.endpoints(l) {
		a := new(A)
		err := p.once(ctx, l, e, method, path, b, a)
		if err == nil {
			p.remember(l.ID, e)
			return a, nil
		}
		last = err
		if api.CodeOf(err) != api.CodeUnavailable || ctx.Err() != nil {
			break
		}
	}
	return nil, last
}

func (p *Peers) client(l *api.Link) *http.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.clients[l.ID]
	if !ok {
		c = &http.Client{
			Transport:     p.conf.Transport(l),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
		p.clients[l.ID] = c
	}
	return c
}

func (p *Peers) endpoints(l *api.Link) []string {
	p.mu.Lock()
	good := p.good[l.ID]
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

func (p *Peers) remember(id api.LinkID, endpoint string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.good[id] = endpoint
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
