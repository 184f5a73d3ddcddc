package state

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

const benchInstances = 100

func BenchmarkEncodeBootCreate(b *testing.B) {
	c := create(at(start), "r1", benchInstances, benchInstances)
	benchmarkEncode(b, c)
}

func BenchmarkEncodeHold(b *testing.B) {
	benchmarkEncode(b, hold(at(start), "k1", "r1", slots("h1", numbered("i", benchInstances)...)))
}

func benchmarkEncode(b *testing.B, c command.Command) {
	b.Helper()
	b.ReportAllocs()
	size := 0
	for b.Loop() {
		e, err := command.Encode(c, api.FormFirst)
		if err != nil {
			b.Fatal(err)
		}
		size = len(e)
	}
	b.ReportMetric(float64(size), "B/entry")
}

// inForms runs a benchmark without events and with: for entries of the first form and of
// the newest.
func inForms(b *testing.B, run func(b *testing.B, stamp command.Stamp)) {
	b.Helper()
	for _, form := range []api.Form{api.FormFirst, api.FormNewest} {
		b.Run(fmt.Sprintf("form=%d", form), func(b *testing.B) {
			b.ReportAllocs()
			run(b, stampIn(b, form))
		})
	}
}

// stampIn returns the stamp of commands that were read from entries of a form.
func stampIn(b *testing.B, form api.Form) command.Stamp {
	b.Helper()
	entry, err := command.Encode(command.Prune{Stamp: at(start)}, form)
	require.NoError(b, err)
	c, err := command.Decode(entry, form)
	require.NoError(b, err)
	return c.(command.Prune).Stamp //nolint:forcetypeassert // as it was written
}

// BenchmarkBoot is the life of a boot of 100 instances on 10 hosts, in a zone
// that publishes a view after each of its five entries.
func BenchmarkBoot(b *testing.B) { inForms(b, benchmarkBoot) }

func benchmarkBoot(b *testing.B, stamp command.Stamp) {
	b.Helper()
	s := New()
	s.Apply(1, initial())
	for i := range 10 {
		s.Apply(1, hostPut(stamp, "a1", fmt.Sprintf("h%d", i), benchInstances))
	}
	index := uint64(1)
	apply := func(c command.Command) {
		index++
		if r := s.Apply(index, c); r.Err != nil {
			b.Fatal(r.Err)
		}
		s.Clone()
	}
	n := 0
	for b.Loop() {
		n++
		res := fmt.Sprintf("r%d", n)
		ids := numbered(res, benchInstances)
		apply(create(stamp, res, benchInstances, benchInstances))
		h := hold(stamp, "k-"+res, res, nil)
		h.Commit = true
		active, gone := command.InstanceReport{Agent: "a1"}, command.InstanceReport{Agent: "a1"}
		for i, id := range ids {
			host := fmt.Sprintf("h%d", i%10)
			h.Slots = append(h.Slots, slots(host, id)...)
			active.Items = append(active.Items, reports(stamp, "a1", host, api.StatusActive, id).Items...)
			gone.Items = append(gone.Items, reports(stamp, "a1", host, api.StatusDeleted, id).Items...)
		}
		apply(h)
		apply(active)
		apply(command.BootRelease{Stamp: stamp, Project: "p", Reservation: api.ReservationID(res)})
		apply(gone)
	}
}

func large(b *testing.B) *State {
	b.Helper()
	s := New()
	s.Apply(1, initial())
	const instances, hosts = 100_000, 1000
	for i := range hosts {
		s.Apply(1, hostPut(at(start), "a1", fmt.Sprintf("h%d", i), instances/hosts))
	}
	for i := range instances / benchInstances {
		res := fmt.Sprintf("r%d", i)
		s.Apply(1, create(at(start), res, benchInstances, benchInstances))
		h := hold(at(start), "k-"+res, res, slots(fmt.Sprintf("h%d", i%hosts), numbered(res, benchInstances)...))
		h.Commit = true
		if r := s.Apply(uint64(i), h); r.Err != nil || len(r.Hold.Refused) > 0 {
			b.Fatal(r.Err)
		}
	}
	return s
}

func BenchmarkClone(b *testing.B) {
	s := large(b)
	b.ReportAllocs()
	for b.Loop() {
		s.Clone()
	}
}

