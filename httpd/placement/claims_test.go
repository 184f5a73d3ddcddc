package placement

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/door"
	"berth/httpd/openstack"
	"berth/httpd/openstack/openstacktest"
	"berth/internal/script"
	"berth/raftstore/command"
)

// The conversations of claims. In them @1a stands for the UUID that begins so and
// goes on with zeros. Commands:
//
//	METHOD VERSION PATH [BODY]  one call; the answer is its status and its body,
//	                            or the code and the sentence of a refusal
//	provider ID NAME [PARENT]   a provider that is no host
//	inventory ID JSON           all that a provider has
//	traits ID TRAIT...          all its traits; custom ones are made
//	aggregates ID UUID...       all its aggregates
//	host ID NAME CLASS=TOTAL... a host that an agent reports
//	place ID HOST CLASS=N...    an instance on a host
//	headers METHOD VERSION PATH the headers of the answer
const idTail = "000000-0000-4000-8000-000000000000"

var (
	shortID = regexp.MustCompile(`@([0-9a-f]{2})`)
	longID  = regexp.MustCompile(`([0-9a-f]{2})` + idTail)
)

func lengthen(s string) string { return shortID.ReplaceAllString(s, "${1}"+idTail) }
func shorten(s string) string  { return longID.ReplaceAllString(s, "@${1}") }

// claims is a zone without nodes whose placement API a conversation speaks to.
type claims struct{ *openstacktest.World }

var claimsEpoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func newClaims(tb testing.TB) *claims {
	tb.Helper()
	w := openstacktest.New(tb, claimsEpoch, func(c door.Config) http.Handler {
		c.Insecure = true
		return New(Config{Door: c})
	})
	w.Init(tb, "zone-root", "root")
	return &claims{w}
}

func (w *claims) call(method, v, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, Mount+lengthen(path), strings.NewReader(lengthen(body)))
	r.Header.Set(headerVersion, "placement "+v)
	if body != "" {
		r.Header.Set("Content-Type", openstack.MediaJSON)
	}
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	return rec
}

// spell writes an answer: a refusal as its code and sentence, all else as it is.
func spell(tb testing.TB, rec *httptest.ResponseRecorder) string {
	tb.Helper()
	out := strconv.Itoa(rec.Code)
	var refused struct{ Errors []openstack.Problem }
	if rec.Code >= http.StatusBadRequest {
		require.NoError(tb, json.Unmarshal(rec.Body.Bytes(), &refused))
		require.Len(tb, refused.Errors, 1)
		require.Equal(tb, rec.Code, refused.Errors[0].Status)
		if c := refused.Errors[0].Code; c != "" {
			out += " " + c
		}
		return out + "\n" + shorten(refused.Errors[0].Detail)
	}
	if rec.Body.Len() == 0 {
		return out
	}
	return out + "\n" + shorten(openstacktest.Fold(tb, rec.Body.Bytes()))
}

func (w *claims) resources(tb testing.TB, c script.Command) api.Resources {
	tb.Helper()
	out := api.Resources{}
	for _, arg := range c.Args[2:] {
		class, n, _ := strings.Cut(arg, "=")
		amount, err := strconv.ParseInt(n, 10, 64)
		require.NoError(tb, err, c.Pos)
		out[api.ResourceClass(class)] = amount
	}
	return out
}

func (w *claims) host(tb testing.TB, c script.Command) {
	tb.Helper()
	h := api.AgentHost{Name: c.Arg(1), Driver: "fake", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{}}
	for class, n := range w.resources(tb, c) {
		h.Inventory[class] = api.Inventory{Total: n}
	}
	w.Store.Must(tb, command.HostsPut{Stamp: w.Zone.Stamp(), Agent: api.AgentID("agent-" + c.Arg(1)), Hosts: []command.HostEntry{
		{ID: api.HostID(lengthen(c.Arg(0))), Host: h},
	}})
}

