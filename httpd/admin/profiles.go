package admin

import (
	"net/http"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/httpd/wire"
)

// Limits of profiles over a time.
const (
	ProfileDefault = 10 * time.Second // without ?seconds
	ProfileMax     = 60 * time.Second

	profileSlack = 30 * time.Second // for the answer itself, beyond that
)

// profileMount is where profiles are.
const profileMount = "/debug/pprof/"

// Profiles over a time, beside those of runtime/pprof, which are of an instant.
const (
	profileCPU   = "profile"
	profileTrace = "trace"
)

// mountProfiles serves what net/http/pprof does, but for the command line, and each profile over a time has an end.
// Two of one kind at once are refused. Profiles have names of functions and numbers, and no data.
func mountProfiles(r chi.Router) {
	r.Get(profileMount, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte(strings.Join(profileNames(), "\n") + "\n")) // the caller has gone if it fails
	})
	r.Get(profileMount+"{profile}", func(w http.ResponseWriter, r *http.Request) {
		if err := writeProfile(w, r, chi.URLParam(r, "profile")); err != nil {
			w.Header().Del("Content-Disposition")
			wire.Refuse(w, r, err)
		}
	})
}

// profileNames returns the names of all profiles.
func profileNames() []string {
	names := []string{profileCPU, profileTrace}
	for _, p := range pprof.Profiles() {
		names = append(names, p.Name())
	}
	slices.Sort(names)
	return names
}

// writeProfile answers with one profile. It fails before anything is written.
func writeProfile(w http.ResponseWriter, r *http.Request, name string) error {
	debug, err := numberIn(r, "debug", 0, 0, 2)
	if err != nil {
		return err
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	switch name {
	case profileCPU:
		return profileFor(w, r, func() error { return pprof.StartCPUProfile(w) }, pprof.StopCPUProfile)
	case profileTrace:
		return profileFor(w, r, func() error { return trace.Start(w) }, trace.Stop)
	}
	p := pprof.Lookup(name)
	if p == nil {
		return api.Errorf(api.CodeNotFound, "no such profile; those that there are: %s", strings.Join(profileNames(), ", "))
	}
	if debug > 0 {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Del("Content-Disposition")
	}
	_ = p.WriteTo(w, debug) // the caller has gone if it fails
	return nil
}

// profileFor answers with a profile over the time that the caller asks for, or until he goes.
func profileFor(w http.ResponseWriter, r *http.Request, start func() error, stop func()) error {
	seconds, err := numberIn(r, "seconds", int(ProfileDefault/time.Second), 1, int(ProfileMax/time.Second))
	if err != nil {
		return err
	}
	wait := time.Duration(seconds) * time.Second
	flow, end := http.NewResponseController(w), time.Now().Add(wait+profileSlack) //nolint:forbidigo // sockets know no other clock
	_, _ = flow.SetReadDeadline(end), flow.SetWriteDeadline(end)                  // a listener without deadlines needs none
	if err := start(); err != nil {
		return api.Errorf(api.CodeConflict, "such a profile is already being taken; ask again in at most %v", ProfileMax)
	}
	defer stop()
	over := time.NewTimer(wait)
	defer over.Stop()
	select {
	case <-over.C:
	case <-r.Context().Done():
	}
	return nil
}

// numberIn returns a number in the query, and otherwise the default.
func numberIn(r *http.Request, name string, otherwise, least, most int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, api.Errorf(api.CodeInvalid, "?%s must be %d to %d", name, least, most)
	}
	return n, nil
}
