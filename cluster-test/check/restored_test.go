package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/api"
)

// TestRestoredHistories holds that what clients see after a restore is what there was at the backup, and what came after
// the restore.
func TestRestoredHistories(t *testing.T) {
	zone := func(call, end int64, k Kind, name string, how Outcome) Op {
		return Op{Call: call, Return: end, Kind: k, Zone: "z", In: Input{Key: name}, Outcome: how}
	}
	save := func(call int64, name string) Op { return zone(call, call+1, ZoneBackup, name, OK) }
	back := func(call int64, name string) Op { return zone(call, call+1, ZoneRestore, name, OK) }
	set := func(call, amount int64, g uint64) Op {
		return moment(call, call+1, ProviderSet, Input{Amount: amount, Generation: g}, OK, Output{})
	}
	claim := func(call int64) Op { return moment(call, call+1, ProviderClaim, Input{Amount: 1}, OK, Output{}) }
	use := func(call int64, g uint64, used int64) Op {
		return moment(call, call+1, ProviderRead, Input{}, OK, Output{Generation: g, Amount: used})
	}
	lease := func(call, end int64, k Kind, in Input, out Output) Op { return onLease(call, end, k, in, OK, out) }
	made := func(call, end int64) Op {
		return lease(call, end, LeaseCreate, Input{Amount: 4, End: noon}, Output{Lease: "l"})
	}
	see := func(call, amount int64) Op {
		return lease(call, call+1, LeaseRead, Input{}, Output{Lease: "l", Status: api.LeasePending, Amount: amount, End: noon})
	}
	miss := func(call int64) Op {
		return onLease(call, call+1, LeaseRead, Input{}, Refused, Output{Code: api.CodeNotFound})
	}
	ask := func(call int64, digest string) Op {
		return op(call, BootAsk, Input{Digest: digest}, OK, Output{Reservation: "r"})
	}
	boot := func(call int64, st api.BootState) Op { return op(call, BootRead, Input{}, OK, Output{State: st}) }
	for _, c := range []struct {
		name string
		ops  []Op
		good bool
	}{
		{"what the backup has", []Op{set(1, 9, 0), claim(3), save(5, "a"), claim(7), use(9, 3, 2), back(11, "a"), use(13, 2, 1)}, true},
		{"what came after it stays", []Op{set(1, 9, 0), claim(3), save(5, "a"), claim(7), back(11, "a"), use(13, 3, 2)}, false},
		{"what it has is lost", []Op{set(1, 9, 0), claim(3), save(5, "a"), back(11, "a"), use(13, 1, 0)}, false},
		{"it goes on from there", []Op{set(1, 9, 0), save(5, "a"), claim(7), back(11, "a"), claim(13), use(15, 2, 1)}, true},
		{"what comes after a restore is kept", []Op{set(1, 9, 0), save(5, "a"), back(11, "a"), claim(13), use(15, 1, 0)}, false},
		{"a restore twice", []Op{set(1, 9, 0), save(5, "a"), claim(7), back(11, "a"), claim(13), back(15, "a"), use(17, 1, 0)}, true},
		{"the newest backup", []Op{set(1, 9, 0), save(5, "a"), claim(7), save(9, "b"), claim(11), back(13, "b"), use(15, 2, 1)}, true},
		{"another backup", []Op{set(1, 9, 0), save(5, "a"), claim(7), save(9, "b"), claim(11), back(13, "a"), use(15, 1, 0)}, false},
		{"a restore that may have been", []Op{set(1, 9, 0), save(5, "a"), claim(7), zone(11, 0, ZoneRestore, "a", Unknown), use(13, 2, 1), use(15, 1, 0)}, true},
		{"a restore that has been", []Op{set(1, 9, 0), save(5, "a"), claim(7), zone(11, 0, ZoneRestore, "a", Unknown), use(13, 1, 0), use(15, 2, 1)}, false},
		{"a restore that was refused", []Op{set(1, 9, 0), save(5, "a"), claim(7), zone(11, 12, ZoneRestore, "a", Refused), use(13, 1, 0)}, false},
		{"beside the backup", []Op{set(1, 9, 0), zone(3, 9, ZoneBackup, "a", OK), moment(4, 5, ProviderClaim, Input{Amount: 1}, OK, Output{}), back(11, "a"), use(13, 1, 0)}, true},
		{"a lease of after the backup", []Op{save(1, "a"), made(3, 4), see(5, 4), back(7, "a"), miss(9)}, true},
		{"a lease of before it", []Op{made(1, 2), save(3, "a"), back(7, "a"), miss(9)}, false},
		{"a lease that was being made", []Op{made(1, 9), save(3, "a"), see(11, 4), back(13, "a"), miss(15), see(17, 4)}, true},
		{"a lease that was being made, and goes back", []Op{made(1, 9), save(3, "a"), see(11, 4), back(13, "a"), see(15, 4), miss(17)}, false},
		{"an update that was being made", []Op{
			made(1, 2), lease(3, 9, LeaseUpdate, Input{Amount: 5}, Output{}), save(5, "a"), see(11, 5), back(13, "a"), see(15, 4), see(17, 5),
		}, true},
		{"a delete that is taken back", []Op{made(1, 2), save(3, "a"), lease(5, 6, LeaseDelete, Input{}, Output{}), miss(7), back(9, "a"), see(11, 4)}, true},
		{"a key that means another thing", []Op{save(1, "a"), ask(3, "d"), back(11, "a"), ask(13, "e")}, true},
		{"a key that means two things", []Op{ask(1, "d"), save(8, "a"), back(11, "a"), ask(13, "e")}, false},
		{"a boot that goes back", []Op{ask(1, "d"), save(8, "a"), boot(11, api.BootActive), back(21, "a"), boot(31, api.BootHolding)}, true},
		{"nodes that go back", []Op{ask(1, "d"), save(8, "a"), local(boot(11, api.BootActive), "n", 5), back(21, "a"), local(boot(31, api.BootHolding), "n", 9)}, true},
		{"an index that goes back", []Op{save(8, "a"), local(boot(11, api.BootActive), "n", 5), back(21, "a"), local(boot(31, api.BootHolding), "n", 4)}, false},
		{"another zone's restore", []Op{
			set(1, 9, 0), save(5, "a"), claim(7), func() Op { o := back(11, "a"); o.Zone = "y"; return o }(), use(13, 1, 0),
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, bad := History(c.ops, HistoryOptions{Limit: time.Hour})
			assert.Equal(t, c.good, len(bad) == 0, "%v", bad)
		})
	}
}
