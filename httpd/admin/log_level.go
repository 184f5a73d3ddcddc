package admin

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/door"
	"berth/httpd/wire"
)

const pathLogLevel = "/log-level"

func logLevelRoutes() []door.Route {
	return []door.Route{
		{Method: http.MethodGet, Path: pathLogLevel, Read: api.ReadLocal},
		{Method: http.MethodPut, Path: pathLogLevel, Read: api.ReadLocal},
	}
}

// serveLogLevel serves GET and PUT /log-level, the level of the log of this process. It holds until the process ends or
// reads its configuration file again. The listener asks nobody who he is, so only programs of this machine may change it, and
// each change is a warning in the log.
func serveLogLevel(r chi.Router, c *Config) {
	if c.Level == nil {
		return
	}
	answer := func(w http.ResponseWriter) {
		wire.JSON(w, http.StatusOK, rest.LogLevel{Level: strings.ToLower(c.Level.Level().String())})
	}
	r.Get(pathLogLevel, func(w http.ResponseWriter, _ *http.Request) { answer(w) })
	r.Put(pathLogLevel, func(w http.ResponseWriter, req *http.Request) {
		var b rest.LogLevel
		err := checkLocal(req)
		if err == nil {
			err = wire.ReadJSON(req, api.BodyMaxBytes, &b)
		}
		if err == nil {
			err = changeLevel(req.Context(), c.Level, c.Log, b.Level, req.RemoteAddr)
		}
		if err != nil {
			wire.Refuse(w, req, err)
			return
		}
		answer(w)
	})
}

// checkLocal refuses a change by another machine, or by a page of a browser.
func checkLocal(r *http.Request) error {
	addr, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !addr.Addr().Unmap().IsLoopback() {
		return api.Errorf(api.CodeForbidden, "the level of the log is changed from the machine of the process alone; call it there by a loopback address")
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = strings.Trim(r.Host, "[]")
	}
	named, err := netip.ParseAddr(host)
	if r.Header.Get("Origin") != "" || host != "localhost" && (err != nil || !named.IsLoopback()) {
		return api.Errorf(api.CodeForbidden, "pages of browsers do not change the level of the log")
	}
	return nil
}

// changeLevel changes the level of a log, which says so at whichever of both levels shows more.
func changeLevel(ctx context.Context, level *slog.LevelVar, log *slog.Logger, name, by string) error {
	to, err := rest.LogLevel{Level: name}.Parse()
	if err != nil {
		return err
	}
	before := level.Level()
	level.Set(min(before, slog.Level(to), slog.LevelWarn))
	log.WarnContext(ctx, "the level of the log was changed", "before", strings.ToLower(before.String()), "now", name, "by", by)
	level.Set(slog.Level(to))
	return nil
}