// BenchmarkChangeAfterClone is what a view costs the next command.
func BenchmarkChangeAfterClone(b *testing.B) {
	s, index := large(b), uint64(1_000_000)
	inForms(b, func(b *testing.B, stamp command.Stamp) {
		b.Helper()
		up := reports(stamp, "a1", "h7", api.StatusActive, "r7-00000")
		down := reports(stamp, "a1", "h7", api.StatusShutoff, "r7-00000")
		for ; b.Loop(); index += 2 {
			s.Clone()
			s.Apply(index, up)
			s.Clone()
			s.Apply(index+1, down)
		}
	})
}

// manyProviders returns a zone of 10,000 providers of three classes.
func manyProviders(b *testing.B) *State {
	b.Helper()
	s := New()
	s.Apply(1, initial())
	have := inventory{api.VCPU: {Total: api.AmountMax}, api.MemoryMB: {Total: api.AmountMax}, api.DiskGB: {Total: api.AmountMax}}
	for i := range 10_000 {
		id := fmt.Sprintf("p%d", i)
		s.Apply(1, providerCreate(at(start), id, ""))
		if r := s.Apply(1, command.ProviderSet{Stamp: at(start), ID: api.ProviderID(id), Inventory: &have}); r.Err != nil {
			b.Fatal(r.Err)
		}
	}
	return s
}

// BenchmarkConsumersPut is a claim of three classes by a new consumer on one provider of
// 10,000, in a zone that publishes a view after each.
func BenchmarkConsumersPut(b *testing.B) {
	s := manyProviders(b)
	want := api.Resources{api.VCPU: 1, api.MemoryMB: 512, api.DiskGB: 10}
	for _, spread := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("over=%d", spread), func(b *testing.B) {
			b.ReportAllocs()
			for i := uint64(2); b.Loop(); i++ {
				e := command.ConsumerEntry{ID: api.ConsumerID(fmt.Sprintf("c%d-%d", spread, i)), Project: "p", User: "u", Generation: new(uint64)}
				e.Shares = []api.Share{{Provider: api.ProviderID(fmt.Sprintf("p%d", i%uint64(spread))), Resources: want}}
				if r := s.Apply(i, command.ConsumersPut{Stamp: at(start), Consumers: []command.ConsumerEntry{e}}); r.Err != nil {
					b.Fatal(r.Err)
				}
				s.Clone()
			}
		})
	}
}

// BenchmarkProvider is a look at one provider of 10,000.
func BenchmarkProvider(b *testing.B) {
	s := manyProviders(b).Clone()
	b.ReportAllocs()
	for b.Loop() {
		s.Provider("p77")
	}
}

// ended returns a zone with live instances, and with boots of 100 instances that
// ended one millisecond after the other.
func ended(b *testing.B, live, ended int) *State {
	b.Helper()
	s := New()
	s.Apply(1, initial())
	s.Apply(1, hostPut(at(start), "a1", "h1", int64(live+ended)))
	apply := func(c command.Command) {
		if r := s.Apply(s.Index()+1, c); r.Err != nil {
			b.Fatal(r.Err)
		}
	}
	for i := range (live + ended) / benchInstances {
		now := at(start + api.Instant(i))
		res := fmt.Sprintf("r%06d", i)
		ids := numbered(res, benchInstances)
		apply(create(now, res, benchInstances, benchInstances))
		h := hold(now, "k-"+res, res, slots("h1", ids...))
		h.Commit = true
		apply(h)
		if i < ended/benchInstances {
			apply(command.BootRelease{Stamp: now, Project: "p", Reservation: api.ReservationID(res)})
			apply(reports(now, "a1", "h1", api.StatusDeleted, ids...))
		}
	}
	return s
}

// BenchmarkPrune prunes a boot of 100 instances, beside as many live ones and as many
// that ended lately.
func BenchmarkPrune(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("live=%d/ended=%d", n, n), func(b *testing.B) {
			s := ended(b, n, n)
			prune := command.Prune{Stamp: at(start), Before: start + 1, Limit: 10_000}
			b.ReportAllocs()
			for b.Loop() {
				c := NewDraft(s.Clone()).s
				c.Apply(c.Index()+1, prune)
				if c.instances.Len() != s.instances.Len()-benchInstances {
					b.Fatal("pruned another number of instances")
				}
			}
		})
	}
}
