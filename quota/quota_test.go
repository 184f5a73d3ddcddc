package quota_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/quota"
)

func TestItems(t *testing.T) {
	for _, good := range []quota.Item{
		"leases", "hosts", "reserved", "instances", "preemptibles", "reserved.VCPU", "instances.MEMORY_MB", "preemptibles.CUSTOM_GPU", "boots", "records", "data", "server_groups",
	} {
		assert.True(t, good.Valid(), "%s", good)
	}
	for _, bad := range []quota.Item{"", "lease", "leases.VCPU", "hosts.", "reserved.", "reserved.vcpu", "reserved.VCPU.VCPU", ".VCPU", "Leases", "boots.VCPU", "data.VCPU"} {
		assert.False(t, bad.Valid(), "%s", bad)
	}
	assert.Equal(t, quota.Item("reserved.VCPU"), quota.Reserved.Of(api.VCPU))
}

func TestLimitsAreChecked(t *testing.T) {
	full := quota.Limits{}
	for i := range quota.ItemsMax {
		full[quota.Reserved.Of(api.ResourceClass(fmt.Sprintf("CUSTOM_%d", i)))] = 1
	}
	require.NoError(t, full.Validate())
	full[quota.Leases] = 1
	for says, bad := range map[string]quota.Limits{
		"at most 64 limits":         full,
		`there is no quota "cores"`: {"cores": 1},
		"leases must be 0 to 9007199254740992, or -1 for none, got -2": {quota.Leases: -2},
		"got 9007199254740993": {quota.Leases: quota.LimitMax + 1},
	} {
		err := bad.Validate()
		require.Equal(t, api.CodeInvalid, api.CodeOf(err))
		assert.Contains(t, api.MessageOf(err), says)
	}
	require.NoError(t, quota.Limits{quota.Leases: quota.Unlimited, quota.Hosts: 0, quota.Reserved.Of(api.VCPU): quota.LimitMax}.Validate())
	require.NoError(t, quota.Limits(nil).Validate())
}

func TestLimitsOverDefaults(t *testing.T) {
	defaults := quota.Limits{quota.Leases: 10, quota.Hosts: 2}
	own := quota.Limits{quota.Hosts: quota.Unlimited, quota.Instances: 5}
	assert.Equal(t, quota.Limits{quota.Leases: 10, quota.Hosts: quota.Unlimited, quota.Instances: 5}, own.Over(defaults))
	assert.Equal(t, quota.Limits{quota.Leases: 10, quota.Hosts: 2}, defaults, "it was not written")
	assert.Equal(t, own, own.Over(nil))
	assert.Equal(t, defaults, quota.Limits(nil).Over(defaults))
}

func TestDataOfARequest(t *testing.T) {
	assert.Zero(t, quota.DataOf(nil, nil))
	assert.EqualValues(t, 3, quota.DataOf(map[string]string{"k": "vv"}, nil))
	assert.EqualValues(t, 3+(2+1)+(2+3), quota.DataOf(map[string]string{"k": "vv"}, []api.InstanceSpec{{ID: "i1", Name: "a"}, {ID: "i2", Name: "abc"}}))
}

func TestDefaultsAreLimits(t *testing.T) {
	require.NoError(t, quota.Defaults().Validate())
	for _, i := range []quota.Item{quota.Boots, quota.Records, quota.Data, quota.ServerGroups} {
		assert.Positive(t, quota.Defaults()[i], "%s", i)
	}
}

const hour = api.Instant(time.Hour / time.Millisecond)

// day begins the windows of the tables.
var day = api.InstantOf(time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC))

// hours returns a window of the day.
func hours(start, end int64) api.Window {
	return api.Window{Start: day + api.Instant(start)*hour, End: day + api.Instant(end)*hour}
}

func vcpus(n int64) quota.Amounts { return quota.Amounts{quota.Reserved.Of(api.VCPU): n} }

