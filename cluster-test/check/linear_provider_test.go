package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/api"
)

// moment is one operation on the provider of a story, between two times.
func moment(call, end int64, k Kind, in Input, o Outcome, out Output) Op {
	in.Provider = "p"
	return Op{Client: int(call), Call: call, Return: end, Kind: k, Zone: "z", In: in, Out: out, Outcome: o}
}

func TestProviderHistories(t *testing.T) {
	set := moment(1, 2, ProviderSet, Input{Amount: 2}, OK, Output{})
	swap := func(call, end int64, g uint64, o Outcome, code api.Code) Op {
		return moment(call, end, ProviderSwap, Input{Generation: g, Amount: 1}, o, Output{Code: code})
	}
	read := func(call, end int64, g uint64, used int64) Op {
		return moment(call, end, ProviderRead, Input{}, OK, Output{Generation: g, Amount: used})
	}
	claim := func(call, end int64, o Outcome, code api.Code) Op {
		return moment(call, end, ProviderClaim, Input{Amount: 1}, o, Output{Code: code})
	}
	for _, c := range []struct {
		name string
		ops  []Op
		good bool
	}{
		{"one after the other", []Op{set, swap(3, 4, 1, OK, ""), read(5, 6, 2, 1), swap(7, 8, 2, OK, ""), swap(9, 10, 3, Refused, api.CodeNoCapacity)}, true},
		{"all at once", []Op{set, read(3, 9, 2, 1), swap(3, 9, 1, OK, ""), swap(3, 9, 1, Refused, api.CodeStale), read(3, 9, 1, 0)}, true},
		{"a lost update", []Op{set, swap(3, 9, 1, OK, ""), swap(3, 9, 1, OK, "")}, false},
		{"a read of the past", []Op{set, swap(3, 4, 1, OK, ""), read(5, 6, 1, 0)}, false},
		{"a read of what is to come", []Op{set, read(3, 4, 2, 1), swap(5, 6, 1, OK, "")}, false},
		{"another sum", []Op{set, swap(3, 4, 1, OK, ""), read(5, 6, 2, 2)}, false},
		{"refused as stale, and nobody wrote", []Op{set, swap(3, 4, 1, Refused, api.CodeStale)}, false},
		{"refused as full, and it was not", []Op{set, swap(3, 4, 1, Refused, api.CodeNoCapacity)}, false},
		{"a generation from nowhere", []Op{set, swap(3, 4, 5, OK, "")}, false},
		{"claims up to the brim", []Op{set, claim(3, 9, OK, ""), claim(3, 9, OK, ""), claim(3, 9, Refused, api.CodeNoCapacity)}, true},
		{"claims beyond it", []Op{set, claim(3, 9, OK, ""), claim(3, 9, OK, ""), claim(3, 9, OK, "")}, false},
		{"a claim that was lost on the way", []Op{set, claim(3, 4, OK, ""), claim(3, 4, Unknown, ""), claim(5, 6, Refused, api.CodeNoCapacity)}, true},
		{"room after a release", []Op{
			set, claim(3, 4, OK, ""), claim(3, 4, OK, ""), moment(5, 6, ProviderFree, Input{Amount: 1}, OK, Output{}), claim(7, 8, OK, ""), read(9, 10, 4, 2),
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, bad := History(c.ops, HistoryOptions{Limit: time.Hour})
			assert.Equal(t, c.good, len(bad) == 0, "%v", bad)
		})
	}
}
