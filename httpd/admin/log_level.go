package admin

import (
	"context"
	"log/slog"
	"net/http"
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
// reads its configuration file again. Each change is a warning in the log.
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
		err := wire.ReadJSON(req, api.BodyMaxBytes, &b)
		if err == nil {
			err = changeLevel(req.Context(), c.Level, c.Log, b.Level)
		}
		if err != nil {
			wire.Refuse(w, req, err)
			return
		}
		answer(w)
	})
}

// changeLevel changes the level of a log, which says so at whichever of both levels shows more.
func changeLevel(ctx context.Context, level *slog.LevelVar, log *slog.Logger, name string) error {
	to, err := rest.LogLevel{Level: name}.Parse()
	if err != nil {
		return err
	}
	before := level.Level()
	level.Set(min(before, slog.Level(to), slog.LevelWarn))
	log.WarnContext(ctx, "the level of the log was changed", "before", strings.ToLower(before.String()), "now", name)
	level.Set(slog.Level(to))
	return nil
}