func TestCheck(t *testing.T) {
	// 4 from 10 to 12, 8 from 12 to 14 and again from 13 to 15: 4, 8, 16, 8.
	var u quota.Usage
	u = u.Add(hours(10, 12), vcpus(4)).Add(hours(12, 14), vcpus(8)).Add(hours(13, 15), vcpus(8))
	u = u.Add(hours(10, 15), quota.Amounts{quota.Leases: 1})
	limits := quota.Limits{quota.Reserved.Of(api.VCPU): 16, quota.Leases: 2, quota.Hosts: quota.Unlimited}
	for _, c := range []struct {
		name    string
		window  api.Window
		amounts quota.Amounts
		item    quota.Item // "" if it fits
		at      int64      // hour
		used    int64
		when    int64 // hour, 0 for never
	}{
		{"nothing", hours(13, 14), nil, "", 0, 0, 0},
		{"no limit", hours(13, 14), quota.Amounts{quota.Hosts: 1 << 40, quota.Instances: 1 << 40}, "", 0, 0, 0},
		{"exactly what is left", hours(10, 12), vcpus(12), "", 0, 0, 0},
		{"one more", hours(10, 12), vcpus(13), quota.Reserved.Of(api.VCPU), 10, 4, 15},
		{"until what is full begins", hours(12, 13), vcpus(8), "", 0, 0, 0},
		{"into it", hours(12, 14), vcpus(8), quota.Reserved.Of(api.VCPU), 13, 16, 14},
		{"from where it ends", hours(14, 16), vcpus(8), "", 0, 0, 0},
		{"a little, before it ends", hours(13, 16), vcpus(1), quota.Reserved.Of(api.VCPU), 13, 16, 14},
		{"for ever", api.Window{Start: day + 13*hour, End: api.Forever}, vcpus(9), quota.Reserved.Of(api.VCPU), 13, 16, 15},
		{"more than there ever is", hours(20, 21), vcpus(17), quota.Reserved.Of(api.VCPU), 20, 0, 0},
		{"beyond the horizon", hours(10, 15), vcpus(16), quota.Reserved.Of(api.VCPU), 13, 16, 15},
		{"several items, one of them too much", hours(13, 14), quota.Amounts{quota.Leases: 1, quota.Reserved.Of(api.VCPU): 1}, quota.Reserved.Of(api.VCPU), 13, 16, 14},
		{"several items too much: the first by name", hours(13, 14), quota.Amounts{quota.Leases: 2, quota.Reserved.Of(api.VCPU): 1}, quota.Leases, 13, 1, 15},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := quota.Check(u, limits, &quota.Use{Window: c.window, Amounts: c.amounts}, day+48*hour)
			if c.item == "" {
				assert.Nil(t, r)
				return
			}
			want := &quota.Refusal{Item: c.item, At: day + api.Instant(c.at)*hour, Used: c.used, Asked: c.amounts[c.item], Limit: limits[c.item]}
			if c.when != 0 {
				want.When = day + api.Instant(c.when)*hour
			}
			assert.Equal(t, want, r)
		})
	}
}

func TestTheHorizonBoundsTheSearch(t *testing.T) {
	u := quota.Usage{}.Add(hours(10, 15), vcpus(16))
	limits := quota.Limits{quota.Reserved.Of(api.VCPU): 16}
	ask := &quota.Use{Window: hours(12, 13), Amounts: vcpus(1)}
	at, found := quota.FirstFit(u, limits, ask, day+15*hour)
	assert.True(t, found)
	assert.Equal(t, day+15*hour, at)
	_, found = quota.FirstFit(u, limits, ask, day+15*hour-1)
	assert.False(t, found)
	assert.Zero(t, quota.Check(u, limits, ask, day+15*hour-1).When)
}

