package command_test

import (
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/codec"
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
	command.LeaseCreate{},
	command.LeaseSet{},
	command.LeaseDelete{},
	command.Tick{},
	command.WebhookPut{},
	command.WebhookDelete{},
	command.WebhookResume{},
	command.WebhooksTold{},
	command.PropertySet{},
	command.QuotaSet{},
	command.QuotaDelete{},
	command.SeriesCreate{},
	command.SeriesDelete{},
	command.LeaseEndsTold{},
	command.HostsSilent{},
	command.Requeue{},
	command.BindingSet{},
	command.BindingEnd{},
	command.VolumeAttach{},
	command.VolumeDetach{},
	command.AgentRevoke{},
	command.Audit{},
	command.KEKUse{},
	command.TokensUsed{},
	command.RoleSet{},
	command.RoleDelete{},
	command.LinkWriteOff{},
	command.AgentRenew{},
	command.CAAdd{},
	command.CAUse{},
	command.CADrop{},
	command.LinkPin{},
	command.AgentTrust{},
	command.HostWriteOff{},
	command.LinkRelink{},
	command.LinkReconciled{},
	command.FormRaise{},
	command.InstancePower{},
	command.LinkRestored{},
}

// kindMax is the highest kind of the log.
const kindMax = int(command.KindLinkRestored)

// filled returns a command of c's type in which every field that is encoded has
// a value of its own, so that no field can change its key, or be left out,
// without a change of bytes.
func filled(c command.Command, form api.Form) command.Command {
	v := reflect.New(reflect.TypeOf(c)).Elem()
	n := 0
	fill(v, "x", form, &n)
	return v.Interface().(command.Command)
}

func fill(v reflect.Value, name string, form api.Form, n *int) {
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
		fill(v.Elem(), name, form, n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), name, form, n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(k, name, form, n)
			fill(e, name, form, n)
			v.SetMapIndex(k, e)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			since, _ := strconv.Atoi(f.Tag.Get(codec.FormTag)) // 0 without one
			if f.Type == reflect.TypeFor[command.BootTerms]() {
				*n-- // its fields were those of the command when the golden file was made
			}
			if f.IsExported() && f.Tag.Get("cbor") != "-" && api.Form(since) <= form {
				fill(v.Field(i), f.Name, form, n)
			}
		}
	default:
		panic("command_test: cannot fill a " + v.Type().String())
	}
}

// forms returns what a kind has held since its first form: each as in the form that
// something came with.
func forms(c command.Command) (all []command.Command) {
	for form := api.FormFirst; form <= api.FormNewest; form++ {
		if v := filled(c, form); command.NeededForm(v) == form {
			all = append(all, v)
		}
	}
	return all
}

func goldenPath(c command.Command) string {
	return fmt.Sprintf("testdata/%02d-%s-v%d.hex", c.Kind(), reflect.TypeOf(c).Name(), command.NeededForm(c))
}

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
	for i, c := range kinds {
		require.Equal(t, command.Kind(i+1), c.Kind(), "%T", c)
		b, err := command.Encode(c, command.NeededForm(c))
		require.NoError(t, err)
		got, err := command.Decode(b, command.NeededForm(c))
		require.NoError(t, err, "%T has no reader", c)
		again, err := command.Encode(got, command.NeededForm(c))
		require.NoError(t, err)
		assert.Equal(t, b, again, "an empty command comes back empty")
	}
	require.Len(t, kinds, kindMax)
}

// TestEveryKindIsForOneBook: no command is for two, and none for nobody.
func TestEveryKindIsForOneBook(t *testing.T) {
	books := []reflect.Type{
		reflect.TypeFor[command.ForMembers](), reflect.TypeFor[command.ForStock](), reflect.TypeFor[command.ForWork](),
		reflect.TypeFor[command.ForSaga](), reflect.TypeFor[command.ForBoots](), reflect.TypeFor[command.ForLeases](),
		reflect.TypeFor[command.ForEvents](), reflect.TypeFor[command.ForQuotas](), reflect.TypeFor[command.ForBindings](),
		reflect.TypeFor[command.ForAudit](), reflect.TypeFor[command.ForSeveral](),
	}
	for _, c := range kinds {
		n := 0
		for _, book := range books {
			if reflect.TypeOf(c).Implements(book) {
				n++
			}
		}
		assert.Equal(t, 1, n, "%T is for %d books", c, n)
	}
}

func TestGoldenBytes(t *testing.T) {
	count := 0
	for _, c := range kinds {
		for _, want := range forms(c) {
			count++
			form := command.NeededForm(want)
			b, err := command.Encode(want, form)
			require.NoError(t, err)
			golden.Check(t, goldenPath(want), lines(b))
			got, err := command.Decode(unlines(t, goldenPath(want)), form)
			require.NoError(t, err)
			assert.Equal(t, form, got.Form())
			again, err := command.Encode(got, form)
			require.NoError(t, err)
			assert.Equal(t, b, again, "the log of today must stay readable")
			assert.Equal(t, want.Time(), got.Time())
			assert.NotZero(t, got.Time(), "%T carries its time", c)
		}
	}
	files, err := filepath.Glob("testdata/*.hex")
	require.NoError(t, err)
	assert.Len(t, files, count, "one file for each kind and form")
}

