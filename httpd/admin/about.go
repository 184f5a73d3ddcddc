package admin

import (
	"runtime"
	"runtime/debug"
	"slices"
)

// about is the answer of GET /debug/node: what a report of a defect needs to know of this process. It names no zone, no
// machine and no address.
type about struct {
	Version   string            `json:"version"`
	Go        string            `json:"go"`
	Processes int               `json:"processors"` // that it may use at once
	Module    string            `json:"module"`
	Settings  map[string]string `json:"settings"`     // of the build
	Modules   map[string]string `json:"dependencies"` // versions by path
	Log       aboutLog          `json:"log"`
}

// aboutLog is what the node knows of its log.
type aboutLog struct {
	Role       string            `json:"role"`
	Term       uint64            `json:"term"`
	Applied    uint64            `json:"applied"`             // index
	Lag        uint64            `json:"lag"`                 // entries that are here and not applied
	Waiting    int               `json:"waiting"`             // proposals
	Written    uint64            `json:"form_written"`        // in which the zone writes, as far as this node has applied its log
	Readable   uint64            `json:"form_readable"`       // newest form that all nodes read
	Voters     int               `json:"voters"`              // nodes of the zone
	Learners   int               `json:"learners"`            // nodes of the zone
	Silent     int               `json:"silent"`              // nodes that a leader has not heard
	Contact    *int64            `json:"contact_ms,omitzero"` // since a leader was heard; absent if none was
	Liveness   map[string]int    `json:"liveness"`            // nodes by what gossip says of them
	Failed     map[string]uint64 `json:"failed"`              // proposals by why
	StateBytes int64             `json:"state_bytes"`
}

// buildSettings are the settings of the build that are told; others may have paths of the machine that built it.
var buildSettings = []string{"-compiler", "-race", "-tags", "CGO_ENABLED", "GOAMD64", "GOARCH", "GOARM64", "GOOS", "vcs.modified", "vcs.revision", "vcs.time"}

// describe returns what there is to know of this process.
func (c *Config) describe() about {
	a := about{
		Version: c.Version, Go: runtime.Version(), Processes: runtime.GOMAXPROCS(0), Settings: map[string]string{}, Modules: map[string]string{},
	}
	if b, ok := debug.ReadBuildInfo(); ok {
		a.Module = b.Main.Path
		for _, s := range b.Settings {
			if slices.Contains(buildSettings, s.Key) {
				a.Settings[s.Key] = s.Value
			}
		}
		for _, d := range b.Deps {
			a.Modules[d.Path] = d.Version
		}
	}
	v := c.View()
	a.Log = aboutLog{
		Term: c.Term(), Applied: v.Index(), Written: uint64(v.Form()), Readable: uint64(c.Form()), StateBytes: v.SizeBytes(),
	}
	if c.Road == nil {
		return a
	}
	r := c.Road()
	l := &a.Log
	l.Role, l.Lag, l.Waiting, l.Voters, l.Learners, l.Silent, l.Liveness, l.Failed = r.Role, r.Lag, r.Waiting, r.Voters, r.Learners, r.Silent, r.Liveness, r.Failed
	if r.Heard {
		l.Contact = new(r.Contact.Milliseconds())
	}
	return a
}