// TestTheSearchIsBounded: as many full windows as it may look at, and one more.
func TestTheSearchIsBounded(t *testing.T) {
	limits := quota.Limits{quota.Leases: 1}
	ask := &quota.Use{Window: api.Window{Start: 0, End: 3}, Amounts: quota.Amounts{quota.Leases: 1}}
	for full, want := range map[int]bool{quota.StepsMax - 1: true, quota.StepsMax: false} {
		var u quota.Usage
		for i := range full {
			u = u.Add(api.Window{Start: api.Instant(4 * i), End: api.Instant(4*i + 2)}, quota.Amounts{quota.Leases: 1})
		}
		at, found := quota.FirstFit(u, limits, ask, math.MaxInt32)
		assert.Equal(t, want, found)
		if want {
			assert.Equal(t, api.Instant(4*full-2), at)
		}
	}
}

func TestARefusalExplainsItself(t *testing.T) {
	r := quota.Refusal{Item: quota.Reserved.Of(api.VCPU), At: day, Used: 56, Asked: 8, Limit: 60, When: day + 12*hour + 1}
	assert.EqualValues(t, 4, r.Left())
	assert.Equal(t, "Quota exceeded for reserved.VCPU: 8 more asked for, but 56 of 60 are used at 2027-03-01T00:00:00Z, so 4 are left. "+
		"It fits from 2027-03-01T12:00:00.001Z on. An administrator can raise the limit: berth quota set", r.String())
	assert.Equal(t, api.CodeOverQuota, api.CodeOf(r.Err()))
	assert.Equal(t, r.String(), api.MessageOf(r.Err()))
	r.When = 0
	for item, says := range map[quota.Item]string{
		r.Item: "No later time was found", quota.Boots: "when some of them are decided.", quota.Records: "are forgotten,",
		quota.Data: "are forgotten,", quota.ServerGroups: "are deleted.",
	} {
		r.Item = item
		assert.Contains(t, r.String(), says)
	}
	r.Asked = 61
	assert.Contains(t, r.String(), "It never fits: ask for at most 60.")
	none := r
	none.Limit = 0
	assert.Contains(t, none.String(), "It never fits. ")
	r.Used = 70 // the limit was lowered
	assert.Zero(t, r.Left())
}

// use is one entry of the slow book.
type use struct {
	window  api.Window
	amounts quota.Amounts
}

// book is a list of everything that is used.
type book []use

func (b book) at(i quota.Item, when api.Instant) int64 {
	var n int64
	for _, u := range b {
		if u.window.Contains(when) {
			n += u.amounts[i]
		}
	}
	return n
}

// fits looks at every instant of a window that ends at horizon at the latest.
func (b book) fits(limits quota.Limits, amounts quota.Amounts, w api.Window, horizon api.Instant) bool {
	for i, n := range amounts {
		most, limited := limits[i]
		if !limited || most < 0 || n == 0 {
			continue
		}
		for when := w.Start; when < min(w.End, horizon); when++ {
			if b.at(i, when)+n > most {
				return false
			}
		}
	}
	return true
}

const end = 60 // of all windows of the oracle that end

func drawWindow(rt *rapid.T) api.Window {
	w := api.Window{Start: api.Instant(rapid.IntRange(0, end-1).Draw(rt, "start"))}
	w.End = w.Start + api.Instant(rapid.IntRange(1, end-int(w.Start)).Draw(rt, "length"))
	if rapid.IntRange(0, 9).Draw(rt, "open") == 0 {
		w.End = api.Forever
	}
	return w
}

func drawAmounts(rt *rapid.T, most int64) quota.Amounts {
	return rapid.MapOf(rapid.SampledFrom([]quota.Item{quota.Leases, quota.Hosts, quota.Reserved.Of(api.VCPU)}), rapid.Int64Range(0, most)).Draw(rt, "amounts")
}

