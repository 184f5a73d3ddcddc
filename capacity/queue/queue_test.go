package queue_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/capacity"
	"berth/capacity/queue"
	"berth/internal/dice"
)

// drawHosts returns 1 to most hosts, of which many have ids that begin alike.
func drawHosts(dice *rand.Rand, most int) capacity.View {
	table := capacity.NewTable()
	for i := range 1 + dice.IntN(most) {
		table.Put(capacity.Spec{ID: api.HostID(fmt.Sprintf("host-%d-%d", dice.IntN(3), i)), Name: strconv.Itoa(i), Up: true, Enabled: true})
	}
	return table.View()
}

// TestQueue takes rows out in the order that a sort gives, also those whose price
// rises while they are first, and hosts whose ids begin alike.
func TestQueue(t *testing.T) {
	for _, seed := range dice.Seeds(t, 50) {
		dice := rand.New(rand.NewPCG(seed, 0))
		v := drawHosts(dice, 60)
		q := queue.New(v, 4)
		type entry struct {
			cost int64
			id   api.HostID
		}
		var want, got []entry
		for row := range v.Hosts().All() {
			cost := dice.Int64N(4)
			q.Add(row, cost, -1)
			want = append(want, entry{cost, v.ID(row)})
		}
		q.Sort()
		for o := q.First(); o != nil; o = q.First() {
			id := v.ID(int(o.Row))
			if o.Mark < 0 && dice.IntN(3) == 0 {
				at := slices.Index(want, entry{o.Cost, id})
				o.Mark, o.Cost = 1, o.Cost+dice.Int64N(3)
				want[at].cost = o.Cost
				q.Fix()
				continue
			}
			got = append(got, entry{o.Cost, id})
			q.Pop()
		}
		slices.SortFunc(want, func(a, b entry) int { return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.id, b.id)) })
		assert.Equal(t, want, got, "seed %d", seed)
	}
}

// TestBestOfMany keeps the best of what is added, knows what it has dropped, and drops little if
// there is little.
func TestBestOfMany(t *testing.T) {
	for _, seed := range dice.Seeds(t, 200) {
		dice := rand.New(rand.NewPCG(seed, 1))
		v, most := drawHosts(dice, 100), 1+dice.IntN(20)
		q := queue.New(v, 0)
		costs := map[int]int64{}
		for row := range v.Hosts().All() {
			costs[row] = dice.Int64N(1 + dice.Int64N(4))
			q.AddBest(row, costs[row], -1, most)
		}
		q.Sort()
		assert.LessOrEqual(t, q.Len(), 2*most)
		assert.GreaterOrEqual(t, q.Len(), min(most, len(costs)))
		order := slices.SortedFunc(maps.Keys(costs), func(a, b int) int {
			return cmp.Or(cmp.Compare(costs[a], costs[b]), cmp.Compare(v.ID(a), v.ID(b)))
		})
		kept := q.Len()
		for i, row := range order {
			assert.Equal(t, i >= kept, q.Dropped(row, costs[row]), "row %d", i)
			if i < kept {
				n, bit := row/capacity.WordRows, uint64(1)<<(row%capacity.WordRows)
				assert.Equal(t, bit, q.NotDropped(n, bit, costs[row]))
			}
			if i < kept {
				assert.Equal(t, row, int(q.First().Row))
				assert.True(t, q.BeforeDropped(q.First()))
				q.Pop()
			}
		}
		if kept < len(order) {
			worst := order[len(order)-1]
			assert.False(t, q.BeforeDropped(&queue.Item{Cost: costs[worst] + 1}))
		}
	}
}
