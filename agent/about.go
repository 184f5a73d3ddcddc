package agent

import (
	"net/http"
	"strconv"
	"time"

	"berth/api"
	"berth/internal/skew"
)

// about is what an agent tells the zone of itself with each call, and measures for that.
type about struct {
	home    string // see Config
	version string // see Config
	now     func() time.Time
	clock   skew.Best // to that of the zone's nodes
}

// write writes the headers of a call.
func (a *about) write(h http.Header) {
	if a.home != "" {
		h.Set(api.HeaderHome, a.home)
	}
	if a.version != "" {
		h.Set(api.HeaderVersion, a.version)
	}
	if s, known := a.skew(); known {
		h.Set(api.HeaderSkew, strconv.FormatInt(s.Ahead.Milliseconds(), 10)+" "+strconv.FormatInt(s.Error.Milliseconds(), 10))
	}
}

// skew returns by how much the clock of this machine is ahead of the zone's, if that is known.
func (a *about) skew() (skew.Skew, bool) {
	if a.now == nil {
		return skew.Skew{}, false
	}
	return a.clock.Skew(a.now())
}

// began returns when a call begins; zero without a clock.
func (a *about) began() time.Time {
	if a.now == nil {
		return time.Time{}
	}
	return a.now()
}

// read measures by the time in the headers of an answer. A node of an earlier release sends none.
func (a *about) read(h http.Header, began time.Time) {
	ms, err := strconv.ParseInt(h.Get(api.HeaderTime), 10, 64)
	if err != nil || a.now == nil {
		return
	}
	now := a.now()
	a.clock.Note(skew.Of(began, time.UnixMilli(ms), now), now)
}
