package placement

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/raftstore/command"
)

// TestARefusalOfSeveralFaultsIsTheSameEachTime: which fault is named must not depend
// on the order of a map.
func TestARefusalOfSeveralFaultsIsTheSameEachTime(t *testing.T) {
	w := newTalk(t)
	require.Equal(t, http.StatusOK, w.ask(http.MethodPost, "/resource_providers", `{"name":"a","uuid":"`+theProvider+`"}`).Code)
	const one, other = "aaaaaaaa-0000-4000-8000-000000000000", "AAAAAAAA-0000-4000-8000-000000000000"
	const owner = `"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"T"`
	for _, c := range []struct{ method, path, body string }{
		{"PUT", "/resource_providers/" + theProvider + "/inventories", `{"resource_provider_generation":0,"inventories":{"NO":{"total":1},"NEITHER":{"total":1}}}`},
		{"PUT", "/resource_providers/" + theProvider + "/inventories", `{"resource_provider_generation":0,"inventories":{"VCPU":{"total":1,"reserved":2},"DISK_GB":{"total":1,"reserved":3},"NO":{"total":1}}}`},
		{"PUT", "/resource_providers/" + theProvider + "/inventories", `{"resource_provider_generation":0,"inventories":{"VCPU":{"total":0},"DISK_GB":{"total":-1}}}`},
		{"PUT", "/resource_providers/" + theProvider + "/inventories", `{"resource_provider_generation":0,"inventories":{},"more":1,"evenmore":2}`},
		{"PUT", "/resource_providers/" + theProvider + "/traits", `{"resource_provider_generation":0,"traits":["CUSTOM_B","CUSTOM_A"]}`},
		{"PUT", "/allocations/" + one, `{"allocations":{"` + theProvider + `":{"resources":{"VCPU":1,"DISK_GB":2}},"` + one + `":{"resources":{"VCPU":1}}},` + owner + `}`},
		{"PUT", "/allocations/" + one, `{"allocations":{"` + theProvider + `":{"resources":{"VCPU":1,"DISK_GB":2}}},` + owner + `}`},
		{"PUT", "/allocations/" + one, `{"allocations":{"` + one + `":{"resources":{"VCPU":1}},"` + other + `":{"resources":{"NO":1}}},` + owner + `}`},
		{"PUT", "/allocations/" + one, `{"allocations":{"` + theProvider + `":{"resources":{"NO":1,"NEITHER":1}}},` + owner + `}`},
		{"POST", "/allocations", `{"` + one + `":{"allocations":{"` + theProvider + `":{"resources":{"NO":1}}},` + owner + `},"` + theProvider + `":{"allocations":{"` + one + `":{"resources":{"VCPU":1}}},` + owner + `}}`},
		{"POST", "/reshaper", `{"inventories":{"` + one + `":{"resource_provider_generation":0,"inventories":{}},"` + other + `":{"resource_provider_generation":0,"inventories":{}}},"allocations":{}}`},
		{"GET", "/allocation_candidates?resources=NO:1,NEITHER:1&required=CUSTOM_B,CUSTOM_A", ""},
		{"GET", "/allocation_candidates?resources_a=VCPU:0&resources_b=VCPU:x&required_c=!", ""},
		{"GET", "/allocation_candidates?one=1&two=2&three=3", ""},
		{"GET", "/resource_providers?one=1&two=2&three=3", ""},
		{"GET", "/resource_providers?uuid=x&in_tree=y&member_of=z&resources=NO:1", ""},
	} {
		first := w.ask(c.method, c.path, c.body)
		require.GreaterOrEqual(t, first.Code, http.StatusBadRequest, c.path+c.body)
		want := toldRefusal(t, first, c.path+c.body)
		for range 200 {
			require.Equal(t, want, toldRefusal(t, w.ask(c.method, c.path, c.body), ""), "%s %s", c.path, c.body)
		}
	}
}

// TestAChunkedBodyNeedsAContentType: it has no length that says it is there.
func TestAChunkedBodyNeedsAContentType(t *testing.T) {
	w := newTalk(t)
	for _, body := range []io.Reader{strings.NewReader(`{"name":"a"}`), io.MultiReader(strings.NewReader(`{"name":"a"}`))} {
		r := httptest.NewRequest(http.MethodPost, Mount+"/resource_providers", body)
		r.Header.Set(headerVersion, "placement latest")
		r.Header.Set("X-Auth-Token", "admin:s")
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, r)
		assert.Equal(t, http.StatusBadRequest, rec.Code, "a length of %d", r.ContentLength)
		assert.Contains(t, rec.Body.String(), "content-type header required")
	}
}

// TestTextThatIsNotUTF8ChangesNothing: bytes and escapes that a decoder replaces are
// refused wherever a name could come from.
func TestTextThatIsNotUTF8ChangesNothing(t *testing.T) {
	w := newTalk(t)
	w.Store.Must(t, command.ProviderCreate{Stamp: w.Zone.Stamp(), ID: theProvider, Name: "a"})
	before := w.Store.View().Index()
	const claim = `{"allocations":{},"project_id":"%","user_id":"u","consumer_generation":null,"consumer_type":"T"}`
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/resource_providers", `{"name":"%"}`},
		{"PUT", "/resource_providers/" + theProvider, `{"name":"b%"}`},
		{"PUT", "/allocations/" + theProvider, claim},
		{"POST", "/allocations", `{"` + theProvider + `":` + claim + `}`},
		{"POST", "/resource_classes", `{"name":"CUSTOM_%"}`},
		{"PUT", "/resource_providers/" + theProvider + "/traits", `{"resource_provider_generation":0,"traits":["%"]}`},
	} {
		for _, bad := range []string{"\xff\xfe", "p\xff", "\xed\xa0\x80", `\ud800`, `a\udc00b`} {
			rec := w.ask(c.method, c.path, strings.ReplaceAll(c.body, "%", bad))
			assert.Equal(t, http.StatusBadRequest, rec.Code, "%s %q", c.path, bad)
			assert.Contains(t, rec.Body.String(), "Malformed JSON: the body cannot be taken", "%s %q", c.path, bad)
		}
	}
	for _, path := range []string{"/resource_providers/%ff", "/resource_providers?name=%ff", "/traits?name=in:%ff", "/allocation_candidates?resources=%ff:1"} {
		assert.Equal(t, http.StatusBadRequest, w.ask(http.MethodGet, path, "").Code, path)
	}
	assert.Equal(t, before, w.Store.View().Index(), "a refused call changes nothing")
	assert.Equal(t, http.StatusOK, w.ask(http.MethodPost, "/resource_providers", `{"name":"\ud83d\ude00 ä"}`).Code)
}
