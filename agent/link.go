package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"berth/api"
	"berth/internal/codec"
	"berth/internal/requestid"
)

// Limits of the agent's calls.
const (
	AddressesMax   = 64       // agent listeners to remember
	answerMaxBytes = 64 << 20 // one answer; the lists of 10,000 hosts fit
	dialTimeout    = 5 * time.Second
	connsMax       = 4 // one poll for work, one report, and spares for a change of node
)

// errMoved means that another node is the leader; the next call goes to it.
var errMoved = errors.New("another node leads")

// errElsewhere means that the zone hears this agent from another home.
var errElsewhere = errors.New("the agent runs elsewhere")

// link calls the zone's agent listeners, one of which belongs to the leader. It
// may be used from several goroutines.
type link struct {
	client *http.Client
	fixed  []string // addresses that are never forgotten
	about  about

	mu      sync.Mutex // guards what follows
	learned []string   // from the leader
	hinted  []string   // from the node that last redirected a call, whose view may be old
	current string
	stay    *stay    // at current
	form    api.Form // newest that the zone reads, from its last answer
}

// stay is the time in which calls go to one node.
type stay struct {
	over chan struct{} // closed at its end
	why  error         // set before over is closed: errMoved, or nil if a call failed
}

func newStay() *stay { return &stay{over: make(chan struct{})} }

func newLink(addresses []string, transport http.RoundTripper) *link {
	return &link{
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		fixed: addresses, current: addresses[0], stay: newStay(),
	}
}

// of returns l, which tells the zone of an agent.
func (l *link) of(c *Config) *link {
	l.about.home, l.about.version, l.about.now = c.Home, c.Version, c.Now
	return l
}

// newTransport returns a transport for HTTP/1.1 over mutual TLS.
func newTransport(conf *tls.Config, dial Dialer) *http.Transport {
	conf = conf.Clone()
	conf.NextProtos = []string{api.ALPNHTTP}
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	return &http.Transport{
		DialContext:         dial,
		TLSClientConfig:     conf,
		TLSHandshakeTimeout: dialTimeout,
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{}, // no HTTP/2
		DisableCompression:  true,
		MaxIdleConnsPerHost: connsMax,
		MaxConnsPerHost:     connsMax,
		IdleConnTimeout:     time.Minute,
	}
}

// postTo posts in to path at the presumed leader and decodes its
// answer into out. After a redirect, and after an error that another node may not have, the next call goes to
// another node, and so do calls that still wait for the same node. It returns errMoved
// for a redirect, and an api.Error for a refusal.
func (l *link) postTo(ctx context.Context, path string, in, out any) error {
	if err := l.checkForm(ctx, in); err != nil {
		return err
	}
	return l.post(ctx, path, in, out)
}

// checkForm refuses a message that the zone cannot read. Each answer has the newest form
// that the zone reads; if that of the last one is too old, an empty report asks again.
func (l *link) checkForm(ctx context.Context, in any) error {
	if l.formOfZone() >= api.FormNewest { // it reads everything
		return nil
	}
	need := api.Form(codec.NeededForm(in))
	if need <= l.formOfZone() {
		return nil
	}
	err := l.post(ctx, api.PathAgentReport, api.AgentReport{}, new(api.AgentAck))
	form := l.formOfZone()
	switch {
	case need <= form:
		return nil
	case err != nil:
		return err
	}
	return api.Errorf(api.CodeUnavailable, "this needs form %d, and the zone reads forms up to %d; upgrade its nodes first", need, form)
}

// formOfZone returns the newest form that the zone reads, from its last answer.
func (l *link) formOfZone() api.Form {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.form, api.FormFirst)
}

func (l *link) noteForm(form api.Form) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.form = form
}

func (l *link) post(ctx context.Context, path string, in, out any) error {
	body, err := codec.Marshal(in)
	if err != nil {
		return err
	}
	addr, stay := l.nextPlace()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-stay.over: // another call got no answer from this node, or was sent elsewhere: waiting is useless
			cancel(stay.why)
		case <-ctx.Done():
		}
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+addr+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", api.MediaCBOR)
	req.Header.Set("Accept", api.MediaCBOR)
	req.Header.Set(api.HeaderForm, api.FormNewest.String())
	l.about.write(req.Header)
	req.Header.Set(api.HeaderRequestID, string(requestid.Of(ctx)))
	began := l.about.began()
	resp, err := l.client.Do(req)
	if why := context.Cause(ctx); err != nil && errors.Is(why, errMoved) {
		return fmt.Errorf("calling %s: %w", addr, why)
	}
	if err != nil {
		l.leaveAddress(addr)
		return fmt.Errorf("calling %s: %w", addr, err)
	}
	l.about.read(resp.Header, began)
	l.noteForm(api.ParseForm(resp.Header.Get(api.HeaderForm)))
	defer func() { _ = resp.Body.Close() }() // the answer has been read
	answer, err := io.ReadAll(io.LimitReader(resp.Body, answerMaxBytes+1))
	if len(answer) > answerMaxBytes {
		err = fmt.Errorf("the answer has more than %d bytes", answerMaxBytes)
	}
	if err == nil {
		err = l.readAnswer(addr, resp, answer, out)
	} else {
		l.leaveAddress(addr)
	}
	if err != nil {
		return fmt.Errorf("calling %s: %w", addr, err)
	}
	return nil
}

