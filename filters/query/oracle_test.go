package query_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/filters/query"
)

// pick returns a whole number from 0 to n-1.
type pick func(n int) int

func (p pick) one(of ...string) string { return of[p(len(of))] }

// attributes are few, and so are their values, so that hosts and queries meet.
var (
	names  = []string{"a", "b", "c.d", "zero", "instances", "gone"}
	values = []string{"0", "1", "2", "2.5", "-1", "true", "false", "", "x", "y", "05", "1e3", "0.000001", "9000000000001"}
)

// randomFleet returns hosts of every kind, with holes.
func randomFleet(p pick, n int) fleet {
	f := make(fleet, n)
	for row := range f {
		if p(8) == 0 {
			continue
		}
		h := host{free: map[api.ResourceClass]int64{}, total: map[api.ResourceClass]int64{}, instances: int64(p(3)), attributes: map[string]string{}}
		for _, class := range []api.ResourceClass{api.VCPU, api.MemoryMB, api.DiskGB, "PGPU"} {
			if p(4) > 0 {
				h.total[class] = int64(p(4))
				h.free[class] = int64(p(4)) - 1
			}
		}
		for _, name := range names[:len(names)-1] {
			if p(3) > 0 {
				h.attributes[name] = p.one(values...)
			}
		}
		h.name, h.az = p.one("x", "y", "1"), p.one("", "x", "true")
		f[row] = h
	}
	return f
}

// randomQuery writes an expression. Most are legal; some compare what cannot be
// compared, or go beyond what there is.
func randomQuery(p pick, depth int) string {
	op := p.one("=", "<", ">", "<=", ">=", "in", "in", "and", "and", "or", "or", "not", "not")
	if p(200) == 0 {
		op = p.one("!=", "AND", "", "nor", "|")
	}
	kind, args := p(3), []string{fmt.Sprintf("%q", op)}
	for range p(4) + p(2) {
		args = append(args, randomArgument(p, depth, kind, op))
	}
	return "[" + strings.Join(args, p.one(",", ",", " , ")) + "]"
}

func randomArgument(p pick, depth, kind int, op string) string {
	if depth > 0 && (len(op) > 1 && op[1] != '=' && p(4) > 0 || kind == 2 && p(3) == 0) {
		return randomQuery(p, depth-1)
	}
	if p(2) == 0 {
		return fmt.Sprintf("%q", "$"+p.one(append(names, "free_ram_mb", "free_disk_gb", "vcpus_free", "ram_mb_total", "disk_gb_total", "vcpus_total",
			"free.PGPU", "total.PGPU", "free.VCPU", "attributes.a", "attributes.instances", "capabilities.b", "capabilities.c.d", "", "free", "free.", "attributes.", "name", "host.name", "host.availability_zone")...))
	}
	if p(60) == 0 {
		return p.one("null", "{}", `{"a":1}`, "[]", "0.0000001", "1e13", "[1]")
	}
	if p(30) == 0 {
		kind = p(3)
	}
	switch kind {
	case 0:
		return p.one("0", "1", "2", "2.5", "-1", "1e0", "25e-1", "9000000000000", "0.000001")
	case 1:
		return p.one(`""`, `"x"`, `"y"`, `"05"`, `"1"`, `"\u0078"`)
	}
	return p.one("true", "false")
}

// agree fails unless the compiled query does what the interpreter does. It
// returns whether the query was accepted.
func agree(t require.TestingT, f fleet, text string) bool {
	q, err := query.Compile(text)
	tree, refused := decode(text)
	require.Equal(t, refused == nil, err == nil, "%q: the interpreter says %v, the compiler %v", text, refused, err)
	if err != nil {
		require.Equal(t, api.CodeInvalid, api.CodeOf(err))
		return false
	}
	want := []int{}
	for row, h := range f {
		if h.free != nil && (tree == nil || h.evaluate(tree) == true) {
			want = append(want, row)
		}
	}
	require.Equal(t, want, f.keep(q), text)

	canonical := q.String()
	require.LessOrEqual(t, len(canonical), len(text))
	again, err := query.Compile(canonical)
	require.NoError(t, err, "%q became %q", text, canonical)
	require.Equal(t, canonical, again.String())
	require.Equal(t, want, f.keep(again), canonical)
	require.True(t, canonical == "" || json.Valid([]byte(canonical)))
	return true
}

func TestAgreesWithTheInterpreter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pick(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "pick") })
		agree(t, randomFleet(p, 1+p(10)), randomQuery(p, 4))
	})
}

func TestAgreesWithTheInterpreterOften(t *testing.T) {
	const queries, hosts = 20_000, 70
	p := pick(rand.New(rand.NewPCG(1, 2)).IntN)
	f := randomFleet(p, hosts)
	accepted, told := 0, 0
	for i := range queries {
		if i%100 == 0 {
			f = randomFleet(p, hosts)
		}
		text := randomQuery(p, 5)
		if !agree(t, f, text) {
			continue
		}
		accepted++
		q, err := query.Compile(text)
		require.NoError(t, err)
		if some := len(f.keep(q)); some > 0 && some < f.rows().Len() {
			told++
		}
	}
	t.Logf("%d queries: %d were accepted, %d told hosts apart", queries, accepted, told)
	require.Greater(t, accepted, queries/2)
	require.Less(t, accepted, queries)
	require.Greater(t, told, queries/20)
}

func FuzzCompile(f *testing.F) {
	p := pick(rand.New(rand.NewPCG(3, 4)).IntN)
	hosts := randomFleet(p, 70)
	for range 50 {
		f.Add(randomQuery(p, 4))
	}
	for _, s := range []string{
		``, `null`, `""`, `[]`, `{}`, `"not"`, `5`, `{"a":1}`, `["=",0e99999999999,0]`, `["=",1e-6,-0.0]`, `["in","$a",[20,30]]`, `[[[[[[[[[`,
		`["=","\ud800","\u2028<>&"]`, `["not",["not",["=","$gone",1]]]`, `["and"] []`, "[\"\xff\"]",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) { agree(t, hosts, text) })
}
