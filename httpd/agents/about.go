package agents

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"berth/api"
	"berth/internal/skew"
	"berth/zone/fleet"
)

// versionMax is the longest name of a release that is kept, in bytes.
const versionMax = 64

// readAbout reads what an agent tells of itself in the headers of a call. What cannot be is left out: the agent may be of any release.
func readAbout(h http.Header) (about fleet.About) {
	version := h.Get(api.HeaderVersion)
	if len(version) <= versionMax && !strings.ContainsFunc(version, func(r rune) bool { return r < ' ' || r > '~' }) {
		about.Version = version
	}
	var ahead, wrong int64
	if n, err := fmt.Sscanf(h.Get(api.HeaderSkew), "%d %d", &ahead, &wrong); n == 2 && err == nil && inMillis(ahead) && inMillis(wrong) && wrong >= 0 {
		about.Skew = &skew.Skew{Ahead: time.Duration(ahead) * time.Millisecond, Error: time.Duration(wrong) * time.Millisecond}
	}
	return about
}

// skewMax is the most that is believed of a clock.
const skewMax = 100 * 365 * 24 * time.Hour

// inMillis reports whether a number of milliseconds is at most skewMax.
func inMillis(n int64) bool { return n >= -skewMax.Milliseconds() && n <= skewMax.Milliseconds() }
