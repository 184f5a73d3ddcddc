package command_test

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/internal/codec"
	"berth/internal/golden"
	"berth/raftstore/command"
)

const packedBase = "01234567-89ab-8def-8123-456789ab"

// bootOf returns the command of a boot of n instances, and its hold on hosts in turn.
func bootOf(n, hosts int) (command.BootCreate, command.Hold) {
	var b command.BootCreate
	h := command.Hold{ID: "k", Attempt: 1, Spares: [][]api.HostID{{hostNumbered(1), hostNumbered(hosts + 1)}}}
	b.At, h.At = 1, 2
	b.Digest, b.Request.Groups = []byte{1}, []api.Group{{Count: n, Resources: api.Resources{api.VCPU: 1}}}
	for i := range n {
		spec := api.InstanceSpec{ID: api.InstanceID(fmt.Sprintf("%s%04x", packedBase, i)), Name: fmt.Sprintf("web-%d", i+1)}
		b.Instances = append(b.Instances, spec)
		h.Slots = append(h.Slots, command.Slot{Instance: spec, Host: hostNumbered(i % hosts)})
	}
	h.Request = b.Request
	return b, h
}

func hostNumbered(n int) api.HostID {
	return api.HostID(fmt.Sprintf("a1234567-89ab-4def-8123-%012x", n))
}

func reportOf(h command.Hold) command.InstanceReport {
	c := command.InstanceReport{Stamp: h.Stamp, Agent: "a"}
	for i, sl := range h.Slots {
		r := api.InstanceReport{Host: sl.Host, Instance: sl.Instance.ID, Status: api.StatusActive, Stay: 1}
		if i == 2 {
			r.Status, r.Fault, r.Stay = api.StatusError, "it broke", 2
		}
		c.Items = append(c.Items, r)
	}
	return c
}

func packedGolden(tb testing.TB) []string {
	tb.Helper()
	files, err := filepath.Glob("testdata/packed/*.hex")
	require.NoError(tb, err)
	require.Len(tb, files, 6)
	return files
}

// reread writes and reads a command in a form, and returns it with its size.
func reread(tb require.TestingT, c command.Command, form api.Form) (command.Command, int) {
	b, err := command.Encode(c, form)
	require.NoError(tb, err)
	got, err := command.Decode(b, api.FormNewest)
	require.NoError(tb, err)
	return got, len(b)
}

// sameBody compares two commands by their bytes in the form before the packed one.
func sameBody(tb require.TestingT, want, got command.Command) {
	a, err := codec.Marshal(want)
	require.NoError(tb, err)
	b, err := codec.Marshal(got)
	require.NoError(tb, err)
	require.Equal(tb, a, b)
}

func TestPackedGoldenBytes(t *testing.T) {
	b, h := bootOf(4, 3)
	other := h
	other.Slots, other.Spares = nil, nil
	other.Parts = []command.Part{{Link: "l", Instances: [][]api.InstanceSpec{b.Instances[:3], nil, {{ID: "x", Name: "y"}}}}}
	grouped := h
	grouped.Slots = append([]command.Slot{{Instance: api.InstanceSpec{ID: "odd", Name: "odd"}, Group: 1, Host: "odd"}}, h.Slots...)
	for name, c := range map[string]command.Command{
		"19-BootCreate": b, "20-Hold": h, "20-Hold-parts": other, "20-Hold-groups": grouped, "27-InstanceReport": reportOf(h),
	} {
		path := "testdata/packed/" + name + "-v5.hex"
		e, err := command.Encode(c, api.FormFifth)
		require.NoError(t, err)
		golden.Check(t, path, lines(e))
		got, err := command.Decode(unlines(t, path), api.FormNewest)
		require.NoError(t, err)
		assert.Equal(t, api.FormFifth, got.Form())
		got = withHosts(t, got, c)
		sameBody(t, c, got)
		for n := range e {
			_, err := command.Decode(e[:n], api.FormNewest)
			require.Error(t, err, "%s cut to %d of %d bytes", name, n, len(e))
		}
	}
}

// withHosts returns a report as it was read with the hosts in place of their sums.
func withHosts(tb require.TestingT, got, want command.Command) command.Command {
	r, ok := got.(command.InstanceReport)
	if !ok {
		return got
	}
	items := want.(command.InstanceReport).Items
	require.Len(tb, r.Items, len(items))
	r.Items = slices.Clone(r.Items)
	for i := range items {
		require.True(tb, command.IsHost(r.Items[i].Host, items[i].Host))
		r.Items[i].Host = items[i].Host
	}
	return r
}

