package seal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
)

func drawContext(t *rapid.T, label string) Context {
	text := rapid.StringN(0, 8, -1)
	return Context{
		Zone:        api.ZoneID(text.Draw(t, label+" zone")),
		Peer:        text.Draw(t, label+" peer"),
		Project:     api.ProjectID(text.Draw(t, label+" project")),
		Reservation: api.ReservationID(text.Draw(t, label+" reservation")),
		Digest:      [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, label+" digest")),
	}
}

// FuzzOpen offers any bytes, in any context. Only what the zone has sealed for
// that context may open; the rest is refused in one way.
func FuzzOpen(f *testing.F) {
	ring, ctx := Keyring{testKey("new"), testKey("old")}, testContext()
	sealed := mustSeal(f, ring[1], ctx, []byte("slots"), testSalt(1))
	f.Add(sealed, "zone-root")
	f.Add(sealed, "")
	f.Add(sealed[:headerBytes], "zone-root")
	f.Add(append(bytes.Clone(sealed), make([]byte, 256)...), "zone-root")
	f.Add([]byte{}, "")
	f.Fuzz(func(t *testing.T, blob []byte, peer string) {
		c := ctx
		c.Peer = peer
		plaintext, err := ring.Open(c, blob)
		if bytes.Equal(blob, sealed) && c == ctx {
			require.NoError(t, err)
			require.Equal(t, []byte("slots"), plaintext)
			return
		}
		require.Nil(t, plaintext)
		require.Equal(t, api.CodePlanRefused, api.CodeOf(err))
		require.Equal(t, api.PlanRefusedMessage, api.MessageOf(err))
	})
}

// FuzzNestedUnwrap seals a plan through up to api.DepthMax zones, each inside the
// one above, opens it again from the top, and then spoils one byte of one layer:
// the zone of that layer must refuse it, however deep it is.
func FuzzNestedUnwrap(f *testing.F) {
	f.Add([]byte("slots"), uint8(3), uint8(1), uint16(500))
	f.Add([]byte{}, uint8(api.DepthMax), uint8(0), uint16(0))
	f.Add(bytes.Repeat([]byte{1}, 2000), uint8(1), uint8(0), uint16(61))
	f.Fuzz(func(t *testing.T, plan []byte, depth, bad uint8, at uint16) {
		if depth == 0 || depth > api.DepthMax || bad >= depth || len(plan) > 64<<10 {
			return
		}
		contexts, layers := make([]Context, depth), make([][]byte, depth)
		ring := func(i int) Keyring { return Keyring{testKey(string(contexts[i].Zone))} }
		inner := plan
		for i := range int(depth) { // the deepest zone first
			contexts[i] = testContext()
			contexts[i].Zone = api.ZoneID(fmt.Sprintf("zone-%d", i))
			contexts[i].Peer = fmt.Sprintf("zone-%d", i+1)
			layers[i] = mustSeal(t, ring(i)[0], contexts[i], inner, testSalt(i))
			inner = layers[i]
		}
		for i := int(depth) - 1; i >= 0; i-- {
			got, err := ring(i).Open(contexts[i], inner)
			require.NoError(t, err)
			inner = got
		}
		require.True(t, bytes.Equal(plan, inner))

		spoilt := bytes.Clone(layers[bad])
		spoilt[int(at)%len(spoilt)] ^= 0x80
		_, err := ring(int(bad)).Open(contexts[bad], spoilt)
		require.Equal(t, api.CodePlanRefused, api.CodeOf(err))

		wrongParent := contexts[bad]
		wrongParent.Peer = "zone-stranger"
		assertRefused(t, reasonTag, ring(int(bad)), wrongParent, layers[bad])
	})
}

// FuzzAssociated checks that associated data can be read back field by field,
// and so that no two contexts share it.
func FuzzAssociated(f *testing.F) {
	f.Add("zone-a", "zone-root", "blue", "r-1", []byte("request"))
	f.Add("", "", "", "", []byte{})
	f.Add("\x00\x00\x00\x00\x00\x00\x00\x01a", "", "a", "\x00", []byte{1})
	f.Fuzz(func(t *testing.T, zone, peer, project, reservation string, digest []byte) {
		c := Context{Zone: api.ZoneID(zone), Peer: peer, Project: api.ProjectID(project), Reservation: api.ReservationID(reservation)}
		copy(c.Digest[:], digest)
		epoch := [4]byte{1, 2, 3, 4}
		rest := c.associatedData(epoch)
		for _, want := range []string{"\x01", string(epoch[:]), zone, peer, project, reservation, string(c.Digest[:])} {
			n := binary.BigEndian.Uint64(rest)
			require.Equal(t, want, string(rest[8:8+n]))
			rest = rest[8+n:]
		}
		require.Empty(t, rest)
	})
}

// TestAssociatedIsInjective draws pairs of contexts with few different characters,
// so that equal texts with other borders are common.
func TestAssociatedIsInjective(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune{0, 1, 'a'}), 0, 4, -1)
		draw := func() Context {
			return Context{
				Zone: api.ZoneID(text.Draw(t, "zone")), Peer: text.Draw(t, "peer"),
				Project: api.ProjectID(text.Draw(t, "project")), Reservation: api.ReservationID(text.Draw(t, "reservation")),
				Digest: [32]byte{byte(rapid.IntRange(0, 1).Draw(t, "digest"))},
			}
		}
		a, b := draw(), draw()
		require.Equal(t, a == b, bytes.Equal(a.associatedData([4]byte{}), b.associatedData([4]byte{})))
	})
}
