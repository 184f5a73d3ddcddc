// Package webhook calls addresses outside of a zone: it signs what it sends, and refuses
// addresses that are not public unless the operator allows them, at the moment of the call.
//
// It knows neither events nor who owns a webhook, retries nothing, follows no redirect and
// reads no answer.
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
	ctx, cancel := context.WithTimeout(ctx, api.WebhookTimeout)
	defer cancel()
	if err := s.conf.Networks().CheckURL(d.URL); err != nil { // what is allowed may have changed
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL, bytes.NewReader(d.Body))
	if err != nil {
		return api.Errorf(api.CodeInvalid, "the address cannot be called")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "berth-webhook/1")
	req.Header.Set(HeaderSignature, Sign(d.Secret, s.conf.Now(), d.Body))
	req.Header.Set(HeaderEventID, d.EventID)
	req.Header.Set(HeaderKind, d.Kind)
	req.Header.Set(HeaderWebhook, string(d.Webhook))
	res, err := s.http.Do(req)
	if err != nil {
		return failure(ctx, err)
	}
	defer func() { _ = res.Body.Close() }()                          // it is ignored
	_, _ = io.CopyN(io.Discard, res.Body, api.WebhookAnswerMaxBytes) // so that the connection can be used again
	if res.StatusCode/100 != 2 {
		return api.Errorf(api.CodeUnavailable, "it answered with status %d", res.StatusCode)
	}
	return nil
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
func failure(ctx context.Context, err error) error {
	var own *api.Error
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return api.Wrap(api.CodeTimeout, "webhook.Send", fmt.Sprintf("it did not answer within %s", api.WebhookTimeout), err)
	case errors.As(err, &unknown), errors.As(err, &name), errors.As(err, &invalid):
		return api.Wrap(api.CodeUnavailable, "webhook.Send", "its certificate is not valid", err)
	}
	return api.Wrap(api.CodeUnavailable, "webhook.Send", "there was no connection, or it broke", err)
}
