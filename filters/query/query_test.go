package query_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/filters/query"
)

// ten are host01 to host10: host k has 10k of memory and 100k of disk.
func ten() fleet {
	f := fleet{}
	for k := range int64(10) {
		has := map[api.ResourceClass]int64{api.MemoryMB: 10 * (k + 1), api.DiskGB: 100 * (k + 1)}
		f = append(f, host{free: has, total: has, attributes: map[string]string{}})
	}
	f[6].attributes = map[string]string{"xpu_arch": "fermi", "xpu_info": "Tesla 2050"}
	f[7].attributes = map[string]string{"xpu_arch": "radeon"}
	f[8].attributes = map[string]string{"xpu_arch": "fermi", "xpu_info": "Tesla 2150"}
	return f
}

// passing returns the numbers of the hosts of ten that a query passes.
func passing(t *testing.T, text string) []int {
	t.Helper()
	text = strings.NewReplacer(",M", `,"$free_ram_mb"`, ",D", `,"$free_disk_gb"`).Replace(text)
	q, err := query.Compile(text)
	require.NoError(t, err, text)
	rows := ten().keep(q)
	for i := range rows {
		rows[i]++
	}
	return rows
}

var (
	everyone = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	nobody   = []int{}
)

func TestPasses(t *testing.T) {
	but3 := []int{1, 2, 4, 5, 6, 7, 8, 9, 10}
	for _, c := range []struct {
		text string
		want []int
	}{
		{`["and",[">=",M,50],[">=",D,500]]`, []int{5, 6, 7, 8, 9, 10}},                                  // Acceptance case 1
		{`["or",["and",["<",M,30],["<",D,300]],["and",[">",M,70],[">",D,700]]]`, []int{1, 2, 8, 9, 10}}, // Acceptance case 2
		{`["not",["=",M,30]]`, but3}, // Acceptance case 3
		{`[]`, everyone},
		{`{}`, everyone},
		{``, everyone}, // Acceptance case 5
		{`null`, everyone},
		{`""`, everyone},
		{" [ ]\n", everyone},
		{"\t", everyone},
		{`["not",true,false,true,false]`, everyone},
		{`["not",true,true,true]`, nobody}, // Acceptance case 7
		{`["=","$missing",100]`, nobody},
		{`["=","$missing",2,2]`, nobody},               // Acceptance case 9; the second is our own answer
		{`["and",["not",["=",M,30]],[">",2,1]]`, but3}, // Acceptance case 12
		{`["and"]`, everyone},
		{`["or"]`, nobody},
		{`["not"]`, nobody},
		{`["in"]`, nobody},
		{`["=",1]`, nobody}, // Acceptance case 15
		{`["<",1,2,3]`, everyone},
		{`["<",2,3,1]`, nobody},
		{`["="]`, nobody},
		{`[">",1]`, nobody},
		{`["in",1]`, nobody},
		{`["<=",true]`, nobody},
		{`["not",["="]]`, everyone},
		{`["=",1,1,1]`, everyone},
		{`["=",1,1,2]`, nobody},
		{`["in",1,2,1]`, everyone},
		{`["in",4,1,2,3]`, nobody},
		{`["in",M,20,30,35]`, []int{2, 3}},
		{`["not",["not",true]]`, everyone},
		{`["or",["not",true],false]`, nobody},
		{`["not",["not",["=",M,30]]]`, []int{3}},
		{`["=",["not",["=",M,30]],false]`, []int{3}},
		{`["and",["or",true,false],[">",2,1]]`, everyone},
		{`[">",["and",["or",["not",["<",[">=",["<=",["in"]]]]]]]]`, nobody},
		{`["and","text"]`, everyone},
		{`["and",0]`, nobody},
		{`["and",""]`, nobody},
		{`["or",0,0.5]`, everyone},
		{`["and",M]`, everyone},
		{`["=","",""]`, everyone},
		{`["=",0,0]`, everyone},
		{`["=",1e1,10,10.0,100E-1]`, everyone},
		{`["<",-0.000001,0]`, everyone},
		{`["<","A","a"]`, everyone},
		{`["<","é","f"]`, nobody},
		{`["<","a","aa"]`, everyone},
		{`["=","$xpu_arch","fermi"]`, []int{7, 9}},
		{`["=","$capabilities.xpu_arch","$attributes.xpu_arch"]`, []int{7, 8, 9}},
		{`["=","$free.MEMORY_MB",M,30]`, []int{3}},
		{`["=","$total.DISK_GB","$disk_gb_total",300]`, []int{3}},
	} {
		assert.Equal(t, c.want, passing(t, c.text), c.text)
	}
}

