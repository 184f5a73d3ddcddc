package preempt_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/preempt"
)

var (
	cpu    = preempt.Key{Provider: "h1", Class: api.VCPU}
	memory = preempt.Key{Provider: "h1", Class: api.MemoryMB}
	disk   = preempt.Key{Provider: "pool", Class: api.DiskGB}
)

type amounts = map[preempt.Key]int64

func candidate(id api.InstanceID, gang string, start api.Instant, uses amounts) preempt.Candidate {
	return preempt.Candidate{ID: id, Gang: gang, Start: start, Uses: uses}
}

func ExampleChoose() {
	leave, enough := preempt.Choose(
		amounts{{Provider: "h1", Class: api.VCPU}: 3},
		[]preempt.Candidate{
			{ID: "a", Gang: "night batch", Start: 100, Uses: amounts{{Provider: "h1", Class: api.VCPU}: 2}},
			{ID: "b", Gang: "night batch", Start: 100, Uses: amounts{{Provider: "h1", Class: api.VCPU}: 2}},
			{ID: "c", Gang: "render", Start: 900, Uses: amounts{{Provider: "h1", Class: api.VCPU}: 2}},
			{ID: "d", Gang: "tests", Start: 950, Uses: amounts{{Provider: "h1", Class: api.VCPU}: 1}},
		}, 1000)
	fmt.Println(leave, enough) // one gang leaves, although two together are younger
	// Output:
	// [a b] true
}

