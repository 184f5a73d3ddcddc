package leak

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/await"
	"berth/internal/dice"
	"berth/raftstore/command"
)

// layout is a zone that is asked: hosts of two sizes, and what its own callers have on them.
type layout struct {
	small, large int    // hosts with 4 and with 8 processors
	load         uint64 // seed of what is used of the hosts that parents are not shown
}

// largeCPUs is how many processors a large host has.
const largeCPUs = 8

// pairs of layouts that nobody may tell apart: as many hosts of each kind as the same power of two has, and in all.
var pairs = [][2]layout{
	{{small: 9}, {small: 15}},
	{{small: 5, large: 2}, {small: 7, large: 3}},
	{{small: 13, large: 1, load: 1}, {small: 10, large: 1, load: 2}},
}

// shareOfLayouts is the share, in percent of all, that the parent of the last pair has of its child.
const shareOfLayouts = 50

// build makes a federation of a root without hosts and a child with a layout that it hides. What is used of hosts
// that parents are shown is the same for all layouts of a pair.
func (l layout) build(w *world, share int) (root, child *place) {
	root = w.zone("root", nil, 0)
	child = w.zone("child", root, 0)
	child.serveKind("small", "small", l.small, slotsPerHost, numbered(1))
	if l.large > 0 {
		child.serveKind("large", "large", l.large, largeCPUs, numbered(2))
	}
	child.hideLayout(true)
	up, _ := child.node.Store().View().Parent()
	child.propose(command.LinkSet{Stamp: child.node.Zone().Stamp(), ID: up.ID, ShareHeld: &share, ShareCommitted: &share})
	for n := int64(1); n <= largeCPUs+1; n++ {
		root.propose(command.FlavorPut{Stamp: root.node.Zone().Stamp(), Flavor: flavorOf(n)})
		child.propose(command.FlavorPut{Stamp: child.node.Zone().Stamp(), Flavor: flavorOf(n)})
	}
	l.fill(root, child)
	return root, child
}

// numbered returns ids of hosts of a kind: hosts of equal cost are taken in their order, so that chance does not tell two
// layouts apart which nobody can tell apart by it.
func numbered(kind int) func(n int) api.HostID {
	return func(n int) api.HostID { return api.HostID(fmt.Sprintf("0000000%d-0000-4000-8000-%012d", kind, n)) }
}

func flavorOf(cpus int64) api.Flavor {
	id := fmt.Sprint("c", cpus)
	return api.Flavor{ID: api.FlavorID(id), Name: id, Resources: api.Resources{api.VCPU: cpus}}
}

// fill boots instances of the child's own callers: one on every second host that a parent is shown, and others
// on those that he is not.
func (l layout) fill(root, child *place) {
	t := child.w.t
	hosts := child.node.Store().View().Hosts()
	shown, dice, seen := hosts.Shown().Hosts(), rand.New(rand.NewPCG(l.load, 0)), map[int64]int{}
	rows := slices.SortedFunc(hosts.Hosts().All(), func(a, b int) int { return strings.Compare(string(hosts.ID(a)), string(hosts.ID(b))) })
	for _, row := range rows {
		size := hosts.Capacity(row, api.VCPU)
		cpus := 1 + dice.Int64N(size)
		if shown.Has(row) {
			seen[size]++
			if cpus = int64(seen[size] % 2); cpus == 0 {
				continue
			}
		}
		name := fmt.Sprint("own-", row)
		child.boots(t, rest.ServerCreate{Name: name, Reservation: name, FlavorRef: fmt.Sprint("c", cpus), GroupWish: rest.GroupWish{
			Hints: &rest.SchedulerHints{ForceHosts: []string{hosts.Name(row)}},
		}})
	}
	root.hears(child)
}

// hears waits until a zone knows what the zone below it has now, and nothing older comes after it.
func (p *place) hears(child *place) {
	t, c := p.w.t, p.client()
	t.Helper()
	now := child.node.Store().View().Index()
	await.Until(t, fmt.Sprintf("%s has heard what child has at %d", p.name, now), func(ctx context.Context) error {
		z, err := c.Zone(ctx, "child")
		if err == nil && (z.Digest == nil || z.Digest.Sequence < now) {
			err = fmt.Errorf("it has heard %+v", z.Digest)
		}
		return err
	})
}

// propose applies a command in a zone.
func (p *place) propose(c command.Command) {
	p.w.t.Helper()
	r, err := p.node.Zone().Propose(p.w.ctx, c)
	require.NoError(p.w.t, err)
	require.NoError(p.w.t, r.Err)
}

