package intake

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
	"berth/zone"
)

// said is what the children say of themselves, and how long ago.
type said map[api.ZoneID]struct {
	digest api.Digest
	age    time.Duration
}

func (s said) Digest(z api.ZoneID) (api.Digest, time.Duration, bool) {
	d, ok := s[z]
	return d.digest, d.age, ok
}

// bothSaid returns the digests of east and west, which have hosts.
func bothSaid(change func(west *api.Digest, age *time.Duration)) said {
	classes := map[api.ResourceClass]api.ClassTotals{api.VCPU: {Total: 1}}
	out := said{}
	for name, d := range map[api.ZoneID]api.Digest{
		"zone-east": {Classes: classes, AZs: []string{"az-east"}, Tags: []string{"ssd"}},
		"zone-west": {Classes: classes, AZs: []string{"az-west-1", "az-west-2"}, Tags: []string{"cad"}},
	} {
		one := out[name]
		one.digest = d
		if name == "zone-west" {
			change(&one.digest, &one.age)
		}
		out[name] = one
	}
	return out
}

// TestWhatIsNowhereIsRefused: an availability zone or a tag that neither this zone nor a child has is
// refused, with what is like it and what there is. Whatever a silent child may have is left to the plan.
func TestWhatIsNowhereIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store.Must(t, command.AggregatePut{Stamp: w.zone.Stamp(), Aggregate: api.Aggregate{
		ID: "a", Name: "empty", Metadata: map[string]string{api.MetaAZ: "az-soon"},
	}}, command.LinkSet{Stamp: w.zone.Stamp(), ID: "link-west", AZ: new("az-said")})
	az := func(name string) *rest.ServerCreate {
		return web(func(s *rest.ServerCreate) { s.AvailabilityZone = name })
	}
	tag := func(names ...string) *rest.ServerCreate {
		return web(func(s *rest.ServerCreate) { s.Zones = &rest.ZoneRule{AllowedTags: names} })
	}
	same := func(*api.Digest, *time.Duration) {}
	by := func(c api.Caller, heard zone.Digests, s *rest.ServerCreate) error {
		_, err := Order(w.zone, heard, Source{Caller: c}, &rest.BootBody{Server: *s})
		return err
	}
	order := func(heard zone.Digests, s *rest.ServerCreate) error { return by(member, heard, s) }
	all := bothSaid(same)
	refused(t, order(all, az("az-west-3")), api.CodeInvalid, `availability_zone: there is no availability zone "az-west-3" here or below `+
		`(did you mean "az-west-1" or "az-west-2"?); there are az-east, az-said, az-soon, az-west-1, az-west-2, root`)
	hidden := order(all, tag("ssd", "cat"))
	assert.Equal(t, `zones.allowed_tags: there is no zone with the tag "cat" here or below`, api.MessageOf(hidden), "tags are for admins")
	refused(t, by(admin, all, tag("ssd", "cat")), api.CodeInvalid,
		`zones.allowed_tags: there is no zone with the tag "cat" here or below (did you mean "cad"?); there are cad, ssd`)
	for _, s := range []*rest.ServerCreate{az("root"), az("az-east"), az("az-west-2"), az("az-soon"), az("az-said"), tag("ssd"), tag("cad", "ssd")} {
		require.NoError(t, order(all, s))
	}
	for name, change := range map[string]func(west *api.Digest, age *time.Duration){
		"old":     func(_ *api.Digest, age *time.Duration) { *age = digestAgeMax + 1 },
		"partial": func(d *api.Digest, _ *time.Duration) { d.Partial = true },
		"bare":    func(d *api.Digest, _ *time.Duration) { d.Classes = nil },
	} {
		require.NoError(t, order(bothSaid(change), az("typo")), name)
		require.NoError(t, order(bothSaid(change), tag("typo")), name)
	}
	refused(t, order(bothSaid(func(_ *api.Digest, age *time.Duration) { *age = digestAgeMax }), az("typo")), api.CodeInvalid, "there is no availability zone")
	require.NoError(t, order(nil, az("typo")), "nothing was heard of the children")
	before := w.index()
	refused(t, order(all, az("typo")), api.CodeInvalid, "there is no availability zone")
	assert.Equal(t, before, w.index(), "nothing is recorded")
}

// TestWhatNoDigestHasIsAskedFor: an availability zone or a tag that nobody has told of is refused only if the zones below, asked anew, have
// no place for the order. Whatever else is wrong is refused without asking them, and a repeat is answered without it.
func TestWhatNoDigestHasIsAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := bothSaid(func(*api.Digest, *time.Duration) {})
	asked := 0
	order := func(found bool, edit func(s *rest.ServerCreate)) error {
		from := Source{Caller: member, Ask: func(req *api.Request) bool {
			asked++
			assert.Len(t, req.Groups, 1)
			return found
		}}
		_, err := Order(w.zone, all, from, &rest.BootBody{Server: *web(edit)})
		return err
	}
	az := func(s *rest.ServerCreate) { s.AvailabilityZone = "az-new" }
	tag := func(s *rest.ServerCreate) { s.Zones = &rest.ZoneRule{AllowedTags: []string{"new"}} }
	require.NoError(t, order(true, az))
	require.NoError(t, order(true, tag))
	refused(t, order(false, az), api.CodeInvalid, "there is no availability zone")
	refused(t, order(false, tag), api.CodeInvalid, "there is no zone with the tag")
	assert.Equal(t, 4, asked)
	refused(t, order(true, func(s *rest.ServerCreate) { az(s); s.FlavorRef = "none" }), api.CodeInvalid, "there is no flavor")
	require.NoError(t, order(false, func(s *rest.ServerCreate) { s.AvailabilityZone = "az-east" }))
	assert.Equal(t, 4, asked)
}

// TestNamesThatAreAlike are found by at most two changes, of at most half of the characters.
func TestNamesThatAreAlike(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, says string }{
		{"wset", ` (did you mean "west"?)`},
		{"WEST", ` (did you mean "west"?)`},
		{"wes", ` (did you mean "west"?)`},
		{"wests", ` (did you mean "west"?)`},
		{"was", ` (did you mean "west"?)`},
		{"wa", ""},
		{"ab", ""},
		{"", ""},
		{"mars", ""},
		{strings.Repeat("x", 9), ""},
		{"edge-0", ` (did you mean "edge-1" or "edge-2" or "edge-3"?)`},
	} {
		assert.Equal(t, c.says, near(c.name, []string{"west", "ac-dc", "edge-1", "edge-2", "edge-3", "edge-4"}), c.name)
	}
}
