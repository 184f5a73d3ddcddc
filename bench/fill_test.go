package bench

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"berth/api"
	"berth/quota"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

var (
	fillHosts     = flag.Int("fill-hosts", 1_000, "hosts of the state that is filled; 10,000 for docs/performance.md")
	fillInstances = flag.Int("fill-instances", 20_000, "instances of the state that is filled; 1,000,000 for docs/performance.md")
)

const (
	fillStart = api.Instant(1_700_000_000_000)
	fillAgent = api.AgentID("agent")
	fillZone  = "7d0b4d0e-6a5e-4f62-9a4b-0a3c5f6e7d81"
)

// filler fills a state with hosts and boots, as a zone does: each command is written, read
// and applied. Ids are random, from a seed.
type filler struct {
	tb    testing.TB
	s     *state.State
	dice  *rand.Rand
	index uint64
	hosts []api.HostID
	next  int            // host of the next slot
	bytes map[string]int // of log, by kind of command
	read  command.Command
}

func newFiller(tb testing.TB) *filler {
	tb.Helper()
	f := &filler{tb: tb, s: state.New(), dice: rand.New(rand.NewPCG(1, 2)), bytes: map[string]int{}} //nolint:gosec // a seed, so that runs are alike
	f.apply("Init", command.Init{
		Stamp: f.stamp(), Zone: fillZone, Name: "zone", Config: api.ZoneConfig{PlanTTL: time.Minute},
		Admin: api.Token{ID: "t", Hash: []byte{1}, Expires: api.Forever},
		Epoch: command.Epoch{ID: []byte("e000"), Wrapped: []byte{2}}, CA: []byte{3}, CAKey: []byte{4},
	})
	f.apply("QuotaSet", command.QuotaSet{Stamp: f.stamp(), Set: quota.Limits{
		quota.Boots: quota.Unlimited, quota.Records: quota.Unlimited, quota.Data: quota.Unlimited,
	}})
	return f
}

func (f *filler) stamp() command.Stamp {
	return command.Stamp{At: fillStart + api.Instant(f.index/10)} //nolint:gosec // far below the limit
}

// uuid returns a random UUID.
func (f *filler) uuid() string {
	a, b := f.dice.Uint64(), f.dice.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48&0x3fff|0x8000, b&0xffffffffffff)
}

// apply writes, reads and applies a command.
func (f *filler) apply(kind string, c command.Command) state.Result {
	f.tb.Helper()
	f.index++
	return f.applyAfter(nil, kind, c)
}

// applyAfter is apply for a command that shares the entry of the one before it.
func (f *filler) applyAfter(before command.Command, kind string, c command.Command) state.Result {
	f.tb.Helper()
	b, err := command.EncodeAfter(before, c, api.FormNewest)
	if err != nil {
		f.tb.Fatal(err)
	}
	f.bytes[kind] += len(b)
	read, err := command.DecodeAfter(f.read, b, api.FormNewest)
	if err != nil {
		f.tb.Fatal(err)
	}
	f.read = read
	r := f.s.Apply(f.index, read)
	if r.Err != nil {
		f.tb.Fatal(r.Err)
	}
	return r
}

// addHosts adds hosts of three resource classes with two traits and four attributes, 500 at a
// time.
func (f *filler) addHosts(n int) {
	f.tb.Helper()
	for n > 0 {
		c := command.HostsPut{Stamp: f.stamp(), Agent: fillAgent}
		for range min(n, 500) {
			id := api.HostID(f.uuid())
			f.hosts = append(f.hosts, id)
			c.Hosts = append(c.Hosts, command.HostEntry{ID: id, Host: api.AgentHost{
				Name: fmt.Sprintf("host-%06d", len(f.hosts)), Driver: "fake", Pool: api.PoolShared,
				Inventory: map[api.ResourceClass]api.Inventory{
					api.VCPU: {Total: 64, AllocationRatio: 160_000}, api.MemoryMB: {Total: 1 << 20}, api.DiskGB: {Total: 1 << 20},
				},
				Traits:     []string{"CUSTOM_NVME", "HW_CPU_X86_AVX2"},
				Attributes: map[string]string{"arch": "x86_64", "rack": fmt.Sprintf("r%03d", len(f.hosts)%100), "price": "12", "driver": "fake"},
			}})
		}
		n -= len(c.Hosts)
		f.apply("HostsPut", c)
	}
}

