package agent

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"berth/internal/durable"
)

// namesFile has the names of the hosts that were served last, one per line.
const namesFile = "hosts"

// hostNames returns the names of the served hosts, sorted.
func (a *Agent) hostNames() []string {
	all := make([]string, len(a.conf.Hosts))
	for i, h := range a.conf.Hosts {
		all[i] = h.Name
	}
	slices.Sort(all)
	return all
}

// warnOfOthers logs a warning if hosts that were served before are not served now: their
// instances are left alone, and they are down.
func (a *Agent) warnOfOthers() {
	if a.root == nil {
		return
	}
	text, err := a.root.ReadFile(namesFile)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			a.conf.Log.Warn("names of the hosts of before cannot be read", "err", err)
		}
		return
	}
	now := a.hostNames()
	before := strings.Fields(string(text))
	left := slices.DeleteFunc(before, func(n string) bool { return slices.Contains(now, n) })
	if len(left) > 0 {
		a.conf.Log.Warn("this agent has served other hosts before, which are down until they are served again",
			"hosts", len(left), "first", left[0], "now", now[0])
	}
}

// keepNames writes the names of the served hosts. A failure only loses that warning.
func (a *Agent) keepNames() {
	if a.root == nil {
		return
	}
	if err := durable.ReplaceIn(a.root, namesFile, 0o600, []byte(strings.Join(a.hostNames(), "\n")+"\n")); err != nil {
		a.conf.Log.Warn("names of the hosts cannot be kept", "err", err)
	}
}