// rereadAfter writes and reads a command behind another in the newest form.
func rereadAfter(tb require.TestingT, after, c command.Command) (command.Command, int) {
	b, err := command.EncodeAfter(after, c, api.FormNewest)
	require.NoError(tb, err)
	got, err := command.DecodeAfter(after, b, api.FormNewest)
	require.NoError(tb, err)
	return got, len(b)
}

// TestPackedSize bounds the bytes of log of a boot with all that a caller may give it, until its
// instances are ACTIVE: 2 KB and its metadata are the goal. What grows with its count are the hosts:
// an id of each that differs in the hold, and a sum of it in the report.
func TestPackedSize(t *testing.T) {
	for n, most := range map[int]int{1: 900, 100: 2_900, 10_000: 21_000} {
		b, h := bootOf(n, 1_000)
		b.Key, b.Name, b.Call, b.Digest = strings.Repeat("k", 36), "web", api.RequestID(hostNumbered(5)), make([]byte, 32)
		b.Request.Reservation, b.Request.Project, b.Request.User = api.ReservationID(hostNumbered(6)), api.ProjectID(hostNumbered(7)), api.UserID(hostNumbered(8))
		b.Request.Window.End, b.Request.Groups[0].Flavor = api.Forever, "m1.small"
		b.Request.Groups[0].Resources = api.Resources{api.VCPU: 1, api.MemoryMB: 2048, api.DiskGB: 20}
		b.Metadata = map[string]string{}
		metadata := 0
		for k := range api.MetadataMax {
			key := fmt.Sprintf("key-%02d", k)
			b.Metadata[key] = strings.Repeat("v", 200)
			metadata += len(key) + 203
		}
		h.Request, h.Metadata, h.ID, h.Expires = b.Request, b.Metadata, api.HoldID(packedBase[:32]), api.Forever
		h.Request.Since, h.Request.Attempt, h.Commit = 7, 1, true
		h.Outcome = &api.BootAttempt{
			Attempt: 1, Wanted: n, Zones: []api.ZoneOutcome{{Zone: "zone", Outcome: api.OutcomeAnswered, Wanted: n, Offered: n, Taken: n, Cost: 1}},
			Refusals: []api.Refusals{{Considered: 1_000, Offering: 1_000}}, Offered: []api.Offer{{Wanted: n, Offered: n}},
		}
		r := reportOf(h)
		got, boot := reread(t, b, api.FormFifth)
		sameBody(t, b, got)
		gotHold, hold := rereadAfter(t, b, h)
		sameBody(t, h, gotHold)
		got, report := rereadAfter(t, gotHold, r)
		sameBody(t, r, withHosts(t, got, r))
		t.Logf("boot of %d: %d bytes of BootCreate without metadata, %d of Hold, %d of InstanceReport", n, boot-metadata, hold, report)
		assert.Less(t, boot-metadata+hold+report, most, "boot of %d", n)
	}
}

// TestHoldOfBoot has holds behind boots of which they have much or little, and one that is torn from
// its boot.
func TestHoldOfBoot(t *testing.T) {
	b, h := bootOf(4, 3)
	b.Metadata = map[string]string{"k": "v"}
	like := h
	like.Metadata, like.Request.Since, like.Request.Attempt = b.Metadata, 9, 1
	got, size := rereadAfter(t, b, like)
	sameBody(t, like, got)
	_, alone := reread(t, like, api.FormFifth)
	assert.Less(t, size+70, alone)
	e, err := command.EncodeAfter(b, like, api.FormFifth)
	require.NoError(t, err)
	golden.Check(t, "testdata/packed/20-Hold-of-boot-v5.hex", lines(e))
	short := b
	short.Instances = b.Instances[:3]
	for name, after := range map[string]command.Command{"nothing": nil, "another kind": h, "a boot of fewer": short} {
		_, err = command.DecodeAfter(after, e, api.FormNewest)
		require.ErrorContains(t, err, "malformed packed list", "behind %s", name)
	}
	for name, change := range map[string]func(h *command.Hold){
		"metadata":  func(h *command.Hold) { h.Metadata = nil },
		"a parent":  func(h *command.Hold) { h.Origin = "l" },
		"request":   func(h *command.Hold) { h.Request.User = "u" },
		"order":     func(h *command.Hold) { h.Slots = append(h.Slots[1:4:4], h.Slots[0]) },
		"a slot":    func(h *command.Hold) { h.Slots = h.Slots[1:] },
		"fewer":     func(h *command.Hold) { h.Slots = h.Slots[:2] },
		"no slots":  func(h *command.Hold) { h.Slots = nil },
		"a lease":   func(h *command.Hold) { h.Slots = []command.Slot{h.Slots[0]}; h.Slots[0].Within = "s" },
		"the whole": func(*command.Hold) {},
	} {
		other := like
		change(&other)
		got, _ := rereadAfter(t, b, other)
		sameBody(t, other, got)
		old, err := command.EncodeAfter(b, other, api.FormFourth)
		require.NoError(t, err, name)
		alone, err := command.Encode(other, api.FormFourth)
		require.NoError(t, err)
		assert.Equal(t, alone, old, "%s: forms before have no reference", name)
	}
}

