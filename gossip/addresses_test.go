package gossip

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var nobody = func(string) bool { return false }

// clocked returns a book and the clock that it reads.
func clocked() (*addressBook, *time.Time) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return newAddressBook("n-self", func() time.Time { return now }, ZoneTuning()), &now
}

func TestBookBacksOff(t *testing.T) {
	b, now := clocked()
	b.refreshEndpoints([]string{"y", "x"})
	assert.Equal(t, []string{"x", "y"}, b.dueEndpoints(nobody))
	began := *now
	var waits []time.Duration
	for last := began; len(waits) < 8; *now = now.Add(time.Second) {
		if len(b.dueEndpoints(nobody)) > 0 {
			waits = append(waits, now.Sub(last))
			last = *now
		}
	}
	assert.Equal(t, "[1s 2s 4s 8s 16s 30s 30s 30s]", fmt.Sprint(waits))

	b.noteAnswer("x", "n-x")
	*now = now.Add(time.Minute)
	assert.Equal(t, []string{"y"}, b.dueEndpoints(func(name string) bool { return name == "n-x" }))
	assert.Equal(t, []string{"x"}, b.dueEndpoints(nobody), "a member that went is tried at once")
}

func TestBookKnowsItself(t *testing.T) {
	b, now := clocked()
	b.refreshEndpoints([]string{"x"})
	b.dueEndpoints(nobody)
	b.noteAnswer("x", "n-self")
	*now = now.Add(selfRecheck - 1)
	assert.Empty(t, b.dueEndpoints(nobody))
	*now = now.Add(1)
	assert.Equal(t, []string{"x"}, b.dueEndpoints(nobody))
	_, changed := b.changedEndpoints()
	assert.False(t, changed, "its own endpoint is not worth keeping")
}

func TestBookLeads(t *testing.T) {
	b, _ := clocked()
	b.refreshEndpoints([]string{"a", "b", "c", "d"})
	b.noteAnswer("a", "n-1")
	b.noteAnswer("c", "n-2")
	assert.Equal(t, []string{"c", "b", "d"}, b.endpointsOf("n-2"))
	assert.Equal(t, []string{"b", "d"}, b.endpointsOf("n-3"))
	b.noteFailure("a")
	assert.Equal(t, []string{"a", "b", "d"}, b.endpointsOf("n-3"))
	b.noteAnswer("gone", "n-9") // dialled before it was unlisted
	b.noteFailure("gone")
	assert.Empty(t, b.places["gone"])
}

func TestBookKeepsWhatWasGood(t *testing.T) {
	b, now := clocked()
	b.restoreEndpoints([]string{"old"})
	b.refreshEndpoints([]string{"a", "b"})
	_, changed := b.changedEndpoints()
	assert.False(t, changed)
	b.noteAnswer("a", "n-1")
	got, changed := b.changedEndpoints()
	assert.True(t, changed)
	assert.Equal(t, []string{"a", "old"}, got)
	b.markChanged()
	_, changed = b.changedEndpoints()
	assert.True(t, changed, "a save that failed is repeated")
	b.refreshEndpoints(nil)
	assert.Equal(t, []string{"a", "old"}, b.dueEndpoints(nobody), "b never answered and is not listed")

	for i := range PeersKeptMax {
		*now = now.Add(time.Second)
		e := fmt.Sprintf("e%02d", i)
		b.refreshEndpoints([]string{e})
		b.noteAnswer(e, "n-1")
	}
	got, _ = b.changedEndpoints()
	assert.Len(t, got, PeersKeptMax)
	assert.NotContains(t, got, "old", "the oldest gave way")
	assert.NotContains(t, got, "a")
}

func TestBookIsLimited(t *testing.T) {
	b, _ := clocked()
	long := strings.Repeat("x", endpointMaxBytes)
	list := []string{"", long, long + "x"}
	for i := range EndpointsMax {
		list = append(list, strconv.Itoa(i))
	}
	b.refreshEndpoints(list)
	assert.Len(t, b.places, EndpointsMax)
	assert.Contains(t, b.places, long)
	assert.NotContains(t, b.places, long+"x")
	c, _ := clocked()
	c.restoreEndpoints(list[3:])
	assert.Len(t, c.places, PeersKeptMax)
}

// known returns what memberlist would offer for a synthetic name.
func knownNode(name string) *memberlist.Node {
	return &memberlist.Node{Name: name, Addr: ipOf(name), Port: portOfAll, Meta: []byte{wireVersion}}
}

func TestRosterAdmits(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := &memberTable{now: func() time.Time { return now }, gone: func(string) {}, rows: map[string]row{}}
	name := SyntheticName("zone", "a")
	cases := map[string]func(*memberlist.Node){
		"name":    func(n *memberlist.Node) { n.Name = "host-7.internal" },
		"address": func(n *memberlist.Node) { n.Addr = net.IPv4(10, 0, 0, 1) },
		"other's": func(n *memberlist.Node) { n.Addr = ipOf("n-other") },
		"port":    func(n *memberlist.Node) { n.Port = 22 },
		"version": func(n *memberlist.Node) { n.Meta = []byte{wireVersion + 1} },
		"no meta": func(n *memberlist.Node) { n.Meta = nil },
		"meta":    func(n *memberlist.Node) { n.Meta = append([]byte{wireVersion}, make([]byte, metaMaxBytes)...) },
	}
	for what, change := range cases {
		n := knownNode(name)
		change(n)
		require.Error(t, r.NotifyAlive(n), what)
	}
	n := knownNode(name)
	n.Meta = append(n.Meta, make([]byte, metaMaxBytes-1)...)
	require.NoError(t, r.NotifyAlive(n), "meta at the limit")

	for i := range membersMax {
		n := knownNode(SyntheticName("zone", strconv.Itoa(i)))
		require.NoError(t, r.NotifyAlive(n))
		r.NotifyJoin(n)
		r.NotifyUpdate(n)
	}
	extra := knownNode(name)
	require.ErrorIs(t, r.NotifyAlive(extra), errFull)
	first := knownNode(SyntheticName("zone", "0"))
	require.NoError(t, r.NotifyAlive(first), "who is in is welcome")
	r.NotifyLeave(first)
	now = now.Add(deadLocked)
	require.ErrorIs(t, r.NotifyAlive(extra), errFull)
	now = now.Add(1)
	require.NoError(t, r.NotifyAlive(extra), "the dead give way")
	assert.Equal(t, membersMax-1, r.countLive())
}