func TestChoose(t *testing.T) {
	const now = 1000
	for name, c := range map[string]struct {
		missing    amounts
		candidates []preempt.Candidate
		leave      []api.InstanceID
		short      bool
	}{
		"nothing is missing": {
			amounts{cpu: 0, memory: -5}, []preempt.Candidate{candidate("a", "A", 0, amounts{cpu: 1})}, nil, false,
		},
		"no candidates": {amounts{cpu: 1}, nil, nil, true},
		"one that frees nothing stays": {
			amounts{cpu: 1},
			[]preempt.Candidate{candidate("a", "A", 0, amounts{memory: 9, cpu: -9}), candidate("b", "A", 0, amounts{cpu: 1})},
			[]api.InstanceID{"b"},
			false,
		},
		"exactly enough":  {amounts{cpu: 2}, []preempt.Candidate{candidate("b", "A", 0, amounts{cpu: 1}), candidate("a", "B", 0, amounts{cpu: 1})}, []api.InstanceID{"a", "b"}, false},
		"one is too few":  {amounts{cpu: 3}, []preempt.Candidate{candidate("b", "A", 0, amounts{cpu: 1}), candidate("a", "B", 0, amounts{cpu: 1})}, []api.InstanceID{"a", "b"}, true},
		"least run time":  {amounts{cpu: 1}, []preempt.Candidate{candidate("a", "A", 10, amounts{cpu: 1}), candidate("b", "B", 11, amounts{cpu: 1})}, []api.InstanceID{"b"}, false},
		"the lowest id":   {amounts{cpu: 1}, []preempt.Candidate{candidate("b", "A", 10, amounts{cpu: 1}), candidate("a", "A", 10, amounts{cpu: 1})}, []api.InstanceID{"a"}, false},
		"the lowest gang": {amounts{cpu: 1}, []preempt.Candidate{candidate("b", "A", 10, amounts{cpu: 1}), candidate("a", "B", 10, amounts{cpu: 1})}, []api.InstanceID{"b"}, false},
		"the youngest of those with equal run time": {
			amounts{cpu: 2},
			[]preempt.Candidate{
				candidate("a", "A", now-5, amounts{cpu: 1}), candidate("b", "A", now-5, amounts{cpu: 1}),
				candidate("c", "B", now-9, amounts{cpu: 1}), candidate("d", "B", now-1, amounts{cpu: 1}),
			},
			[]api.InstanceID{"c", "d"},
			false,
		},
		"a start to come loses no run time": {
			amounts{cpu: 1},
			[]preempt.Candidate{candidate("a", "A", now, amounts{cpu: 1}), candidate("b", "B", now+7, amounts{cpu: 1})},
			[]api.InstanceID{"b"},
			false,
		},
		"one gang rather than two younger ones": {
			amounts{cpu: 2},
			[]preempt.Candidate{
				candidate("a", "A", 1, amounts{cpu: 2}), candidate("b", "B", 999, amounts{cpu: 1}), candidate("c", "C", 999, amounts{cpu: 1}),
			},
			[]api.InstanceID{"a"},
			false,
		},
		"of one gang only as many as are needed, the youngest": {
			amounts{cpu: 2},
			[]preempt.Candidate{
				candidate("a", "A", 1, amounts{cpu: 1}), candidate("b", "A", 3, amounts{cpu: 1}), candidate("c", "A", 2, amounts{cpu: 1}),
			},
			[]api.InstanceID{"b", "c"},
			false,
		},
		"only the run time of those that would leave counts": {
			amounts{cpu: 1},
			[]preempt.Candidate{
				candidate("a", "A", 0, amounts{cpu: 1}), candidate("b", "A", 900, amounts{cpu: 1}), candidate("c", "B", 899, amounts{cpu: 1}),
			},
			[]api.InstanceID{"b"},
			false,
		},
		"the largest part first, then the one that is left": {
			amounts{cpu: 4},
			[]preempt.Candidate{
				candidate("a", "A", 999, amounts{cpu: 1}), candidate("b", "B", 1, amounts{cpu: 3}), candidate("c", "C", 998, amounts{cpu: 1}),
			},
			[]api.InstanceID{"a", "b"},
			false,
		},
		"a gang that is not needed in the end stays": {
			amounts{cpu: 4, memory: 4},
			[]preempt.Candidate{
				candidate("a", "A", 999, amounts{cpu: 3, memory: 3}), candidate("b", "B", 1, amounts{cpu: 4}), candidate("c", "C", 1, amounts{memory: 4}),
			},
			[]api.InstanceID{"b", "c"},
			false,
		},
		"several providers": {
			amounts{cpu: 1, disk: 100},
			[]preempt.Candidate{
				candidate("a", "A", 5, amounts{cpu: 1}), candidate("b", "A", 5, amounts{disk: 100}), candidate("c", "B", 6, amounts{cpu: 1, disk: 99}),
			},
			[]api.InstanceID{"a", "b"},
			false,
		},
		"what cannot be freed makes nobody else leave": {
			amounts{cpu: 1, memory: 100},
			[]preempt.Candidate{
				candidate("a", "A", 5, amounts{cpu: 1}), candidate("b", "A", 6, amounts{cpu: 1}), candidate("c", "B", 1, amounts{memory: 99}),
			},
			[]api.InstanceID{"b", "c"},
			true,
		},
		"the largest numbers": {
			amounts{cpu: math.MaxInt64},
			[]preempt.Candidate{
				candidate("a", "A", math.MinInt64, amounts{cpu: math.MaxInt64}), candidate("b", "B", math.MinInt64+1, amounts{cpu: math.MaxInt64}),
				candidate("c", "C", math.MinInt64, amounts{cpu: math.MaxInt64}), candidate("d", "C", math.MinInt64, amounts{cpu: math.MaxInt64}),
			},
			[]api.InstanceID{"b"},
			false,
		},
		"the largest numbers are not enough": {
			amounts{cpu: math.MaxInt64},
			[]preempt.Candidate{
				candidate("a", "A", math.MaxInt64, amounts{cpu: math.MaxInt64 - 2}), candidate("b", "B", 0, amounts{cpu: 1}),
			},
			[]api.InstanceID{"a", "b"},
			true,
		},
	} {
		leave, enough := preempt.Choose(c.missing, c.candidates, now)
		assert.Equal(t, c.leave, leave, name)
		assert.Equal(t, !c.short, enough, name)
	}
}

