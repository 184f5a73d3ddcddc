package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// inner and outer are a body with every kind of field that bodies have.
type inner struct {
	Name string `json:"name"`
	N    *int   `json:"n"`
}

type outer struct {
	Thing inner            `json:"thing,omitzero"`
	List  []inner          `json:"list"`
	Pairs map[string]int64 `json:"pairs"`
	Blob  []byte           `json:"blob"`
	On    bool             `json:"on"`
	For   span             `json:"for"`
	Any   any              `json:"any"`
	Skip  string           `json:"-"`
	Plain string
}

// span is a field that reads itself.
type span time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (d *span) UnmarshalJSON(b []byte) error {
	v, err := time.ParseDuration(strings.Trim(string(b), `"`))
	if err != nil {
		return api.Errorf(api.CodeInvalid, "it must be a text such as 60s")
	}
	*d = span(v)
	return nil
}

func post(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

func read(body string, limit int64) (outer, error) {
	var v outer
	err := ReadJSON(post(body), limit, &v)
	return v, err
}

func TestReadJSON(t *testing.T) {
	two := 2
	for body, want := range map[string]outer{
		`{}`:                                      {},
		"\n{\"on\": true}\n":                      {On: true},
		`{"thing":{"name":"a","n":2}}`:            {Thing: inner{"a", &two}},
		`{"thing":{"name":"a","n":null}}`:         {Thing: inner{Name: "a"}},
		`{"list":[{"name":"a"},{"name":"b"}]}`:    {List: []inner{{Name: "a"}, {Name: "b"}}},
		`{"pairs":{"a":1,"A":2,"b":3}}`:           {Pairs: map[string]int64{"a": 1, "A": 2, "b": 3}},
		`{"blob":"AQI="}`:                         {Blob: []byte{1, 2}},
		`{"list":null}`:                           {},
		`{"for":"1m"}`:                            {For: span(time.Minute)},
		`{"Plain":"yes"}`:                         {Plain: "yes"},
		`{"Plain":"\ud83d\ude00 \\ud800 \ufffd"}`: {Plain: "😀 \\ud800 \ufffd"},
	} {
		got, err := read(body, 1000)
		require.NoError(t, err, body)
		assert.Equal(t, want, got, body)
	}
}

func TestReadJSONRefuses(t *testing.T) {
	for _, c := range []struct{ name, body, says string }{
		{"unknown field", `{"color":1}`, `unknown field "color"`},
		{"unknown field below", `{"thing":{"name":"a","color":1}}`, `unknown field "thing.color"`},
		{"unknown field in a list", `{"list":[{},{"x":1}]}`, `unknown field "list[1].x"`},
		{"several unknown fields", `{"z":1,"y":2,"x":3}`, `unknown field "z"`},
		{"field that is not for JSON", `{"Skip":"a"}`, `unknown field "Skip"`},
		{"dash", `{"-":"a"}`, `unknown field "-"`},
		{"another case", `{"Thing":{}}`, `unknown field "Thing"`},
		{"another case below", `{"thing":{"NAME":"a"}}`, `unknown field "thing.NAME"`},
		{"another case of a Go name", `{"plain":"a"}`, `unknown field "plain"`},
		{"twice", `{"on":true,"on":true}`, `the name "on" is given twice`},
		{"twice, escaped", `{"on":true,"\u006fn":false}`, `the name "on" is given twice`},
		{"twice in a map", `{"pairs":{"a":1,"b":2,"a":3}}`, `the name "a" is given twice`},
		{"twice below a list", `{"list":[{"n":1,"n":1}]}`, `the name "n" is given twice`},
		{"twice in what is not read", `{"any":{"a":1,"a":2}}`, `the name "a" is given twice`},
		{"twice in another case", `{"on":true,"ON":true}`, `unknown field "ON"`},
		{"number for a text", `{"thing":{"name":5}}`, "thing.name must be a text, not number"},
		{"text for a number", `{"thing":{"n":"5"}}`, "thing.n must be a whole number, not string"},
		{"fraction", `{"thing":{"n":1.5}}`, "thing.n must be a whole number, not number 1.5"},
		{"number of more than 64 bits", `{"thing":{"n":9223372036854775808}}`, "thing.n must be a whole number in range, not 9223372036854775808"},
		{"number of more than 64 bits, below", `{"thing":{"n":-9223372036854775809}}`, "thing.n must be a whole number in range, not -9223372036854775809"},
		{"list for bytes", `{"blob":["x"]}`, "blob must be a text in base64, not a list"},
		{"null for bytes", `{"blob":null}`, "blob must be a text in base64, not null"},
		{"huge number", `{"thing":{"n":1e400}}`, "thing.n must be a whole number, not number 1e400"},
		{"list for an object", `{"thing":[]}`, "thing must be an object, not array"},
		{"object for a list", `{"list":{}}`, "list must be a list, not object"},
		{"text for true", `{"on":"true"}`, "on must be true or false, not string"},
		{"text in a map of numbers", `{"pairs":{"a":"1"}}`, "must be a whole number, not string"},
		{"number for bytes", `{"blob":7}`, "blob must be a text in base64, not number"},
		{"bytes that are not base64", `{"blob":"%%%"}`, "blob must be a text in base64"},
		{"bytes cut short", `{"blob":"AQI"}`, "blob must be a text in base64"},
		{"a value that reads itself", `{"for":5}`, "for: it must be a text such as 60s"},
		{"list for the body", `[]`, "the body must be an object, not array"},
		{"text for the body", `"a"`, "the body must be an object, not string"},
		{"something after", `{} {}`, "the body has something after its JSON value"},
		{"something else after", `{}x`, "not valid JSON"},
		{"bracket after", `{}]`, "not valid JSON"},
		{"cut short", `{"thing":{"name":"a"}`, "ends too early"},
		{"cut in a text", `{"thing`, "not valid JSON"},
		{"no value", `{"on":}`, "not valid JSON"},
		{"no colon", `{"on" true}`, "not valid JSON"},
		{"comma before the end", `{"on":true,}`, "not valid JSON"},
		{"comment", `{/* on */}`, "not valid JSON"},
		{"not JSON", `on: true`, "not valid JSON"},
		{"empty", ``, "the body is empty"},
		{"blank", " \n", "the body is empty"},
		{"NUL", "\x00", "not valid JSON"},
		{"bytes that are not UTF-8", "{\"Plain\":\"\xff\xfe\"}", "not valid UTF-8 at byte 10"},
		{"a name that is not UTF-8", "{\"pairs\":{\"\xff\":1}}", "not valid UTF-8"},
		{"not UTF-8 where nothing reads it", "{\"any\":[\"\xc3\"]}", "not valid UTF-8"},
		{"half of a pair", `{"Plain":"a\ud800"}`, `\ud800 at byte 11, which is half`},
		{"other half of a pair", `{"Plain":"\udc00\ud800"}`, `\udc00 at byte 10`},
		{"half of a pair in a name", `{"pairs":{"\ud800":1}}`, "half of a surrogate pair"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := read(c.body, 1000)
			require.Error(t, err)
			assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
			assert.Contains(t, api.MessageOf(err), c.says)
		})
	}
}

