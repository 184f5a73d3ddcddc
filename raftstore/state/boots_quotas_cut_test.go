package state

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/quota"
	"berth/raftstore/command"
)

// termsOf returns a boot of groups of some counts and minima, each instance of one VCPU.
func termsOf(counts, minima []int) command.BootTerms {
	t := command.BootTerms{Digest: []byte("d"), Name: "b", Request: request("r", 0)}
	one := t.Request.Groups[0]
	t.Request.Groups = nil
	for g := range counts {
		one.Name, one.Count, one.Min = fmt.Sprintf("g%d", g), counts[g], minima[g]
		t.Request.Groups = append(t.Request.Groups, one)
		t.Min += minima[g]
		t.Instances = append(t.Instances, specs(numbered(one.Name, counts[g])...)...)
	}
	return t
}

func countsOf(t *command.BootTerms) (out []int) {
	for g := range t.Request.Groups {
		out = append(out, t.Request.Groups[g].Count)
	}
	return out
}

// TestCutToQuota: a boot gets what its quotas allow, whatever they are of, and no less than its minima.
func TestCutToQuota(t *testing.T) {
	for name, c := range map[string]struct {
		limits         quota.Limits
		counts, minima []int
		edit           func(*command.BootTerms)
		want           []int
		item           string
	}{
		"all fit":               {quota.Limits{quota.Instances: 4}, []int{4}, []int{2}, nil, []int{4}, ""},
		"instances":             {quota.Limits{quota.Instances: 3}, []int{4}, []int{2}, nil, []int{3}, "instances"},
		"an amount":             {quota.Limits{quota.Instances.Of(api.VCPU): 2}, []int{4}, []int{2}, nil, []int{2}, "instances.VCPU"},
		"bytes":                 {quota.Limits{quota.Data: 41}, []int{4}, []int{1}, nil, []int{1}, "data"},
		"less than the minimum": {quota.Limits{quota.Instances: 1}, []int{4}, []int{2}, nil, []int{4}, ""},
		"all or nothing":        {quota.Limits{quota.Instances: 3}, []int{4}, []int{4}, nil, []int{4}, ""},
		"the first group first": {quota.Limits{quota.Instances: 5}, []int{4, 4}, []int{1, 2}, nil, []int{3, 2}, "instances"},
		"a group of none":       {quota.Limits{quota.Instances: 3}, []int{4, 4}, []int{1, 0}, nil, []int{3, 0}, "instances"},
		"nothing of anything":   {quota.Limits{quota.Instances: 0}, []int{4, 4}, []int{0, 0}, nil, []int{4, 4}, ""},
		"with volumes": {quota.Limits{quota.Volumes: 3}, []int{4, 4}, []int{2, 2}, func(b *command.BootTerms) {
			v := &b.Request.Groups[1]
			v.Volume, v.AttachTo, v.Flavor, v.Resources = "v", "g0", "", api.Resources{api.DiskGB: 1}
			b.Request.Zones.Pack = true
			b.Request.Rules = []api.Rule{{Policy: api.Affinity, Groups: []int{0, 1}, Pairs: true}}
		}, []int{3, 3}, "volumes"},
		"preemptible": {quota.Limits{quota.Preemptibles: 3, quota.Instances: 0}, []int{4}, []int{2}, func(b *command.BootTerms) { b.Request.Class, b.Request.Way = api.Preemptible, api.PreemptByHint }, []int{3}, "preemptibles"},
		"with a plan": {quota.Limits{quota.Instances: 3}, []int{4}, []int{2}, func(b *command.BootTerms) { b.Fixed = true }, []int{4}, ""},
		"in a lease":  {quota.Limits{quota.Instances: 3}, []int{4}, []int{2}, func(b *command.BootTerms) { b.Request.Within = "x" }, []int{4}, ""},
	} {
		w := newWorld(t)
		w.form = api.FormNewest
		w.limit("p", c.limits)
		asked := termsOf(c.counts, c.minima)
		if c.edit != nil {
			c.edit(&asked)
		}
		require.NoError(t, asked.Request.Validate(), name)
		got := w.s.CutToQuota(asked)
		assert.Equal(t, c.want, countsOf(&got), name)
		assert.Equal(t, c.counts, countsOf(&asked), "%s: what was asked for stays", name)
		if c.item == "" {
			assert.Nil(t, got.Cut, name)
			continue
		}
		assert.Equal(t, &command.QuotaCut{Asked: asked.Request.Count(), Item: c.item}, got.Cut, name)
		require.Len(t, got.Instances, got.Request.Count(), name)
		n := 0
		for g, count := range c.want {
			assert.Equal(t, specs(numbered(asked.Request.Groups[g].Name, c.counts[g])...)[:count], got.Instances[n:n+count], name)
			n += count
		}
	}
	w := newWorld(t)
	w.form = api.FormFourth
	w.limit("p", quota.Limits{quota.Instances: 3})
	asked := termsOf([]int{4}, []int{2})
	got := w.s.CutToQuota(asked)
	assert.Equal(t, asked, got, "a zone that writes an earlier form")
}

// TestCutToQuotaIsTheMost: it is what trying every count would find, group after group, and the log takes it.
func TestCutToQuotaIsTheMost(t *testing.T) {
	cut := 0
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		w.form = api.FormNewest
		number := func(name string, least, most int) int { return rapid.IntRange(least, most).Draw(rt, name) }
		w.limit("p", quota.Limits{quota.Instances: int64(number("limit", 0, 12)), quota.Instances.Of(api.VCPU): int64(number("vcpus", 0, 12))})
		if n := number("had", 0, 4); n > 0 {
			w.do(create(w.stamp(), "before", n, n))
		}
		var counts, minima []int
		for range number("groups", 1, 3) {
			counts = append(counts, number("count", 1, 6))
			minima = append(minima, number("min", 0, counts[len(counts)-1]))
		}
		asked := termsOf(counts, minima)
		fits := func(counts []int) bool {
			return w.s.CheckBootQuota(withCounts(&asked, counts)) == nil
		}
		want := slices.Clone(counts)
		if !fits(counts) && fits(minima) {
			best := slices.Clone(minima)
			for g := range best {
				for next := slices.Clone(best); next[g] < counts[g]; {
					if next[g]++; !fits(next) {
						break
					}
					best[g] = next[g]
				}
			}
			if sumOf(best) > 0 {
				want = best
			}
		}
		got := w.s.CutToQuota(asked)
		require.Equal(rt, want, countsOf(&got))
		if got.Cut != nil {
			cut++
			w.ok(command.BootCreate{Stamp: w.stamp(), BootTerms: got})
		}
	})
	assert.True(t, cut > 0 || testing.Short(), "some are cut, but in a short test by chance alone")
}

func sumOf(all []int) (sum int) {
	for _, n := range all {
		sum += n
	}
	return sum
}