// TestChooseAgreesWithASlowOne compares the choice with one that computes everything anew at
// each step, and checks what the package promises of any choice.
func TestChooseAgreesWithASlowOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const now = 100
		keys := []preempt.Key{cpu, memory, disk}[:rapid.IntRange(1, 3).Draw(t, "keys")]
		missing := amounts{}
		for _, k := range keys {
			missing[k] = rapid.OneOf(rapid.Int64Range(0, 8), rapid.Just[int64](math.MaxInt64/3)).Draw(t, "missing")
		}
		var all []preempt.Candidate
		for i := range rapid.IntRange(0, 10).Draw(t, "candidates") {
			c := candidate(api.InstanceID(strconv.Itoa(i)), rapid.SampledFrom([]string{"A", "B", "C", "D", "E", "F"}).Draw(t, "gang"),
				api.Instant(rapid.IntRange(90, 102).Draw(t, "start")), amounts{})
			for _, k := range keys {
				c.Uses[k] = rapid.OneOf(rapid.Int64Range(-1, 4), rapid.Just[int64](math.MaxInt64/3)).Draw(t, "uses")
			}
			all = append(all, c)
		}
		leave, enough := preempt.Choose(missing, all, now)

		need := feasible(missing, all)
		require.Equal(t, frees(all, nil).cover(missing), enough)
		require.Equal(t, slowly(need, all, now), leave)

		left := func(c preempt.Candidate) bool { return !slices.Contains(leave, c.ID) }
		victims := slices.DeleteFunc(slices.Clone(all), left)
		gangs := map[string]bool{}
		require.True(t, frees(victims, nil).cover(need))
		for _, v := range victims {
			gangs[v.Gang] = true
			require.False(t, frees(victims, func(c preempt.Candidate) bool { return c.ID != v.ID }).cover(need), "%s is not needed", v.ID)
			require.False(t, frees(victims, func(c preempt.Candidate) bool { return c.Gang != v.Gang }).cover(need), "gang %s is not needed", v.Gang)
		}
		for _, c := range all {
			if frees(all, func(o preempt.Candidate) bool { return o.Gang == c.Gang }).cover(need) {
				require.LessOrEqual(t, len(gangs), 1, "gang %s is enough", c.Gang)
			}
		}

		shuffled := slices.Clone(all)
		rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)).Shuffle(len(all), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		again, _ := preempt.Choose(missing, shuffled, now)
		require.Equal(t, leave, again, "the order of the candidates counts")
	})
}

// total is what candidates free together, exactly: it has more bits than an amount.
type total map[preempt.Key][2]uint64

func (x total) cover(need amounts) bool {
	for k, n := range need {
		if n > 0 && x[k][0] == 0 && x[k][1] < uint64(n) {
			return false
		}
	}
	return true
}

// frees sums what the candidates that pass free; all pass if pass is nil.
func frees(cs []preempt.Candidate, pass func(preempt.Candidate) bool) total {
	out := total{}
	for _, c := range cs {
		if pass != nil && !pass(c) {
			continue
		}
		for k, n := range c.Uses {
			low, carry := bits.Add64(out[k][1], uint64(max(n, 0)), 0)
			out[k] = [2]uint64{out[k][0] + carry, low}
		}
	}
	return out
}

// feasible returns how much of what is missing all candidates can free.
func feasible(missing amounts, all []preempt.Candidate) amounts {
	need := amounts{}
	for k, n := range missing {
		if n <= 0 {
			continue
		}
		if need[k] = n; !frees(all, nil).cover(amounts{k: n}) {
			need[k] = int64(frees(all, nil)[k][1])
		}
	}
	return need
}

// group is some candidates that are compared with others.
type group []preempt.Candidate

// key returns what orders a group: its run time, its youngest and its name.
func (g group) key(now api.Instant) (lost int64, start api.Instant) {
	start = math.MinInt64
	for _, c := range g {
		lost += max(int64(now-c.Start), 0)
		start = max(start, c.Start)
	}
	return lost, start
}

// before orders groups of the given names: the one that rather leaves comes first.
func (g group) before(o group, name, other string, now api.Instant) int {
	l1, s1 := g.key(now)
	l2, s2 := o.key(now)
	return cmp.Or(cmp.Compare(l1, l2), cmp.Compare(s2, s1), cmp.Compare(name, other))
}

