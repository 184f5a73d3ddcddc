package node

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/zone"
)

// heard is what gossip has of one zone.
type heard struct {
	age time.Duration
	ok  bool
}

// Digest implements zone.Digests.
func (h *heard) Digest(api.ZoneID) (api.Digest, time.Duration, bool) {
	return api.Digest{}, h.age, h.ok
}

// watched returns a node that only logs, to j, and a function that returns what it has logged since the last call.
func watched(now *time.Time) (n *Node, said func() string) {
	j := &journal{}
	log := slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	return &Node{log: log, now: func() time.Time { return *now }}, func() string {
		j.mu.Lock()
		defer j.mu.Unlock()
		defer j.all.Reset()
		return strings.TrimSpace(j.all.String())
	}
}

// TestASilentParentIsTwoLines: a parent that falls silent and comes back is named once each; a child is not this
// watch's business, and a link that is removed is forgotten.
func TestASilentParentIsTwoLines(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0).UTC()
	n, said := watched(&now)
	parent := []*api.Link{
		{ID: "l-1", Name: "region", Role: api.LinkParent, Zone: "z-1"},
		{ID: "l-2", Name: "site", Role: api.LinkChild, Zone: "z-2"},
	}
	w := parentWatch{began: now, silent: map[api.LinkID]time.Time{}}
	h := &heard{}
	look := func(age time.Duration, ok bool, links []*api.Link, want string) {
		t.Helper()
		h.age, h.ok = age, ok
		w.look(t.Context(), n, links, h)
		assert.Equal(t, want, said())
	}
	const silent = `level=WARN msg="parent is silent" link=region since=1970-01-01T00:16:40.000Z`
	now = now.Add(zone.LinkFresh)
	look(0, false, parent, "")
	now = now.Add(1)
	look(0, false, parent, silent)
	now = now.Add(time.Hour)
	look(time.Hour, true, parent, "")
	look(zone.LinkFresh/2+1, true, parent, "")
	look(zone.LinkFresh/2, true, parent, `level=INFO msg="parent is heard again" link=region silent_since=1970-01-01T00:16:40.000Z`)
	look(zone.LinkFresh, true, parent, "")
	now = time.Unix(1000, 0).Add(zone.LinkFresh + 1)
	look(zone.LinkFresh+1, true, parent, silent)
	look(0, false, nil, "")
	look(zone.LinkFresh+1, true, parent, silent)
}

// TestAZoneWithoutALeaderIsTwoLines: that no leader is known is logged after a while, once, and so is its end.
func TestAZoneWithoutALeaderIsTwoLines(t *testing.T) {
	t.Parallel()
	var now time.Time
	n, said := watched(&now)
	var w leaderWatch
	for _, c := range []struct {
		known bool
		cut   time.Duration
		want  string
	}{
		{false, leaderlessAfter - 1, ""},
		{true, 0, ""},
		{false, leaderlessAfter, `level=WARN msg="the zone has no leader" for=5s`},
		{false, time.Hour, ""},
		{true, 0, `level=INFO msg="the zone has a leader again"`},
		{true, 0, ""},
		{false, leaderlessAfter, `level=WARN msg="the zone has no leader" for=5s`},
	} {
		w.note(t.Context(), n, c.known, c.cut)
		assert.Equal(t, c.want, said(), "%+v", c)
	}
	n.dials.note("node-3", "10.0.0.3:7602", io.EOF)
	n.dials.note("node-2", "10.0.0.2:7602", io.EOF)
	w = leaderWatch{}
	w.note(t.Context(), n, false, leaderlessAfter)
	assert.Contains(t, said(), `unreached="node-2 at 10.0.0.2:7602, node-3 at 10.0.0.3:7602" hint="if they have all moved, start each node with --peer`)
	n.dials.note("node-2", "10.0.0.2:7602", nil)
	n.dials.note("node-3", "10.0.0.3:7602", nil)
	n.opts.Timing = patient
	w = leaderWatch{}
	w.note(t.Context(), n, false, leaderlessBeats*patient.Heartbeat-1)
	assert.Empty(t, said(), "elections of a zone with slow heartbeats take longer")
	w.note(t.Context(), n, false, leaderlessBeats*patient.Heartbeat)
	assert.NotEmpty(t, said())
	n.removed.Store(true)
	w = leaderWatch{}
	w.note(t.Context(), n, false, time.Hour)
	assert.Empty(t, said(), "it has been told that already")
}

// TestANormalStartWarnsOfNothing: a node that starts, leads and is joined logs no warning, and one line that says what it
// is and where.
func TestANormalStartWarnsOfNothing(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		h, j := newZone(t, "a"), &journal{}
		h.opts.Log = slog.New(slog.NewTextHandler(j, nil))
		h.opts.Timing = patient
		first := h.run()
		second := first.joined("node-2")
		second.opts.Log = h.opts.Log
		r := second.run()
		j.mu.Lock()
		all := j.all.String()
		j.mu.Unlock()
		for line := range strings.Lines(all) {
			assert.NotContains(t, line, "level=WARN")
			assert.NotContains(t, line, "level=ERROR")
		}
		for _, n := range []*running{first, r} {
			a := n.Addresses()
			want := `msg="node started" zone=a node=` + string(n.rec.Node) + " version=test dir=" + n.dir + " api=" + a.API + " gateway=" + a.Gateway +
				" nodes=" + a.Node + " agents=" + a.Agent + " admin=" + a.Admin + "\n"
			assert.Equal(t, 1, strings.Count(all, want), want)
		}
	})
}
