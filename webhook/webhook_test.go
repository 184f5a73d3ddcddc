package webhook_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/webhook"
)

// TestAddressesThatAreNotPublic are refused unless the operator allows them.
func TestAddressesThatAreNotPublic(t *testing.T) {
	for addr, public := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "2606:4700::1111": true, "172.15.255.255": true, "172.32.0.0": true, "100.63.255.255": true, "100.128.0.0": true,
		"127.0.0.1": false, "127.9.9.9": false, "10.0.0.1": false, "172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false, "100.64.0.1": false,
		"0.0.0.0": false, "0.1.2.3": false, "255.255.255.255": false, "224.0.0.1": false, "198.18.0.1": false, "240.0.0.1": false, "192.0.0.8": false,
		"::1": false, "::": false, "fe80::1": false, "fe80::1%eth0": false, "fc00::1": false, "fd12::1": false, "ff02::1": false, "::ffff:10.0.0.1": false,
		"::ffff:8.8.8.8": true, "::10.0.0.1": false, "64:ff9b::a00:1": false, "2002:a00:1::": false, "2001:0:a00:1::": false, "2001:db8::1": false, "fec0::1": false,
	} {
		assert.Equal(t, public, webhook.Networks{}.Allow(netip.MustParseAddr(addr)), addr)
	}
	nets, err := webhook.ParseNetworks([]string{"10.1.0.0/16", "fd00:1::/32", "127.0.0.0/8"})
	require.NoError(t, err)
	for addr, allowed := range map[string]bool{
		"10.1.255.255": true, "10.2.0.0": false, "::ffff:10.1.0.1": true, "fd00:1::1": true, "fd00:2::1": false, "127.0.0.1": true, "::1": false, "8.8.8.8": true,
	} {
		assert.Equal(t, allowed, nets.Allow(netip.MustParseAddr(addr)), addr)
	}
	for _, bad := range []string{"", "10.0.0.1", "10.0.0.1/8", "x/8", "10.0.0.0/33"} {
		_, err := webhook.ParseNetworks([]string{bad})
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), bad)
	}
	most := make([]string, api.WebhookNetworksMax)
	for i := range most {
		most[i] = fmt.Sprintf("10.%d.0.0/16", i)
	}
	_, err = webhook.ParseNetworks(most)
	require.NoError(t, err)
	_, err = webhook.ParseNetworks(append(most, "10.200.0.0/16"))
	require.Error(t, err)
}

func TestURLs(t *testing.T) {
	local, err := webhook.ParseNetworks([]string{"127.0.0.0/8", "10.0.0.0/8"})
	require.NoError(t, err)
	long := "https://example.org/" + strings.Repeat("x", api.WebhookURLMaxBytes-len("https://example.org/"))
	for url, want := range map[string][2]bool{ // without and with those networks
		"https://example.org": {true, true}, "https://example.org:8443/a?b=c": {true, true}, "https://8.8.8.8/": {true, true}, long: {true, true},
		long + "x": {}, "http://example.org/": {}, "http://8.8.8.8/": {}, "ftp://example.org/": {}, "https://": {}, "https:///x": {}, "example.org": {},
		"https://a:b@example.org/": {}, "https://example.org/#x": {}, "https://exa mple.org/": {}, "": {}, "http://10.0.0.1/": {},
		"http://127.0.0.1:9/": {false, true}, "http://localhost:9/": {false, true}, "https://localhost/": {false, true}, "https://10.0.0.1/": {false, true},
		"https://[::1]/": {}, "https://169.254.169.254/latest": {},
	} {
		assert.Equal(t, want[0], webhook.Networks{}.CheckURL(url) == nil, "%.60s", url)
		assert.Equal(t, want[1], local.CheckURL(url) == nil, "%.60s", url)
	}
}

func TestSignatures(t *testing.T) {
	at, body := time.Unix(1_893_456_000, 0), []byte(`{"id":"4711-2"}`)
	signature := webhook.Sign("whsec_test", at, body)
	assert.Regexp(t, `^t=1893456000,v1=[0-9a-f]{64}$`, signature)
	require.NoError(t, webhook.Verify("whsec_test", signature, at, body))
	require.NoError(t, webhook.Verify("whsec_test", signature, at.Add(api.WebhookSignatureMaxAge), body))
	require.NoError(t, webhook.Verify("whsec_test", signature, at.Add(-api.WebhookSignatureMaxAge), body))
	for name, err := range map[string]error{
		"another secret": webhook.Verify("whsec_other", signature, at, body),
		"another body":   webhook.Verify("whsec_test", signature, at, append(body, ' ')),
		"too old":        webhook.Verify("whsec_test", signature, at.Add(api.WebhookSignatureMaxAge+time.Second), body),
		"too early":      webhook.Verify("whsec_test", signature, at.Add(-api.WebhookSignatureMaxAge-time.Second), body),
		"another time":   webhook.Verify("whsec_test", strings.Replace(signature, "t=1", "t=2", 1), at, body),
		"no time":        webhook.Verify("whsec_test", signature[len("t=1893456000,"):], at, body),
		"no signature":   webhook.Verify("whsec_test", "", at, body),
		"cut":            webhook.Verify("whsec_test", signature[:len(signature)-2], at, body),
	} {
		require.Error(t, err, name)
	}
	one, another := webhook.NewSecret(), webhook.NewSecret()
	assert.NotEqual(t, one, another)
	assert.LessOrEqual(t, len(webhook.NewSecret()), api.WebhookSecretMaxBytes)
}

