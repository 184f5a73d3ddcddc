package state

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state/table"
)

// checkPruned compares what a prune has deleted with what a scan of all records
// finds.
func checkPruned(tb require.TestingT, before, after *State, c command.Prune) {
	s := NewDraft(before).s // only records are deleted from it
	cut := func(origin api.LinkID) api.Instant {
		if origin != "" {
			return c.BeforeAbroad
		}
		return c.Before
	}
	deleteFirst(s.instances, c.Limit, func(i *api.Instance) bool { return !i.Live() && i.Updated < cut(i.Origin) })
	deleteFirst(s.holds, c.Limit, func(h *Hold) bool {
		before := cut(h.Origin)
		if h.neverArrived() {
			before = max(before, c.BeforeDead)
		}
		open := h.Origin == "" && s.undecided.Contains(h.owner().ID)
		return h.Decision != api.DecisionPending && h.Updated < before && h.isSettled() && !open && !s.anyLeft(h)
	})
	deleteFirst(s.boots, c.Limit, func(b *Boot) bool { return b.Final() && b.Updated < c.Before && !s.anyHold(b) && b.Refill == 0 })
	deleteFirst(s.plans, c.Limit, func(p planUse) bool { return p.Expires < c.Before })
	deleteFirst(s.joins, c.Limit, func(t *api.JoinToken) bool { return t.Expires < c.Before })
	deleteFirst(s.tokens, c.Limit, func(t *api.Token) bool { return t.Expires < c.Before })
	for name, pair := range map[string][2][]string{
		"instances": {s.instances.Keys(), after.instances.Keys()}, "holds": {s.holds.Keys(), after.holds.Keys()},
		"boots": {s.boots.Keys(), after.boots.Keys()}, "plans": {s.plans.Keys(), after.plans.Keys()},
		"joins": {s.joins.Keys(), after.joins.Keys()}, "tokens": {s.tokens.Keys(), after.tokens.Keys()},
	} {
		require.Equal(tb, pair[0], pair[1], "%s after %#v", name, c)
	}
}

// deleteFirst deletes the first records, by key and at most limit, that ok picks.
func deleteFirst[V any](t table.Map[V], limit int, ok func(V) bool) {
	for _, k := range firstKeys(t, limit, ok) {
		t.Delete(k)
	}
}

// TestPrunable compares it with a sort of all keys, at each limit.
func TestPrunable(t *testing.T) {
	var index table.Set
	index.Init()
	for n := range 200 {
		index.Insert(prunableKey(endClass(n%3), api.Instant(n*7919%50-20), fmt.Sprintf("k%03d", n*37%200)))
	}
	for _, limit := range []int{-1, 0, 1, 2, 5, 199, 200, 1000} {
		for _, before := range []api.Instant{-100, -20, 0, 7, 29, 30, api.Forever} {
			cutoffs := []cutoff{{endOwn, before}, {endDead, 5}}
			var want []string
			for _, k := range index.Keys() {
				for _, c := range cutoffs {
					if k[0] == byte(c.class) && k < prunableKey(c.class, c.before, "") {
						want = append(want, k[prunableKeyHead:])
					}
				}
			}
			slices.Sort(want)
			want = want[:min(len(want), max(limit, 0))]
			require.ElementsMatch(t, want, prunableKeys(&index, limit, cutoffs...), "limit %d, before %d", limit, before)
		}
	}
}