// TestIsHost: a sum stands for its host alone.
func TestIsHost(t *testing.T) {
	_, h := bootOf(1, 1)
	r := reportOf(h)
	got, _ := reread(t, r, api.FormFifth)
	short := got.(command.InstanceReport).Items[0].Host
	assert.NotEqual(t, h.Slots[0].Host, short)
	assert.True(t, command.IsHost(short, h.Slots[0].Host))
	assert.False(t, command.IsHost(short, hostNumbered(1)))
	assert.False(t, command.IsHost("~0000000", h.Slots[0].Host))
	assert.True(t, command.IsHost("h", "h"))
	assert.False(t, command.IsHost("h", "h2"))
	r.Items[0].Stay = 0
	got, _ = reread(t, r, api.FormFifth)
	assert.Equal(t, r.Items, got.(command.InstanceReport).Items, "without a stay the host decides")
}

// TestPackedLimits packs as much as is read, and one more as before.
func TestPackedLimits(t *testing.T) {
	const most = 100_000
	b, _ := bootOf(1, 1)
	for _, n := range []int{most, most + 1} {
		b.Instances = b.Instances[:1:1]
		for len(b.Instances) < n {
			k := len(b.Instances)
			b.Instances = append(b.Instances, api.InstanceSpec{
				ID: api.InstanceID(fmt.Sprintf("%s%04x", packedBase[:31]+string(rune('0'+k>>16)), k&0xffff)), Name: fmt.Sprintf("web-%d", k+1),
			})
		}
		got, size := reread(t, b, api.FormFifth)
		assert.Equal(t, n <= most, size < 1_000)
		assert.Equal(t, b.Instances, got.(command.BootCreate).Instances)
	}
}

// TestPackedListsKeepEveryField sets one field after the other in an item of a list that is packed: it is read as it was
// written. A field that is added later is in none of the packed bodies.
func TestPackedListsKeepEveryField(t *testing.T) {
	slot := command.Slot{Instance: api.InstanceSpec{ID: packedBase + "0000", Name: "a-1"}, Host: hostNumbered(1)}
	report := api.InstanceReport{Host: hostNumbered(1), Instance: packedBase + "0000", Status: api.StatusActive, Stay: 7}
	part := command.Part{Link: "l", Instances: [][]api.InstanceSpec{{{ID: packedBase + "0000", Name: "a-1"}}}}
	spec := slot.Instance
	for name, item := range map[string]struct {
		of   any
		list func(v any) command.Command
	}{
		"slot": {&slot, func(v any) command.Command { return command.Hold{Slots: []command.Slot{slot, *v.(*command.Slot)}} }},
		"part": {&part, func(v any) command.Command { return command.Hold{Parts: []command.Part{part, *v.(*command.Part)}} }},
		"report": {&report, func(v any) command.Command {
			return command.InstanceReport{Items: []api.InstanceReport{report, *v.(*api.InstanceReport)}}
		}},
		"instance": {&spec, func(v any) command.Command {
			return command.BootCreate{BootTerms: command.BootTerms{Instances: []api.InstanceSpec{spec, *v.(*api.InstanceSpec)}}}
		}},
	} {
		kind := reflect.TypeOf(item.of).Elem()
		for i := range kind.NumField() {
			changed := reflect.New(kind)
			changed.Elem().Set(reflect.ValueOf(item.of).Elem())
			setSome(t, changed.Elem().Field(i))
			c := item.list(changed.Interface())
			got, _ := reread(t, c, api.FormNewest)
			require.NotEqual(t, item.list(item.of), c, "%s: %s", name, kind.Field(i).Name)
			sameBody(t, c, withHosts(t, got, c))
		}
	}
}

