package gossip

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/internal/codec"
)

// sized returns a digest of zone z1 whose encoding has exactly size bytes.
func sized(t *testing.T, size int) *api.Digest {
	t.Helper()
	d := &api.Digest{Zone: "z1", Sequence: 5, At: 1, Health: "up"}
	length := func() int {
		raw, err := codec.Marshal(*d)
		require.NoError(t, err)
		return len(raw)
	}
	for length() < size-200 {
		d.Traits = append(d.Traits, strings.Repeat("t", 150))
	}
	for i, rest := 0, size-length(); rest > 0; i++ { // strings of 24 to 255 bytes have heads of one size
		n := min(rest, 100)
		d.Traits[i] += strings.Repeat("t", n)
		rest -= n
	}
	require.Equal(t, size, length())
	return d
}

func TestDigestSizeIsLimited(t *testing.T) {
	raw, err := encodeDigest(*sized(t, digestMaxBytes))
	require.NoError(t, err)
	_, err = decodeDigest(raw)
	require.NoError(t, err)
	_, err = encodeDigest(*sized(t, digestMaxBytes+1))
	require.ErrorIs(t, err, errTooLarge)
	raw, err = codec.Marshal(sized(t, digestMaxBytes+1))
	require.NoError(t, err)
	_, err = decodeDigest(raw)
	assert.ErrorIs(t, err, errTooLarge)
}

func TestDigestIsChecked(t *testing.T) {
	long := strings.Repeat("x", labelMaxBytes)
	classes := func(n int) map[api.ResourceClass]api.ClassTotals {
		m := map[api.ResourceClass]api.ClassTotals{}
		for i := range n {
			m[api.ResourceClass("CUSTOM_"+strings.Repeat("X", i+1))] = api.ClassTotals{}
		}
		return m
	}
	cases := []struct {
		name   string
		change func(*api.Digest)
		ok     bool
	}{
		{"as made", func(*api.Digest) {}, true},
		{"no zone", func(d *api.Digest) { d.Zone = "" }, false},
		{"zone with a space", func(d *api.Digest) { d.Zone = "a b" }, false},
		{"no health", func(d *api.Digest) { d.Health = "" }, false},
		{"for ever", func(d *api.Digest) { d.At = api.Forever }, false},
		{"tag at the limit", func(d *api.Digest) { d.Tags = []string{long} }, true},
		{"tag above the limit", func(d *api.Digest) { d.Tags = []string{long + "x"} }, false},
		{"trait with a bell", func(d *api.Digest) { d.Traits = []string{"a\a"} }, false},
		{"availability zone", func(d *api.Digest) { d.AZs = []string{"az 1"} }, true},
		{"availability zone without a name", func(d *api.Digest) { d.AZs = []string{""} }, false},
		{"labels at the limit", func(d *api.Digest) { d.Tags, d.Traits, d.AZs = labels(labelsMax), labels(labelsMax), labels(labelsMax) }, true},
		{"tags above the limit", func(d *api.Digest) { d.Tags = labels(labelsMax + 1) }, false},
		{"traits above the limit", func(d *api.Digest) { d.Traits = labels(labelsMax + 1) }, false},
		{"availability zones above the limit", func(d *api.Digest) { d.AZs = labels(labelsMax + 1) }, false},
		{"gateways at the limit", func(d *api.Digest) { d.Gateways = slices.Repeat([]string{"a:1"}, api.GatewaysMax) }, true},
		{"gateways above the limit", func(d *api.Digest) { d.Gateways = slices.Repeat([]string{"a:1"}, api.GatewaysMax+1) }, false},
		{"gateway without a port", func(d *api.Digest) { d.Gateways = []string{"a:1", "a"} }, false},
		{"classes at the limit", func(d *api.Digest) { d.Classes = classes(api.ClassesMax) }, true},
		{"classes above the limit", func(d *api.Digest) { d.Classes = classes(api.ClassesMax + 1) }, false},
		{"class", func(d *api.Digest) { d.Classes = map[api.ResourceClass]api.ClassTotals{"vcpu": {}} }, false},
		{"less than nothing", func(d *api.Digest) { d.Classes = map[api.ResourceClass]api.ClassTotals{api.VCPU: {Free: -1}} }, false},
		{"flavor", func(d *api.Digest) { d.Sketches[0].Flavor = "" }, false},
		{"resources", func(d *api.Digest) { d.Sketches[0].Resources = api.Resources{"x": 1} }, false},
		{"fits", func(d *api.Digest) { d.Sketches[0].Fits = -1 }, false},
		{"start", func(d *api.Digest) { d.Sketches[0].StartIn = -1 }, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := *digestOf("z1", 1)
			c.change(&d)
			raw, err := codec.Marshal(d)
			require.NoError(t, err)
			_, err = decodeDigest(raw)
			if c.ok {
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, errMalformed)
			}
		})
	}
}

