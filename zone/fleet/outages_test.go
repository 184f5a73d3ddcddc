package fleet

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// TestEachOutageOfAHostIsOneLine: a host that goes down or comes back is named once, a new one is no news, and a line
// names so many.
func TestEachOutageOfAHostIsOneLine(t *testing.T) {
	s, index := state.New(), uint64(0)
	apply := func(c command.Command) {
		index++
		require.NoError(t, s.Apply(index, c).Err)
	}
	put := func(names ...string) {
		c := command.HostsPut{Agent: "a"}
		for _, n := range names {
			c.Hosts = append(c.Hosts, command.HostEntry{ID: api.HostID("id-" + n), Host: api.AgentHost{
				Name: n, Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}},
			}})
		}
		apply(c)
	}
	mark := func(st api.HostState, names ...string) {
		c := command.HostsState{State: st}
		for _, n := range names {
			c.Hosts = append(c.Hosts, api.HostID("id-"+n))
		}
		apply(c)
	}
	var b bytes.Buffer
	log := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	f, o := New(zone.New(zone.Config{Log: log, Now: func() time.Time { return time.Unix(0, 0) }}), nil), outages{}
	look := func(want string) {
		t.Helper()
		b.Reset()
		o.logChanges(t.Context(), f, s)
		assert.Equal(t, want, strings.TrimSpace(b.String()))
	}
	apply(command.Init{Zone: "z", Name: "zone"})
	put("h1", "h2")
	mark(api.HostDown, "h2")
	look("") // the first look
	mark(api.HostDown, "h1")
	look(`level=WARN msg="hosts are down" hosts=1 names=[h1]`)
	look("")
	mark(api.HostUp, "h2", "h1")
	look(`level=INFO msg="hosts are up again" hosts=2 names="[h1 h2]"`)
	put("h3")
	look("")

	var many []string
	for n := range namesMax + 1 {
		many = append(many, fmt.Sprintf("m%02d", n))
	}
	put(many...)
	look("")
	mark(api.HostDown, many[:namesMax]...)
	look(fmt.Sprintf(`level=WARN msg="hosts are down" hosts=%d names="%s"`, namesMax, fmt.Sprint(many[:namesMax])))
	mark(api.HostUp, many[:namesMax]...)
	o.logChanges(t.Context(), f, s)
	mark(api.HostDown, many...)
	look(fmt.Sprintf(`level=WARN msg="hosts are down" hosts=%d names="%s"`, namesMax+1, fmt.Sprint(many[:namesMax])))
}