// TestWhichFaultIsReported has bodies with several faults.
func TestWhichFaultIsReported(t *testing.T) {
	deep := strings.Repeat("[", jsonDepthMax+1)
	many := strings.Repeat("0,", jsonValuesMax)
	wide := ""
	for i := range 2 * namesMax {
		wide += fmt.Sprintf(`"k%d":%d,`, i, i)
	}
	for _, c := range []struct{ body, says string }{
		{`{"on":tru,"x":"` + "\xff" + `","any":` + deep, "nested at most"},
		{`{"on":1,"on":2,"any":[` + many, "JSON values"},
		{`{"x" 1 [` + many, "JSON values"},
		{`{"any":[` + many + deep, "JSON values"},
		{deep + many, "nested at most"},
		{`{"on":1,"on":tru,"Plain":"` + "\xff" + `"}`, "not valid UTF-8 at byte"},
		{`{"x":1,"for":5,"Plain":"\ud800"}`, "half of a surrogate pair"},
		{`{"x":1,"on":1,"on":2}`, `the name "on" is given twice`},
		{`{"x":{"y":1,"y":2}}`, `the name "y" is given twice`},
		{`{"x":1,"x":2}`, `the name "x" is given twice`},
		{`{"on":1,"on":2,}`, `the name "on" is given twice`},
		{`{"on":tru,"a":1,"a":2}`, "not valid JSON"},
		{`{"x":1} {`, "something after"},
		{`{"x":1,"for":5,"on":01}`, "not valid JSON"},
		{`{"for":5,"x":1,"on":1}`, "for: it must be a text such as 60s"},
		{`{"x":1,"for":5}`, `unknown field "x"`},
		{`{"on":1,"for":5}`, "for: it must be a text such as 60s"},
		{`{"on":1,"blob":["a"]}`, "blob must be a text in base64, not a list"},
		{`{"on":1,"list":[{"x":1}]}`, `unknown field "list[0].x"`},
		{`{"on":1,"thing":[]}`, "on must be true or false, not number"},
		{`{"pairs":{` + wide + `"k3":1}}`, `the name "k3" is given twice`},
		{`{"pairs":{` + wide + `"k\u0034\u0030":1}}`, `the name "k40" is given twice`},
		{`{"pairs":{` + wide + `"x":0},"x":0}`, `unknown field "x"`},
	} {
		_, err := read(c.body, 1<<20)
		assert.Contains(t, api.MessageOf(err), c.says, "%.60s", c.body)
	}
}

