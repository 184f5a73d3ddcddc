package state

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/raftstore/command"
)

func TestRulesOfPlaces(t *testing.T) {
	type at = map[api.LinkID]int
	for name, c := range map[string]struct {
		rule api.ZoneRule
		held []at
		want string
	}{
		"no rule":          {api.ZoneRule{}, []at{{"": 5}}, ""},
		"nothing held":     {api.ZoneRule{Pack: true, MaxSkew: 1}, []at{{}}, ""},
		"pack":             {api.ZoneRule{Pack: true}, []at{{"a": 2}, {"a": 1}}, ""},
		"unpacked":         {api.ZoneRule{Pack: true}, []at{{"a": 2}, {"": 1}}, "holds instances in 2 zones and must be in one"},
		"enough zones":     {api.ZoneRule{MinZones: 2}, []at{{"a": 2}, {"": 1}}, ""},
		"too few zones":    {api.ZoneRule{MinZones: 3}, []at{{"a": 2}, {"": 1}}, "holds instances in 2 zones and needs 3"},
		"even":             {api.ZoneRule{MaxSkew: 1}, []at{{"a": 2, "b": 1}, {"a": 1, "b": 2}}, ""},
		"skew of a group":  {api.ZoneRule{MaxSkew: 1}, []at{{"a": 3, "b": 1}}, "holds 2 instances of group 0 more in one zone than in another, and may 1"},
		"by another group": {api.ZoneRule{MaxSkew: 1}, []at{{"a": 2}, {"b": 1}}, "holds 2 instances of group 0 more in one zone than in another, and may 1"},
		"named":            {api.ZoneRule{MaxSkew: 1}, []at{{"a": 1}, {"b": 2}}, `holds 2 instances of group "db" more in one zone than in another, and may 1`},
		"one zone alone":   {api.ZoneRule{MaxSkew: 1}, []at{{"a": 9}}, ""},
	} {
		r := api.Request{Zones: c.rule, Groups: []api.Group{{}, {Name: "db"}}}
		assert.Equal(t, c.want, describeZoneShortfall(&r, c.held), name)
	}
}

// TestRulesWithinAnEntry takes slots of two groups under one rule.
func TestRulesWithinAnEntry(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 9)
	w.host("h2", 9)
	w.link("c1", api.LinkChild)
	b := create(w.stamp(), "r1", 4, 1)
	b.Request.Groups = append(b.Request.Groups, b.Request.Groups[0])
	b.Request.Rules = []api.Rule{{Policy: api.AntiAffinity, Max: 1, Groups: []int{0, 1}}}
	w.ok(b)
	h := hold(w.stamp(), "k1", "r1", append(slots("h1", "a", "b"), slots("h2", "c")...), part("c1", "d", "e"))
	h.Request = b.Request
	h.Slots[1].Group = 1
	got := w.ok(h).Hold
	assert.Equal(t, []api.InstanceID{"b"}, got.Refused, "one on each host, whatever the group; the child sees to its own")
	assert.Equal(t, map[api.HostID]int{"h1": 1, "h2": 1}, maps.Collect(w.s.Tenancy(api.Tenant{Project: "p"})))
	assert.Empty(t, maps.Collect(w.s.Tenancy(api.Tenant{Project: "q"})))
	w.ok(command.HoldParts{Stamp: w.stamp(), ID: "k1", Answers: []command.PartAnswer{answer("c1", "d")}})
	held := w.s.HeldSlots(w.boot("r1"))
	assert.Equal(t, []map[api.LinkID]int{{"": 2, "c1": 1}, {}}, held)
	w.ok(bootDecide(w.stamp(), "r1", api.DecisionCommit))
	assert.Equal(t, []map[api.LinkID]int{{}, {}}, w.s.HeldSlots(w.boot("r1")), "nothing is held any more")

	link, here, known := w.s.PlaceOf(api.Tenant{Project: "p"}, "d")
	assert.Equal(t, []any{api.LinkID("c1"), false, true}, []any{link, here, known})
	_, here, known = w.s.PlaceOf(api.Tenant{Project: "p"}, "a")
	assert.True(t, here && known)
	_, _, known = w.s.PlaceOf(api.Tenant{Project: "q"}, "a")
	assert.False(t, known, "of another project")
	host, ok := w.s.HostOf(api.Tenant{Project: "p"}, "c")
	assert.True(t, ok)
	assert.Equal(t, api.HostID("h2"), host)
	_, ok = w.s.HostOf(api.Tenant{Project: "p"}, "d")
	assert.False(t, ok, "it is in a child")
	_, ok = w.s.HostOf(api.Tenant{Project: "q"}, "c")
	assert.False(t, ok)
	checkIndexes(t, w.s)
}

// TestExpiredIsReleasedOnce ends an instance whose claim has passed already.
func TestExpiredIsReleasedOnce(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 2)
	w.host("h2", 2)
	w.ok(create(w.stamp(), "r1", 1, 1))
	h := hold(w.stamp(), "k1", "r1", slots("h1", "a"))
	h.Request.Lifetime, h.Commit = 100_000_000, true // 100 ms
	w.ok(h)
	w.ok(command.InstanceMove{Stamp: w.stamp(), ID: "a", From: "h1", To: "h2"})
	w.now += 100
	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "a"})
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "a"))
	for _, host := range []string{"h1", "h2"} {
		assert.Zero(t, w.used(host))
		assert.Equal(t, int64(2), w.s.Hosts().FreeFromNow(rowOf(w.s, host), api.VCPU), host)
	}
	assert.Equal(t, api.Forever, w.s.NextExpiry())
	checkIndexes(t, w.s)
}

// TestWordOnAnEarlierStay has an instance move away and back: what the agent still
// says of the stay before, DELETED or not, says nothing of the one that begins.
func TestWordOnAnEarlierStay(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 2)
	w.host("h2", 2)
	w.ok(create(w.stamp(), "r1", 1, 1))
	h := hold(w.stamp(), "k1", "r1", slots("h1", "a"))
	h.Commit = true
	w.ok(h)
	said := func(host string, st api.Status, stay uint64) command.InstanceReport {
		c := reports(w.stamp(), "a1", host, st, "a")
		c.Items[0].Stay = stay
		return c
	}
	move := func(from, to string) command.InstanceMove {
		return command.InstanceMove{Stamp: w.stamp(), ID: "a", From: api.HostID(from), To: api.HostID(to)}
	}
	w.ok(move("h1", "h2"))
	w.ok(said("h1", api.StatusDeleted, 1))
	w.ok(move("h2", "h1"))
	w.ok(said("h2", api.StatusDeleted, 2))
	for _, stay := range []uint64{1, 2, 4} {
		for _, st := range []api.Status{api.StatusDeleted, api.StatusActive, api.StatusError} {
			w.unchanged(said("h1", st, stay))
		}
	}
	i, _ := w.s.Instance("a")
	assert.Equal(t, api.StatusBuild, i.Status)
	assert.Equal(t, uint64(3), i.Stay())
	w.ok(said("h1", api.StatusActive, 3))
	i, _ = w.s.Instance("a")
	assert.Equal(t, api.StatusActive, i.Status)
	w.ok(said("h1", api.StatusShutoff, 0))
	i, _ = w.s.Instance("a")
	assert.Equal(t, api.StatusShutoff, i.Status, "an agent that names no stay speaks of any")
	checkIndexes(t, w.s)
}

func rowOf(s *State, host string) int {
	row, _ := s.Hosts().Row(api.HostID(host))
	return row
}
