package leak

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/codec"
	"berth/internal/dice"
	"berth/raftstore/command"
)

var questionsFlag = flag.Int("questions", 150, "questions that each asks of a zone in TestQuestionsTellNoNumberOfHosts and TestLayoutsCannotBeToldApart")

// sizes are numbers of hosts from 1 to 200, of which several lie between the same two powers of two: the first,
// the last, and some that were drawn.
var sizes = []int{2, 3, 8, 12, 15, 64, 101, 127, 128, 200}

// slotsPerHost is how many of the smallest instances a host has room for; see serveAs.
const slotsPerHost = 4

// inquirer asks a child all that a parent may ask, and notes the answers without what is different
// each time: identifiers, times and blobs, whose sizes follow the generations of hosts.
type inquirer struct {
	t     *testing.T
	up    *caller
	dice  *rand.Rand
	asked int
	named int // requests so far; the later one is the younger
	world string
	notes strings.Builder
}

func (q *inquirer) note(format string, args ...any) { fmt.Fprintf(&q.notes, format+"\n", args...) }

// demand returns a request for n instances of so many processors each; apart, at most one on each host.
func (q *inquirer) demand(n int, cpus int64, apart bool) api.Request {
	q.named++
	r := request(n, api.ReservationID(fmt.Sprintf("q-%s-%06d", q.world, q.named)))
	r.Since = api.Instant(q.named)
	r.Groups[0].Flavor, r.Groups[0].Resources = "", api.Resources{api.VCPU: cpus}
	if apart {
		r.Rules = []api.Rule{{Policy: api.AntiAffinity, Max: 1, Groups: []int{0}}}
	}
	return r
}

// sel asks for slots.
func (q *inquirer) sel(r *api.Request) api.SelectAnswer {
	q.t.Helper()
	q.asked++
	var a api.SelectAnswer
	status, b := q.up.call(q.t, "POST", "/zones/select", r)
	require.Equal(q.t, http.StatusOK, status, string(b))
	require.NoError(q.t, codec.Unmarshal(b, &a))
	q.note("%v %+v %+v %t %t", a.Weights, a.Refusals, a.Contended, a.Silent, a.Soon)
	return a
}

// slots returns how many slots a request is offered.
func (q *inquirer) slots(r api.Request) int {
	n := 0
	for _, ws := range q.sel(&r).Weights {
		n += len(ws)
	}
	return n
}

// hold takes n slots of the first group of an answer, and returns the hold and how many it got.
func (q *inquirer) hold(r *api.Request, blob []byte, n int) (api.HoldID, int) {
	q.t.Helper()
	q.asked++
	h := api.HoldRequest{ID: newHoldID(), Attempt: 1, Request: *r, Blob: blob, Instances: [][]api.InstanceSpec{nil}}
	for i := range n {
		h.Instances[0] = append(h.Instances[0], api.InstanceSpec{ID: api.InstanceID(api.NewUUID()), Name: fmt.Sprint("i", i)})
	}
	var a api.HoldAnswer
	status, b := q.up.call(q.t, "POST", "/zones/holds", h)
	if status == http.StatusOK {
		require.NoError(q.t, codec.Unmarshal(b, &a))
	}
	q.note("%d %d %d %s", status, len(a.Held), len(a.Refused), a.Why)
	return h.ID, len(a.Held)
}

// giveBack aborts holds.
func (q *inquirer) giveBack(ids ...api.HoldID) {
	for _, id := range ids {
		status, b := q.up.call(q.t, "DELETE", "/zones/holds/"+string(id), nil)
		require.Less(q.t, status, 300, string(b))
	}
}

// digest returns what the child says of itself.
func (q *inquirer) digest() api.Digest {
	q.t.Helper()
	q.asked++
	var z api.ZoneInfo
	status, b := q.up.call(q.t, "GET", "/zones/info", nil)
	require.Equal(q.t, http.StatusOK, status, string(b))
	require.NoError(q.t, codec.Unmarshal(b, &z))
	d := *z.Digest
	d.Zone, d.Sequence, d.At = "", 0, 0
	b, err := codec.Marshal(d)
	require.NoError(q.t, err)
	q.note("%x", sha256.Sum256(b))
	return d
}

// room returns how many slots of a lease fit on hosts of their own, by the answer over time.
func (q *inquirer) room(n int, apart bool) int {
	q.t.Helper()
	q.asked++
	start := api.InstantOf(time.Now().Add(24 * time.Hour).Truncate(time.Hour))
	r := q.demand(n, 1, apart)
	r.Groups[0].Name, r.Reserves, r.Window = api.NewUUID(), true, api.Window{Start: start, End: start.Add(time.Hour)}
	var a api.RoomAnswer
	status, b := q.up.call(q.t, "POST", "/zones/room", api.RoomQuestion{Request: r, Until: start.Add(2 * time.Hour)})
	require.Equal(q.t, http.StatusOK, status, string(b))
	require.NoError(q.t, codec.Unmarshal(b, &a))
	most := 0
	for i := range a.Steps {
		q.note("+%d %v %v", a.Steps[i].At-start, a.Steps[i].Together, a.Steps[i].Alone)
		most = max(most, slices.Max(a.Steps[i].Together))
	}
	return most
}