// set changes a provider.
func (w *claims) set(tb testing.TB, c script.Command) {
	tb.Helper()
	set := command.ProviderSet{Stamp: w.Zone.Stamp(), ID: api.ProviderID(lengthen(c.Arg(0)))}
	words := strings.Fields(lengthen(strings.Join(c.Args[1:], " ")))
	switch c.Name {
	case "inventory":
		var stock map[api.ResourceClass]rest.Inventory
		require.NoError(tb, json.Unmarshal([]byte(strings.Join(words, "")), &stock), c.Pos)
		set.Inventory = &map[api.ResourceClass]api.Inventory{}
		for class, i := range stock {
			(*set.Inventory)[class] = api.Inventory(i)
		}
	case "traits":
		for _, name := range words {
			if api.ValidCustom(name) {
				w.Store.Must(tb, command.TraitPut{Stamp: w.Zone.Stamp(), Name: name})
			}
		}
		set.Traits = &words
	case "aggregates":
		set.Aggregates = &words
	}
	w.Store.Must(tb, set)
}

func (w *claims) place(tb testing.TB, c script.Command) {
	tb.Helper()
	id := lengthen(c.Arg(0))
	req := api.Request{
		Reservation: api.ReservationID("r-" + id), Project: "p", User: "u", Class: api.Firm, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: 1, Resources: w.resources(tb, c)}},
	}
	spec := api.InstanceSpec{ID: api.InstanceID(id), Name: "web"}
	w.Store.Must(tb, command.BootCreate{
		Stamp: w.Zone.Stamp(), BootTerms: command.BootTerms{
			Digest: []byte(id), Name: "web", Request: req, Min: 1, Instances: []api.InstanceSpec{spec},
		},
	}, command.Hold{
		Stamp: w.Zone.Stamp(), ID: api.HoldID("hold-" + id), Attempt: 1, Request: req, Expires: api.Forever, Commit: true,
		Slots: []command.Slot{{Instance: spec, Host: api.HostID(lengthen(c.Arg(1)))}},
	})
}

func (w *claims) do(tb testing.TB, c script.Command) (string, error) {
	tb.Helper()
	switch c.Name {
	case "provider":
		w.Store.Must(tb, command.ProviderCreate{
			Stamp: w.Zone.Stamp(), ID: api.ProviderID(lengthen(c.Arg(0))), Name: c.Arg(1), Parent: api.ProviderID(lengthen(c.Arg(2))),
		})
		return "", nil
	case "inventory", "traits", "aggregates":
		w.set(tb, c)
		return "", nil
	case "host":
		w.host(tb, c)
		return "", nil
	case "place":
		w.place(tb, c)
		return "", nil
	case "headers":
		rec := w.call(c.Arg(0), c.Arg(1), c.Arg(2), "")
		var out bytes.Buffer
		rec.Header().Del(headerRequestID)
		rec.Header().Del(api.HeaderRequestID)
		require.NoError(tb, rec.Header().Write(&out))
		return strings.ReplaceAll(out.String(), "\r", ""), nil
	case http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete:
		return spell(tb, w.call(c.Name, c.Arg(0), c.Arg(1), strings.Join(c.Args[2:], " "))), nil
	}
	return "", errors.New("no such command")
}

func TestClaimConversations(t *testing.T) {
	for _, name := range []string{"allocations", "candidates", "reshaper"} {
		t.Run(name, func(t *testing.T) {
			w := newClaims(t)
			script.Run(t, "testdata/"+name+".txt", func(c script.Command) (string, error) { return w.do(t, c) })
		})
	}
}

// numbered returns the UUID of provider or consumer n.
func numbered(n int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", n) }

// furnish makes the providers from first to last, with 4 processors each.
func (w *claims) furnish(tb testing.TB, first, last int) {
	tb.Helper()
	for i := first; i <= last; i++ {
		id := api.ProviderID(numbered(i))
		w.Store.Must(tb, command.ProviderCreate{Stamp: w.Zone.Stamp(), ID: id, Name: string(id)}, command.ProviderSet{
			Stamp: w.Zone.Stamp(), ID: id, Inventory: &map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}},
		})
	}
}

