package agent

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/agent/driver"
	"berth/agent/driver/fake"
	"berth/api"
	"berth/internal/dice"
)

var changesHosts = []api.HostID{"h1", "h2"}

// changesList is the list of one host by instance; the value is the number of its stay.
type changesList map[api.InstanceID]uint64

// changesLists are the lists of all hosts, each with the generation at which it changed last.
type changesLists struct {
	at    map[api.HostID]uint64
	lists map[api.HostID]changesList
}

func (l changesLists) clone() changesLists {
	c := changesLists{maps.Clone(l.at), map[api.HostID]changesList{}}
	for h, list := range l.lists {
		c.lists[h] = maps.Clone(list)
	}
	return c
}

// changesWorld is a zone that answers with changes where it knows them, and the ledger of an agent.
// The zone keeps every state that it had, so that it can tell what the ledger should have.
type changesWorld struct {
	t    *rapid.T
	d    *fake.Driver
	b    *ledger
	term uint64
	gen  uint64
	from uint64 // changes after this generation are known
	log  []changesOne
	now  changesLists
	past map[uint64]changesLists // of this term, by generation
	was  map[uint64]changesLists // of the term before
	seen uint64                  // highest term that the agent has seen
	sent []changesAnswer         // that may come late, or again, or never
	gaps int                     // changes that came to a list without those before
}

// changesOne is a change of one instance in the list of a host.
type changesOne struct {
	gen      uint64
	host     api.HostID
	instance api.InstanceID
}

type changesAnswer struct {
	work  api.AgentWorkload
	asked question
}

func newChangesWorld(t *rapid.T) *changesWorld {
	d := fake.New(fake.Options{})
	w := &changesWorld{t: t, d: d, term: 1, gen: 1_000, from: 1_000, past: map[uint64]changesLists{}}
	w.now = changesLists{map[api.HostID]uint64{}, map[api.HostID]changesList{}}
	for _, h := range changesHosts {
		w.now.at[h], w.now.lists[h] = w.gen, changesList{}
	}
	w.past[w.gen] = w.now.clone()
	w.startAgent()
	return w
}

// startAgent begins with an empty ledger, as a new agent does.
func (w *changesWorld) startAgent() {
	w.b = newLedger(changesHosts, []driver.Driver{w.d, w.d})
	w.b.applyStates(w.d, 0, nil)
	w.seen = w.term
	w.sent = nil // no answer outlives the agent that asked
}

// change changes one instance in the list of a host.
func (w *changesWorld) change() {
	h := rapid.SampledFrom(changesHosts).Draw(w.t, "host")
	id := api.InstanceID(fmt.Sprint("i", rapid.IntRange(0, 3).Draw(w.t, "instance")))
	w.gen++
	w.now.at[h] = w.gen
	if _, is := w.now.lists[h][id]; is && rapid.Bool().Draw(w.t, "gone") {
		delete(w.now.lists[h], id)
	} else {
		w.now.lists[h][id] = w.gen
	}
	w.log = append(w.log, changesOne{w.gen, h, id})
	w.past[w.gen] = w.now.clone()
}

// answer answers what the agent asks now.
func (w *changesWorld) answer() changesAnswer {
	asked := w.b.nextQuestion()
	a := changesAnswer{asked: asked, work: api.AgentWorkload{Term: w.term, Generation: w.gen}}
	for _, h := range changesHosts {
		if w.now.at[h] <= asked.after {
			continue
		}
		hw := api.HostWorkload{Host: h, Generation: w.now.at[h]}
		changed := slices.Sorted(maps.Keys(w.now.lists[h]))
		if asked.after > 0 && asked.after >= w.from && rapid.IntRange(0, 4).Draw(w.t, "known") > 0 {
			hw.Since = asked.after
			changed = w.changedSince(h, asked.after)
		}
		for _, id := range changed {
			if stay, is := w.now.lists[h][id]; is {
				hw.Instances = append(hw.Instances, api.Workload{Instance: id, Stay: stay})
			} else {
				hw.Gone = append(hw.Gone, id)
			}
		}
		a.work.Hosts = append(a.work.Hosts, hw)
	}
	return a
}

