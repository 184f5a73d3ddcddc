package capacity

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

func TestParseValue(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "-0": 0, "7": 7_000_000, "1.5": 1_500_000, "-0.000001": -1, "1.000000": 1_000_000,
		"9000000000000": NumberMax * Millionths, "-9000000000000.000000": -NumberMax * Millionths, "8999999999999.999999": NumberMax*Millionths - 1,
	} {
		assert.Equal(t, Value{Kind: KindNumber, Number: want, Text: text}, ParseValue(text), text)
	}
	for _, text := range []string{
		"", "-", ".", ".5", "5.", "-.5", "1.0000001", "9000000000000.000001", "-9000000000001", "9300000000000", "9999999999999.999999", "10000000000000", "007", "-01.5",
		"1e3", "+1", " 1", "1,5", "1.2.3", "--1", "0x1", "True", "x86_64",
	} {
		assert.Equal(t, Value{Kind: KindText, Text: text}, ParseValue(text), text)
	}
	assert.Equal(t, Value{Kind: KindBool, Number: 1, Text: "true"}, ParseValue("true"))
	assert.Equal(t, Value{Kind: KindBool, Text: "false"}, ParseValue("false"))
}

// Names beyond the limit have no column and answer like those that have one.
func TestAttributeColumnsMax(t *testing.T) {
	table := NewTable()
	for i := range attributeColumnsMax + 1 {
		id := api.HostID(fmt.Sprintf("h%03d", i))
		table.Put(Spec{ID: id, Attributes: map[string]string{string(id): "1.5"}})
	}
	assert.Len(t, table.columns.list, attributeColumnsMax)
	v := table.View()
	for i := range attributeColumnsMax + 1 {
		id := api.HostID(fmt.Sprintf("h%03d", i))
		row, ok := v.Row(id)
		require.True(t, ok)
		assert.Equal(t, Value{Kind: KindNumber, Number: 1_500_000, Text: "1.5"}, v.Attribute(string(id)).At(row))
		assert.Equal(t, Value{}, v.Attribute(string(id)).At((row+1)%v.Rows()))
		pass := v.Hosts()
		v.Attribute(string(id)).Keep(&pass, func(v *Value) bool { return v.Number == 1_500_000 })
		assert.True(t, pass.Len() == 1 && pass.Has(row))
	}
	last := api.HostID(fmt.Sprintf("h%03d", attributeColumnsMax))
	row, _ := v.Row(last)
	table.Put(Spec{ID: last})
	assert.Equal(t, Value{}, table.View().Attribute(string(last)).At(row))
	table.Remove(last)
	assert.Equal(t, Value{}, table.View().Attribute(string(last)).At(row), "a hole")
	assert.Equal(t, KindNumber, v.Attribute(string(last)).At(row).Kind, "an old view stays as it was")
}

func TestClaimsCountWhateverTheirWindow(t *testing.T) {
	table := NewTable()
	put(table, "h", api.Inventory{Total: 4})
	c := open(1, api.Firm)
	c.Window.End = 10
	require.NoError(t, table.Claim("h", c))
	require.NoError(t, table.Claim("h", open(1, api.Firm)))
	table.Advance(20)
	row, _ := table.View().Row("h")
	assert.Equal(t, 2, table.View().Instances(row), "one has passed and is not released")
	table.Release("h", c)
	assert.Equal(t, 1, table.View().Instances(row))
	table.Restore("h", c)
	assert.Equal(t, 2, table.View().Instances(row), "as a table that is built anew has it")
	require.Error(t, table.Claim("h", open(9, api.Firm)))
	assert.Equal(t, 2, table.View().Instances(row), "what is refused does not count")
	table.Remove("h")
	put(table, "again", api.Inventory{Total: 4})
	assert.Zero(t, table.View().Instances(row), "claims went with the host")
}

// A change of one attribute copies one column and one list of descriptions.
func TestPutCopiesOnlyWhatItChanges(t *testing.T) {
	table := NewTable()
	s := Spec{
		ID: "h", Name: "n", Attributes: map[string]string{"a": "1", "b": "2"}, Aggregates: []string{"g"}, AZ: "z", Failures: 1,
		Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}},
	}
	table.Put(s)
	before := *table.View().d.chunks[0]
	s.Attributes = map[string]string{"a": "3", "b": "2"}
	table.Put(s)
	after := table.View().d.chunks[0]
	assert.NotSame(t, before.attributes[0], after.attributes[0])
	assert.Same(t, before.attributes[1], after.attributes[1])
	assert.Same(t, before.failures, after.failures)
	assert.Same(t, before.groups[0], after.groups[0])
	assert.Same(t, before.azs[0], after.azs[0])
	assert.Same(t, before.columns[0].free, after.columns[0].free)
	assert.Equal(t, "1", before.attributes[0].at[0].Text)
}

func ExampleView_Attribute() {
	t := NewTable()
	t.Put(Spec{ID: "h1", Attributes: map[string]string{"price": "1.5", "arch": "x86_64"}})
	v := t.View()
	row, _ := v.Row("h1")
	fmt.Println(v.Attribute("price").At(row).Number, v.Attribute("arch").At(row).Text, v.Attribute("none").At(row).Kind == KindNone)
	// Output: 1500000 x86_64 true
}
