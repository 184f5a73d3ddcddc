package reservation

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/filters/query"
)

func TestConditions(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "[]": "", " \n": "", "[ ]": "",
		`["==", "$vcpus", "4"]`:                       `["=","$vcpus_total",4]`,
		`["=", "$memory_mb", "4"]`:                    `["=","$ram_mb_total",4]`,
		`["!=", "$local_gb", "4"]`:                    `["not",["=","$disk_gb_total",4]]`,
		`["==", "$hypervisor_hostname", "compute-3"]`: `["=","$host.name","compute-3"]`,
		`["==", "$hypervisor_hostname", "3"]`:         `["=","$host.name","3"]`,
		`["!=", "$availability_zone", "true"]`:        `["not",["=","$host.availability_zone","true"]]`,
		`["==", "$hypervisor_type", "QEMU"]`:          `["=","$attributes.hypervisor_type","QEMU"]`,
		`[">=", "$ram", "10"]`:                        `[">=","$attributes.ram",10]`,
		`[">=", "$ram", "010"]`:                       `[">=","$attributes.ram","010"]`,
		`["==", "$zone", "a b"]`:                      `["=","$attributes.zone","a b"]`,
		`["==", "$architecture.smt_size", "2"]`:       `["=","$attributes.architecture.smt_size",2]`,
		`["==", "$ssd", "true"]`:                      `["=","$attributes.ssd",true]`,
		`["<", "$ssd", "true"]`:                       `["<","$attributes.ssd","true"]`,
		`["==", "$vcpus_free", "1"]`:                  `["=","$attributes.vcpus_free",1]`, // a capability, not the amount
		`["!=", "$gpu", "A"]`:                         `["or",["not",["=","$attributes.gpu","A"]],[">=","$attributes.gpu",-9e12],["in","$attributes.gpu",true,false]]`,
		`["and", ["==", "$a", "x"]]`:                  `["and",["=","$attributes.a","x"]]`,
		`["and", ["and", ["<", "$a", "1"], ["or", ["==", "$b", "x"], ["==", "$c", "y"]]], [">", "$d", "2"]]`: `["and",["and",["<","$attributes.a",1],["or",["=","$attributes.b","x"],["=","$attributes.c","y"]]],[">","$attributes.d",2]]`,
	} {
		got, err := compileConditions(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	both, err := compileConditions(`["==", "$a", "x"]`, "", `["==", "$b", "y"]`)
	require.NoError(t, err)
	assert.Equal(t, `["and",["=","$attributes.a","x"],["=","$attributes.b","y"]]`, both)
}

func TestMalformedConditions(t *testing.T) {
	deep := strings.Repeat(`["and",`, query.DepthMax) + `["==","$a","x"]` + strings.Repeat("]", query.DepthMax)
	wide := `["and"` + strings.Repeat(`,["==","$a","x"]`, query.NodesMax) + "]"
	for _, text := range []string{
		"nonsense", "{}", "5", "null", `"$a"`, `["and"]`, `["or"]`, `["in","$a","x"]`, `["not",["==","$a","x"]]`, `["==","gpu","x"]`, `["==","$","x"]`,
		`[">=","$vcpus",4]`, `[">=","$vcpus"]`, `["==","$a","x","y"]`, `["==","$a",""]`, `["==","$a",null]`, `["and",[]]`, `["and",["=="]]`, `["and","x"]`,
		`[[]]`, `["==","$vcpus","many"]`, `["==","$id","1"]`, `["==","$reservable","true"]`, `["==","$a","x"] x`, `["==","$a","x"]]`, `["==","$a","x"`, deep, wide,
	} {
		_, err := compileConditions(text)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), text)
		assert.Contains(t, api.MessageOf(err), "Malformed requirements", text)
	}
}

// matches says in plain words what a comparison with an attribute means.
func matches(op, has, value string, known bool) bool {
	if !known {
		return false
	}
	a, aIs := query.ParseMicros(has)
	b, bIs := query.ParseMicros(value)
	truth := func(s string) bool { return s == "true" || s == "false" }
	switch op {
	case "==":
		return has == value || aIs && bIs && a == b
	case "!=":
		return has != value && (!aIs || !bIs || a != b)
	}
	var less, same bool
	switch {
	case aIs && bIs:
		less, same = a < b, a == b
	case aIs || bIs || truth(has): // they have no order
		return false
	default:
		less, same = has < value, has == value
	}
	return map[string]bool{"<": less, "<=": less || same, ">": !less && !same, ">=": !less}[op]
}

// Every comparison of every kind of value on a host with every kind of value in a
// condition.
func TestComparisonsMeanWhatTheySay(t *testing.T) {
	values := []string{"9", "10", "10.0", "-1", "010", "1.10.2", "true", "false", "True", "A", "a b", "zz"}
	for _, op := range []string{"==", "!=", "<", "<=", ">", ">="} {
		for _, value := range values {
			text, err := json.Marshal([]string{op, "$x", value})
			require.NoError(t, err)
			compiled, err := compileConditions(string(text))
			require.NoError(t, err)
			q, err := query.Compile(compiled)
			require.NoError(t, err)
			for _, has := range append(values, "") {
				got := keeps(q, has)
				assert.Equal(t, matches(op, has, value, has != ""), got, "a host with x=%q, %s", has, text)
			}
		}
	}
}

func FuzzConditions(f *testing.F) {
	for _, text := range []string{"", `["==","$a","x"]`, `["and",["!=","$vcpus","4"],["or",[">","$b","true"]]]`, `[">=","$ram","1e999"]`, `["==","$ａ","\u0000"]`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		out, err := compileConditions(text)
		if err != nil {
			require.Equal(t, api.CodeInvalid, api.CodeOf(err))
			return
		}
		q, err := query.Compile(out)
		require.NoError(t, err, "what is compiled is a query")
		require.Equal(t, out, q.String())
		keeps(q, "x")
	})
}
