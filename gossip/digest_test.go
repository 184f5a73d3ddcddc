package gossip

import (
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
		d.Traits = append(d.Traits, strings.Repeat("t", 100))
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
	raw, err := encodeDigest(*sized(t, DigestMaxBytes))
	require.NoError(t, err)
	_, err = decodeDigest(raw)
	require.NoError(t, err)
	_, err = encodeDigest(*sized(t, DigestMaxBytes+1))
	require.ErrorIs(t, err, errTooLarge)
	raw, err = codec.Marshal(sized(t, DigestMaxBytes+1))
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

func TestTableKeepsTheNewest(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	tb := table{ttl: time.Minute, held: map[api.ZoneID]held{}, zones: []api.ZoneID{"a", "b"}}
	said := func(zone api.ZoneID, seq uint64, at api.Instant, age time.Duration) held {
		return held{Heard: Heard{Digest: api.Digest{Zone: zone, Sequence: seq, At: at}, At: now.Add(-age)}}
	}
	assert.Equal(t, verdictNewer, tb.offer(said("a", 5, 1, 0), now))
	assert.Equal(t, verdictKnown, tb.offer(said("a", 5, 1, 0), now))
	assert.Equal(t, verdictKnown, tb.offer(said("a", 4, 9, 0), now), "lower sequence")
	assert.Equal(t, verdictNewer, tb.offer(said("a", 5, 2, 0), now), "later, and nothing was applied in between")
	assert.Equal(t, verdictForeign, tb.offer(said("c", 1, 1, 0), now))
	assert.Equal(t, verdictNewer, tb.offer(said("b", 1, 1, time.Minute), now), "at the limit")
	assert.Equal(t, verdictExpired, tb.offer(said("b", 2, 1, time.Minute+1), now))
	assert.Len(t, tb.carry(now), 2)

	now = now.Add(30 * time.Second)
	assert.Len(t, tb.carry(now), 1, "b has expired")
	assert.Equal(t, uint64(30_000), tb.carry(now)[0].AgeMS)
	assert.Equal(t, verdictKnown, tb.offer(said("a", 5, 2, 10*time.Second), now))
	assert.Equal(t, now.Add(-10*time.Second), tb.held["a"].At, "said again since")
	now = now.Add(time.Minute)
	assert.Equal(t, verdictNewer, tb.offer(said("a", 1, 1, 0), now), "a zone that counts anew is heard after a while")
}

func TestTableOfAnyZonesIsLimited(t *testing.T) {
	tb := table{ttl: time.Minute, held: map[api.ZoneID]held{}}
	now := time.Now()
	for i, zone := range []api.ZoneID{"a", "b", "c"} {
		want := verdictNewer
		if i >= DigestsMax {
			want = verdictForeign
		}
		assert.Equal(t, want, tb.offer(held{Heard: Heard{Digest: api.Digest{Zone: zone}, At: now}}, now))
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
			tb.offer(held{Heard: Heard{Digest: d, At: now.Add(-age)}}, now)
			if best.Zone == "" || newer(d, best) {
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
	h, err := carried{AgeMS: 1500, Digest: raw}.open(time.Minute, now)
	require.NoError(t, err)
	assert.Equal(t, now.Add(-1500*time.Millisecond), h.At)
	h, err = carried{AgeMS: 1<<64 - 1, Digest: raw}.open(time.Minute, now)
	require.NoError(t, err)
	assert.Greater(t, now.Sub(h.At), time.Minute, "an absurd age is an old one")
	_, err = carried{Digest: []byte{0xff}}.open(time.Minute, now)
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
			assert.LessOrEqual(t, len(again), DigestMaxBytes)
		}
		if list, err := decodeState(b); err == nil {
			for _, c := range list {
				_, _ = c.open(time.Minute, time.Unix(1, 0)) // must not panic
			}
		}
		if c, err := decodeMessage(b); err == nil {
			_, _ = c.open(time.Minute, time.Unix(1, 0)) // must not panic
		}
	})
}
