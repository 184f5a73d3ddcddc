package capacity

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
)

// swapped is a claim that is being replaced by another.
type swapped struct{ from, to api.Claim }

// What the oracle has seen.
var swappedBeside, wholesGranted, wholesKept int

// firm returns every claim that may count on a provider.
func (m *model) firm(id api.HostID) []api.Claim {
	out := slices.Clone(m.held[id])
	for _, s := range m.swaps[id] {
		out = append(out, s.from, s.to)
	}
	return out
}

// instants returns the moments of a span, from now on, at which something may begin there.
func (m *model) instants(id api.HostID, w api.Window) []api.Instant {
	out := []api.Instant{max(w.Start, m.now)}
	for _, c := range m.firm(id) {
		if s := c.Window.Start; s > out[0] && s < w.End {
			out = append(out, s)
		}
	}
	return out
}

// oneOf draws a provider that is of use, or id if there is none.
func (m *model) oneOf(t *rapid.T, id api.HostID, use func(api.HostID) bool) api.HostID {
	list := slices.DeleteFunc(slices.Sorted(maps.Keys(m.specs)), func(id api.HostID) bool { return !use(id) })
	if len(list) == 0 {
		return id
	}
	return rapid.SampledFrom(list).Draw(t, "one of")
}

// isWhole reports whether a claim over w would meet one of the whole host.
func (m *model) isWhole(id api.HostID, w api.Window, kind api.Class) bool {
	span := api.Window{Start: w.Start, End: w.End.Add(m.specs[id].Gap)}
	at := m.instants(id, span)
	if kind == api.Preemptible {
		at = []api.Instant{m.now}
	}
	for _, c := range m.firm(id) {
		if c.Whole && (slices.ContainsFunc(at, m.span(id, c).Contains) || kind == api.Preemptible && isClosed(c, m.now)) {
			wholesKept++
			return true
		}
	}
	return false
}

// isAloneIdle reports whether nothing is on a provider during a span that keeps kind out.
func (m *model) isAloneIdle(id api.HostID, span api.Window, kind api.Class) bool {
	for _, at := range m.instants(id, span) {
		for _, c := range m.firm(id) {
			if c.Class != api.Preemptible && m.span(id, c).Contains(at) {
				return false
			}
		}
	}
	return span.Start > m.now || kind == api.Preempting || !slices.ContainsFunc(m.held[id], func(c api.Claim) bool {
		return c.Class == api.Preemptible && m.span(id, c).End > m.now
	})
}

// isIdle reports whether a host and its tree are idle over w.
func (m *model) isIdle(id api.HostID, w api.Window, kind api.Class) bool {
	return !slices.ContainsFunc(m.tree(id), func(at api.HostID) bool {
		return !m.isAloneIdle(at, api.Window{Start: w.Start, End: w.End.Add(m.specs[at].Gap)}, kind)
	})
}

// stocked reports whether there is something of a host to claim.
func (m *model) stocked(id api.HostID) bool {
	return !m.specs[id].Passive && slices.ContainsFunc(m.tree(id), func(at api.HostID) bool {
		return slices.ContainsFunc(testClasses, func(c api.ResourceClass) bool { return m.capacity(at, c) > 0 })
	})
}