// boot boots n instances with four pairs of metadata, on hosts in turn, until they are ACTIVE.
func (f *filler) boot(n int) {
	f.tb.Helper()
	req := api.Request{
		Reservation: api.ReservationID("r-" + f.uuid()[24:]), Project: "project-7", User: "someone", Class: api.Firm,
		Groups: []api.Group{{
			Count: n, Flavor: "m1.small", Resources: api.Resources{api.VCPU: 1, api.MemoryMB: 512, api.DiskGB: 10},
			ExtraSpecs: map[string]string{"hw:cpu_policy": "shared"},
		}},
		Window: api.Window{End: api.Forever},
	}
	meta := map[string]string{"role": "web", "env": "production", "owner": "team-blue", "ticket": "OPS-1234"}
	create := command.BootCreate{Stamp: f.stamp(), BootTerms: command.BootTerms{
		Digest: make([]byte, 32), Name: "web", Request: req, Min: n, Metadata: meta, Call: api.RequestID(f.uuid()),
		Instances: f.specs("web", n),
	}}
	f.apply("BootCreate", create)
	hold := command.Hold{
		Stamp: f.stamp(), ID: api.HoldID(f.uuid()[:32]), Attempt: 1, Request: req, Expires: api.Forever, Metadata: meta, Commit: true,
		Spares: [][]api.HostID{f.hosts[:min(len(f.hosts), 8)]},
		Outcome: &api.BootAttempt{Attempt: 1, Wanted: n, Zones: []api.ZoneOutcome{
			{Zone: "zone", Outcome: api.OutcomeAnswered, Wanted: n, Offered: n, Taken: n, Cost: int64(n)},
		}, Refusals: []api.Refusals{{Considered: len(f.hosts), Offering: len(f.hosts)}}, Offered: []api.Offer{{Wanted: n, Offered: n}}},
	}
	hold.Request.Since, hold.Request.Attempt = hold.At, 1
	for _, i := range create.Instances {
		hold.Slots = append(hold.Slots, command.Slot{Instance: i, Host: f.hosts[f.next%len(f.hosts)]})
		f.next++
	}
	if r := f.applyAfter(create, "Hold", hold); len(r.Hold.Refused) > 0 {
		f.tb.Fatal("slots were refused")
	}
	for from := 0; from < n; from += api.ReportsMax {
		report := command.InstanceReport{Stamp: f.stamp(), Agent: fillAgent}
		for _, sl := range hold.Slots[from:min(n, from+api.ReportsMax)] {
			report.Items = append(report.Items, api.InstanceReport{Host: sl.Host, Instance: sl.Instance.ID, Status: api.StatusActive, Stay: 1})
		}
		f.apply("InstanceReport", report)
	}
	f.s.Clone() // as a node does for its readers
}

// specs allots the identities of n instances.
func (f *filler) specs(name string, n int) []api.InstanceSpec {
	out := make([]api.InstanceSpec, n)
	base := f.uuid()[:32]
	for i := range out {
		out[i] = api.InstanceSpec{ID: api.InstanceID(fmt.Sprintf("%s%04x", base, i)), Name: name}
		if n > 1 {
			out[i].Name = fmt.Sprintf("%s-%d", name, i+1)
		}
	}
	return out
}

// heapBytes returns the memory in use.
func heapBytes() int64 {
	runtime.GC()
	runtime.GC() // what the first one has made free of finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // far below the limit
}

// BenchmarkFill fills a state by boots of one size and reports the bytes of log of a boot, of
// memory of a host and an instance, and of a snapshot for an instance, and how long it takes to
// take up an instance, to save, to load, and to publish a view.
func BenchmarkFill(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("count=%d", n), func(b *testing.B) {
			for b.Loop() {
				fill(b, n)
			}
		})
	}
}

func fill(b *testing.B, n int) {
	b.Helper()
	f := newFiller(b)
	empty := heapBytes()
	f.addHosts(*fillHosts)
	hosts := heapBytes()
	boots := max(*fillInstances/n, 1)
	began := time.Now()
	for range boots {
		f.boot(n)
	}
	took := time.Since(began)
	full := heapBytes()
	instances := float64(boots * n)
	b.ReportMetric(float64(hosts-empty)/float64(*fillHosts), "B/host")
	b.ReportMetric(float64(full-hosts)/instances, "B/instance")
	b.ReportMetric(float64(took.Nanoseconds())/instances, "ns/instance")
	for _, kind := range []string{"BootCreate", "Hold", "InstanceReport"} {
		b.ReportMetric(float64(f.bytes[kind])/float64(boots), "B/"+kind)
	}
	restart(b, f.s, instances)
}

// restart saves a state and loads it again.
func restart(b *testing.B, s *state.State, instances float64) {
	b.Helper()
	began := time.Now()
	v := s.Clone()
	b.ReportMetric(float64(time.Since(began).Microseconds()), "view-us")
	var saved bytes.Buffer
	began = time.Now()
	if err := v.Save(&saved); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(time.Since(began).Seconds()*1000, "save-ms")
	b.ReportMetric(float64(saved.Len())/instances, "snapshot-B/instance")
	before := heapBytes()
	began = time.Now()
	loaded, err := state.Load(bytes.NewReader(saved.Bytes()), api.FormNewest)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(time.Since(began).Seconds()*1000, "load-ms")
	b.ReportMetric(float64(heapBytes()-before)/instances, "loaded-B/instance")
	runtime.KeepAlive(&saved)
	if err := loaded.Save(io.Discard); err != nil {
		b.Fatal(err)
	}
	runtime.KeepAlive(s)
}