func TestReadJSONLimits(t *testing.T) {
	nested := func(n int) string { // the outer object is one level
		return `{"any":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}`
	}
	list := func(n int) string { // the object and the list are two
		return `{"any":[0` + strings.Repeat(",0", n-3) + `]}`
	}
	named := func(n int) string { // names do not count
		return `{"any":[` + strings.Repeat(`{"name":"\\\"]"},`, n/2-2) + ` {"name" : null} ]}`
	}
	items := func(n int) string {
		return `{"list":[{}` + strings.Repeat(",null,{}", (n-1)/2) + strings.Repeat(",{}", (n-1)%2) + `]}`
	}
	sized := func(n int) string { return `{"Plain":"` + strings.Repeat("x", n-12) + `"}` }
	const size = 1000
	for _, c := range []struct {
		name     string
		at, over string
		limit    int64
		code     api.Code
		says     string
	}{
		{"depth", nested(jsonDepthMax), nested(jsonDepthMax + 1), 1 << 20, api.CodeInvalid, "nested at most 16 deep"},
		{"values", list(jsonValuesMax), list(jsonValuesMax + 1), 1 << 20, api.CodeInvalid, "at most 20000 JSON values"},
		{"items", items(jsonItemsMax), items(jsonItemsMax + 1), 1 << 20, api.CodeInvalid, "list may have at most 1000 items"},
		{"named values", named(jsonValuesMax), named(jsonValuesMax + 2), 1 << 20, api.CodeInvalid, "at most 20000 JSON values"},
		{"bytes", sized(size), sized(size + 1), size, api.CodeTooLarge, "at most 1000 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := read(c.at, c.limit)
			require.NoError(t, err)
			_, err = read(c.over, c.limit)
			assert.Equal(t, c.code, api.CodeOf(err))
			assert.Contains(t, api.MessageOf(err), c.says)
		})
	}
	deep := strings.Repeat("[", 1<<20)
	_, err := read(deep, 1<<20)
	assert.Contains(t, api.MessageOf(err), "nested at most")
}

func TestAnAddressThatIsNotText(t *testing.T) {
	for target, code := range map[string]int{
		"/a/%C3%A4?b=%C3%A4": http.StatusOK, "/a?b=%zz": http.StatusOK, "/%ff": http.StatusBadRequest, "/a/b%C3/c": http.StatusBadRequest,
		"/?a=%ff": http.StatusBadRequest, "/?%fe=a": http.StatusBadRequest, "/?a=%zz&b=%ff": http.StatusBadRequest,
	} {
		rec := httptest.NewRecorder()
		Text(Refuse)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, target, nil))
		assert.Equal(t, code, rec.Code, target)
	}
	r := post(`{}`)
	r.Header.Set(api.HeaderIdempotencyKey, "a\xff")
	rec := httptest.NewRecorder()
	Text(Refuse)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(rec, r)
	assert.Equal(t, http.StatusBadRequest, rec.Code)
}

func TestReadJSONContentType(t *testing.T) {
	for ct, want := range map[string]api.Code{
		"": api.CodeMediaType, "application/json": "", "application/json; charset=utf-8": "", "Application/JSON": "",
		"text/plain": api.CodeMediaType, "application/jsonp": api.CodeMediaType, api.MediaCBOR: api.CodeMediaType,
		"application/json-patch+json": api.CodeMediaType, "application/x-www-form-urlencoded": api.CodeMediaType, ";": api.CodeMediaType,
	} {
		r := post(`{}`)
		r.Header.Set("Content-Type", ct)
		assert.Equal(t, want, api.CodeOf(ReadJSON(r, 10, &outer{})), "content type %q", ct)
	}
}