// placeWhole claims a whole host in both.
func (m *model) placeWhole(t *rapid.T, table *Table, id api.HostID) {
	c := drawClaim(t)
	_, known := m.specs[id]
	shares, all, err := table.PlaceWhole(id, c)
	switch code := api.CodeOf(err); {
	case !known || m.specs[id].Passive:
		require.Equal(t, api.CodeNotFound, code)
		return
	case c.Window.End <= m.now || c.Class == api.Preemptible:
		require.Equal(t, api.CodeInvalid, code)
		return
	case !m.isIdle(id, c.Window, c.Class) || !m.stocked(id):
		require.Equal(t, api.CodeNoCapacity, code)
		return
	}
	require.NoError(t, err)
	wholesGranted++
	row, _ := table.View().Row(id)
	require.Equal(t, all, table.View().WholeCapacity(row))
	c.Resources, c.Whole = all, true
	own := OwnPart(c, shares)
	m.held[id] = append(m.held[id], own)
	for _, class := range testClasses {
		require.Equal(t, m.capacity(id, class), own.Resources[class])
	}
	for _, sh := range shares {
		part := c
		part.Resources, part.Consumer = sh.Resources, lent
		m.held[sh.Provider] = append(m.held[sh.Provider], part)
	}
	for _, at := range m.tree(id) {
		for _, class := range testClasses {
			if n := m.capacity(at, class); at != id && n > 0 {
				i := slices.IndexFunc(shares, func(sh api.Share) bool { return sh.Provider == at })
				require.Equal(t, n, shares[i].Resources[class])
			}
		}
	}
}

// stepSwap begins or ends replacing a claim in both.
func (m *model) stepSwap(t *rapid.T, table *Table, id api.HostID) {
	if len(m.swaps[id]) > 0 && rapid.Bool().Draw(t, "end") {
		m.endSwap(t, table, id)
		return
	}
	held := m.held[id]
	if len(held) == 0 {
		require.Contains(t, []api.Code{api.CodeNotFound, api.CodeNoCapacity, api.CodeInvalid, ""}, api.CodeOf(table.View().FitsInstead(id, drawClaim(t), drawClaim(t))))
		return
	}
	i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
	from, to := held[i], drawClaim(t)
	if rapid.IntRange(0, 3).Draw(t, "like it") > 0 { // to fit more often
		to.Class = rapid.SampledFrom([]api.Class{api.Firm, api.Preempting}).Draw(t, "swapped class")
		for class, n := range to.Resources {
			to.Resources[class] = min(n, from.Resources[class]+1)
		}
	}
	to.Whole, to.Consumer = from.Whole, from.Consumer
	if to.Whole && rapid.Bool().Draw(t, "as before") {
		to.Resources = from.Resources
	}
	if from.Consumer != lent && from.Consumer != "" {
		m.outer++
		to.Consumer = api.InstanceID(fmt.Sprint("outer", m.outer))
	}
	want := m.fitsInstead(id, from, to)
	require.Equal(t, want, api.CodeOf(table.View().FitsInstead(id, from, to)), "%+v in place of %+v", to, from)
	require.Equal(t, want, api.CodeOf(table.Extend(id, from, to)))
	if want == "" {
		m.held[id] = slices.Delete(slices.Clone(held), i, i+1)
		m.swaps[id] = append(m.swaps[id], swapped{from, to})
		if len(held) > 1 {
			swappedBeside++
		}
	}
}

// endSwap ends replacing a claim in both.
func (m *model) endSwap(t *rapid.T, table *Table, id api.HostID) {
	list := m.swaps[id]
	i := rapid.IntRange(0, len(list)-1).Draw(t, "which")
	s := list[i]
	m.swaps[id] = slices.Delete(slices.Clone(list), i, i+1)
	if !rapid.Bool().Draw(t, "commit") {
		table.Shrink(id, s.to, s.from)
		m.held[id] = append(m.held[id], s.from)
		return
	}
	table.Shrink(id, s.from, s.to)
	m.held[id] = append(m.held[id], s.to)
	for n := range m.inner[id] {
		if m.inner[id][n].Within.Consumer == s.from.Consumer {
			m.inner[id][n].Within = &s.to
		}
	}
}

