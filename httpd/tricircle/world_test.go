package tricircle

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/httpd/openstack"
	"berth/httpd/openstack/openstacktest"
	"berth/internal/script"
	"berth/raftstore/command"
)

// talk is a zone without nodes, Top, whose dialect a conversation speaks to. Its children are Pod1 to
// Pod6, its parent is World. Callers are admin and member.
type talk struct{ *openstacktest.World }

func newTalk(tb testing.TB) *talk {
	tb.Helper()
	w := openstacktest.New(tb, time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC), New)
	w.Init(tb, "zone-top", "Top",
		openstacktest.Caller{Name: "admin", Project: "ops", Role: api.RoleAdmin}, openstacktest.Caller{Name: "member", Project: "ops", Role: api.RoleMember})
	stamp := w.Zone.Stamp()
	for i, name := range []string{"World", "Pod1", "Pod2", "Pod3", "Pod4", "Pod5", "Pod6"} {
		role := api.LinkChild
		if i == 0 {
			role = api.LinkParent
		}
		w.Store.Must(tb, command.LinkPut{Stamp: stamp, Link: api.Link{
			ID: api.LinkID("link-" + name), Name: name, Role: role, Zone: api.ZoneID("zone-" + name), Created: stamp.At,
			Endpoints: []string{"https://" + strings.ToLower(name) + ".example:1"}, CA: []byte{1}, Scale: 1, State: api.LinkActive,
		}})
	}
	return &talk{w}
}

// request makes a request of a command: METHOD PATH, as=NAME for another caller than admin, and the body.
// A path that begins with ~ is below the mount. {N} stands for the id of the binding that is the Nth of
// the zone, from 1.
func (w *talk) request(c script.Command) *http.Request {
	as, text := "admin", strings.Join(c.Args[1:], " ")
	if rest, ok := strings.CutPrefix(text, "as="); ok {
		as, text, _ = strings.Cut(rest, " ")
	}
	path := Mount + root + c.Arg(0)
	if rest, ok := strings.CutPrefix(c.Arg(0), "~"); ok {
		path = Mount + rest
	}
	for i, b := range w.inOrder() {
		path = strings.ReplaceAll(path, fmt.Sprintf("{%d}", i+1), string(b.ID))
	}
	r := httptest.NewRequest(c.Name, path, strings.NewReader(text))
	openstacktest.As(r, as)
	return r
}

// inOrder returns all bindings by their start; each minute of a conversation begins at most one.
func (w *talk) inOrder() []*api.Binding {
	out := append([]*api.Binding{}, w.Store.View().Bindings()...)
	for i := range out {
		for j := i; j > 0 && out[j].Start < out[j-1].Start; j-- {
			out[j], out[j-1] = out[j-1], out[j]
		}
	}
	return out
}

// told writes an answer: its status, and its body on one line for each element.
func (w *talk) told(tb testing.TB, rec *httptest.ResponseRecorder) string {
	tb.Helper()
	require.True(tb, strings.HasPrefix(rec.Header().Get("X-Openstack-Request-Id"), "req-"))
	out := strconv.Itoa(rec.Code)
	if allow := rec.Header().Get("Allow"); allow != "" {
		out += " allow=" + allow
	}
	if rec.Body.Len() == 0 {
		return out
	}
	require.Equal(tb, openstack.MediaJSON, rec.Header().Get("Content-Type"))
	if rec.Code >= http.StatusBadRequest {
		return out + "\n" + rec.Body.String()
	}
	text := openstacktest.Fold(tb, rec.Body.Bytes())
	for i, b := range w.inOrder() {
		text = strings.ReplaceAll(text, `"`+string(b.ID)+`"`, fmt.Sprintf("{%d}", i+1))
	}
	return out + "\n" + openstacktest.HideIDs(text)
}

