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
	"berth/internal/adminsock"
)

// metricsTimeout bounds each part of a call of an agent's metrics, and the end of those under way.
const metricsTimeout = 5 * time.Second

// serveAgent serves the metrics of an agent at an address, "" for none, and those and its profiles at the socket in its folder, until
// the returned function is called.
func serveAgent(addr, dir string, ag *agent.Agent, log *slog.Logger) (stop func(), err error) {
	c := admin.AgentConfig{Figures: ag.Figures, Now: readClock, Version: version}
	stops := []func(){}
	if addr != "" {
		ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr) // it lives as long as the agent
		if err != nil {
			return nil, api.Wrap(api.CodeInvalid, "berth", "--metrics-addr must be a free host:port of this machine: "+err.Error(), err)
		}
		stops = append(stops, serveMetrics(ln, admin.NewAgent(c), log))
	}
	if ln, err := adminsock.Listen(dir); err != nil {
		log.Error("the agent serves no profiles", "error", err)
	} else {
		stops = append(stops, serveMetrics(ln, admin.NewAgentLocal(c), log))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}, nil
}

// serveMetrics serves a handler until the returned function is called.
func serveMetrics(ln net.Listener, h http.Handler, log *slog.Logger) (stop func()) {
	s := &http.Server{
		Handler:           h,
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
	}
}