func TestConsumersOfOneCall(t *testing.T) {
	w := newClaims(t)
	w.furnish(t, 1, 7)
	body := func(n int) string {
		return "{" + upTo(n, `"`+numbered(0)[:4]+`%04x-0000-4000-8000-000000000000":{"allocations":{"`+numbered(7)+
			`":{"resources":{"VCPU":1}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"X"}`, ",") + "}"
	}
	assert.Equal(t, http.StatusBadRequest, w.call("POST", "1.39", "/allocations", body(api.ConsumersCallMax+1)).Code)
	assert.Equal(t, http.StatusConflict, w.call("POST", "1.39", "/allocations", body(api.ConsumersCallMax)).Code, "no room for so many")
	assert.Equal(t, http.StatusNoContent, w.call("POST", "1.39", "/allocations", body(4)).Code)
	reshape := `{"inventories":{"` + numbered(7) + `":{"resource_provider_generation":2,"inventories":{"VCPU":{"total":%d}}}},"allocations":` + "%s}"
	for _, n := range []int{api.ConsumersCallMax + 1, api.ConsumersCallMax} {
		want := map[bool]int{true: http.StatusNoContent, false: http.StatusBadRequest}[n == api.ConsumersCallMax]
		all := strings.Replace(body(n), `"consumer_generation":null`, `"consumer_generation":1`, 4)
		rec := w.call("POST", "1.39", "/reshaper", fmt.Sprintf(reshape, n, all))
		assert.Equal(t, want, rec.Code, rec.Body.String())
	}
}

func TestProvidersOfOneConsumer(t *testing.T) {
	w := newClaims(t)
	w.furnish(t, 1, api.SharesMax+1)
	body := func(n int) string {
		return `{"allocations":{` + upTo(n, `"`+numbered(0)[:4]+`%04x-0000-4000-8000-000000000000":{"resources":{"VCPU":1}}`, ",") +
			`},"project_id":"p","user_id":"u"}`
	}
	assert.Equal(t, http.StatusBadRequest, w.call("PUT", "1.27", "/allocations/@c1", body(api.SharesMax+1)).Code)
	assert.Equal(t, http.StatusNoContent, w.call("PUT", "1.27", "/allocations/@c1", body(api.SharesMax)).Code)
}

func TestCandidatesAreCut(t *testing.T) {
	w := newClaims(t)
	w.furnish(t, 1, api.CandidatesMax)
	count := func(query string) (n int, cut string) {
		rec := w.call("GET", "1.39", "/allocation_candidates?"+query, "")
		require.Equal(t, http.StatusOK, rec.Code, rec.Body.String())
		var got struct {
			Requests  []any          `json:"allocation_requests"`
			Summaries map[string]any `json:"provider_summaries"`
		}
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &got))
		assert.Len(t, got.Summaries, len(got.Requests))
		return len(got.Requests), rec.Header().Get(headerCut)
	}
	for _, c := range []struct {
		query string
		want  int
		cut   string
	}{
		{"resources=VCPU:1", api.CandidatesMax, ""},
		{"resources=VCPU:1&limit=7", 7, ""},
		{"resources=VCPU:1&limit=1000", api.CandidatesMax, ""},
		{"resources=VCPU:5", 0, ""},
	} {
		n, cut := count(c.query)
		assert.Equal(t, c.want, n, c.query)
		assert.Equal(t, c.cut, cut, c.query)
	}
	const most = api.CandidatesCallMax
	w.furnish(t, api.CandidatesMax+1, most+1)
	for _, c := range []struct {
		query string
		want  int
		cut   string
	}{
		{"resources=VCPU:1", api.CandidatesMax, cutCount},
		{"resources=VCPU:1&limit=1000", api.CandidatesMax, ""},
		{"resources=VCPU:1&limit=1001", api.CandidatesMax + 1, ""},
		{"resources=VCPU:1&limit=10000", most, ""},
		{"resources=VCPU:1&limit=10001", most, cutCount},
	} {
		n, got := count(c.query)
		assert.Equal(t, c.want, n, c.query)
		assert.Equal(t, c.cut, got, c.query)
	}
}