func (w *talk) do(tb testing.TB, c script.Command) (string, error) {
	tb.Helper()
	switch c.Name {
	case "wait": // for a minute
		w.Now = w.Now.Add(time.Minute)
		return "", nil
	case "abroad": // a project of the parent is bound
		w.Store.Must(tb, command.BindingSet{Stamp: w.Zone.Stamp(), ID: "binding-abroad", Project: "far", Origin: "link-World", Link: "link-Pod3"})
		return "", nil
	case http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodPatch:
		rec := httptest.NewRecorder()
		before := w.Store.View().Index()
		w.ServeHTTP(rec, w.request(c))
		if rec.Code >= http.StatusBadRequest {
			require.Equal(tb, before, w.Store.View().Index(), "%s: a refused call changed the state", c.Pos)
			require.Less(tb, rec.Code, http.StatusInternalServerError, c.Pos)
		}
		return w.told(tb, rec), nil
	}
	return "", errors.New("no such command")
}

// TestBindingsHavePages: a list is cut, and goes on behind its marker.
func TestBindingsHavePages(t *testing.T) {
	w := newTalk(t)
	for _, p := range []string{"c", "a", "b"} {
		w.Store.Must(t, command.BindingSet{Stamp: w.Zone.Stamp(), ID: api.BindingID("id-" + p), Project: api.ProjectID(p), Link: "link-Pod1"})
	}
	for query, want := range map[string]string{
		"": "id-a id-b id-c", "?limit=3": "id-a id-b id-c", "?limit=2": "id-a id-b > id-b", "?limit=2&marker=id-b": "id-c", "?marker=id-c": "",
	} {
		rec := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, Mount+root+"/bindings"+query, nil)
		openstacktest.As(r, "admin")
		w.ServeHTTP(rec, r)
		var got struct {
			Bindings []podBinding `json:"pod_bindings"`
			Next     string       `json:"next_marker"`
		}
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &got))
		var ids []string
		for _, b := range got.Bindings {
			ids = append(ids, string(b.ID))
		}
		if got.Next != "" {
			ids = append(ids, ">", got.Next)
		}
		assert.Equal(t, want, strings.Join(ids, " "), query)
	}
}

// conversations are those of this world, each a file in testdata.
var conversations = []string{"pods", "bindings", "tags"}

func TestConversations(t *testing.T) {
	openstacktest.Converse(t, conversations, func(tb testing.TB) func(testing.TB, script.Command) (string, error) { return newTalk(tb).do })
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	assert.Len(t, files, len(conversations))
}

// TestTheTableIsThatOfTheCalls: docs/tricircle.md has every call, and names the conversations in which
// it is granted and refused.
func TestTheTableIsThatOfTheCalls(t *testing.T) {
	text, err := os.ReadFile("../../docs/tricircle.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(text), "## Calls")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := map[string][]string{}
	for line := range strings.SplitSeq(table, "\n") {
		if cells := strings.Split(line, "|"); len(cells) == 5 && strings.Contains(cells[1], "`") {
			rows[strings.Trim(cells[1], " `")] = strings.Split(strings.TrimSpace(cells[3]), ", ")
		}
	}
	for _, c := range new(dialect).listCalls() {
		name := c.Method + " " + c.Path
		require.Contains(t, rows, name)
		pattern := regexp.MustCompile(`(?m)^> ` + c.Method + ` ~?` + strings.ReplaceAll(regexp.QuoteMeta(strings.TrimPrefix(c.Path, root)), `\{id\}`, `[^ /?\n]+`) + `(\?\S*)?( .*)?\n(\d)`)
		answers := ""
		for _, file := range rows[name] {
			said, err := os.ReadFile("testdata/" + file + ".txt")
			require.NoError(t, err)
			for _, m := range pattern.FindAllStringSubmatch(string(said), -1) {
				answers += m[3]
			}
		}
		assert.Contains(t, answers, "2", "%s is never granted in %v", name, rows[name])
		assert.Contains(t, answers, "4", "%s is never refused in %v", name, rows[name])
		delete(rows, name)
	}
	assert.Empty(t, rows, "no such calls")
}