// setSome sets a field to another value than it has.
func setSome(t *testing.T, f reflect.Value) {
	t.Helper()
	switch f.Kind() {
	case reflect.String:
		f.SetString("other")
	case reflect.Int, reflect.Int64:
		f.SetInt(f.Int() + 3)
	case reflect.Uint64:
		f.SetUint(f.Uint() + 3)
	case reflect.Bool:
		f.SetBool(!f.Bool())
	case reflect.Map:
		m := reflect.MakeMap(f.Type())
		key, value := reflect.New(f.Type().Key()).Elem(), reflect.New(f.Type().Elem()).Elem()
		setSome(t, key)
		setSome(t, value)
		m.SetMapIndex(key, value)
		f.Set(m)
	case reflect.Slice:
		one := reflect.New(f.Type().Elem()).Elem()
		setSome(t, one)
		f.Set(reflect.Append(reflect.MakeSlice(f.Type(), 0, 1), one))
	case reflect.Struct:
		setSome(t, f.Field(0))
	case reflect.Pointer:
		f.Set(reflect.New(f.Type().Elem()))
		setSome(t, f.Elem())
	default:
		require.Fail(t, "no other value", "%s", f.Type())
	}
}

// TestPackedOracle packs lists of every kind: they are read as they were written.
func TestPackedOracle(t *testing.T) {
	names := []string{"", "a", "a-1", "a-2", "a-9", "a-10", "a-01", "7", "8", "a-999999999", "a-1000000000"}
	ids := []api.InstanceID{"", "i", packedBase + "0000", packedBase + "0001", packedBase + "0002", packedBase + "ffff", packedBase + "00A0", api.InstanceID("x" + packedBase[1:] + "0003")}
	hosts := []api.HostID{"", "h", "h2", hostNumbered(0), hostNumbered(1), hostNumbered(2), api.HostID(packedBase + "00A0")}
	rapid.Check(t, func(t *rapid.T) {
		spec := func() api.InstanceSpec {
			return api.InstanceSpec{ID: rapid.SampledFrom(ids).Draw(t, "id"), Name: rapid.SampledFrom(names).Draw(t, "name")}
		}
		host := func() api.HostID { return rapid.SampledFrom(hosts).Draw(t, "host") }
		count := func() int { return rapid.IntRange(0, 5).Draw(t, "n") }
		var b command.BootCreate
		var h command.Hold
		var r command.InstanceReport
		for range count() {
			b.Instances = append(b.Instances, spec())
		}
		odd := rapid.IntRange(0, 4).Draw(t, "odd") == 0
		for range count() {
			sl := command.Slot{Instance: spec(), Group: rapid.IntRange(-1, 2).Draw(t, "group"), Host: host()}
			if odd && rapid.Bool().Draw(t, "within") {
				sl.Within = "s"
			}
			h.Slots = append(h.Slots, sl)
		}
		for range count() {
			var list []api.HostID
			for range count() {
				list = append(list, host())
			}
			h.Spares = append(h.Spares, list)
		}
		for range count() {
			p := command.Part{Link: "l"}
			for range count() {
				var list []api.InstanceSpec
				for range count() {
					list = append(list, spec())
				}
				p.Instances = append(p.Instances, list)
			}
			h.Parts = append(h.Parts, p)
		}
		for range count() {
			r.Items = append(r.Items, api.InstanceReport{
				Host: host(), Instance: rapid.SampledFrom(ids[rapid.IntRange(0, 2).Draw(t, "uuids"):]).Draw(t, "id"),
				Status: rapid.SampledFrom([]api.Status{"", "ACTIVE", "ERROR"}).Draw(t, "status"),
				Stay:   rapid.SampledFrom([]uint64{0, 1, 1 << 63}).Draw(t, "stay"), Fault: rapid.SampledFrom([]string{"", "f"}).Draw(t, "fault"),
				Restarted: rapid.SampledFrom([]api.Instant{0, 0, 0, 5}).Draw(t, "restarted"),
			})
		}
		for _, c := range []command.Command{b, h, r} {
			got, _ := reread(t, c, api.FormFifth)
			sameBody(t, c, withHosts(t, got, c))
			again, _ := reread(t, got, api.FormFifth)
			require.Equal(t, got, again)
		}
		if rapid.Bool().Draw(t, "same request") {
			h.Request.Groups = []api.Group{{Count: 1}}
			b.Request.Groups = h.Request.Groups
		}
		for n := range h.Slots[:min(len(h.Slots), len(b.Instances))] {
			if rapid.IntRange(0, 9).Draw(t, "same instance") > 0 {
				h.Slots[n].Instance = b.Instances[n]
			}
		}
		got, _ := rereadAfter(t, b, h)
		sameBody(t, h, got)
		again, _ := rereadAfter(t, b, got)
		require.Equal(t, got, again)
	})
}
