package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/codec"
	"berth/internal/requestid"
)

// note is a body between machines.
type note struct {
	Text  string            `cbor:"1,keyasint"`
	Pairs map[string]string `cbor:"2,keyasint,omitempty"`
	Any   any               `cbor:"3,keyasint,omitempty"`
}

func postCBOR(body []byte) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	r.Header.Set("Content-Type", api.MediaCBOR)
	return r
}

func TestReadCBOR(t *testing.T) {
	good, err := codec.Marshal(note{Text: "a"})
	require.NoError(t, err)
	require.Equal(t, "\xa1\x01\x61a", string(good))
	nested := func(n int) []byte { // the map around is one level
		return append([]byte{0xa2, 1, 0x61, 'a', 3}, append(bytes.Repeat([]byte{0x81}, n-2), 0x80)...)
	}
	for _, c := range []struct {
		name string
		body []byte
		code api.Code
	}{
		{"good", good, ""},
		{"at the limit of depth", nested(codec.NestedMax), ""},
		{"below the limit of depth", nested(codec.NestedMax + 1), api.CodeInvalid},
		{"empty", nil, api.CodeInvalid},
		{"unknown field", []byte("\xa1\x04\x61a"), api.CodeInvalid},
		{"name for a number", []byte("\xa1\x64Text\x61a"), api.CodeInvalid},
		{"twice", []byte("\xa2\x01\x61a\x01\x61a"), api.CodeInvalid},
		{"twice in a map", []byte("\xa2\x01\x61a\x02\xa2\x61k\x61v\x61k\x61v"), api.CodeInvalid},
		{"wrong type", []byte("\xa1\x01\x05"), api.CodeInvalid},
		{"something after", append(bytes.Clone(good), 0), api.CodeInvalid},
		{"cut short", good[:len(good)-1], api.CodeInvalid},
		{"a length that is not there", []byte("\xa1\x01\x7a\xff\xff\xff\xff"), api.CodeInvalid},
		{"a list longer than the limit", []byte("\x9a\xff\xff\xff\xff"), api.CodeInvalid},
		{"no end", []byte("\xbf\x01\x61a\xff"), api.CodeInvalid},
		{"tag", []byte("\xa1\x01\xc1\x61a"), api.CodeInvalid},
		{"bad text", []byte("\xa1\x01\x61\xff"), api.CodeInvalid},
		{"JSON", []byte(`{"Text":"a"}`), api.CodeInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v note
			err := ReadCBOR(postCBOR(c.body), 100, &v)
			assert.Equal(t, c.code, api.CodeOf(err))
			if err == nil {
				assert.Equal(t, "a", v.Text)
				return
			}
			assert.Equal(t, "the body is not what this call takes", api.MessageOf(err))
		})
	}
}

func TestReadCBORLimits(t *testing.T) {
	sized := func(n int) []byte {
		b, err := codec.Marshal(note{Text: strings.Repeat("x", n-5)})
		require.NoError(t, err)
		require.Len(t, b, n)
		return b
	}
	require.NoError(t, ReadCBOR(postCBOR(sized(1000)), 1000, &note{}))
	assert.Equal(t, api.CodeTooLarge, api.CodeOf(ReadCBOR(postCBOR(sized(1001)), 1000, &note{})))

	for _, ct := range []string{"", "application/json", "application/cbor2"} {
		r := postCBOR(sized(1000))
		r.Header.Set("Content-Type", ct)
		assert.Equal(t, api.CodeMediaType, api.CodeOf(ReadCBOR(r, 1000, &note{})), "content type %q", ct)
	}
}

// TestNobodyGetsAnAnswerThatHeDoesNotRead: each answer says what the zone reads, and has
// no newer form than the caller reads.
func TestNobodyGetsAnAnswerThatHeDoesNotRead(t *testing.T) {
	type answer struct {
		Old int `cbor:"1,keyasint"`
		New int `cbor:"2,keyasint,omitempty" form:"2"`
	}
	for _, c := range []struct {
		head   string
		answer answer
		status int
	}{
		{"", answer{Old: 1}, 200},
		{"", answer{New: 1}, 503},
		{"1", answer{New: 1}, 503},
		{"x", answer{New: 1}, 503},
		{"2", answer{New: 1}, 200},
		{"3", answer{New: 1}, 200},
	} {
		h := WithForm(func() api.Form { return api.FormSecond })(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			CBOR(w, r, http.StatusOK, c.answer)
		}))
		r, w := postCBOR(nil), httptest.NewRecorder()
		r.Header.Set(api.HeaderForm, c.head)
		h.ServeHTTP(w, r)
		assert.Equal(t, c.status, w.Code, "%+v", c)
		assert.Equal(t, "2", w.Header().Get(api.HeaderForm))
	}
}

func FuzzReadCBOR(f *testing.F) {
	f.Add([]byte("\xa1\x01\x61a"))
	f.Add([]byte("\xa2\x01\x61a\x02\xa1\x61k\x61v"))
	f.Fuzz(func(t *testing.T, body []byte) {
		var v note
		if ReadCBOR(postCBOR(body), 1<<16, &v) != nil {
			return
		}
		again, err := codec.Marshal(v)
		require.NoError(t, err, "what was read can be written")
		var w note
		require.NoError(t, codec.Unmarshal(again, &w))
	})
}