// readAnswer decodes an answer, or returns the error that its status stands for.
func (l *link) readAnswer(addr string, resp *http.Response, answer []byte, out any) error {
	switch {
	case resp.StatusCode == http.StatusOK:
		if err := codec.Unmarshal(answer, out); err != nil {
			l.leaveAddress(addr)
			return err
		}
		return nil
	case resp.StatusCode == http.StatusMisdirectedRequest:
		return l.followLeader(addr, answer)
	case resp.StatusCode >= http.StatusInternalServerError:
		l.leaveAddress(addr)
	}
	return readRefusal(resp, answer)
}

// followLeader switches to the leader that a node has named.
func (l *link) followLeader(addr string, answer []byte) error {
	var to api.AgentRedirect
	if err := codec.Unmarshal(answer, &to); err != nil {
		l.leaveAddress(addr)
		return err
	}
	l.hintAddresses(to.Addresses)
	if !isDialable(to.Leader) || to.Leader == addr {
		l.leaveAddress(addr)
		return api.Errorf(api.CodeUnavailable, "the zone has no leader just now")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == addr { // no other call has left it already
		l.moveTo(to.Leader, errMoved)
	}
	return errMoved
}

// readRefusal reads the body of an error answer.
func readRefusal(resp *http.Response, answer []byte) error {
	var body api.ErrorBody
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // "" if it cannot be read
	var err error
	switch media {
	case api.MediaCBOR:
		err = codec.Unmarshal(answer, &body)
	case "application/json":
		err = json.Unmarshal(answer, &body)
	}
	if err != nil || body.Error.Code == "" {
		return fmt.Errorf("status %d without an error body", resp.StatusCode)
	}
	if resp.Header.Get(api.HeaderHome) != "" {
		return api.Wrap(body.Error.Code, "agent", body.Error.Message, errElsewhere)
	}
	return api.Errorf(body.Error.Code, "%s", body.Error.Message)
}

// nextAddress returns the address of the next call.
func (l *link) nextAddress() string {
	addr, _ := l.nextPlace()
	return addr
}

// nextPlace returns the address of the next call, and for how long calls should wait there.
func (l *link) nextPlace() (addr string, at *stay) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current, l.stay
}

// moveTo ends the calls that wait for the present node, and sends the next ones to another. The caller holds mu.
func (l *link) moveTo(addr string, why error) {
	l.current, l.stay.why = addr, why
	close(l.stay.over)
	l.stay = newStay()
}

// leaveAddress switches to the next address, unless another call has left addr already.
func (l *link) leaveAddress(addr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current != addr {
		return
	}
	all := slices.Clone(l.fixed)
	for _, a := range slices.Concat(l.learned, l.hinted) {
		if !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	l.moveTo(all[(slices.Index(all, addr)+1)%len(all)], nil)
}

// learnAddresses replaces the addresses learned from the leader and returns the usable
// ones. If there are none, nothing changes.
func (l *link) learnAddresses(addresses []string) []string {
	good := usableAddresses(addresses)
	if len(good) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.learned = good
	return good
}

// hintAddresses replaces the addresses named by nodes other than the leader. They are
// tried after the leader's and never replace those: a node that has just started may name
// former members.
func (l *link) hintAddresses(addresses []string) {
	good := usableAddresses(addresses)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hinted = good
}

// usableAddresses returns the addresses that can be dialled, without repeats, at most
// AddressesMax.
func usableAddresses(addresses []string) (good []string) {
	for _, a := range addresses {
		if isDialable(a) && len(good) < AddressesMax && !slices.Contains(good, a) {
			good = append(good, a)
		}
	}
	return good
}

// isDialable reports whether addr is just host:port.
func isDialable(addr string) bool {
	host, port, _ := net.SplitHostPort(addr) // both are empty after an error
	if host == "" || port == "" {
		return false
	}
	u, err := url.Parse("https://" + addr)
	return err == nil && u.Host == addr
}
