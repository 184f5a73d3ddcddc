package lab

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// TestLife follows journals through every way in which an instance may be started
// again, and through what looks like one and is not.
func TestLife(t *testing.T) {
	const (
		never    = iota
		moves    // an operator moves instances
		restored // the zone was restored from a backup
	)
	const ran = "start h|running h|"
	for _, c := range []struct {
		name, lines string // "event host" or "start host fence 20s", one after the other
		may         int
		wrong       string // "" if nothing is
	}{
		{"a whole life", ran + "stop h|gone h", never, ""},
		{"two processes", ran + "running h", moves, "started twice"},
		{"started again after it was gone", ran + "gone h|start h|running h", never, "started twice"},
		{"brought back by a backup", ran + "gone h|start h|running h", restored, ""},
		{"moved", ran + "gone h|start g|running g", moves, ""},
		{"moved, and nobody moves", ran + "gone h|start g", never, "two hosts"},
		{"moved and not gone", ran + "start g", moves, "two hosts"},
		{"moved away and back before it was started there", ran + "gone h|start h|running h", moves, ""},
		{"moved away and back, twice", ran + "gone h|start h|running h|gone h|start h|running h", moves, ""},
		{"moved back and not gone", ran + "start h|running h", moves, "started twice"},
		{"moved back, and it had only ended", ran + "ended h|start h|running h", moves, "started twice"},
		{"moved back, and started twice there", ran + "gone h|start h|running h|running h", moves, "started twice"},
		{"runs without a start", ran + "gone h|running h", moves, "started twice"},
		{"moved back, and not gone when it is started elsewhere", ran + "gone h|start h|running h|start g", moves, "two hosts"},
		{"its agent was killed in a start, and finds nothing", ran + "gone h|start g|absent g|start h|running h", moves, ""},
		{"absent elsewhere", ran + "absent g|start g", moves, "two hosts"},
		{"stopped and started by its owner", ran + "halted h|ordered h|" + ran + "ended h|ordered h|start h|running h", never, ""},
		{"ordered while it runs", ran + "ordered h|start h|running h", never, "started twice"},
		{"stopped, and nobody has ordered a run", ran + "halted h|start h|running h", never, "started twice"},
		{"evacuated", "start h fence 20s|running h|start g|running g", never, ""},
		{"its fence has struck", "start h fence 20s|running h|fenced h|gone h|start h|running h", never, ""},
		{"a fence, and it is started twice", "start h fence 20s|running h|start h|running h", never, "started twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l Life
			var err error
			for _, text := range strings.Split(c.lines, "|") {
				f := strings.SplitN(text, " ", 3)
				e := entry{Event: f[0], Host: api.HostID(f[1])}
				if len(f) > 2 {
					e.Detail = f[2]
				}
				if l, err = l.afterEntry(e, c.may == restored, c.may == moves); err != nil {
					break
				}
			}
			if c.wrong == "" {
				require.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, c.wrong)
		})
	}
}