// TestABodyThatIsPackedIsRefusedAsSuch, and not as text that is no JSON.
func TestABodyThatIsPackedIsRefusedAsSuch(t *testing.T) {
	for how, want := range map[string]api.Code{"": "", "identity": "", "gzip": api.CodeMediaType, "br": api.CodeMediaType} {
		r := post(`{}`)
		r.Header.Set("Content-Encoding", how)
		err := ReadJSON(r, 10, &outer{})
		assert.Equal(t, want, api.CodeOf(err), "content encoding %q", how)
		if want != "" {
			assert.Equal(t, `the body must not be compressed, but its Content-Encoding is "`+how+`"`, api.MessageOf(err))
		}
	}
}

// late is a body that does not arrive in time.
type late struct{}

func (late) Read([]byte) (int, error) { return 0, fmt.Errorf("reading: %w", os.ErrDeadlineExceeded) }

func TestABodyThatIsLateIsSlow(t *testing.T) {
	r := post("")
	r.Body = io.NopCloser(late{})
	err := ReadJSON(r, 10, &outer{})
	assert.Equal(t, api.CodeSlow, api.CodeOf(err))
	assert.Equal(t, http.StatusRequestTimeout, api.CodeOf(err).HTTPStatus())
}

// TestAPartThatIsMissingIsNamed: null and nothing are both no object; an empty one is.
func TestAPartThatIsMissingIsNamed(t *testing.T) {
	type part struct {
		Name string `json:"name"`
	}
	type body struct {
		Server part     `json:"server"`
		Rest   part     `json:"rest,omitzero"`
		Hints  *part    `json:"hints"`
		Names  []string `json:"names"`
	}
	for text, missing := range map[string]bool{
		`{"server": null}`: true, `{}`: true, `{"rest": {"name": "a"}}`: true, `null`: true, `{"hints": {}, "names": []}`: true,
		`{"server": {}}`: false, `{"server": {"name": "a"}}`: false, `{"server": {"name": null}, "rest": null, "hints": null}`: false,
	} {
		err := ReadJSON(post(text), 100, &body{})
		if !missing {
			require.NoError(t, err, text)
			continue
		}
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), text)
		assert.Equal(t, `server is missing: the body must be an object with "server"`, api.MessageOf(err), text)
	}
}

// broken is a body whose sender goes away.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestABodyThatBreaksOffIsInvalid(t *testing.T) {
	r := post("")
	r.Body = io.NopCloser(broken{})
	assert.Equal(t, api.CodeInvalid, api.CodeOf(ReadJSON(r, 10, &outer{})))
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func BenchmarkReadJSON(b *testing.B) {
	for _, c := range []struct {
		name string
		body []byte
	}{
		{"body=plain/size=100B", []byte(`{"thing":{"name":"` + strings.Repeat("x", 78) + `"}}`)},
		{"body=plain/size=1MiB", []byte(`{"Plain":"` + strings.Repeat("x", api.BodyMaxBytes-12) + `"}`)},
		{"body=bomb/size=1MiB", []byte(bombs(api.BodyMaxBytes)["objects"])},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(c.body)))
			for b.Loop() {
				r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(c.body))
				_ = ReadJSON(r, api.BodyMaxBytes, &outer{}) // the bomb is refused
			}
		})
	}
}

func FuzzReadJSON(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `{"thing":{"name":"a","n":2}}`, `{"list":[{"name":"a"}],"pairs":{"a":1}}`, `{"blob":"AQI=","on":true}`,
		`{"for":"1m","any":[[{"a":null}]]}`, `{"Thing":{}}`, `{"on":true,"ON":true}`, `{"on":1,"on":2}`, `{} {}`, `[{},{},`, `null`,
		"{\"Plain\":\"\xff\xfe\"}", `{"Plain":"\ud800"}`, `{"Plain":"\ud83d\ude00"}`, `{"pairs":{"\udc00":1}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var got, want outer
		r := post(string(body))
		if err := ReadJSON(r, 1<<16, &got); err != nil {
			require.NotEmpty(t, api.MessageOf(err))
			require.NotEqual(t, api.CodeInternal, api.CodeOf(err))
			return
		}
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		require.NoError(t, d.Decode(&want), "accepted %q", body)
		require.Equal(t, want, got)
		_, err := d.Token()
		require.ErrorIs(t, err, io.EOF, "accepted something after the value of %q", body)
		require.NoError(t, api.CheckJSONText(body), "accepted text that is replaced in %q", body)
	})
}
