package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"berth/api"
	"berth/api/rest"
)

// Limits of a Client.
const (
	TimeoutDefault  = 15 * time.Second // of one attempt, in addition to an intended wait
	dialTimeout     = 5 * time.Second  // of one connection
	snapshotTimeout = 10 * time.Minute // of moving a snapshot in either direction
	AnswerMaxBytes  = 16 << 20         // of one answer; a select of CountMax instances fits
	AttemptsMax     = 6                // attempts of one call that may be repeated
)

// linkPatience is the additional time for a zone to call another one, or a joining node.
const linkPatience = 30 * time.Second

// planBodyMaxBytes bounds a body with a sealed plan, which is base64 in JSON.
var planBodyMaxBytes = api.BodyMaxBytes + base64.StdEncoding.EncodedLen(api.BlobMaxBytes)

// Config configures the zone that a Client calls.
type Config struct {
	// Addr is https://host:port of any node; http:// only for a loopback address. Several addresses of nodes of
	// one zone, at most AddrsMax, stand behind each other with commas: when one does not answer, the next is tried.
	Addr    string
	Token   string           // bearer token; "" sends none
	CACert  []byte           // PEM of the CA to trust instead of the system's; not together with HTTP
	Timeout time.Duration    // of one attempt; 0 means TimeoutDefault
	HTTP    *http.Client     // optional; it must not follow redirects
	Now     func() time.Time // checks certificates; nil for the system's clock, and not used with HTTP
	Idle    int              // connections kept without a call, for many calls at once; 0 means http.DefaultMaxIdleConnsPerHost
}

// Client calls one zone. It is safe for concurrent use.
type Client struct {
	nodes   *nodes // where to call
	token   string
	timeout time.Duration
	http    *http.Client
	read    string        // kind of every read; "" for the zone's default
	project api.ProjectID // project of reservations; "" for the caller's
}

// Linearizable returns a client like c whose reads include everything that the zone
// acknowledged before them. Each costs the leader a round trip to a majority; the reads
// of c come from any node and may be old.
func (c *Client) Linearizable() *Client {
	fresh := *c
	fresh.read = "linearizable"
	return &fresh
}

// InProject returns a client like c whose calls on reservations, existing server groups
// and explanations apply to project p, which is for admins; with "" they apply to the
// caller's own. All other calls are unchanged.
func (c *Client) InProject(p api.ProjectID) *Client {
	other := *c
	other.project = p
	return &other
}

// New returns a Client, and an invalid-input error for an address or a CA
// certificate that cannot be used. It does not call the zone.
func New(cfg Config) (*Client, error) {
	n, err := parseNodes(cfg.Addr)
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(cfg.Token, "\r\n") {
		return nil, api.Errorf(api.CodeInvalid, "the token must be one line")
	}
	c := &Client{nodes: n, token: cfg.Token, timeout: cfg.Timeout, http: cfg.HTTP}
	if c.timeout <= 0 {
		c.timeout = TimeoutDefault
	}
	if c.http != nil {
		if len(cfg.CACert) > 0 {
			return nil, api.Errorf(api.CodeInvalid, "a CA certificate and an HTTP client cannot be given together")
		}
		return c, nil
	}
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS13, Time: cfg.Now}
	if len(cfg.CACert) > 0 {
		tlsConfig.RootCAs = x509.NewCertPool()
		if !tlsConfig.RootCAs.AppendCertsFromPEM(cfg.CACert) {
			return nil, api.Errorf(api.CodeInvalid, "the CA certificate holds no certificate in PEM")
		}
	}
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second,
			MaxIdleConnsPerHost: cfg.Idle,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// Close closes connections that are idle.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call is one call of the API.
type call struct {
	op      string      // for errors, such as "client.Boot"
	route   *rest.Route // nil for one of the placement API
	method  string
	path    []string // segments, not escaped
	query   url.Values
	in      any           // body, as JSON; nil for none
	key     string        // Idempotency-Key
	wait    time.Duration // wait requested of the zone
	limit   int           // of the body in bytes; 0 means that of the route, or api.BodyMaxBytes
	repeats bool          // a repeat is harmless
	ends    bool          // a repeat that gets not_found has succeeded

	// patience is the time that the zone may take beyond the timeout because of the work
	// of the call; unlike wait it is not requested.
	patience time.Duration

	placement bool     // it belongs to the placement API, which has its own versions and errors
	leases    bool     // it belongs to the reservation API, which has its own errors
	conflict  api.Code // code for a 409 of the placement API without a reason; "" means api.CodeConflict
	most      int      // bytes of the answer; 0 means AnswerMaxBytes
}

// Answer is the answer of a zone to one call.
type Answer struct {
	Body      []byte // JSON
	Index     uint64 // log index at which it was read; 0 if unknown
	RequestID api.RequestID
}

type answerKey struct{}

// WithAnswer returns a context with which see is called with each successful raw answer,
// before the calling method returns. It is for callers that show or store more than this
// package decodes.
func WithAnswer(ctx context.Context, see func(Answer)) context.Context {
	return context.WithValue(ctx, answerKey{}, see)
}

