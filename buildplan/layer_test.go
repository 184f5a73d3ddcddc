package buildplan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/buildplan"
	"berth/internal/codec"
)

func slots(n int) []buildplan.Slot {
	out := make([]buildplan.Slot, n)
	for i := range out {
		out[i] = buildplan.Slot{Host: api.HostID(fmt.Sprintf("h%d", i)), Generation: uint64(i), Weight: int64(-i)}
	}
	return out
}

func layer() buildplan.Layer {
	return buildplan.Layer{
		Plan: "p1", Expires: 60_000,
		Groups: []buildplan.LayerGroup{
			{Slots: slots(2), Alternates: slots(1), Order: []uint16{0, 1, 1, 2, 0}},
			{Order: []uint16{2}},
		},
		Children: []buildplan.Child{{Link: "l1", Blob: []byte{1}}, {Link: "l2", Blob: []byte{2, 3}}},
	}
}

func TestLayerRoundTrip(t *testing.T) {
	b, err := layer().Encode()
	require.NoError(t, err)
	got, err := buildplan.DecodeLayer(b)
	require.NoError(t, err)
	assert.Equal(t, layer(), got)
	assert.Equal(t, []int{1, 2, 0}, got.Prefix(0, 3))
	assert.Equal(t, []int{0, 0, 1}, got.Prefix(1, 9))
	assert.Nil(t, got.Prefix(2, 1))
	assert.Nil(t, got.Prefix(-1, 1))
}

// children returns n children with different links.
func children(n int) []buildplan.Child {
	out := make([]buildplan.Child, n)
	for i := range out {
		out[i] = buildplan.Child{Link: api.LinkID(fmt.Sprint("l", i)), Blob: []byte{1}}
	}
	return out
}

func TestLayerLimits(t *testing.T) {
	long := strings.Repeat("x", api.NameMaxBytes)
	for name, c := range map[string]struct {
		change func(l *buildplan.Layer, over int) // over is 0 at the limit, 1 beyond
	}{
		"groups": {func(l *buildplan.Layer, over int) {
			l.Groups = make([]buildplan.LayerGroup, api.GroupsMax+over)
		}},
		"children": {func(l *buildplan.Layer, over int) { l.Children = children(api.LinksMax + over) }},
		"alternates": {func(l *buildplan.Layer, over int) {
			l.Groups[0].Alternates = slots(buildplan.SpareMax + over)
		}},
		"slots": {func(l *buildplan.Layer, over int) {
			l.Groups = []buildplan.LayerGroup{{Slots: slots(api.CountMax + over)}}
		}},
		"order": {func(l *buildplan.Layer, over int) {
			l.Groups = []buildplan.LayerGroup{{Order: make([]uint16, api.CountMax+over)}}
			for i := range l.Groups[0].Order {
				l.Groups[0].Order[i] = 1
			}
		}},
		"slots of all groups": {func(l *buildplan.Layer, over int) {
			l.Groups = []buildplan.LayerGroup{{Slots: slots(api.CountMax - 5)}, {Slots: slots(5 + over)}}
		}},
		"source":     {func(l *buildplan.Layer, over int) { l.Groups[1].Order = []uint16{uint16(2 + over)} }},
		"own slots":  {func(l *buildplan.Layer, over int) { l.Groups[0].Order = make([]uint16, 2+over) }},
		"plan id":    {func(l *buildplan.Layer, over int) { l.Plan = api.PlanID(long + strings.Repeat("x", over)) }},
		"no plan id": {func(l *buildplan.Layer, over int) { l.Plan = api.PlanID(strings.Repeat("x", 1-over)) }},
		"expiry":     {func(l *buildplan.Layer, over int) { l.Expires = api.Instant(1 - over) }},
		"host id": {func(l *buildplan.Layer, over int) {
			l.Groups[0].Slots[1].Host = api.HostID(long + strings.Repeat("x", over))
		}},
		"kept slot": {func(l *buildplan.Layer, over int) {
			l.Groups[0].Slots[1].Keeps = api.InstanceID(long + strings.Repeat("x", over))
		}},
		"no host id": {func(l *buildplan.Layer, over int) {
			l.Groups[0].Alternates[0].Host = api.HostID(strings.Repeat("x", 1-over))
		}},
		"link":    {func(l *buildplan.Layer, over int) { l.Children[1].Link = api.LinkID(long + strings.Repeat("x", over)) }},
		"no link": {func(l *buildplan.Layer, over int) { l.Children[1].Link = api.LinkID(strings.Repeat("x", 1-over)) }},
		"link twice": {func(l *buildplan.Layer, over int) {
			l.Children[1].Link = api.LinkID(fmt.Sprint("l", 2-over))
		}},
		"counts asked": {func(l *buildplan.Layer, over int) {
			l.Children[0].Ask.Counts = make([]int, api.GroupsMax+over)
		}},
		"met specs": {func(l *buildplan.Layer, over int) {
			l.Children[0].Ask.Met = make([]uint64, api.GroupsMax+over)
		}},
		"no blob": {func(l *buildplan.Layer, over int) { l.Children[0].Blob = make([]byte, 1-over) }},
	} {
		l := layer()
		c.change(&l, 0)
		b, err := l.Encode()
		require.NoError(t, err, name)
		_, err = buildplan.DecodeLayer(b)
		require.NoError(t, err, name)

		l = layer()
		c.change(&l, 1)
		require.Error(t, l.Validate(), name)
		_, err = l.Encode()
		require.Equal(t, api.CodeInternal, api.CodeOf(err), name)
		b, err = codec.Marshal(l)
		require.NoError(t, err)
		_, err = buildplan.DecodeLayer(b)
		require.Equal(t, api.CodePlanRefused, api.CodeOf(err), name)
	}
}