// tenant is who asks a zone over its public API about the zone below, and notes the answers without what is
// different each time.
type tenant struct {
	t     *testing.T
	at    *place
	below *place
	token string
	role  api.UserRole
	dice  *rand.Rand
	asked int
	named int
	notes strings.Builder
}

// tenantOf returns one with a role, in a project of its own, who is curious about the zone below.
func (p *place) tenantOf(t *testing.T, below *place, role api.UserRole, seed uint64) *tenant {
	t.Helper()
	made, err := p.client().CreateToken(t.Context(), rest.TokenSpec{User: "curious", Project: "curious", Roles: []api.UserRole{role}})
	require.NoError(t, err)
	return &tenant{t: t, at: p, below: below, token: made.Token, role: role, dice: rand.New(rand.NewPCG(seed, 1))}
}

// asks makes a call and notes its answer.
func (q *tenant) asks(method, path string, body any) (status int, answer any) {
	q.t.Helper()
	q.asked++
	var b []byte
	if body != nil {
		var err error
		b, err = json.Marshal(body)
		require.NoError(q.t, err)
	}
	req, err := http.NewRequestWithContext(q.t.Context(), method, "http://"+q.at.node.Addresses().API+path, bytes.NewReader(b))
	require.NoError(q.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Auth-Token", q.token)
	res, err := http.DefaultClient.Do(req)
	require.NoError(q.t, err)
	out, err := io.ReadAll(res.Body)
	require.NoError(q.t, err)
	require.NoError(q.t, res.Body.Close())
	require.NotEqual(q.t, http.StatusTooManyRequests, res.StatusCode)
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		out = listOfEvents(out)
	}
	if len(out) > 0 {
		require.NoError(q.t, json.Unmarshal(out, &answer), "%s", out)
		answer = cleaned(answer)
	}
	text, err := json.Marshal(answer)
	require.NoError(q.t, err)
	fmt.Fprintf(&q.notes, "%s %s %s: %d %s\n", method, path, b, res.StatusCode, text)
	return res.StatusCode, answer
}

// listOfEvents returns the events of a stream as a list in JSON.
func listOfEvents(stream []byte) []byte {
	var events [][]byte
	for line := range bytes.Lines(stream) {
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			events = append(events, data)
		}
	}
	return slices.Concat([]byte("["), bytes.Join(events, []byte(",")), []byte("]"))
}

// passing are the fields of answers that differ each time: identifiers, times, log indexes, and blobs.
var passing = map[string]bool{
	"blob": true, "request_id": true, "index": true, "sequence": true, "at": true, "age_ms": true, "heard_ms_ago": true, "expires_in_ms": true, "latency_ms": true,
	"created_at": true, "updated_at": true, "start_date": true, "end_date": true, "looked_until": true, "launched_at": true, "id": true, "took_ms": true, "digest_age_ms": true, "seen_at": true, "user_id": true, "gateways": true, "clock": true,
}