// fitsInstead looks at every instant at which anything may begin or end.
func (m *model) fitsInstead(id api.HostID, from, to api.Claim) api.Code {
	if from.Class == api.Preemptible || to.Class == api.Preemptible || to.Window.End <= m.now {
		return api.CodeInvalid
	}
	for at := m.now; at < m.now+80; at++ { // no drawn instant is later
		for _, class := range testClasses {
			var inner, most int64
			for _, o := range m.inner[id] {
				if o.Within.Consumer == from.Consumer && o.Class != api.Preemptible && o.Window.Contains(at) {
					inner += o.Resources[class]
				}
			}
			if to.Window.Contains(at) {
				most = to.Resources[class]
			}
			if inner > most {
				return api.CodeNoCapacity
			}
		}
	}
	for at := m.now; at < m.now+80; at++ {
		if !m.span(id, to).Contains(at) {
			continue
		}
		if to.Whole && !m.span(id, from).Contains(at) && !m.isAloneIdle(id, api.Window{Start: at, End: at + 1}, to.Class) {
			return api.CodeNoCapacity
		}
		for _, class := range testClasses {
			more := to.Resources[class] - m.takes(id, from, class, at)
			free := m.capacity(id, class) - m.firmAt(id, class, at)
			if at == m.now && to.Class != api.Preempting {
				free = m.capacity(id, class) - m.useNow(id, class)
			}
			if more > max(free, 0) {
				return api.CodeNoCapacity
			}
		}
	}
	if !to.Whole && m.isWhole(id, to.Window, to.Class) {
		return api.CodeNoCapacity
	}
	for _, class := range testClasses {
		if n := to.Resources[class]; n > 0 && n != from.Resources[class] && !to.Whole && !m.specs[id].Inventory[class].Admits(n) {
			return api.CodeInvalid
		}
	}
	return ""
}

// One host with a device below it is claimed, replaced, reserved as a whole and used within,
// so that much of it succeeds.
func TestReplacingAgreesWithModel(t *testing.T) {
	swappedBeside, wholesGranted, wholesKept = 0, 0, 0
	least := 20
	if testing.Short() {
		least = 1
	}
	checkUntil(t, func() bool { return min(swappedBeside, wholesGranted, wholesKept) > least }, func(t *rapid.T) {
		table, m := NewTable(), newModel()
		m.putPlain(t, table)
		for range rapid.IntRange(20, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "op") {
			case 0:
				m.now += api.Instant(rapid.IntRange(0, 5).Draw(t, "later"))
				table.Advance(m.now)
			case 1:
				m.putPlain(t, table)
			case 2:
				m.placeWhole(t, table, "h")
			case 3:
				m.stepWithin(t, table, "h")
			case 4:
				if held := m.held["h"]; len(held) > 0 && !m.hasInner("h", held[0]) {
					table.Release("h", held[0])
					m.held["h"] = slices.Clone(held[1:])
				}
			case 5, 6:
				c := drawClaim(t)
				require.Equal(t, m.fits("h", c), api.CodeOf(table.Fits("h", c)))
				if table.Claim("h", c) == nil {
					m.held["h"] = append(m.held["h"], c)
				}
			default:
				m.stepSwap(t, table, "h")
			}
		}
		m.check(t, table.View())
	})
	require.Greater(t, swappedBeside, least, "claims were replaced beside others")
	require.Greater(t, wholesGranted, least, "whole hosts were claimed")
	require.Greater(t, wholesKept, least, "whole hosts kept others out")
}

// putPlain puts the host h, whose gap never changes, and its device.
func (m *model) putPlain(t *rapid.T, table *Table) {
	gap := time.Duration(rapid.IntRange(0, 2).Draw(t, "gap")) * time.Millisecond
	for _, s := range []Spec{{ID: "h", Up: true, Enabled: true, Pool: api.PoolShared}, {ID: "device", Parent: "h", Passive: true}} {
		s.Gap, s.Inventory = gap, map[api.ResourceClass]api.Inventory{}
		if old, known := m.specs[s.ID]; known {
			s.Gap = old.Gap
		}
		for _, class := range testClasses[:rapid.IntRange(2, 3).Draw(t, "classes")] {
			s.Inventory[class] = api.Inventory{Total: rapid.Int64Range(6, 10).Draw(t, "total"), MaxUnit: 8}
		}
		table.Put(s)
		m.specs[s.ID] = s
	}
}
