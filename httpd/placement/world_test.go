package placement

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/httpd/door"
	"berth/httpd/openstack"
	"berth/httpd/openstack/openstacktest"
	"berth/internal/script"
)

// Headers of every call.
const (
	headerVersion   = "Openstack-Api-Version"
	headerRequestID = "X-Openstack-Request-Id"
)

// talk is a zone without nodes, with tokens, whose placement API a conversation
// speaks to. Callers are admin, of project p1, member and reader of p1, and other,
// a reader of p2.
type talk struct{ *claims }

func newTalk(tb testing.TB) *talk {
	tb.Helper()
	w := openstacktest.New(tb, claimsEpoch, func(c door.Config) http.Handler { return New(Config{Door: c}) })
	w.Init(tb, "zone-root", "root",
		openstacktest.Caller{Name: "admin", Project: "p1", Role: api.RoleAdmin},
		openstacktest.Caller{Name: "member", Project: "p1", Role: api.RoleMember},
		openstacktest.Caller{Name: "reader", Project: "p1", Role: api.RoleReader},
		openstacktest.Caller{Name: "other", Project: "p2", Role: api.RoleReader},
	)
	return &talk{&claims{w}}
}

// request makes a request of a command: METHOD VERSION PATH, then options, then the
// body. A version of - says none. Options are as=NAME (the caller, or nobody),
// accept=TYPE and type=TYPE; a type of - says none.
func (w *talk) request(c script.Command) *http.Request {
	as, kind, accept, n := "admin", openstack.MediaJSON, "", 2
	for ; n < len(c.Args); n++ {
		name, value, _ := strings.Cut(c.Args[n], "=")
		switch name {
		case "as":
			as = value
		case "type":
			kind = value
		case "accept":
			accept = strings.ReplaceAll(value, "_", " ")
		default:
			goto body
		}
	}
body:
	text := lengthen(strings.Join(c.Args[min(n, len(c.Args)):], " "))
	target := c.Arg(1)
	if target == "." {
		target = ""
	}
	r := httptest.NewRequest(c.Name, Mount+lengthen(target), strings.NewReader(text))
	if text != "" && kind != "-" || kind != openstack.MediaJSON && kind != "-" {
		r.Header.Set("Content-Type", kind)
	}
	if c.Arg(0) != "-" {
		r.Header.Set(headerVersion, "placement "+c.Arg(0))
	}
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	openstacktest.As(r, as)
	return r
}

// told writes an answer: its status, the headers that are not as always, and its
// body; of a refusal its code and sentence.
func told(tb testing.TB, r *http.Request, rec *httptest.ResponseRecorder, where string) string {
	tb.Helper()
	h := rec.Header()
	id := h.Get(headerRequestID)
	require.NotEmpty(tb, id, where)
	require.Equal(tb, h.Get(api.HeaderRequestID), id, where)
	out := strconv.Itoa(rec.Code)
	if got, want := h.Get(headerVersion), r.Header.Get(headerVersion); got != want && (want != "" || got != "placement 1.0") {
		out += fmt.Sprintf(" version=%q", got)
	}
	if got := h.Get("Vary"); (got == "openstack-api-version") != (h.Get(headerVersion) != "") {
		out += fmt.Sprintf(" vary=%q", got)
	}
	if got := h.Get("Content-Type"); got != openstack.MediaJSON && (got != "" || rec.Body.Len() > 0) {
		out += fmt.Sprintf(" type=%q", got)
	}
	for _, name := range []string{"Allow", "Location", "Cache-Control", "Last-Modified", "Retry-After"} {
		if v := h.Get(name); v != "" {
			out += fmt.Sprintf(" %s=%q", strings.ToLower(name), shorten(v))
		}
	}
	switch {
	case rec.Body.Len() == 0:
		return out
	case h.Get("Content-Type") != openstack.MediaJSON:
		return out + "\n" + strings.ReplaceAll(rec.Body.String(), id, "REQUEST")
	}
	require.Equal(tb, strconv.Itoa(rec.Body.Len()), h.Get("Content-Length"), where)
	if rec.Code < http.StatusBadRequest {
		return out + "\n" + shorten(openstacktest.Fold(tb, rec.Body.Bytes()))
	}
	return out + "\n" + shorten(toldRefusal(tb, rec, where))
}

func toldRefusal(tb testing.TB, rec *httptest.ResponseRecorder, where string) string {
	tb.Helper()
	var body struct {
		Errors []openstack.Problem `json:"errors"`
	}
	d := json.NewDecoder(rec.Body)
	d.DisallowUnknownFields()
	require.NoError(tb, d.Decode(&body), where)
	require.Len(tb, body.Errors, 1, where)
	p := body.Errors[0]
	require.Equal(tb, rec.Code, p.Status, where)
	require.Equal(tb, http.StatusText(rec.Code), p.Title, where)
	require.Equal(tb, rec.Header().Get(headerRequestID), p.RequestID, where)
	require.NotEmpty(tb, p.Detail, where)
	out := p.Detail
	if p.Code != "" {
		out = p.Code + "\n" + out
	}
	if p.MinVersion != "" {
		out += fmt.Sprintf("\nmin_version=%s max_version=%s", p.MinVersion, p.MaxVersion)
	}
	return out
}

func (w *talk) do(tb testing.TB, c script.Command) (string, error) {
	tb.Helper()
	switch c.Name {
	case "host":
		w.host(tb, c)
		return "", nil
	case "place":
		w.place(tb, c)
		return "", nil
	case "wait": // for some seconds
		w.Now = w.Now.Add(time.Duration(c.Int(tb, 0)) * time.Second)
		return "", nil
	case "ask": // for the versions, with a header as it is
		r := httptest.NewRequest(http.MethodGet, Mount, nil)
		r.Header.Set(headerVersion, strings.Join(c.Args, " "))
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, r)
		return told(tb, r, rec, c.Pos), nil
	case http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodPatch, http.MethodHead:
		r, rec := w.request(c), httptest.NewRecorder()
		before := w.Store.View().Index()
		w.ServeHTTP(rec, r)
		if rec.Code >= http.StatusBadRequest && w.Store.View().Index() != before {
			assert.Contains(tb, []int{http.StatusConflict, http.StatusBadRequest, http.StatusNotFound}, rec.Code, "%s: a call that was refused early was proposed", c.Pos)
		}
		return told(tb, r, rec, c.Pos), nil
	}
	return "", errors.New("no such command")
}

// conversations are those of this world, each a file in testdata.
var conversations = []string{
	"versions", "media", "access", "providers", "trees", "lists", "inventories", "units", "traits", "aggregates", "classes", "usages", "hosts",
}

func TestConversations(t *testing.T) {
	openstacktest.Converse(t, conversations, func(tb testing.TB) func(testing.TB, script.Command) (string, error) { return newTalk(tb).do })
}
