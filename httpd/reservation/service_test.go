package reservation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/webhook"
	"berth/zone/leasecheck"
)

// checkService is the external service of a zone, reached over connections in memory.
type checkService struct {
	mu     sync.Mutex // guards the fields below
	answer string     // a status, "slow" or "gone"
	body   string
	calls  []string // since the last time that they were shown

	dialed chan net.Conn
}

func newService() *checkService { return &checkService{answer: "204", dialed: make(chan net.Conn)} }

// check returns the checks of a zone that this is the service of, and what ends it.
func (s *checkService) check(tb testing.TB, w *talk) (c *leasecheck.Check, stop func()) {
	tb.Helper()
	nets, err := webhook.ParseNetworks([]string{"127.0.0.0/8"})
	require.NoError(tb, err)
	sender := webhook.New(webhook.Config{Dial: s.dial, Networks: func() webhook.Networks { return nets }, Now: time.Now})
	server := http.Server{Handler: s, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(s) }) // it ends with Close
	c = leasecheck.New(leasecheck.Config{Zone: w.Zone, Sender: sender, Token: func(c *api.LeaseCheck) (string, error) { return string(c.Token), nil }})
	return c, func() { sender.Close(); _ = server.Close(); wg.Wait() }
}

func (s *checkService) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	s.mu.Lock()
	gone := s.answer == "gone"
	s.mu.Unlock()
	if gone {
		return nil, errors.New("connection refused")
	}
	ours, theirs := net.Pipe()
	select {
	case s.dialed <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (s *checkService) Accept() (net.Conn, error) {
	if c, ok := <-s.dialed; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (s *checkService) Close() error { close(s.dialed); return nil }

// Addr implements net.Listener.
func (*checkService) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// ServeHTTP implements http.Handler.
func (s *checkService) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.calls = append(s.calls, fmt.Sprintf("%s token=%q %s", r.URL.Path, r.Header.Get("X-Auth-Token"), body))
	answer, text := s.answer, s.body
	s.mu.Unlock()
	if answer == "slow" {
		<-r.Context().Done()
		return
	}
	status := 0
	_, _ = fmt.Sscan(answer, &status) // else it is 0, and the server panics
	rw.Header().Set("Connection", "close")
	rw.WriteHeader(status)
	_, _ = io.WriteString(rw, text)
}

// set sets how it answers.
func (s *checkService) set(answer, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer, s.body = answer, body
}

// show returns what it was asked since the last time, and forgets it.
func (s *checkService) show() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, call := range s.calls {
		s.calls[i] = ids.ReplaceAllString(call, "UUID")
	}
	slices.Sort(s.calls) // those of a series come at once
	out := strings.Join(s.calls, "\n")
	s.calls = nil
	return out
}