// receiver is the other side of a webhook.
type receiver struct {
	*httptest.Server
	got    []*http.Request
	bodies []string
	answer func(w http.ResponseWriter)
}

func newReceiver(t *testing.T, tls bool) *receiver {
	t.Helper()
	r := &receiver{answer: func(http.ResponseWriter) {}}
	h := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.got, r.bodies = append(r.got, req), append(r.bodies, string(body))
		r.answer(w)
	})
	if r.Server = httptest.NewUnstartedServer(h); tls {
		r.StartTLS()
	} else {
		r.Start()
	}
	t.Cleanup(r.Close)
	return r
}

// senderTo returns a sender for which the host example.com is a receiver. An address of the
// outside stands for it: the dialer leads there.
func senderTo(r *receiver, change ...func(*webhook.Config)) *webhook.Sender {
	c := webhook.Config{
		Now:      time.Now,
		Networks: func() webhook.Networks { return nil },
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("8.8.8.8")}, nil
		},
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, r.Listener.Addr().String())
		},
	}
	if r.TLS != nil {
		c.Roots = x509.NewCertPool()
		c.Roots.AddCert(r.Certificate())
	}
	for _, f := range change {
		f(&c)
	}
	return webhook.New(c)
}

func delivery(url string) *webhook.Delivery {
	return &webhook.Delivery{URL: url, Secret: "a-secret-of-mine-0", Webhook: "w1", EventID: "4711-2", Kind: "boot.created", Body: []byte(`{"id":"4711-2"}`)}
}

func TestSend(t *testing.T) {
	r := newReceiver(t, true)
	s := senderTo(r)
	defer s.Close()
	require.NoError(t, s.Send(t.Context(), delivery("https://example.com/hook?x=1")))
	require.Len(t, r.got, 1)
	h := r.got[0].Header
	assert.Equal(t, "POST /hook?x=1", r.got[0].Method+" "+r.got[0].URL.RequestURI())
	assert.Equal(t, []string{"4711-2", "boot.created", "w1", "application/json"}, []string{
		h.Get(webhook.HeaderEventID), h.Get(webhook.HeaderKind), h.Get(webhook.HeaderWebhook), h.Get("Content-Type"),
	})
	require.NoError(t, webhook.Verify("a-secret-of-mine-0", h.Get(webhook.HeaderSignature), time.Now(), []byte(r.bodies[0])))

	r.answer = func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }
	err := s.Send(t.Context(), delivery("https://example.com/"))
	require.ErrorContains(t, err, "status 500")
	r.answer = func(w http.ResponseWriter) {
		w.Header().Set("Location", "https://example.com/elsewhere")
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
	before := len(r.got)
	require.ErrorContains(t, s.Send(t.Context(), delivery("https://example.com/")), "status 307")
	assert.Len(t, r.got, before+1, "no redirect is followed")
	r.answer = func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, 10*api.WebhookAnswerMaxBytes)) }
	require.NoError(t, s.Send(t.Context(), delivery("https://example.com/")), "an endless answer is not read")
}

func TestSendRefusesWhatMayNotBeReached(t *testing.T) {
	r := newReceiver(t, true)
	inner := netip.MustParseAddr("10.0.0.1")
	for name, addrs := range map[string][]netip.Addr{
		"inner": {inner}, "also inner": {netip.MustParseAddr("8.8.8.8"), inner}, "metadata": {netip.MustParseAddr("169.254.169.254")},
		"here": {netip.MustParseAddr("::1")}, "none": nil,
	} {
		s := senderTo(r, func(c *webhook.Config) {
			c.Resolve = func(context.Context, string) ([]netip.Addr, error) { return addrs, nil }
		})
		require.Error(t, s.Send(t.Context(), delivery("https://example.com/")), name)
		s.Close()
	}
	assert.Empty(t, r.got, "although the address could be dialled")
	allowed := senderTo(r, func(c *webhook.Config) {
		c.Resolve = func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{inner}, nil }
		c.Networks = func() webhook.Networks { return webhook.Networks{netip.MustParsePrefix("10.0.0.0/8")} }
	})
	defer allowed.Close()
	require.NoError(t, allowed.Send(t.Context(), delivery("https://example.com/")))

	plain := newReceiver(t, false)
	s := senderTo(plain)
	defer s.Close()
	require.Error(t, s.Send(t.Context(), delivery("http://127.0.0.1/")), "it was allowed when the webhook was made")
	assert.Empty(t, plain.got)
}

// TestFailuresAreSafeToShow: the owner of a webhook learns nothing of the inside.
func TestFailuresAreSafeToShow(t *testing.T) {
	r := newReceiver(t, true)
	for want, change := range map[string]func(*webhook.Config){
		"its certificate is not valid": func(c *webhook.Config) { c.Roots = x509.NewCertPool() },
		"its name cannot be resolved": func(c *webhook.Config) {
			c.Resolve = func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("dns 10.0.0.53") }
		},
		"there was no connection, or it broke": func(c *webhook.Config) {
			c.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("via 10.0.0.1") }
		},
	} {
		s := senderTo(r, change)
		err := s.Send(t.Context(), delivery("https://example.com/"))
		assert.Equal(t, want, api.MessageOf(err))
		s.Close()
	}
}