// TestCandidatesSayThatTheSearchGaveUp: ten groups want more than half of what each
// of nine providers has, and one wants less, so that only trying shows that there is
// no way.
func TestCandidatesSayThatTheSearchGaveUp(t *testing.T) {
	w := newClaims(t)
	w.furnish(t, 1, 1)
	for n := 2; n <= 10; n++ {
		id := api.ProviderID(numbered(n))
		w.Store.Must(t, command.ProviderCreate{Stamp: w.Zone.Stamp(), ID: id, Name: string(id), Parent: api.ProviderID(numbered(1))}, command.ProviderSet{
			Stamp: w.Zone.Stamp(), ID: id, Inventory: &map[api.ResourceClass]api.Inventory{"VGPU": {Total: 10}},
		})
	}
	query := "/allocation_candidates?group_policy=none&resources_small=VGPU:4&" + upTo(10, "resources%d=VGPU:6", "&")
	rec := w.call("GET", "1.39", query, "")
	assert.JSONEq(t, `{"allocation_requests":[],"provider_summaries":{}}`, rec.Body.String())
	assert.Equal(t, cutWork, rec.Header().Get(headerCut))
}

// BenchmarkCandidates asks 10,000 providers for 100 candidates, and for all that may
// be in an answer.
func BenchmarkCandidates(b *testing.B) {
	w := newClaims(b)
	w.furnish(b, 1, 10_000)
	for _, limit := range []string{"100", "1000"} {
		b.Run("limit="+limit, func(b *testing.B) {
			for b.Loop() {
				rec := w.call("GET", "1.39", "/allocation_candidates?resources=VCPU:1&limit="+limit, "")
				require.Equal(b, http.StatusOK, rec.Code)
			}
		})
	}
}

// FuzzClaims: whatever a body says, the answer is a grant or a refusal, and what was
// granted can be read.
func FuzzClaims(f *testing.F) {
	const claim = `{"allocations":{"@01":{"resources":{"VCPU":1}}},"project_id":"p","user_id":"u","consumer_generation":null,"mappings":{"":["@01"]},"consumer_type":"X"}`
	f.Add(uint8(39), uint8(0), claim)
	f.Add(uint8(39), uint8(1), `{"@c1":`+claim+`}`)
	f.Add(uint8(39), uint8(2), `{"inventories":{"@01":{"resource_provider_generation":1,"inventories":{"VCPU":{"total":4}}}},"allocations":{"@c1":`+claim+`}}`)
	f.Add(uint8(7), uint8(0), `{"allocations":[{"resource_provider":{"uuid":"@01"},"resources":{"VCPU":2.0}}]}`)
	f.Fuzz(func(t *testing.T, minor, which uint8, body string) {
		w := newClaims(t)
		id := api.ProviderID(lengthen("@01"))
		w.Store.Must(t, command.ProviderCreate{Stamp: w.Zone.Stamp(), ID: id, Name: "a"}, command.ProviderSet{
			Stamp: w.Zone.Stamp(), ID: id, Inventory: &map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}},
		})
		calls := [][2]string{{"PUT", "/allocations/@c1"}, {"POST", "/allocations"}, {"POST", "/reshaper"}}
		c, v := calls[int(which)%len(calls)], version(minor%40).String()
		switch rec := w.call(c[0], v, c[1], body); rec.Code {
		case http.StatusNoContent, http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusUnsupportedMediaType:
		default:
			t.Fatalf("%s %s: %d %s", c[0], c[1], rec.Code, rec.Body)
		}
		require.Equal(t, http.StatusOK, w.call("GET", "1.39", "/allocations/@c1", "").Code)
		require.LessOrEqual(t, w.Store.View().Hosts().Usage(id)[api.VCPU], int64(api.AmountMax))
	})
}