// TestUsageAgreesWithABook plays random changes, and asks about every instant.
func TestUsageAgreesWithABook(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var u quota.Usage
		var all book
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			old, was := u, u.At(5)
			if n := len(all); n > 0 && rapid.IntRange(0, 2).Draw(rt, "remove") == 0 {
				i := rapid.IntRange(0, n-1).Draw(rt, "which")
				u = u.Remove(all[i].window, all[i].amounts)
				all = append(append(book{}, all[:i]...), all[i+1:]...)
			} else {
				e := use{drawWindow(rt), drawAmounts(rt, 5)}
				u = u.Add(e.window, e.amounts)
				all = append(all, e)
			}
			assert.Equal(rt, was, old.At(5), "a change leaves the old value alone")
		}
		for _, i := range []quota.Item{quota.Leases, quota.Hosts, quota.Reserved.Of(api.VCPU)} {
			for when := api.Instant(0); when <= end; when++ {
				require.Equal(rt, all.at(i, when), u.At(when)[i], "%s at %d", i, when)
			}
		}
		for range 5 {
			checkAsk(rt, u, all)
		}
		rebuilt := quota.Usage{}
		for n := range all {
			e := all[len(all)-1-n]
			rebuilt = rebuilt.Add(e.window, e.amounts)
		}
		assert.Equal(rt, rebuilt, u, "equal contents are equal, whatever their history")
	})
}

func checkAsk(rt *rapid.T, u quota.Usage, all book) {
	limits := quota.Limits{}
	for i, n := range drawAmounts(rt, 20) {
		limits[i] = n - 1 // 0 becomes Unlimited
	}
	ask := &quota.Use{Window: drawWindow(rt), Amounts: drawAmounts(rt, 6)}
	horizon := api.Instant(rapid.IntRange(0, 2*end).Draw(rt, "horizon"))
	got := quota.Check(u, limits, ask, horizon)
	if all.fits(limits, ask.Amounts, ask.Window, end+1) {
		require.Nil(rt, got)
		at, found := quota.FirstFit(u, limits, ask, horizon)
		assert.True(rt, found)
		assert.Equal(rt, ask.Window.Start, at)
		return
	}
	require.NotNil(rt, got)
	var peak int64
	for when := min(ask.Window.End, end+1) - 1; when >= ask.Window.Start; when-- {
		if n := all.at(got.Item, when); n >= peak {
			peak = n
			assert.LessOrEqual(rt, got.At, when, "the first instant of the peak")
		}
	}
	assert.Equal(rt, peak, got.Used)
	assert.Equal(rt, peak, all.at(got.Item, got.At))
	assert.True(rt, ask.Window.Contains(got.At))
	assert.Equal(rt, limits[got.Item], got.Limit)
	assert.Greater(rt, got.Used+got.Asked, got.Limit)
	for i, n := range ask.Amounts {
		assert.True(rt, i >= got.Item || all.fits(limits, quota.Amounts{i: n}, ask.Window, end+1), "the first by name")
	}
	want := api.Instant(0)
	for start := ask.Window.Start; start <= horizon && want == 0; start++ {
		w := api.Window{Start: start, End: api.Forever}
		if ask.Window.End != api.Forever {
			w.End = start + ask.Window.End - ask.Window.Start
		}
		if all.fits(limits, ask.Amounts, w, 3*end) {
			want = start
		}
	}
	assert.Equal(rt, want, got.When)
}

// TestAnInvalidWindowCountsNothing: it has no instant.
func TestAnInvalidWindowCountsNothing(t *testing.T) {
	u := quota.Usage{}.Add(api.Window{Start: 5, End: 5}, vcpus(1)).Add(api.Window{Start: 5, End: 4}, vcpus(1))
	assert.Equal(t, quota.Usage{}, u)
}

