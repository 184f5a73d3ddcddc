package buildplan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/dice"
)

// plant makes the trimmed layer of a tree of zones with the longest names, and the most
// that its blob can take. offers is how many slots it has.
func plant(t *testing.T, dice *rand.Rand, groups, levels int) (blob []byte, offers int) {
	t.Helper()
	long := strings.Repeat("h", api.NameMaxBytes)
	host := Slot{Host: api.HostID(long), Generation: 1 << 63, Weight: -1 << 62}
	l := Layer{Plan: api.PlanID(long), Expires: 1 << 62, Groups: make([]LayerGroup, groups)}
	for c := range dice.IntN(4) {
		if levels == 1 {
			break
		}
		inner, n := plant(t, dice, groups, levels-1)
		l.Children = append(l.Children, Child{
			Link: api.LinkID(fmt.Sprint(long[:60], c)), Blob: inner,
			Ask: Ask{Counts: full(groups), Least: full(groups), Inside: true, Met: slices.Repeat([]uint64{1 << 63}, groups), InAZ: 1<<groups - 1},
		})
		for range n {
			g := dice.IntN(groups)
			l.Groups[g].Order = append(l.Groups[g].Order, uint16(len(l.Children)))
		}
	}
	for g := range l.Groups {
		lg := &l.Groups[g]
		for range dice.IntN(5) {
			slot := host
			if dice.IntN(2) > 0 {
				slot.Keeps = api.InstanceID(long)
			}
			lg.Slots = append(lg.Slots, slot)
			lg.Order = append(lg.Order, Own)
		}
		lg.Slots = append(lg.Slots, host, host) // which nobody takes
		for range SpareMax {
			lg.Alternates = append(lg.Alternates, host)
		}
		offers += len(lg.Order)
	}
	trimmed := l.Trim()
	plain, err := trimmed.Encode()
	require.NoError(t, err)
	assert.LessOrEqual(t, len(plain), trimmed.SizeMax())
	for g := range l.Groups {
		for n := range len(l.Groups[g].Order) + 1 {
			was, is := l.Prefix(g, n), trimmed.Prefix(g, n)
			assert.Equal(t, was[Own], is[Own])
		}
	}
	return make([]byte, blobOf(len(plain))), offers
}

func full(groups int) []int {
	out := make([]int, groups)
	for i := range out {
		out[i] = api.CountMax
	}
	return out
}

// TestBlobBound: no plan of an honest tree is larger than what its offer may take.
func TestBlobBound(t *testing.T) {
	draw := dice.Rand(t)
	for range 300 {
		groups, levels := 1+draw.IntN(3), 1+draw.IntN(4)
		blob, offers := plant(t, draw, groups, levels)
		assert.LessOrEqual(t, len(blob), BlobBound(offers, groups, levels), "%d slots of %d groups in %d levels", offers, groups, levels)
	}
	assert.Less(t, BlobBound(1, 1, api.DepthMax), api.BlobMaxBytes/20, "a small offer has a small plan")
	assert.Equal(t, api.BlobMaxBytes, BlobBound(api.CountMax, api.GroupsMax, api.DepthMax))
}
