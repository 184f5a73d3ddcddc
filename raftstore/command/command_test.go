package command_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/golden"
	"berth/raftstore/command"
)

// kinds lists every command; the i-th is of kind i+1.
var kinds = []command.Command{
	command.Init{},
	command.NodePut{},
	command.NodeRemove{},
	command.ConfigSet{},
	command.TokenPut{},
	command.TokenDelete{},
	command.JoinPut{},
	command.JoinUse{},
	command.FlavorPut{},
	command.FlavorDelete{},
	command.EpochAdd{},
	command.LinkPut{},
	command.LinkSet{},
	command.LinkDelete{},
	command.HostsPut{},
	command.HostsState{},
	command.HostSet{},
	command.HostDelete{},
	command.BootCreate{},
	command.Hold{},
	command.HoldParts{},
	command.HoldDecide{},
	command.BootDecide{},
	command.BootRelease{},
	command.PartAck{},
	command.InstanceDelete{},
	command.InstanceReport{},
	command.InstanceChanges{},
	command.InstanceTold{},
	command.Prune{},
	command.Restored{},
	command.Restore{},
	command.SchedulerSet{},
	command.AggregatePut{},
	command.AggregateDelete{},
	command.GroupPut{},
	command.GroupDelete{},
	command.InstanceMove{},
	command.ProviderCreate{},
	command.ProviderSet{},
	command.ProviderDelete{},
	command.ConsumersPut{},
	command.ConsumerDelete{},
	command.ClassPut{},
	command.ClassDelete{},
	command.TraitPut{},
	command.TraitDelete{},
}

// kindMax is the highest kind of the log.
const kindMax = int(command.KindTraitDelete)

// filled returns a command of c's type in which every field that is encoded has
// a value of its own, so that no field can change its key, or be left out,
// without a change of bytes.
func filled(c command.Command) command.Command {
	v := reflect.New(reflect.TypeOf(c)).Elem()
	n := 0
	fill(v, "x", &n)
	return v.Interface().(command.Command)
}

func fill(v reflect.Value, name string, n *int) {
	*n++
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("%s-%d", strings.ToLower(name), *n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n) * 100)
	case reflect.Uint64:
		v.SetUint(uint64(*n) * 100)
	case reflect.Uint8:
		v.SetUint(uint64(*n % 256))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name, n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), name, n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(k, name, n)
			fill(e, name, n)
			v.SetMapIndex(k, e)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Tag.Get("cbor") != "-" {
				fill(v.Field(i), f.Name, n)
			}
		}
	default:
		panic("command_test: cannot fill a " + v.Type().String())
	}
}

func goldenPath(c command.Command) string {
	return fmt.Sprintf("testdata/%02d-%s-v1%s.hex", c.Kind(), reflect.TypeOf(c).Name(), grown[c.Kind()])
}

// grown names what kinds have got since their first form, whose bytes stay in a file of
// their own.
var grown = map[command.Kind]string{command.KindHostsPut: "-needs", command.KindBootDecide: "-code"}

// lines returns b as hex, 32 bytes a line.
func lines(b []byte) []byte {
	var out strings.Builder
	for len(b) > 0 {
		n := min(len(b), 32)
		fmt.Fprintf(&out, "%x\n", b[:n])
		b = b[n:]
	}
	return []byte(out.String())
}

func unlines(tb testing.TB, path string) []byte {
	tb.Helper()
	text, err := os.ReadFile(path)
	require.NoError(tb, err)
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	require.NoError(tb, err)
	return b
}

func TestEveryKindHasItsPlace(t *testing.T) {
	require.Len(t, kinds, kindMax)
	for i, c := range kinds {
		assert.Equal(t, command.Kind(i+1), c.Kind(), "%T", c)
		b, err := command.Encode(c)
		require.NoError(t, err)
		got, err := command.Decode(b)
		require.NoError(t, err, "%T has no reader", c)
		assert.Equal(t, c, got, "an empty command comes back empty")
	}
}