// trim drops candidates that are not needed, the most run time first.
func trim(need amounts, of group, now api.Instant) group {
	order := slices.SortedFunc(slices.Values(of), func(a, b preempt.Candidate) int {
		return group{b}.before(group{a}, string(b.ID), string(a.ID), now)
	})
	for _, c := range order {
		if others := slices.DeleteFunc(slices.Clone(of), func(o preempt.Candidate) bool { return o.ID == c.ID }); frees(others, nil).cover(need) {
			of = others
		}
	}
	return of
}

// slowly chooses as the package promises, computing everything anew at each step.
func slowly(need amounts, all []preempt.Candidate, now api.Instant) (leave []api.InstanceID) {
	byGang := map[string]group{}
	for _, c := range all {
		if slices.ContainsFunc(slices.Collect(maps.Keys(need)), func(k preempt.Key) bool { return c.Uses[k] > 0 }) {
			byGang[c.Gang] = append(byGang[c.Gang], c)
		}
	}
	left, picked := maps.Clone(need), []string{}
	for slices.ContainsFunc(slices.Collect(maps.Values(left)), func(n int64) bool { return n > 0 }) {
		best := bestOf(need, left, byGang, picked, now)
		picked = append(picked, best)
		for k := range left {
			if f := frees(byGang[best], nil)[k]; f[0] > 0 || f[1] >= uint64(left[k]) {
				left[k] = 0
			} else {
				left[k] -= int64(f[1])
			}
		}
	}
	slices.SortFunc(picked, func(a, b string) int { return byGang[b].before(byGang[a], b, a, now) })
	together := func(names []string) (out group) {
		for _, n := range names {
			out = append(out, byGang[n]...)
		}
		return out
	}
	for _, name := range slices.Clone(picked) {
		if others := slices.DeleteFunc(slices.Clone(picked), func(o string) bool { return o == name }); frees(together(others), nil).cover(need) {
			picked = others
		}
	}
	for _, c := range trim(need, together(picked), now) {
		leave = append(leave, c.ID)
	}
	slices.Sort(leave)
	return leave
}

// bestOf returns the gang that leaves next.
func bestOf(need, left amounts, byGang map[string]group, picked []string, now api.Instant) string {
	part := func(g group) (sum uint64) {
		for k, n := range left {
			f := frees(g, nil)[k]
			freed := f[1]
			if f[0] > 0 || freed > uint64(n) {
				freed = uint64(n)
			}
			if freed > 0 {
				high, low := bits.Mul64(freed, 1<<32)
				whole, over := bits.Div64(high, low, uint64(need[k]))
				sum += whole + min(over, 1)
			}
		}
		return sum
	}
	var last, most []string
	for name, g := range byGang {
		if slices.Contains(picked, name) {
			continue
		}
		if frees(g, nil).cover(left) {
			last = append(last, name)
		}
		if len(most) > 0 && part(g) > part(byGang[most[0]]) {
			most = most[:0]
		}
		if len(most) == 0 || part(g) == part(byGang[most[0]]) {
			most = append(most, name)
		}
	}
	if len(last) > 0 {
		return slices.MinFunc(last, func(a, b string) int {
			return trim(left, byGang[a], now).before(trim(left, byGang[b], now), a, b, now)
		})
	}
	return slices.MinFunc(most, func(a, b string) int { return byGang[a].before(byGang[b], a, b, now) })
}

func BenchmarkChoose(b *testing.B) {
	const count = 1_000
	for name, gangs := range map[string]int{"alone": count, "gangs of 10": count / 10, "one gang": 1} {
		random := rand.New(rand.NewPCG(1, 0))
		all := make([]preempt.Candidate, count)
		for i := range all {
			all[i] = candidate(api.InstanceID(fmt.Sprintf("i%04d", i)), strconv.Itoa(i%gangs), api.Instant(random.IntN(1e6)),
				amounts{cpu: 1 + random.Int64N(8), memory: 1024 * (1 + random.Int64N(16)), disk: 10 * random.Int64N(9)})
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				preempt.Choose(amounts{cpu: 2 * count, memory: 4 * 1024 * count, disk: 10 * count}, all, 1e6)
			}
		})
	}
}
