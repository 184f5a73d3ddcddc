package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"berth/agent"
	"berth/api"
	"berth/httpd/admin"
)

// metricsTimeout bounds each part of a call of an agent's metrics, and the end of those under way.
const metricsTimeout = 5 * time.Second

// isLoopback reports whether only this machine can call an address.
func isLoopback(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return ok && t.IP.IsLoopback()
}

// serveMetrics serves the metrics of an agent at an address until the returned function is called; "" for none.
func serveMetrics(addr string, ag *agent.Agent, log *slog.Logger) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr) // it lives as long as the agent
	if err != nil {
		return nil, api.Wrap(api.CodeInvalid, "berth", "--metrics-addr must be a free host:port of this machine: "+err.Error(), err)
	}
	s := &http.Server{
		Handler:           admin.NewAgent(admin.AgentConfig{Figures: ag.Figures, Now: readClock, Version: version, Profiles: isLoopback(ln.Addr())}),
		ReadHeaderTimeout: metricsTimeout, ReadTimeout: metricsTimeout, WriteTimeout: metricsTimeout, IdleTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			log.Warn("the metrics are no longer served", "error", err)
		}
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), metricsTimeout)
		defer cancel()
		_ = s.Shutdown(ctx) // a scrape that takes longer is cut
		<-done
	}, nil
}