func TestRefuse(t *testing.T) {
	secret := errors.New("host h-7 at 10.0.0.7")
	for _, c := range []struct {
		name   string
		err    error
		status int
		body   api.ErrorDetail
	}{
		{"a refusal", api.Errorf(api.CodeInvalid, "no"), 400, api.ErrorDetail{Code: api.CodeInvalid, Message: "no"}},
		{
			"its cause stays", api.Wrap(api.CodePlanRefused, "zone.open", api.PlanRefusedMessage, secret), 422,
			api.ErrorDetail{Code: api.CodePlanRefused, Message: api.PlanRefusedMessage},
		},
		{"a bug", secret, 500, api.ErrorDetail{Code: api.CodeInternal, Message: api.MessageOf(secret)}},
		{
			"a bug with a sentence", api.Errorf(api.CodeInternal, "host h-7"), 500,
			api.ErrorDetail{Code: api.CodeInternal, Message: api.MessageOf(secret)},
		},
		{"no credentials", api.Errorf(api.CodeUnauthenticated, "no"), 401, api.ErrorDetail{Code: api.CodeUnauthenticated, Message: "no"}},
		{"too much", api.Errorf(api.CodeOverloaded, "no"), 429, api.ErrorDetail{Code: api.CodeOverloaded, Message: "no"}},
		{"no leader", api.Errorf(api.CodeUnavailable, "no"), 503, api.ErrorDetail{Code: api.CodeUnavailable, Message: "no"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.body.RequestID = "req-1"
			h := WithRequestID(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { Refuse(w, r, c.err) }))
			for accept, decode := range map[string]func([]byte, any) error{"": json.Unmarshal, api.MediaCBOR: codec.Unmarshal} {
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r.Header.Set(api.HeaderRequestID, "req-1")
				r.Header.Set("Accept", accept)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				var got api.ErrorBody
				require.NoError(t, decode(w.Body.Bytes(), &got))
				assert.Equal(t, c.status, w.Code)
				assert.Equal(t, c.body, got.Error)
				assert.Equal(t, "req-1", w.Header().Get(api.HeaderRequestID))
				assert.Equal(t, c.status == 401, w.Header().Get("WWW-Authenticate") != "")
				assert.Equal(t, c.status == 429 || c.status == 503, w.Header().Get("Retry-After") != "")
			}
		})
	}
}

func TestRequestID(t *testing.T) {
	for _, given := range []string{"", "mine-1", strings.Repeat("x", api.NameMaxBytes), strings.Repeat("x", api.NameMaxBytes+1), "two words", "a\nb"} {
		var seen api.RequestID
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header[api.HeaderRequestID] = []string{given}
		w := httptest.NewRecorder()
		WithRequestID(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = requestid.Of(r.Context()) })).ServeHTTP(w, r)
		assert.Equal(t, string(seen), w.Header().Get(api.HeaderRequestID))
		assert.Equal(t, api.ValidName(given), string(seen) == given, "%q", given)
		assert.True(t, api.ValidName(string(seen)))
	}
}

func TestRecover(t *testing.T) {
	var log bytes.Buffer
	h := Recover(slog.New(slog.NewTextHandler(&log, nil)))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/abort" {
			panic(http.ErrAbortHandler)
		}
		panic("host h-7")
	}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	assert.Equal(t, http.StatusInternalServerError, w.Code)
	assert.NotContains(t, w.Body.String(), "h-7")
	assert.Contains(t, log.String(), "h-7")
}

func TestWait(t *testing.T) {
	for q, want := range map[string]time.Duration{
		"": 0, "?wait=": 0, "?wait=0s": 0, "?wait=30s": 30 * time.Second, "?wait=5m": api.WaitMax,
		"?wait=5m1s": -1, "?wait=-1s": -1, "?wait=30": -1, "?wait=soon": -1, "?wait=1e9h": -1,
	} {
		got, err := Wait(httptest.NewRequest(http.MethodGet, "/"+q, nil))
		if want < 0 {
			assert.Equal(t, api.CodeInvalid, api.CodeOf(err), q)
			continue
		}
		require.NoError(t, err, q)
		assert.Equal(t, want, got, q)
	}
}

func TestPage(t *testing.T) {
	for q, want := range map[string]int{
		"": api.PageMax, "?limit=": api.PageMax, "?limit=1": 1, "?limit=1000": 1000, "?limit=1001": 0, "?limit=0": 0,
		"?limit=-1": 0, "?limit=x": 0, "?limit=1.5": 0, "?limit=99999999999999999999": 0,
		"?marker=" + strings.Repeat("x", markerMaxBytes): api.PageMax, "?marker=" + strings.Repeat("x", markerMaxBytes+1): 0,
	} {
		got, marker, err := Page(httptest.NewRequest(http.MethodGet, "/"+q, nil))
		if want == 0 {
			assert.Equal(t, api.CodeInvalid, api.CodeOf(err), q)
			continue
		}
		require.NoError(t, err, q)
		assert.Equal(t, want, got, q)
		assert.Equal(t, strings.Contains(q, "marker"), marker != "")
	}
}