// doCall makes the call, repeating it if that is allowed and useful, and returns the
// body of the answer.
func (c *Client) doCall(ctx context.Context, q call) ([]byte, error) {
	body, err := encodeBody(q)
	if err != nil {
		return nil, err
	}
	target, err := c.targetOf(q)
	if err != nil {
		return nil, err
	}
	var pause pauses
	lost := false // an attempt may have succeeded, with its answer lost
	for attempt := 1; ; attempt++ {
		var answer Answer
		err := c.nodes.ask(func(node string) (err error) {
			answer, err = c.attemptOnce(ctx, q, node, target, body)
			return err
		})
		switch {
		case err == nil:
			if see, ok := ctx.Value(answerKey{}).(func(Answer)); ok {
				see(answer)
			}
			return answer.Body, nil
		case lost && q.ends && api.CodeOf(err) == api.CodeNotFound:
			return nil, nil
		case !q.repeats || attempt == AttemptsMax || !isPassing(err):
			return nil, afterLost(err, lost)
		}
		lost = lost || isUncertain(err)
		if pause.waitAfter(ctx, attempt, retryAfter(err)) != nil {
			return nil, api.Wrap(api.CodeTimeout, q.op, api.MessageOf(err), errors.Join(ctx.Err(), err))
		}
	}
}

// encodeBody returns the body of q, and refuses one that the zone would refuse for its
// size.
func encodeBody(q call) ([]byte, error) {
	if q.in == nil {
		return nil, nil
	}
	if !isText(reflect.ValueOf(q.in)) {
		return nil, notText(q.op)
	}
	body, err := json.Marshal(q.in)
	if err != nil {
		return nil, api.Wrap(api.CodeInvalid, q.op, "the request cannot be written as JSON", err)
	}
	limit := api.BodyMaxBytes
	switch {
	case q.limit != 0:
		limit = q.limit
	case q.route != nil:
		limit = int(q.route.BodyMax())
	}
	if len(body) > limit {
		return nil, api.Errorf(api.CodeTooLarge, "the request has %d bytes; at most %d are allowed", len(body), limit)
	}
	return body, nil
}

// targetOf returns the URL of q at any node, without the address of the node.
func (c *Client) targetOf(q call) (string, error) {
	var b strings.Builder
	for _, s := range q.path {
		if s == "" || s == "." || s == ".." {
			return "", api.Errorf(api.CodeInvalid, "%q cannot be a name or an id", s)
		}
		if !utf8.ValidString(s) {
			return "", notText(q.op)
		}
		b.WriteString("/" + url.PathEscape(s))
	}
	query := url.Values{}
	for k, v := range q.query {
		if !isText(reflect.ValueOf(v)) {
			return "", notText(q.op)
		}
		query[k] = v
	}
	if c.read != "" && q.method == http.MethodGet {
		query.Set("read", c.read)
	}
	if q.wait > 0 {
		query.Set("wait", min(q.wait, api.WaitMax).String())
	}
	if len(query) > 0 {
		b.WriteString("?" + query.Encode())
	}
	return b.String(), nil
}

// attemptOnce makes one attempt at one node.
func (c *Client) attemptOnce(ctx context.Context, q call, node, target string, body []byte) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout+min(q.wait, api.WaitMax)+q.patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, q.method, node+target, bytes.NewReader(body))
	if err != nil {
		return Answer{}, api.Wrap(api.CodeInvalid, q.op, "the request cannot be made", err)
	}
	c.signRequest(req)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if q.key != "" {
		req.Header.Set(api.HeaderIdempotencyKey, q.key)
	}
	if q.placement {
		req.Header.Set("OpenStack-API-Version", "placement "+PlacementVersion)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return Answer{}, unreachedError(ctx, node, q.op, err)
	}
	defer func() { _ = res.Body.Close() }() // read to its end, or given up
	most := cmp.Or(q.most, AnswerMaxBytes)
	got, err := io.ReadAll(io.LimitReader(res.Body, int64(most)+1))
	if err != nil {
		return Answer{}, unreachedError(ctx, node, q.op, err)
	}
	if len(got) > most {
		return Answer{}, api.Wrap(api.CodeTooLarge, q.op, "the answer is longer than "+strconv.Itoa(most)+" bytes", nil)
	}
	switch {
	case res.StatusCode/100 == 2:
	case q.placement:
		return Answer{}, placementRefusal(q, res, got)
	case q.leases:
		return Answer{}, leaseRefusal(q.op, res, got)
	default:
		return Answer{}, readRefusal(q.op, res, got)
	}
	index, _ := strconv.ParseUint(res.Header.Get(api.HeaderIndex), 10, 64) // 0 if it is absent
	return Answer{Body: got, Index: index, RequestID: api.RequestID(res.Header.Get(api.HeaderRequestID))}, nil
}

// signRequest adds the headers of every request.
func (c *Client) signRequest(req *http.Request) {
	req.Header.Set("Accept", "application/json")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
}