// TestForms: nothing is written in a form that cannot hold it, or read that says to be
// of an older form than it is.
func TestForms(t *testing.T) {
	since := api.Instant(7)
	c := command.LinkSet{ID: "l", Silent: &since}
	assert.Equal(t, api.FormSecond, command.NeededForm(c))
	_, err := command.Encode(c, api.FormFirst)
	assert.Equal(t, api.CodeUnavailable, api.CodeOf(err))
	require.ErrorContains(t, err, "this needs form 2, and the zone writes form 1")
	b, err := command.Encode(c, api.FormSecond)
	require.NoError(t, err)
	_, err = command.Decode(b, api.FormFirst)
	require.ErrorContains(t, err, "this node reads forms up to 1")
	got, err := command.Decode(b, api.FormNewest)
	require.NoError(t, err)
	assert.Equal(t, api.FormSecond, got.Form())
	b[1] = byte(api.FormFirst)
	_, err = command.Decode(b, api.FormNewest)
	require.ErrorContains(t, err, "came with form 2")

	c.Silent = nil
	for form := api.FormFirst; form <= api.FormNewest; form++ {
		b, err = command.Encode(c, form)
		require.NoError(t, err, "what is old can be said in any form")
		got, err = command.Decode(b, api.FormNewest)
		require.NoError(t, err)
		assert.Equal(t, form, got.Form())
	}
}

// TestNothingIsNewerThanTheNewest: a command in the newest form needs no look at its fields.
func TestNothingIsNewerThanTheNewest(t *testing.T) {
	for _, c := range kinds {
		assert.LessOrEqual(t, command.NeededForm(filled(c, math.MaxUint8)), api.FormNewest, "%T", c)
	}
}

func TestDamagedEntriesAreRefused(t *testing.T) {
	for _, c := range kinds {
		b := unlines(t, goldenPath(forms(c)[0]))
		for n := range b {
			_, err := command.Decode(b[:n], api.FormNewest)
			require.Error(t, err, "%T cut to %d of %d bytes", c, n, len(b))
		}
		_, err := command.Decode(append(b[:len(b):len(b)], 0xf6), api.FormNewest)
		require.Error(t, err, "%T with one item more", c)
	}
}

func TestUnknownEntriesAreRefused(t *testing.T) {
	b, err := command.Encode(command.InstanceDelete{ID: "i"}, api.FormFirst)
	require.NoError(t, err)
	for kind := range 256 {
		b[0] = byte(kind)
		if _, err := command.Decode(b, api.FormNewest); kind == 0 || kind > kindMax {
			assert.ErrorContains(t, err, "unknown", "kind %d", kind)
		}
	}
	b[0] = byte(command.KindInstanceDelete)
	for form := range 256 {
		b[1] = byte(form)
		_, err := command.Decode(b, api.FormNewest)
		assert.Equal(t, form >= 1 && form <= int(api.FormNewest), err == nil, "form %d", form)
	}
	b[1] = 1
	b[3] = 0x18 // the key 1 becomes a field that nobody knows
	_, err = command.Decode(b, api.FormNewest)
	assert.Error(t, err)
}

func TestHoldCount(t *testing.T) {
	assert.Zero(t, (&command.Hold{}).Count())
	h := filled(command.Hold{}, api.FormNewest).(command.Hold)
	assert.Equal(t, 2+2*2*2, h.Count(), "slots, and parts by groups by instances")
}

// TestNothingIsNotUnset has a provider lose all that it has.
func TestNothingIsNotUnset(t *testing.T) {
	var have map[api.ResourceClass]api.Inventory
	var none []string
	for _, c := range []command.ProviderSet{{Inventory: &have, Traits: &none, Aggregates: &none}, {}} {
		b, err := command.Encode(c, api.FormFirst)
		require.NoError(t, err)
		got, err := command.Decode(b, api.FormFirst)
		require.NoError(t, err)
		set := got.(command.ProviderSet)
		assert.Equal(t, c.Inventory != nil, set.Inventory != nil)
		assert.Equal(t, c.Traits != nil, set.Traits != nil)
		assert.Equal(t, c.Aggregates != nil, set.Aggregates != nil)
	}
}

func FuzzDecode(f *testing.F) {
	for _, c := range kinds {
		for _, v := range forms(c) {
			f.Add(unlines(f, goldenPath(v)))
		}
	}
	for _, path := range packedGolden(f) {
		f.Add(unlines(f, path))
	}
	f.Add([]byte{})
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := command.Decode(b, api.FormNewest)
		if err != nil {
			return
		}
		require.Equal(t, command.Kind(b[0]), c.Kind())
		again, err := command.Encode(c, c.Form())
		require.NoError(t, err)
		got, err := command.Decode(again, api.FormNewest)
		require.NoError(t, err, "what was read can be written and read")
		require.Equal(t, c, got)
	})
}