// labels returns n labels.
func labels(n int) []string { return slices.Repeat([]string{"l"}, n) }

// TestWhatIsSaidIsTrimmed: a digest that would be refused is cut to what would not
// be, and rules nothing out then.
func TestWhatIsSaidIsTrimmed(t *testing.T) {
	full := func() api.Digest {
		d := *digestOf("z1", 1)
		d.Traits, d.AZs = []string{"GPU"}, []string{"east-1"}
		return d
	}
	long := slices.Repeat([]string{strings.Repeat("l", labelMaxBytes)}, labelsMax)
	for name, c := range map[string]struct {
		change  func(*api.Digest)
		partial bool
		is      func(api.Digest) bool
	}{
		"as made":         {func(*api.Digest) {}, false, func(d api.Digest) bool { return d.AZs[0] == "east-1" && len(d.Sketches) == 1 }},
		"partial before":  {func(d *api.Digest) { d.Partial = true }, true, func(d api.Digest) bool { return len(d.AZs) == 1 }},
		"many zones":      {func(d *api.Digest) { d.AZs = labels(labelsMax) }, false, func(d api.Digest) bool { return len(d.AZs) == labelsMax }},
		"too many zones":  {func(d *api.Digest) { d.AZs = labels(labelsMax + 1) }, true, func(d api.Digest) bool { return len(d.AZs) == labelsMax && len(d.Traits) == 1 }},
		"too many traits": {func(d *api.Digest) { d.Traits = labels(labelsMax + 1) }, true, func(d api.Digest) bool { return len(d.Traits) == labelsMax }},
		"too many tags":   {func(d *api.Digest) { d.Tags = labels(labelsMax + 1) }, true, func(d api.Digest) bool { return len(d.Tags) == labelsMax }},
		"a bad name":      {func(d *api.Digest) { d.AZs = []string{"a\nb", "", "ok"} }, true, func(d api.Digest) bool { return len(d.AZs) == 1 && d.AZs[0] == "ok" }},
		"too large": {func(d *api.Digest) { d.Traits = long }, true, func(d api.Digest) bool {
			return len(d.Traits)+len(d.AZs)+len(d.Tags)+len(d.Sketches) == 0 && d.Classes[api.VCPU].Total == 64
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := full()
			c.change(&d)
			p := atRest(t, &d)
			p.spreader.sayOwn()
			list, err := decodeState(p.spreader.LocalState(false))
			require.NoError(t, err)
			require.Len(t, list, 1, "it is said")
			heard, err := decodeDigest(list[0].Digest)
			require.NoError(t, err)
			assert.Equal(t, c.partial, heard.Partial)
			assert.True(t, c.is(heard), "%+v", heard)
			assert.Equal(t, p.spreader.heldDigests()["z1"].Digest.Partial, heard.Partial)
		})
	}
}