// estimators are ways to find out the number of hosts. Each is exact, or nearly, where nothing is hidden.
var estimators = map[string]func(q *inquirer) float64{
	"slots on hosts of their own": func(q *inquirer) float64 { return float64(q.slots(q.demand(500, 1, true))) },
	"hosts apart, by bisection": func(q *inquirer) float64 {
		low, high := 0, 500
		for low < high {
			n := (low + high + 1) / 2
			if q.slots(q.demand(n, 1, true)) == n {
				low = n
			} else {
				high = n - 1
			}
		}
		return float64(low)
	},
	"instances as large as a host": func(q *inquirer) float64 {
		return float64(q.slots(q.demand(1000, q.largest(), false)))
	},
	"what is lost by rounding": func(q *inquirer) float64 {
		// of 4 processors, instances of 3 leave one unused on each host
		return float64(q.slots(q.demand(2000, 1, false)) - 3*q.slots(q.demand(2000, 3, false)))
	},
	"two groups, one beside the other": func(q *inquirer) float64 {
		r := q.demand(500, 3, false)
		r.Groups = append(r.Groups, api.Group{Count: 500, Resources: api.Resources{api.VCPU: 1}})
		a := q.sel(&r)
		return float64(len(a.Weights[1]))
	},
	"advice": func(q *inquirer) float64 {
		r := q.demand(500, 1, true)
		for _, a := range q.sel(&r).Refusals[0].Advice {
			if a.Change == api.AdviceCount {
				return float64(a.Value)
			}
		}
		return 0
	},
	"room over time": func(q *inquirer) float64 { return float64(q.room(500, true)) },
	"holds, all that there is": func(q *inquirer) float64 {
		n, ids := 0, []api.HoldID(nil)
		for {
			r := q.demand(70, slotsPerHost, false)
			a := q.sel(&r)
			if len(a.Weights[0]) == 0 {
				break
			}
			id, held := q.hold(&r, a.Blob, len(a.Weights[0]))
			ids, n = append(ids, id), n+held
			require.Positive(q.t, held)
		}
		q.giveBack(ids...)
		return float64(n)
	},
	"two plans for the same room": func(q *inquirer) float64 {
		first, second := q.demand(500, slotsPerHost, false), q.demand(500, slotsPerHost, false)
		a, b := q.sel(&first), q.sel(&second)
		one, held := q.hold(&first, a.Blob, len(a.Weights[0]))
		other, more := q.hold(&second, b.Blob, len(b.Weights[0]))
		q.giveBack(one, other)
		return float64(held + more)
	},
	"what others hold": func(q *inquirer) float64 {
		r := q.demand(500, slotsPerHost, false)
		a := q.sel(&r)
		id, _ := q.hold(&r, a.Blob, len(a.Weights[0]))
		defer q.giveBack(id)
		other := q.demand(500, slotsPerHost, false)
		n := 0
		for _, c := range q.sel(&other).Contended {
			n += c.All
		}
		return float64(n)
	},
}

// largest returns the largest number of processors of an instance that fits, by bisection.
func (q *inquirer) largest() int64 {
	low, high := int64(0), int64(64)
	for low < high {
		n := (low + high + 1) / 2
		if q.slots(q.demand(1, n, false)) == 1 {
			low = n
		} else {
			high = n - 1
		}
	}
	return low
}

// play asks at random, each time depending on the answers before: up to so many questions in all.
func (q *inquirer) play(most int) {
	q.t.Helper()
	var ids []api.HoldID
	size, apart := int64(1), false
	last := 1
	for q.asked < most {
		n := 1 + q.dice.IntN(300)
		if q.dice.IntN(2) == 0 { // about what was had before
			n = max(last+q.dice.IntN(5)-2, 1)
		}
		r := q.demand(n, size, apart)
		switch q.dice.IntN(6) {
		case 0:
			r.Groups[0].Traits.Required = []string{[]string{api.TraitVolumes, "CUSTOM_NONE"}[q.dice.IntN(2)]}
		case 1:
			r.Groups[0].Hints.Query = fmt.Sprintf(`["<","$vcpus_free",%d]`, 1+q.dice.IntN(6))
		case 2:
			r.Groups = append(r.Groups, api.Group{Count: 1 + q.dice.IntN(200), Resources: api.Resources{api.VCPU: 1 + q.dice.Int64N(4)}})
		case 3:
			r.Groups[0].Resources[api.MemoryMB] = 1 + q.dice.Int64N(9000)
		}
		a := q.sel(&r)
		last = len(a.Weights[0])
		switch k := q.dice.IntN(16); {
		case k < 2 && last > 0 && len(r.Groups) == 1:
			id, _ := q.hold(&r, a.Blob, 1+q.dice.IntN(last))
			ids = append(ids, id)
		case k == 2:
			q.giveBack(ids...)
			ids = nil
		case k == 3:
			q.digest()
		case k == 4:
			q.room(n, apart)
		}
		size, apart = 1+q.dice.Int64N(5), q.dice.IntN(2) == 0
	}
	q.giveBack(ids...)
}

