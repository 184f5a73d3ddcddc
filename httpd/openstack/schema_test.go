package openstack

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

func posted(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", MediaJSON)
	return r
}

func TestSchemas(t *testing.T) {
	word := &Schema{Kind: String, Shortest: 1, Longest: 3, Pattern: regexp.MustCompile(`^[a-z]+$`)}
	half := &Schema{Kind: Number, Parse: func(place string, n json.Number) (any, error) {
		if n != "0.5" {
			return nil, Broken(place, "half", "%s is not a half", n)
		}
		return "half", nil
	}}
	object := &Schema{
		Kind: Object, Required: []string{"a"}, Fields: map[string]*Schema{"a": word, "n": {Kind: Integer, Least: 1, Most: 10}, "none": {Kind: Integer, Nullable: true}},
		Names: regexp.MustCompile(`^x`), Each: half,
	}
	list := &Schema{Kind: Array, Each: word, Unique: true, Fewest: 1}
	for _, c := range []struct {
		schema *Schema
		body   string
		want   any    // what is read
		broken string // or a part of the refusal
	}{
		{word, `"abc"`, "abc", ""},
		{word, `""`, nil, "'' is too short  Failed validating 'minLength' at the body"},
		{word, `"abcd"`, nil, "'abcd' is too long"},
		{word, `"A"`, nil, "'A' does not match '^[a-z]+$'"},
		{word, `1`, nil, "1 is not of type 'string'"},
		{word, `null`, nil, "None is not of type 'string'"},
		{&Schema{Kind: String, Nullable: true}, `null`, nil, ""},
		{&Schema{Kind: String, UUID: true}, `"x"`, nil, "'x' is not a 'uuid'"},
		{&Schema{Kind: Number}, `1.50`, json.Number("1.50"), ""},
		{&Schema{Kind: Integer}, `1e1`, int64(10), ""},
		{&Schema{Kind: Integer}, `1.5`, nil, "1.5 is not of type 'integer'"},
		{&Schema{Kind: Integer}, `true`, nil, "True is not of type 'integer'"},
		{&Schema{Kind: Integer, Least: 1, Most: 10}, `99999999999999999999`, nil, "99999999999999999999 is greater than the maximum of 10"},
		{half, `0.5`, "half", ""},
		{half, `0.6`, nil, "0.6 is not a half  Failed validating 'half' at the body"},
		{object, `{"a":"b","n":10,"none":null,"x1":0.5}`, map[string]any{"a": "b", "n": int64(10), "none": nil, "x1": "half"}, ""},
		{object, `{}`, nil, "'a' is a required property"},
		{object, `{"a":"b","n":0}`, nil, "0 is less than the minimum of 1  Failed validating 'minimum' at ['n']"},
		{object, `{"a":"b","y":1}`, nil, "Additional properties are not allowed ('y' was unexpected)"},
		{object, `{"a":"b","y":1,"z":1}`, nil, "('y', 'z' were unexpected)"},
		{object, `{"a":"b","x1":1}`, nil, "at ['x1']"},
		{object, `[]`, nil, "is not of type 'object'"},
		{&Schema{Kind: Object, Loose: true}, `{"y":1}`, map[string]any{}, ""},
		{&Schema{Kind: Object, Fewest: 1}, `{}`, nil, "does not have enough properties"},
		{list, `["a","b"]`, []any{"a", "b"}, ""},
		{list, `["a","a"]`, nil, "it has non-unique elements: 'a'"},
		{list, `["a",1]`, nil, "at [1]"},
		{list, `[]`, nil, "[] is too short"},
		{list, `[`, nil, "Malformed JSON: "},
		{object, `{"a":"b","a":"c"}`, nil, "Malformed JSON: "},
	} {
		got, err := ReadBody(posted(c.body), c.schema)
		if c.broken == "" {
			require.NoError(t, err, c.body)
			assert.Equal(t, c.want, got, c.body)
			continue
		}
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), c.body)
		require.ErrorContains(t, err, c.broken, c.body)
	}
	got, err := ReadObject(posted(`{"a":"b"}`), object)
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"a": "b"}, got)
}

func TestParams(t *testing.T) {
	known := func(name string) bool { return name == "limit" }
	for query, broken := range map[string]string{
		"limit=1&read=local": "", "": "",
		"%zz":     "the query string cannot be read",
		"one=1":   "('one' was unexpected)",
		"b=1&a=2": "('a', 'b' were unexpected)",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.RawQuery = query
		q, err := Params(r, known)
		if broken == "" {
			require.NoError(t, err, query)
			assert.Equal(t, strings.Contains(query, "limit"), q.Has("limit"))
			continue
		}
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), query)
		assert.ErrorContains(t, err, broken)
	}
}

func TestWhatARefusalShowsIsCut(t *testing.T) {
	long := strings.Repeat("ä", showMax+1)
	assert.Equal(t, strings.Repeat("ä", showMax), Cut(long[:len(long)-2]))
	assert.Equal(t, strings.Repeat("ä", showMax)+"...", Cut(long))
	assert.Equal(t, "'"+strings.Repeat("ä", showMax)+"...'", Show(long))
}

func TestUUIDs(t *testing.T) {
	const want = "aaaaaaaa-1111-1111-1111-11111111111b"
	for text, good := range map[string]bool{
		want: true, strings.ToUpper(want): true, "{" + want + "}": true, "urn:uuid:" + want: true, "aaaaaaaa11111111111111111111111b": true,
		"a-aaaaaaa-1111-1111-1111-11111111111b": true, "": false, " " + want: false, want + "0": false, want[:35]: false, want[:35] + "g": false,
	} {
		got, ok := ParseUUID(text)
		assert.Equal(t, good, ok, "%q", text)
		if good {
			assert.Equal(t, want, got, "%q", text)
		}
	}
}