func BenchmarkCheck(b *testing.B) {
	for _, leases := range []int{100, 10_000} {
		u, amounts := quota.Usage{}, quota.Amounts{quota.Leases: 1, quota.Reserved: 4, quota.Reserved.Of(api.VCPU): 8, quota.Reserved.Of(api.MemoryMB): 4096}
		limits := quota.Limits{quota.Leases: 100_000, quota.Reserved.Of(api.VCPU): 1 << 40, quota.Reserved.Of(api.MemoryMB): 1 << 40}
		for i := range leases {
			u = u.Add(hours(int64(i), int64(i+24)), amounts)
		}
		ask := &quota.Use{Window: hours(int64(leases/3), int64(leases/2)), Amounts: amounts}
		tight := quota.Limits{quota.Leases: 24}
		for name, f := range map[string]func(){
			"fits":    func() { quota.Check(u, limits, ask, day+1<<40) },
			"refused": func() { quota.Check(u, tight, ask, day+1<<40) },
			"add":     func() { u.Add(ask.Window, amounts) },
		} {
			b.Run(fmt.Sprintf("%s/leases=%d", name, leases), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					f()
				}
			})
		}
	}
}

// TestManyChangesMakeAShallowTree: the cost of a change does not grow with their number, for
// times that come in order.
func TestManyChangesMakeAShallowTree(t *testing.T) {
	var u quota.Usage
	for i := range int64(20_000) {
		u = u.Add(hours(i, i+24), quota.Amounts{quota.Leases: 1})
	}
	allocs := testing.AllocsPerRun(100, func() { u.Add(hours(7, 9), quota.Amounts{quota.Leases: 1}) })
	assert.Less(t, allocs, 150.0, "two paths of about 2 log2 n nodes each")
}

// TestMaxAndGrowth compares both with what each use is at every instant.
func TestMaxAndGrowth(t *testing.T) {
	at := func(all []quota.Use, i quota.Item, when api.Instant) (n int64, times int) {
		for _, u := range all {
			if amount, ok := u.Amounts[i]; ok && u.Window.Contains(when) {
				n, times = n+amount, times+1
			}
		}
		return n, times
	}
	rapid.Check(t, func(rt *rapid.T) {
		draw := func() quota.Use { return quota.Use{Window: drawWindow(rt), Amounts: drawAmounts(rt, 3)} }
		a, b := draw(), draw()
		most, more := quota.Max(a, b), quota.Growth(a, b)
		for when := api.Instant(-1); when < 30; when++ {
			for i := range a.Amounts.Plus(b.Amounts) {
				was, _ := at([]quota.Use{a}, i, when)
				is, _ := at([]quota.Use{b}, i, when)
				got, times := at(most, i, when)
				assert.Equal(rt, max(was, is), got)
				assert.LessOrEqual(rt, times, 1)
				got, _ = at(more, i, when)
				if is <= was {
					is = 0
				}
				assert.Equal(rt, is, got)
			}
		}
	})
}

// TestBeyond: what is counted beside what something has is, at each instant, what it would have more.
func TestBeyond(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(name string) quota.Use {
			start := rapid.Int64Range(0, 5).Draw(rt, name+" from")
			w := api.Window{Start: api.Instant(start), End: api.Instant(start + rapid.Int64Range(1, 5).Draw(rt, name+" for"))}
			return quota.Use{Window: w, Amounts: quota.Amounts{quota.Hosts: rapid.Int64Range(0, 3).Draw(rt, name+" hosts"), quota.Leases: rapid.Int64Range(0, 3).Draw(rt, name+" leases")}}
		}
		old, next := draw("old"), draw("next")
		var u quota.Usage
		for _, more := range quota.Beyond(old, next) {
			u = u.Add(more.Window, more.Amounts)
		}
		at := func(u quota.Use, i quota.Item, at api.Instant) int64 {
			if u.Window.Contains(at) {
				return u.Amounts[i]
			}
			return 0
		}
		for now := range api.Instant(12) {
			for _, i := range []quota.Item{quota.Hosts, quota.Leases} {
				require.Equal(rt, max(0, at(next, i, now)-at(old, i, now)), u.At(now)[i], "%s at %d", i, now)
			}
		}
	})
}