// session asks all that a parent can think of, so many questions of it, and returns all answers and the estimates.
func session(t *testing.T, up *caller, world string, questions int, seed uint64) (notes string, found map[string]float64) {
	t.Helper()
	q := &inquirer{t: t, up: up, world: world, dice: rand.New(rand.NewPCG(seed, 0))}
	found = map[string]float64{}
	for _, name := range slices.Sorted(maps.Keys(estimators)) {
		found[name] = estimators[name](q)
	}
	d := q.digest().Classes[api.VCPU]
	found["the digest, and the size of a host"] = float64(d.Total) / float64(max(q.largest(), 1))
	q.play(questions)
	return q.notes.String(), found
}

// TestQuestionsTellNoNumberOfHosts is a parent that wants to know how many hosts a child has. It speaks the real
// protocol to a real zone which grows meanwhile. Where the layout is hidden, children whose numbers of hosts lie between
// the same two powers of two give the same answers to the same questions, each depending on the answers before: so nothing
// that is computed from answers knows the number better than within a factor of two, nor tells two such children apart.
func TestQuestionsTellNoNumberOfHosts(t *testing.T) {
	w := newWorld(t)
	root := w.zone("root", nil, 0)
	child := w.zone("child", root, 0)
	up := child.door(root, api.ALPNHTTP)
	root.stop() // it would answer that it knows of no hold, which the child gives up then
	type heard struct {
		size  int
		notes string
		found map[string]float64
	}
	octaves, have, seed := map[int][]heard{}, 0, dice.Seed(t)
	for n, size := range sizes {
		child.serveAs(fmt.Sprint("agent-", n), fmt.Sprint("host-", n), size-have)
		have = size
		if size == 12 || size == 200 { // what the questions are worth
			child.hideLayout(false)
			_, found := session(t, up, fmt.Sprintf("%03d-open", size), 0, seed)
			for name, got := range found {
				assert.InEpsilon(t, size, got, 0.3, "%s finds %d hosts of a zone that hides nothing", name, size)
			}
		}
		child.hideLayout(true)
		notes, found := session(t, up, fmt.Sprintf("%03d", size), *questionsFlag, seed)
		octave := bits.Len(uint(size))
		octaves[octave] = append(octaves[octave], heard{size, notes, found})
	}
	pairs, differ := 0, 0
	for _, list := range octaves {
		for _, one := range list[1:] {
			pairs++
			for name, got := range one.found {
				assert.InDelta(t, list[0].found[name], got, 0, "%s tells %d hosts from %d", name, list[0].size, one.size)
			}
			if one.notes != list[0].notes {
				differ++
				t.Logf("%d and %d hosts: %s", list[0].size, one.size, firstDifference(list[0].notes, one.notes))
			}
		}
		assert.Positive(t, list[0].found["slots on hosts of their own"])
		assert.Greater(t, list[0].found["slots on hosts of their own"]*2, float64(list[len(list)-1].size), "more than half are shown")
	}
	// Whoever sees one of two layouts, by the toss of a coin, is right in at most 1/2 + d/2 of all cases, d the share of
	// pairs whose answers differ at all.
	assert.LessOrEqual(t, 0.5+float64(differ)/float64(pairs)/2, 0.55, "%d of %d pairs", differ, pairs)
	assert.GreaterOrEqual(t, pairs, 6)
}

// hideLayout sets whether the zone hides its layout.
func (p *place) hideLayout(on bool) {
	p.w.t.Helper()
	c := p.node.Store().View().Config
	c.HidesLayout = on
	_, err := p.node.Zone().Propose(p.w.ctx, command.ConfigSet{Stamp: p.node.Zone().Stamp(), Config: c})
	require.NoError(p.w.t, err)
}

// firstDifference returns the first line in which two texts differ.
func firstDifference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			at := 0
			for at < min(len(as[i]), len(bs[i])) && as[i][at] == bs[i][at] {
				at++
			}
			at = max(at-100, 0)
			return fmt.Sprintf("answer %d: %.300s | %.300s", i, as[i][min(at, len(as[i])):], bs[i][min(at, len(bs[i])):])
		}
	}
	return "one has more answers"
}