func TestComparisons(t *testing.T) { // Acceptance case 6
	pairs := [][2]int{{1, 1}, {1, 2}, {2, 1}, {2, 2}, {2, 3}}
	for op, want := range map[string]string{"=": "+--+-", "<": "-+--+", ">": "--+--", "<=": "++-++", ">=": "+-++-", "in": "+--+-"} {
		got := ""
		for _, p := range pairs {
			q, err := query.Compile(fmt.Sprintf(`[%q,%d,%d]`, op, p[0], p[1]))
			require.NoError(t, err)
			got += map[int]string{0: "-", 10: "+"}[len(ten().keep(q))]
		}
		assert.Equal(t, want, got, op)
	}
}

// What a host does not have, or has of another type, never matches: not when it
// is negated, and not at any place.
func TestWithoutAnAnswerNothingMatches(t *testing.T) {
	h := host{free: map[api.ResourceClass]int64{}, attributes: map[string]string{
		"zero": "0", "no": "false", "empty": "", "five": "5", "version": "05", "yes": "true", "name": "x",
	}}
	for text, want := range map[string]bool{
		`["=","$zero",0]`: true, `["=","$no",false]`: true, `["=","$empty",""]`: true, `["not","$zero"]`: true, `["not","$no"]`: true, `["not","$empty"]`: true,
		`["=","$five",5.0]`: true, `["=","$five","5"]`: false, `["not",["=","$five","5"]]`: false, `["=","$version","05"]`: true, `["=","$version",5]`: false,
		`["=","$yes",1]`: false, `["not",["=","$yes",1]]`: false, `["<=","$yes","$yes"]`: false, `["not",["<=","$yes","$yes"]]`: false, `["=","$yes","$yes"]`: true,
		`["=","$five","$name"]`: false, `["not",["=","$five","$name"]]`: false, `["not",["=","$five","$zero"]]`: true,
		`["not",["=","$gone",1]]`: false, `["not",["not",["=","$gone",1]]]`: false, `["not","$gone"]`: false, `["and","$gone"]`: false,
		`["or",["=","$gone",1],true]`: true, `["and",["=","$gone",1],true]`: false, `["not",["=","$gone",1],false]`: true, `["not",["=","$gone",1],true]`: false,
		`["in",5,"$gone",5]`: false, `["=",["=","$gone",1],["=","$gone",1]]`: false, `["=","$........",1,1]`: false, `["=","$",1,1]`: false,
		`["=","$id","$id"]`: false, `["=","$host","$host"]`: false, `["=","$free.ID","$free.ID"]`: false, `["=","$instances",0]`: true,
	} {
		q, err := query.Compile(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, len(fleet{h}.keep(q)) == 1, text)
	}
}