func TestGoldenBytes(t *testing.T) {
	for _, c := range kinds {
		want := filled(c)
		b, err := command.Encode(want)
		require.NoError(t, err)
		golden.Check(t, goldenPath(c), lines(b))
		got, err := command.Decode(unlines(t, goldenPath(c)))
		require.NoError(t, err)
		assert.Equal(t, want, got, "the log of today must stay readable")
		assert.Equal(t, want.Time(), got.Time())
		assert.NotZero(t, got.Time(), "%T carries its time", c)
	}
	files, err := filepath.Glob("testdata/*.hex")
	require.NoError(t, err)
	assert.Len(t, files, kindMax+len(grown), "one file for each kind and form")
}

// TestFirstForms reads what earlier builds have written, and writes it again.
func TestFirstForms(t *testing.T) {
	for path, check := range map[string]func(command.Command){
		"testdata/15-HostsPut-v1.hex": func(c command.Command) {
			for _, h := range c.(command.HostsPut).Hosts {
				assert.Nil(t, h.Host.Needs)
			}
		},
		"testdata/23-BootDecide-v1.hex": func(c command.Command) { assert.Empty(t, c.(command.BootDecide).Code) },
	} {
		old := unlines(t, path)
		c, err := command.Decode(old)
		require.NoError(t, err)
		check(c)
		b, err := command.Encode(c)
		require.NoError(t, err)
		assert.Equal(t, old, b, "%s: a field that is not set is not written", path)
	}
}

func TestDamagedEntriesAreRefused(t *testing.T) {
	for _, c := range kinds {
		b := unlines(t, goldenPath(c))
		for n := range b {
			_, err := command.Decode(b[:n])
			require.Error(t, err, "%T cut to %d of %d bytes", c, n, len(b))
		}
		_, err := command.Decode(append(b[:len(b):len(b)], 0xf6))
		require.Error(t, err, "%T with one item more", c)
	}
}

func TestUnknownEntriesAreRefused(t *testing.T) {
	b, err := command.Encode(command.InstanceDelete{ID: "i"})
	require.NoError(t, err)
	for kind := range 256 {
		b[0] = byte(kind)
		if _, err := command.Decode(b); kind == 0 || kind > kindMax {
			assert.ErrorContains(t, err, "unknown", "kind %d", kind)
		}
	}
	b[0] = byte(command.KindInstanceDelete)
	for version := range 256 {
		b[1] = byte(version)
		_, err := command.Decode(b)
		assert.Equal(t, version == 1, err == nil, "version %d", version)
	}
	b[1] = 1
	b[3] = 0x18 // the key 1 becomes a field that nobody knows
	_, err = command.Decode(b)
	assert.Error(t, err)
}

func TestHoldCount(t *testing.T) {
	assert.Zero(t, (&command.Hold{}).Count())
	h := filled(command.Hold{}).(command.Hold)
	assert.Equal(t, 2+2*2*2, h.Count(), "slots, and parts by groups by instances")
}

// TestNothingIsNotUnset has a provider lose all that it has.
func TestNothingIsNotUnset(t *testing.T) {
	var have map[api.ResourceClass]api.Inventory
	var none []string
	for _, c := range []command.ProviderSet{{Inventory: &have, Traits: &none, Aggregates: &none}, {}} {
		b, err := command.Encode(c)
		require.NoError(t, err)
		got, err := command.Decode(b)
		require.NoError(t, err)
		set := got.(command.ProviderSet)
		assert.Equal(t, c.Inventory != nil, set.Inventory != nil)
		assert.Equal(t, c.Traits != nil, set.Traits != nil)
		assert.Equal(t, c.Aggregates != nil, set.Aggregates != nil)
	}
}

func FuzzDecode(f *testing.F) {
	for _, c := range kinds {
		f.Add(unlines(f, goldenPath(c)))
	}
	f.Add([]byte{})
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := command.Decode(b)
		if err != nil {
			return
		}
		require.Equal(t, command.Kind(b[0]), c.Kind())
		again, err := command.Encode(c)
		require.NoError(t, err)
		got, err := command.Decode(again)
		require.NoError(t, err, "what was read can be written and read")
		require.Equal(t, c, got)
	})
}
