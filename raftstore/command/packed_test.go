package command_test

import (
	"fmt"
	"path/filepath"
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
	require.Len(tb, files, 5)
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
		sameBody(t, c, got)
		for n := range e {
			_, err := command.Decode(e[:n], api.FormNewest)
			require.Error(t, err, "%s cut to %d of %d bytes", name, n, len(e))
		}
	}
}

// TestPackedSize has the size of a boot grow with its count no longer: 2 KB are the goal. What
// grows of a hold and a report are hosts that differ.
func TestPackedSize(t *testing.T) {
	for _, n := range []int{1, 100, 10_000} {
		b, h := bootOf(n, 1_000)
		got, size := reread(t, b, api.FormFifth)
		sameBody(t, b, got)
		assert.Less(t, size, 200, "boot of %d", n)
		got, size = reread(t, h, api.FormFifth)
		sameBody(t, h, got)
		assert.Less(t, size, 300+16*min(n, 1_000)+2*n, "hold of %d", n)
		r := reportOf(h)
		got, size = reread(t, r, api.FormFifth)
		sameBody(t, r, got)
		assert.Less(t, size, 300+16*min(n, 1_000)+5*n, "report of %d", n)
	}
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
			})
		}
		for _, c := range []command.Command{b, h, r} {
			got, _ := reread(t, c, api.FormFifth)
			sameBody(t, c, got)
			again, _ := reread(t, got, api.FormFifth)
			require.Equal(t, got, again)
		}
	})
}