func TestRefuses(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{`["!=",1,2]`, `query: there is no operator "!="; the operators are =, <,`}, // Acceptance case 11: no host is needed
		{`["AND",true]`, `no operator "AND"`},
		{`["and",true,["x"]]`, `query: at [2]: there is no operator "x"`},
		{`"not"`, `it must be a list such as ["=", "$name", 1], not "not"`}, // Acceptance case 16
		{`{"a":1}`, "not an object"},
		{`5`, "not 5"},
		{`["in","$free_ram_mb",[20,30]]`, `query: at [2]: a list begins with an operator, not with 20; after in, write the values themselves`},
		{`0`, "not 0"},
		{`true`, "not true"},
		{`false`, "not false"},
		{`[1,2]`, "not with 1"},
		{`[null]`, "not with null"},
		{`[["and"]]`, "not with a list"},
		{`[{}]`, "not with an object"},
		{`["and",[]]`, "query: at [1]: an empty list is no expression"},
		{`["and",["or",["=",null,1]]]`, "query: at [1][1][1]: null is no value"},
		{`["=",{},1]`, "query: at [1]: an object is no value"},
		{`["<",1,"a"]`, "query: at [2]: < compares values of one type; a number and a text never match"},
		{`["<","$free_ram_mb","x"]`, "query: at [2]: < compares values of one type; a number and a text never match"},
		{`["in","$instances",true]`, "a number and true or false never match"},
		{`["=","$free.CUSTOM_GPU","$total.CUSTOM_GPU",""]`, "a number and a text never match"},
		{`["=","$x","a",true]`, "query: at [3]: = compares values of one type; a text and true or false never match"},
		{`["in",1,["and"]]`, "a number and true or false never match"},
		{`["<","$x",true]`, "query: at [2]: < puts in order; true and false have none"},
		{`[">=",["and"],["or"]]`, ">= puts in order"},
		{`["=",0.0000001,1]`, "the number 0.0000001 has more than 6 places after the point"},
		{`["=",1e-7,1]`, "more than 6 places"},
		{`["=",1e99999999999999999999,1]`, "is beyond 9000000000000"},
		{`["=",1e-99999999999999999999,1]`, "more than 6 places"},
		{`["and"`, "it ends too early"},
		{`["and",`, "it ends too early"},
		{`[`, "it ends too early"},
		{`["and",]`, "not valid JSON"},
		{`["and" true]`, "not valid JSON"},
		{`['and']`, "not valid JSON"},
		{`and`, "not valid JSON"},
		{`["and"]]`, "something after its end"},
		{`["and"] true`, "something after its end"},
		{`[] []`, "something after its end"},
		{"[\"=\",\"\xff\",\"a\"]", "not valid UTF-8"},
		{`["` + strings.Repeat("é", 100) + `"]`, "no operator \"" + strings.Repeat("é", 32) + "...\""},
	} {
		q, err := query.Compile(c.text)
		require.Error(t, err, c.text)
		assert.Nil(t, q)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
		assert.Contains(t, api.MessageOf(err), c.says)
		assert.True(t, strings.HasPrefix(api.MessageOf(err), "query: "))
	}
}

func TestLimits(t *testing.T) {
	sized := func(n int) string { return `["and","` + strings.Repeat("x", n-10) + `"]` }
	nested := func(n int) string { return strings.Repeat(`["and",`, n-1) + `["and"` + strings.Repeat("]", n) }
	wide := func(n int) string { return `["and"` + strings.Repeat(",1", n-1) + `]` } // the list itself is one
	lists := func(n int) string { return `["and"` + strings.Repeat(`,["or"]`, n-1) + `]` }
	for _, c := range []struct {
		name, at, over, says string
	}{
		{"bytes", sized(query.BytesMax), sized(query.BytesMax + 1), "at most 16384 bytes, got 16385"},
		{"depth", nested(query.DepthMax), nested(query.DepthMax + 1), "nested at most 8 deep"},
		{"values", wide(query.NodesMax), wide(query.NodesMax + 1), "at most 256 lists, values and variables"},
		{"lists", lists(query.NodesMax), lists(query.NodesMax + 1), "at most 256 lists, values and variables"},
		{"number", `["=",9000000000000,1]`, `["=",9000000000000.000001,1]`, "is beyond 9000000000000"},
		{"negative number", `["=",-9e12,1]`, `["=",-9000000000000.000001,1]`, "is beyond 9000000000000"},
		{"places", `["=",0.000001,1]`, `["=",0.0000011,1]`, "more than 6 places"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := query.Compile(c.at)
			require.NoError(t, err)
			_, err = query.Compile(c.over)
			require.Error(t, err)
			assert.Contains(t, api.MessageOf(err), c.says)
		})
	}
}

// A text that would take many times its size once decoded costs next to nothing,
// because nothing is read beyond the limits.
func TestABombIsNotDecoded(t *testing.T) {
	for name, text := range map[string]string{
		"lists":    strings.Repeat("[", query.BytesMax),
		"nested":   strings.Repeat(`["and",`, query.BytesMax/7),
		"values":   `["and"` + strings.Repeat(",0", query.BytesMax/2-5),
		"objects":  `["and",` + strings.Repeat(`{"a":`, query.BytesMax/5-5),
		"operator": `[` + strings.Repeat(`[],`, query.BytesMax/3-1),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := query.Compile(text)
		runtime.ReadMemStats(&after)
		require.Error(t, err)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16*query.BytesMax), name)
	}
}

