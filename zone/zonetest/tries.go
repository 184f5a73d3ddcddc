package zonetest

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"berth/internal/await"
	"berth/raftstore/command"
)

// Three returns a root, a middle and a leaf zone, with room for two each.
func Three(w *World) (root, mid, leaf *Member) {
	root = w.Zone("root", nil, 2)
	mid = w.Zone("mid", root, 2)
	leaf = w.Zone("leaf", mid, 2)
	return root, mid, leaf
}

// CallsTried bounds how often a call of one kind between two zones is disturbed:
// the first ones are the protocol, the rest is waiting for news.
const CallsTried = 6

// Tries lists the calls to disturb, in order.
func Tries(made map[Call]int) []Call {
	var out []Call
	for c, n := range made {
		for c.N = 1; c.N <= min(n, CallsTried); c.N++ {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Call) int {
		return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), a.N-b.N)
	})
	return out
}

// CallFault is a call between zones, and what befalls it.
type CallFault struct {
	Call  Call
	Fault Fault
}

// String names the case.
func (c CallFault) String() string {
	return fmt.Sprintf("%s %s to %s %d %s", c.Call.Op, c.Call.From, c.Call.To, c.Call.N, c.Fault)
}

// EachCall lists each way in which each of some calls can go wrong.
func EachCall(made []Call) (out []CallFault) {
	for _, c := range made {
		for _, f := range []Fault{Refused, Vanished, Silenced, CutOff, Repeated, Ghost} {
			out = append(out, CallFault{c, f})
		}
	}
	return out
}

// CallGoesWrong has a call go wrong from now on.
func (w *World) CallGoesWrong(c CallFault) {
	w.When(func(now Call) Fault {
		if now == c.Call {
			return c.Fault
		}
		return ""
	})
}

// EntryMishap is the N-th entry of a kind in the log of a zone, and what befalls its proposal.
type EntryMishap struct {
	Zone   int // in World.Zones
	Kind   command.Kind
	N      int
	Mishap Mishap
}

// String names the case.
func (e EntryMishap) String() string {
	return fmt.Sprintf("zone %d kind %d entry %d %s", e.Zone, e.Kind, e.N, e.Mishap)
}

// EachEntry lists each way in which proposals of some kinds can go wrong, and more if there are any: for each
// zone, of which counts has one, and the first entries of a kind up to most.
func EachEntry(counts []map[command.Kind]int, kinds []command.Kind, most int, more ...Mishap) (out []EntryMishap) {
	for i, has := range counts {
		for _, k := range kinds {
			for n := 1; n <= min(has[k], most); n++ {
				for _, what := range append([]Mishap{NotLeader, Unapplied, Unconfirmed, Doubled, Deposed, Delayed}, more...) {
					out = append(out, EntryMishap{i, k, n, what})
				}
			}
		}
	}
	return out
}

// Few returns few when tests run with -short, and all otherwise: how many worlds a test draws.
func Few(all, few int) int {
	if testing.Short() {
		return min(all, few)
	}
	return all
}

// EntryGoesWrong has a proposal go wrong, of those from now on.
func (w *World) EntryGoesWrong(e EntryMishap) {
	m := w.Zones[e.Zone]
	fell := make(chan struct{}, 1)
	m.Log.Recount()
	m.Log.When(func(kind command.Kind, count int) Mishap {
		if kind != e.Kind || count != e.N {
			return ""
		}
		if e.Mishap == Deposed {
			fell <- struct{}{}
		}
		return e.Mishap
	})
	w.Go(func() {
		select {
		case <-fell:
			await.Sleep(time.Second)
			m.Elect()
		case <-w.Ctx.Done():
		}
	})
}