func TestTableKeepsTheNewest(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	tb := table{ttl: time.Minute, held: map[api.ZoneID]held{}, zones: []api.ZoneID{"a", "b"}}
	said := func(zone api.ZoneID, seq uint64, at api.Instant, age time.Duration) held {
		return held{Heard: Heard{Digest: api.Digest{Zone: zone, Sequence: seq, At: at}, At: now.Add(-age)}}
	}
	assert.Equal(t, verdictNewer, tb.offerDigest(said("a", 5, 1, 0), now))
	assert.Equal(t, verdictKnown, tb.offerDigest(said("a", 5, 1, 0), now))
	assert.Equal(t, verdictKnown, tb.offerDigest(said("a", 4, 9, 0), now), "lower sequence")
	assert.Equal(t, verdictNewer, tb.offerDigest(said("a", 5, 2, 0), now), "later, and nothing was applied in between")
	assert.Equal(t, verdictForeign, tb.offerDigest(said("c", 1, 1, 0), now))
	assert.Equal(t, verdictNewer, tb.offerDigest(said("b", 1, 1, time.Minute), now), "at the limit")
	assert.Equal(t, verdictExpired, tb.offerDigest(said("b", 2, 1, time.Minute+1), now))
	assert.Len(t, tb.carriedDigests(now), 2)

	now = now.Add(30 * time.Second)
	assert.Len(t, tb.carriedDigests(now), 1, "b has expired")
	assert.Equal(t, uint64(30_000), tb.carriedDigests(now)[0].AgeMS)
	assert.Equal(t, verdictKnown, tb.offerDigest(said("a", 5, 2, 10*time.Second), now))
	assert.Equal(t, now.Add(-10*time.Second), tb.held["a"].At, "said again since")
	now = now.Add(time.Minute)
	assert.Equal(t, verdictNewer, tb.offerDigest(said("a", 1, 1, 0), now), "a zone that counts anew is heard after a while")
}

func TestTableOfAnyZonesIsLimited(t *testing.T) {
	tb := table{ttl: time.Minute, held: map[api.ZoneID]held{}}
	now := time.Now()
	for i, zone := range []api.ZoneID{"a", "b", "c"} {
		want := verdictNewer
		if i >= DigestsMax {
			want = verdictForeign
		}
		assert.Equal(t, want, tb.offerDigest(held{Heard: Heard{Digest: api.Digest{Zone: zone}, At: now}}, now))
	}
}

// Whatever passes a digest on in whatever order, a table ends with the newest
// that was offered, as long as nothing expires.
func TestTableAgreesWithMaximum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_800_000_000, 0)
		tb := table{ttl: time.Hour, held: map[api.ZoneID]held{}}
		var best api.Digest
		for range rapid.IntRange(1, 30).Draw(t, "offers") {
			d := api.Digest{
				Zone: "a", Sequence: rapid.Uint64Range(0, 5).Draw(t, "sequence"),
				At: api.Instant(rapid.Int64Range(0, 5).Draw(t, "at")),
			}
			age := time.Duration(rapid.IntRange(0, 3000).Draw(t, "age")) * time.Second
			tb.offerDigest(held{Heard: Heard{Digest: d, At: now.Add(-age)}}, now)
			if best.Zone == "" || isNewer(d, best) {
				best = d
			}
			assert.Equal(t, best, tb.held["a"].Digest)
		}
	})
}

func TestCarriedAges(t *testing.T) {
	now := time.Now()
	raw, err := encodeDigest(*digestOf("z1", 1))
	require.NoError(t, err)
	h, err := carried{AgeMS: 1500, Digest: raw}.openDigest(time.Minute, now)
	require.NoError(t, err)
	assert.Equal(t, now.Add(-1500*time.Millisecond), h.At)
	h, err = carried{AgeMS: 1<<64 - 1, Digest: raw}.openDigest(time.Minute, now)
	require.NoError(t, err)
	assert.Greater(t, now.Sub(h.At), time.Minute, "an absurd age is an old one")
	_, err = carried{Digest: []byte{0xff}}.openDigest(time.Minute, now)
	assert.ErrorIs(t, err, errMalformed)
}

func FuzzDigest(f *testing.F) {
	raw, err := encodeDigest(*digestOf("z1", 1))
	require.NoError(f, err)
	state, err := encodeState([]carried{{AgeMS: 1, Digest: raw}})
	require.NoError(f, err)
	one, err := encodeMessage(carried{AgeMS: 1, Digest: raw})
	require.NoError(f, err)
	f.Add(raw)
	f.Add(state)
	f.Add(one)
	f.Fuzz(func(t *testing.T, b []byte) {
		if d, err := decodeDigest(b); err == nil {
			again, err := encodeDigest(d)
			require.NoError(t, err)
			assert.LessOrEqual(t, len(again), digestMaxBytes)
		}
		if list, err := decodeState(b); err == nil {
			for _, c := range list {
				_, _ = c.openDigest(time.Minute, time.Unix(1, 0)) // must not panic
			}
		}
		if c, err := decodeMessage(b); err == nil {
			_, _ = c.openDigest(time.Minute, time.Unix(1, 0)) // must not panic
		}
	})
}
