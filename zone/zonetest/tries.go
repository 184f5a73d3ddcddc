package zonetest

import (
	"cmp"
	"slices"
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

// EntryGoesWrong has the n-th proposal of a kind go wrong in a zone, from now on.
func (w *World) EntryGoesWrong(m *Member, k command.Kind, n int, what Mishap) {
	fell := make(chan struct{}, 1)
	m.Log.Recount()
	m.Log.When(func(kind command.Kind, count int) Mishap {
		if kind != k || count != n {
			return ""
		}
		if what == Deposed {
			fell <- struct{}{}
		}
		return what
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