func TestString(t *testing.T) {
	for text, want := range map[string]string{
		``: "", ` [ ] `: "", `{}`: "",
		" [ \"and\" , true,\n false ] ":           `["and",true,false]`,
		`["=",1.50,1500e-3,0.0000010,-0,1e0]`:     `["=",1.5,1.5,1e-6,0,1]`,
		`["=",9000000000000,1000,1200,12e2,-1e4]`: `["=",9e12,1e3,1200,1200,-1e4]`,
		`["=",0.00015,-0.5,12.345678]`:            `["=",15e-5,-0.5,12.345678]`,
		`["\u003c","$a","\u00e9\/\u0001\n\"\\"]`:  `["<","$a","é/\u0001\n\"\\"]`,
		`["=","<>&\u2028","\ud800"]`:              "[\"=\",\"<>&\u2028\",\"\ufffd\"]",
		`["not",["in","$flag",["or"]]]`:           `["not",["in","$flag",["or"]]]`,
	} {
		q, err := query.Compile(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, q.String())
		assert.LessOrEqual(t, len(q.String()), len(text))
	}
}

func TestParseMicros(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "-0": 0, "1": 1e6, "-1.5": -1.5e6, "0.000001": 1, "1.100000": 1.1e6, "9000000000000": 9e18, "-9000000000000": -9e18,
	} {
		n, ok := query.ParseMicros(text)
		assert.True(t, ok, text)
		assert.Equal(t, want, n, text)
	}
	for _, text := range []string{
		"", "-", ".5", "5.", "05", "+5", "1e3", "0x10", "1_000", " 1", "1.0000000", "0.0000001", "9000000000000.000001", "99999999999999999999", "1.2.3", "1,5", "١", "NaN", "--1",
	} {
		_, ok := query.ParseMicros(text)
		assert.False(t, ok, text)
	}
}

func TestColumn(t *testing.T) {
	c := query.NewColumn(65)
	columns := only{c}
	passes := func(row int, text string) bool {
		q, err := query.Compile(text)
		require.NoError(t, err)
		pass := make(fleet, 200).rows()
		pass.Add(row)
		q.Keep(columns, &pass)
		return pass.Has(row)
	}
	for _, row := range []int{0, 63, 64} { // the last value that was set counts
		c.SetNumber(row, 7)
		assert.True(t, passes(row, `["=","$x",7]`))
		c.SetText(row, "a")
		assert.True(t, passes(row, `["=","$x","a"]`))
		assert.False(t, passes(row, `["or",["=","$x",7],["not",["=","$x",7]]]`))
		c.SetBool(row, true)
		assert.True(t, passes(row, `["=","$x",true]`))
		c.SetBool(row, false)
		assert.True(t, passes(row, `["=","$x",false]`))
		c.SetMicros(row, 1_500_000)
		assert.True(t, passes(row, `["=","$x",1.5]`))
	}
	for _, row := range []int{1, 65, 127, 128, 199} { // without a value, or without room for one
		assert.False(t, passes(row, `["or",["=","$x",0],["not",["=","$x",0]],"$x",["not","$x"]]`), row)
	}
	c.SetNumber(5, query.NumberMax)
	assert.True(t, passes(5, `["=","$x",9e12]`))
	c.SetNumber(5, query.NumberMax+1)
	assert.True(t, passes(5, `[">","$x",9e12]`))
	c.SetNumber(5, -query.NumberMax-1)
	assert.True(t, passes(5, `["<","$x",-9e12]`))
}

// only is columns that have nothing but one attribute.
type only struct{ c *query.Column }

func (only) Free(api.ResourceClass) *query.Column  { return nil }
func (only) Total(api.ResourceClass) *query.Column { return nil }
func (only) Instances() *query.Column              { return nil }
func (o only) Attribute(string) *query.Column      { return o.c }
func (only) AZ() *query.Column                     { return nil }
func (only) Name() *query.Column                   { return nil }