// changedSince returns the instances that have changed in the list of a host after a generation, also
// those that came and went since: the agent may have a later list with them.
func (w *changesWorld) changedSince(h api.HostID, generation uint64) (out []api.InstanceID) {
	for _, c := range w.log {
		if c.host == h && c.gen > generation {
			out = append(out, c.instance)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// deliver has an answer come to the agent, which refuses those of lower terms.
func (w *changesWorld) deliver(a changesAnswer) {
	if a.work.Term < w.seen {
		return
	}
	if a.work.Term > w.seen {
		w.seen = a.work.Term
		w.b.beginTerm()
	}
	for _, hw := range a.work.Hosts {
		if hw.Since > 0 && !w.b.isCurrent(w.b.hosts[hw.Host], hw.Since) {
			w.gaps++
		}
	}
	w.b.applyLists(a.work, a.asked, time.Time{})
}

// newLeader begins a term. The new leader does not know what changed before it, and after a restore
// its lists are some of before, or others, and its generations may be lower or higher.
func (w *changesWorld) newLeader() {
	w.term++
	w.was = w.past
	w.past = map[uint64]changesLists{}
	switch rapid.IntRange(0, 2).Draw(w.t, "restored") {
	case 0: // the same log
		w.past = maps.Clone(w.was)
		w.from = rapid.SampledFrom([]uint64{w.from, w.gen}).Draw(w.t, "knows from")
		return
	case 1: // an earlier state, whose log goes on
		w.now = w.was[rapid.SampledFrom(slices.Sorted(maps.Keys(w.was))).Draw(w.t, "backup")].clone()
		w.gen++
	default: // a zone that was made anew from a backup
		w.now = w.was[rapid.SampledFrom(slices.Sorted(maps.Keys(w.was))).Draw(w.t, "backup")].clone()
		w.gen -= rapid.Uint64Range(0, 5).Draw(w.t, "index") // soon its generations are as high as those of before
	}
	for _, h := range changesHosts {
		w.now.at[h] = w.gen
	}
	w.from, w.log = w.gen, nil
	w.past[w.gen] = w.now.clone()
}

// restore loads a backup while the leader stays: everything counts as changed.
func (w *changesWorld) restore() {
	w.now = w.past[rapid.SampledFrom(slices.Sorted(maps.Keys(w.past))).Draw(w.t, "backup")].clone()
	w.gen++
	for _, h := range changesHosts {
		w.now.at[h] = w.gen
	}
	w.from, w.log = w.gen, nil
	w.past[w.gen] = w.now.clone()
}

// listOf returns the list of a host that the ledger has.
func (w *changesWorld) listOf(h api.HostID) changesList {
	out := changesList{}
	for id, e := range w.b.hosts[h].entries {
		if e.listed {
			out[id] = e.work.Stay
		}
	}
	return out
}

// check holds that each list of the agent is one that the zone had, as a whole: that of its generation.
func (w *changesWorld) check() {
	for _, h := range changesHosts {
		have := w.b.hosts[h]
		if !have.listed || have.generation == 0 || w.seen != w.term {
			continue
		}
		want, known := w.past[have.generation]
		require.True(w.t, known, "host %s, generation %d", h, have.generation)
		require.Equal(w.t, want.lists[h], w.listOf(h), "host %s, generation %d", h, have.generation)
	}
}

func (w *changesWorld) step() {
	switch rapid.IntRange(0, 14).Draw(w.t, "step") {
	case 0, 1, 2, 3:
		w.change()
	case 4, 5, 6:
		w.sent = append(w.sent, w.answer())
	case 7, 8, 9:
		if len(w.sent) > 0 {
			w.deliver(w.sent[rapid.IntRange(0, len(w.sent)-1).Draw(w.t, "arrives")])
		}
	case 10:
		switch rapid.IntRange(0, 2).Draw(w.t, "what") {
		case 0:
			w.restore()
		case 1:
			w.startAgent()
		case 2:
			w.b.after = 0 // registered again
		}
	case 11:
		w.deliver(w.answer())
	case 12, 13:
		w.newLeader()
		if rapid.Bool().Draw(w.t, "changes at once") {
			w.change()
			w.deliver(w.answer())
		}
	case 14: // the silence of the zone ends fences, and all lists are requested again
		w.b.lapses++
		w.b.after = 0
	}
	w.check()
}

// TestChangesOfLists plays random changes of lists, of which answers have only what changed, with answers
// that are lost, late, repeated or in any order, new leaders, restores and restarts. A list of the
// agent is always one that the zone had, and in the end it is the present one.
func TestChangesOfLists(t *testing.T) {
	gaps := 0
	play := func(t *rapid.T) {
		w := newChangesWorld(t)
		for range rapid.IntRange(20, 80).Draw(t, "steps") {
			w.step()
		}
		for range 3 { // one may have a gap, the next one has whole lists
			w.deliver(w.answer())
			w.check()
		}
		for _, h := range changesHosts {
			require.Equal(t, w.now.lists[h], w.listOf(h), "in the end")
		}
		require.Equal(t, w.gen, w.b.after)
		gaps += w.gaps
	}
	dice.Enough(t, func() { rapid.Check(t, play) }, func() string {
		if gaps == 0 {
			return "no answer had a gap"
		}
		return ""
	})
}

// TestChangesOfLaterLists: changes since a generation are applied to a list that is later. An instance that
// came and went in between is among those that are gone, because that list has it.
func TestChangesOfLaterLists(t *testing.T) {
	list := func(generation, since uint64, gone []api.InstanceID, ids ...api.InstanceID) api.HostWorkload {
		hw := api.HostWorkload{Host: "h1", Generation: generation, Since: since, Gone: gone}
		for _, id := range ids {
			hw.Instances = append(hw.Instances, api.Workload{Instance: id, Stay: 1})
		}
		return hw
	}
	for name, c := range map[string]struct {
		late, last api.HostWorkload // both answer a question after generation 5
		want       []api.InstanceID
	}{
		"came and went":      {list(6, 0, nil, "a", "b"), list(7, 5, []api.InstanceID{"b"}), []api.InstanceID{"a"}},
		"came":               {list(6, 5, nil, "b"), list(7, 5, nil, "b", "c"), []api.InstanceID{"a", "b", "c"}},
		"went and came":      {list(6, 5, []api.InstanceID{"a"}), list(7, 5, nil, "a"), []api.InstanceID{"a"}},
		"the later is first": {list(7, 5, []api.InstanceID{"a"}, "c"), list(6, 5, nil, "b"), []api.InstanceID{"c"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := fake.New(fake.Options{})
			b := newLedger(changesHosts, []driver.Driver{d, d})
			b.applyStates(d, 0, nil)
			first := b.nextQuestion()
			b.applyLists(api.AgentWorkload{Generation: 5, Hosts: []api.HostWorkload{list(5, 0, nil, "a")}}, first, time.Time{})
			asked := b.nextQuestion()
			for _, hw := range []api.HostWorkload{c.late, c.last} {
				b.applyLists(api.AgentWorkload{Generation: hw.Generation, Hosts: []api.HostWorkload{hw}}, asked, time.Time{})
			}
			assert.Equal(t, c.want, slices.Sorted(maps.Keys(b.hosts["h1"].entries)))
			assert.Equal(t, uint64(7), b.hosts["h1"].generation)
		})
	}
}

// TestChangesNeedTheirList: changes are applied to a list of their generation, or to a later one, and to no
// other; then all lists are requested.
func TestChangesNeedTheirList(t *testing.T) {
	d := fake.New(fake.Options{})
	b := newLedger(changesHosts, []driver.Driver{d, d})
	b.applyStates(d, 0, nil)
	answer := func(generation, since uint64, gone []api.InstanceID, listed ...api.Workload) {
		b.applyLists(api.AgentWorkload{Generation: generation, Hosts: []api.HostWorkload{{
			Host: "h1", Generation: generation, Since: since, Instances: listed, Gone: gone,
		}}}, b.nextQuestion(), time.Time{})
	}
	answer(5, 4, nil, work("a"))
	assert.Zero(t, b.after, "there is no list")
	assert.Nil(t, b.nextEntry(start))
	answer(5, 0, nil, work("a"), work("b"))
	assert.Equal(t, uint64(5), b.after)
	answer(7, 6, nil, work("c"))
	assert.Zero(t, b.after, "a change is missing")
	assert.Len(t, b.hosts["h1"].entries, 2)
	answer(7, 5, []api.InstanceID{"a", "never"}, work("c"))
	assert.Equal(t, uint64(7), b.after)
	assert.False(t, b.hosts["h1"].entries["b"] == nil || b.hosts["h1"].entries["c"] == nil)
	assert.Nil(t, b.hosts["h1"].entries["a"], "not listed any more")
	b.beginTerm()
	answer(9, 7, nil, work("d"))
	assert.Zero(t, b.after, "generations of another term are others")
	assert.Nil(t, b.hosts["h1"].entries["d"])
}