// TestAskMeetsTags: a child is told which extra specs it meets as a whole, beside those that were met above.
func TestAskMeetsTags(t *testing.T) {
	req := &api.Request{Groups: []api.Group{
		{ExtraSpecs: map[string]string{"disk": "fast", "gpu": "cad", "z": "1"}, Met: []string{"z"}},
		{ExtraSpecs: map[string]string{"gpu": "other"}},
	}}
	var a buildplan.Ask
	a.MeetTags(req, []string{"disk=slow", "rack=1"})
	assert.True(t, a.IsZero())
	a.MeetTags(req, []string{"gpu=cad", "z=1"})
	assert.Equal(t, []uint64{0b110, 0}, a.Met)
	its := a.Request(req)
	assert.Equal(t, []string{"gpu", "z"}, its.Groups[0].Met)
	assert.Empty(t, its.Groups[1].Met)
	assert.Equal(t, []string{"z"}, req.Groups[0].Met, "the request itself stays as it is")
	assert.Equal(t, []string{"z"}, buildplan.Ask{}.Request(req).Groups[0].Met)
}

// TestAskMeetsAZ: a child that is an availability zone is asked for it without the name.
func TestAskMeetsAZ(t *testing.T) {
	req := &api.Request{Groups: []api.Group{{AZ: "az1"}, {}, {AZ: "az2"}, {AZ: "az1"}}}
	var a buildplan.Ask
	a.MeetAZ(req, "")
	a.MeetAZ(req, "az3")
	assert.True(t, a.IsZero())
	a.MeetAZ(req, "az1")
	assert.False(t, a.IsZero())
	its := a.Request(req)
	assert.Equal(t, []string{"", "", "az2", ""}, []string{its.Groups[0].AZ, its.Groups[1].AZ, its.Groups[2].AZ, its.Groups[3].AZ})
	assert.Equal(t, "az1", req.Groups[0].AZ, "the request itself stays as it is")
}

func TestLayerBytes(t *testing.T) {
	l := layer()
	l.Children[0].Blob = nil
	l.Children = l.Children[:1]
	l.Groups = l.Groups[:1]
	l.Groups[0].Order = nil
	l.Children[0].Blob = make([]byte, api.BlobMaxBytes-1000)
	b, err := l.Encode()
	require.NoError(t, err)
	l.Children[0].Blob = make([]byte, len(l.Children[0].Blob)+api.BlobMaxBytes-len(b))
	b, err = l.Encode()
	require.NoError(t, err)
	require.Len(t, b, api.BlobMaxBytes)
	_, err = buildplan.DecodeLayer(b)
	require.NoError(t, err)

	l.Children[0].Blob = append(l.Children[0].Blob, 0)
	_, err = l.Encode()
	require.Equal(t, api.CodeTooLarge, api.CodeOf(err))
	b, err = codec.Marshal(l)
	require.NoError(t, err)
	_, err = buildplan.DecodeLayer(b)
	require.Equal(t, api.CodePlanRefused, api.CodeOf(err))
}

// A refusal has one sentence, whatever the reason.
func TestDecodeSaysOneThing(t *testing.T) {
	good, err := layer().Encode()
	require.NoError(t, err)
	_, first := buildplan.DecodeLayer(nil)
	for _, b := range [][]byte{{0xff}, good[:len(good)-1], append(good, 0), {0xa0}} {
		_, err := buildplan.DecodeLayer(b)
		require.Equal(t, api.MessageOf(first), api.MessageOf(err))
		require.Equal(t, api.CodePlanRefused, api.CodeOf(err))
	}
}

func FuzzDecodeLayer(f *testing.F) {
	for _, l := range []buildplan.Layer{layer(), {Plan: "p", Expires: 1, Groups: make([]buildplan.LayerGroup, 1)}} {
		b, err := l.Encode()
		require.NoError(f, err)
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Add([]byte{0xa0})
	f.Add([]byte{0xa4, 0x03, 0x9a, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := buildplan.DecodeLayer(b)
		if err != nil {
			require.Equal(t, api.CodePlanRefused, api.CodeOf(err))
			return
		}
		require.NoError(t, l.Validate())
		for i := range l.Groups {
			l.Prefix(i, len(l.Groups[i].Order))
		}
		again, err := l.Encode()
		require.NoError(t, err)
		other, err := buildplan.DecodeLayer(again)
		require.NoError(t, err)
		once, err := other.Encode()
		require.NoError(t, err)
		require.Equal(t, again, once)
	})
}

func TestDigest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		req := drawRequest(t)
		req.Reservation, req.Project = "r-1", "p"
		b, err := codec.Marshal(req)
		require.NoError(t, err)
		var travelled api.Request
		require.NoError(t, codec.Unmarshal(b, &travelled))
		require.Equal(t, buildplan.Digest(req), buildplan.Digest(&travelled))
		travelled.Groups[0].Count++
		require.NotEqual(t, buildplan.Digest(req), buildplan.Digest(&travelled))
		travelled = *req
		travelled.Project = "q"
		require.NotEqual(t, buildplan.Digest(req), buildplan.Digest(&travelled))
	})
}
