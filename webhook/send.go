// Package webhook calls addresses outside of a zone: it signs what it sends, and refuses
// addresses that are not public unless the operator allows them, at the moment of the call.
//
// It knows neither events nor who owns a webhook, retries nothing, follows no redirect, and
// reads an answer only up to a limit.
package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"berth/api"
)

// Config holds what a Sender needs. All but Now and Networks may be nil.
type Config struct {
	Resolve  func(ctx context.Context, host string) ([]netip.Addr, error)      // nil asks the system
	Dial     func(ctx context.Context, network, addr string) (net.Conn, error) // of an IP address; nil is TCP
	Networks func() Networks                                                   // inner networks that are allowed now
	Roots    *x509.CertPool                                                    // nil for those of the system
	Now      func() time.Time
}

// Sender makes deliveries. It is safe for concurrent use.
type Sender struct {
	conf Config
	http *http.Client
}

// limits of one connection.
const (
	handshakeTimeout = 5 * time.Second
	idleTimeout      = 30 * time.Second
	idleMax          = 64
	headerMaxBytes   = 64 << 10 // of an answer
)

// New returns a Sender. It opens no connection.
func New(c Config) *Sender {
	if c.Resolve == nil {
		c.Resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
	s := &Sender{conf: c}
	s.http = &http.Client{
		Transport: &http.Transport{ // without a proxy: it would choose the address
			DialContext: s.dial, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.Roots, Time: c.Now},
			TLSHandshakeTimeout: handshakeTimeout, IdleConnTimeout: idleTimeout, MaxIdleConns: idleMax, MaxIdleConnsPerHost: 1,
			MaxResponseHeaderBytes: headerMaxBytes, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s
}

// Close closes connections that are idle.
func (s *Sender) Close() { s.http.CloseIdleConnections() }

// Delivery is one call of a webhook.
type Delivery struct {
	URL     string
	Secret  string
	Webhook api.WebhookID
	EventID string
	Kind    string
	Body    []byte // JSON
}

// Send makes one call, within api.WebhookTimeout. A nil error means that the other side has
// answered with a status of 200 to 299. Errors are *api.Error, with a sentence for the owner
// of the webhook that names nothing inside the zone; a call that failed may have arrived.
func (s *Sender) Send(ctx context.Context, d *Delivery) error {
	answer, err := s.Ask(ctx, &Question{
		URL: d.URL, Secret: d.Secret, Body: d.Body, Wait: api.WebhookTimeout,
		Header: map[string]string{HeaderEventID: d.EventID, HeaderKind: d.Kind, HeaderWebhook: string(d.Webhook)},
	})
	if err != nil {
		return err
	}
	return answer.CheckDone()
}

// Question is a call whose answer counts.
type Question struct {
	URL    string
	Secret string            // signs the call; "" for no signature
	Header map[string]string // besides those that every call has
	Body   []byte            // JSON
	Wait   time.Duration     // for the answer
}

// Answer is the answer to a call.
type Answer struct {
	Status int
	Body   []byte // at most api.WebhookAnswerMaxBytes of it
}

// CheckDone returns nil if the other side has done what it was told, by a status of 200 to
// 299, and else an error with a sentence for the owner of the call.
func (a *Answer) CheckDone() error {
	if a.Status/100 != 2 {
		return api.Errorf(api.CodeUnavailable, "it answered with status %d", a.Status)
	}
	return nil
}

// Ask makes one call, and returns its answer whatever the status. Errors are as those of Send:
// there was no answer.
func (s *Sender) Ask(ctx context.Context, q *Question) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, q.Wait)
	defer cancel()
	if err := s.conf.Networks().CheckURL(q.URL); err != nil { // what is allowed may have changed
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, q.URL, bytes.NewReader(q.Body))
	if err != nil {
		return nil, api.Errorf(api.CodeInvalid, "the address cannot be called")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "berth-webhook/1")
	if q.Secret != "" {
		req.Header.Set(HeaderSignature, Sign(q.Secret, s.conf.Now(), q.Body))
	}
	for name, value := range q.Header {
		req.Header.Set(name, value)
	}
	res, err := s.http.Do(req)
	if err != nil {
		return nil, failure(ctx, q.Wait, err)
	}
	defer func() { _ = res.Body.Close() }() // all that counts was read
	body, err := io.ReadAll(io.LimitReader(res.Body, api.WebhookAnswerMaxBytes))
	if err != nil {
		return nil, failure(ctx, q.Wait, err)
	}
	return &Answer{Status: res.StatusCode, Body: body}, nil
}

// dial connects to a host, by one of its addresses that is allowed. All addresses must be:
// a name that has also an inner one is not trusted with either.
func (s *Sender) dial(ctx context.Context, network, hostPort string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, fmt.Errorf("splitting an address: %w", err)
	}
	addrs := []netip.Addr{}
	if literal, no := netip.ParseAddr(host); no == nil {
		addrs = append(addrs, literal)
	} else if addrs, err = s.conf.Resolve(ctx, host); err != nil || len(addrs) == 0 {
		return nil, api.Wrap(api.CodeUnavailable, "webhook.Send", "its name cannot be resolved", err)
	}
	allowed := s.conf.Networks()
	for _, a := range addrs {
		if !allowed.Allow(a) {
			return nil, refuseAddress()
		}
	}
	for _, a := range addrs {
		var c net.Conn
		if c, err = s.conf.Dial(ctx, network, net.JoinHostPort(a.Unmap().String(), port)); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// failure returns the error of a call without an answer.
func failure(ctx context.Context, wait time.Duration, err error) error {
	var own *api.Error
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return api.Wrap(api.CodeTimeout, "webhook.Send", fmt.Sprintf("it did not answer within %s", wait), err)
	case errors.As(err, &unknown), errors.As(err, &name), errors.As(err, &invalid):
		return api.Wrap(api.CodeUnavailable, "webhook.Send", "its certificate is not valid", err)
	}
	return api.Wrap(api.CodeUnavailable, "webhook.Send", "there was no connection, or it broke", err)
}