var someUUID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d[0-9:.Z]*`)

// cleaned returns an answer without what is passing.
func cleaned(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, one := range v {
			if passing[name] {
				delete(v, name)
			} else {
				v[name] = cleaned(one)
			}
		}
	case []any:
		for i := range v {
			v[i] = cleaned(v[i])
		}
	case string:
		return someUUID.ReplaceAllString(v, "*")
	}
	return v
}

// slots returns how many slots an answer offers.
func slots(answer any) (n int) {
	all, _ := answer.(map[string]any)
	groups, _ := all["weights"].([]any)
	for _, g := range groups {
		ws, _ := g.([]any)
		n += len(ws)
	}
	return n
}

// name returns that of the latest question.
func (q *tenant) name() string { return fmt.Sprintf("%s-%06d", q.role, q.named) }

// order returns a boot of up to n instances of so many processors each; apart, at most that many on one host.
func (q *tenant) order(n int, cpus int64, apart int) rest.ServerCreate {
	q.named++
	s := rest.ServerCreate{Name: "q", Reservation: q.name(), FlavorRef: fmt.Sprint("c", cpus), MinCount: count(1), MaxCount: &n}
	if apart > 0 {
		s.Rules = []rest.RuleCreate{{Policy: api.AntiAffinity, Max: apart}}
	}
	return s
}

// estimate returns how many slots an order would get.
func (q *tenant) estimate(s rest.ServerCreate) int {
	_, a := q.asks("POST", "/zones/select", map[string]any{"server": s})
	return slots(a)
}

// most returns the largest n up to limit for which fits is true, by bisection.
func most(limit int, fits func(n int) bool) int {
	low, high := 0, limit
	for low < high {
		if n := (low + high + 1) / 2; fits(n) {
			low = n
		} else {
			high = n - 1
		}
	}
	return low
}

// tomorrowAt is an hour of tomorrow, the same in all questions.
var tomorrowAt = time.Now().Truncate(time.Hour).Add(26 * time.Hour)

// lease is one of tomorrow.
func (q *tenant) lease(r rest.ReservationSpec) rest.LeaseCreate {
	q.named++
	start := api.InstantOf(tomorrowAt)
	return rest.LeaseCreate{Name: fmt.Sprint("l-", q.named), Start: rest.LeaseDateOf(start), End: rest.LeaseDateOf(start.Add(time.Hour)), Reservations: []rest.ReservationSpec{r}}
}

// slotsApart are reservations of slots of one processor on hosts of their own, and wholes ones of whole hosts.
func slotsApart(n int) rest.ReservationSpec {
	return rest.ReservationSpec{Type: api.ReserveInstances, Amount: &n, VCPUs: new(int64(1)), Memory: new(int64(1)), Disk: new(int64(0)), Affinity: "false"}
}

func wholes(n int) rest.ReservationSpec {
	return rest.ReservationSpec{Type: api.ReserveHosts, Min: &n, Max: &n, HypervisorProperties: new(""), ResourceProperties: new("")}
}

// fits asks by a dry run whether a lease could be had.
func (q *tenant) fits(r rest.ReservationSpec) bool {
	status, a := q.asks("POST", "/reservation/v1/leases/plan", q.lease(r))
	m, _ := a.(map[string]any)
	plan, _ := m["plan"].(map[string]any)
	fits, _ := plan["fits"].(bool)
	return status < 300 && fits
}

// finds asks when a lease could be had.
func (q *tenant) finds(r rest.ReservationSpec) bool {
	l := q.lease(r)
	_, a := q.asks("POST", "/reservation/v1/availability", rest.LeaseQuestion{Earliest: l.Start, Latest: l.End, Minutes: 60, Reservations: l.Reservations})
	m, _ := a.(map[string]any)
	found, _ := m["availability"].(map[string]any)
	return found["complete"] == true && found["windows"] != nil && len(found["windows"].([]any)) > 0
}

// ways are what somebody who wants to know the number of hosts asks the zone above them. Each finds it where nothing is
// hidden and nothing is used.
var ways = map[string]func(q *tenant) int{
	"estimates apart": func(q *tenant) int { return q.estimate(q.order(500, 1, 1)) },
	"estimates apart, by bisection": func(q *tenant) int {
		return most(64, func(n int) bool { return q.estimate(q.order(n, 1, 1)) == n })
	},
	"two on each host, less one": func(q *tenant) int {
		return q.estimate(q.order(500, 1, 2)) - q.estimate(q.order(500, 1, 1))
	},
	"instances as large as a host": func(q *tenant) int { return q.estimate(q.order(500, slotsPerHost, 0)) },
	"instances held apart, by bisection": func(q *tenant) int {
		return most(32, func(n int) bool {
			s := q.order(n, 1, 1)
			s.MinCount = &n
			return q.boots(s) == n
		})
	},
	"leases of slots apart": func(q *tenant) int { return most(32, func(n int) bool { return q.fits(slotsApart(n)) }) },
	"leases of whole hosts": func(q *tenant) int { return most(32, func(n int) bool { return q.fits(wholes(n)) }) },
	"windows of leases":     func(q *tenant) int { return most(32, func(n int) bool { return q.finds(slotsApart(n)) }) },
}

// boots boots, waits for the outcome, gives everything back, and returns how many instances there were.
func (q *tenant) boots(s rest.ServerCreate) int {
	q.t.Helper()
	q.asks("POST", "/zones/boot", map[string]any{"server": s})
	c := q.at.client().InProject("curious")
	b := outcome(q.t, c, api.ReservationID(s.Reservation))
	giveBack(q.t, c, b.Reservation)
	q.at.hears(q.below) // what it says of it later is not of before
	fmt.Fprintf(&q.notes, "%s %s %v\n", b.State, b.Reason, b.Instances)
	return b.Instances[api.StatusActive]
}

// play asks at random, each time depending on the answers before, until so many questions were asked in all.
func (q *tenant) play(most int) {
	q.t.Helper()
	last := 1
	for q.asked < most {
		n := 1 + q.dice.IntN(40)
		if q.dice.IntN(2) == 0 {
			n = max(last+q.dice.IntN(5)-2, 1)
		}
		s := q.order(n, 1+q.dice.Int64N(largeCPUs+1), q.dice.IntN(3))
		switch q.dice.IntN(12) {
		case 0:
			s.Hints = &rest.SchedulerHints{Query: json.RawMessage(fmt.Sprintf(`["<","$vcpus_free",%d]`, q.dice.IntN(9)))}
		case 1:
			s.Hints = &rest.SchedulerHints{Query: json.RawMessage(fmt.Sprintf(`["=","$arch",%q]`, []string{"x86_64", "aarch64"}[q.dice.IntN(2)]))}
		case 2:
			s.MinCount = &n
		case 3:
			s.Groups = []rest.GroupCreate{{Name: "a", FlavorRef: s.FlavorRef, MinCount: count(0), MaxCount: &n}, {Name: "b", FlavorRef: "c1", MinCount: count(0), MaxCount: count(1 + q.dice.IntN(40))}}
			s.FlavorRef, s.MinCount, s.MaxCount = "", nil, nil
		case 4:
			s.Lifetime = "30m"
		case 5:
			s.Hints = &rest.SchedulerHints{Preemptible: new(rest.Flag(true))}
		case 6:
			q.fits(slotsApart(n))
		case 7:
			q.fits(wholes(n))
		case 8:
			q.finds([]rest.ReservationSpec{slotsApart(n), wholes(n)}[q.dice.IntN(2)])
		case 9:
			q.asks("GET", []string{"/capacity", "/zones", "/zones/child", "/zones/info", "/bindings", "/events?follow=false&kind=host", "/explain/" + q.name()}[q.dice.IntN(7)], nil)
		case 10:
			if q.dice.IntN(20) == 0 {
				last = q.boots(s)
				continue
			}
		}
		last = q.estimate(s)
	}
}

// TestLayoutsCannotBeToldApart is a federation of which the parent, an admin of it and a member of it want to know the child: how many hosts it has,
// and which of two layouts. Each asks -questions questions, more cleverly than at random where it counts. Where the child hides its layout, all answers
// are the same for both layouts, whatever its own callers use of the hosts that are not shown, and whatever share the parent has: so nothing that
// is computed from them is right about a tossed coin in more than half of all cases.
func TestLayoutsCannotBeToldApart(t *testing.T) {
	for _, n := range dice.Part(t, []int{0, 1, 2}, 1) {
		pair := pairs[n]
		t.Run(fmt.Sprintf("%+v", pair), func(t *testing.T) {
			t.Parallel()         // booting is waiting
			seed := dice.Seed(t) // both are asked the same
			var notes [2]string
			var found [2]map[string]int
			for i, l := range pair {
				share := 100
				if n == len(pairs)-1 {
					share = shareOfLayouts
				}
				notes[i], found[i] = l.question(t, share, seed)
			}
			assert.Equal(t, found[0], found[1])
			if notes[0] != notes[1] {
				t.Error(firstDifference(notes[0], notes[1]))
			}
		})
	}
}

// TestLayoutsAreToldApartWhereTheyAreNotHidden: the same questions find the number of hosts of a zone that hides nothing.
func TestLayoutsAreToldApartWhereTheyAreNotHidden(t *testing.T) {
	w := newWorld(t)
	root, child := layout{small: 11}.build(w, 100)
	child.hideLayout(false)
	child.release(t)
	seed := dice.Seed(t)
	for _, role := range []api.UserRole{api.RoleAdmin, api.RoleMember} {
		q := root.tenantOf(t, child, role, seed)
		for name, way := range ways {
			assert.Equal(t, 11, way(q), "%s of an %s", name, role)
		}
	}
}

// release ends all that the zone's own callers have.
func (p *place) release(t *testing.T) {
	t.Helper()
	all, err := p.client().Reservations(t.Context(), client.ListOptions{})
	require.NoError(t, err)
	for _, b := range all.Items {
		release(t, p, b.Reservation)
	}
}

// question lets a member and an admin of the parent, and the parent itself, question a layout, and returns all
// answers and what they found.
func (l layout) question(t *testing.T, share int, seed uint64) (notes string, found map[string]int) {
	w := newWorld(t)
	defer w.end()
	root, child := l.build(w, share)
	found = map[string]int{}
	for _, role := range []api.UserRole{api.RoleMember, api.RoleAdmin} {
		q := root.tenantOf(t, child, role, seed)
		for _, name := range slices.Sorted(maps.Keys(ways)) {
			found[string(role)+": "+name] = ways[name](q)
		}
		q.play(*questionsFlag)
		notes += q.notes.String()
	}
	up := child.door(root, api.ALPNHTTP)
	root.stop() // it would answer that it knows of no hold, which the child gives up then
	own, estimates := session(t, up, "twin", *questionsFlag, seed)
	for name, n := range estimates {
		found["parent: "+name] = int(n)
	}
	assert.Positive(t, found["parent: slots on hosts of their own"])
	return notes + own, found
}
