package tricircle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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
	"berth/httpd/door"
	"berth/httpd/openstack"
	"berth/internal/memstore"
	"berth/internal/script"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// secrets are "id:secret"; the hash of a secret is the secret.
type secrets struct{}

func (secrets) Parse(text string) (api.TokenID, []byte, error) {
	id, secret, ok := strings.Cut(text, ":")
	if !ok {
		return "", nil, api.Errorf(api.CodeUnauthenticated, "malformed")
	}
	return api.TokenID(id), []byte(secret), nil
}

func (secrets) Check(stored, presented []byte) bool { return bytes.Equal(stored, presented) }

// formed is a store whose nodes all read the newest form, and whose commands go through their
// encoding.
type formed struct {
	*memstore.Store
	tb testing.TB
}

func (s formed) Propose(ctx context.Context, cmds ...command.Command) ([]state.Result, error) {
	for i, c := range cmds {
		b, err := command.Encode(c, api.FormNewest)
		require.NoError(s.tb, err)
		cmds[i], err = command.Decode(b, api.FormNewest)
		require.NoError(s.tb, err)
	}
	return s.Store.Propose(ctx, cmds...)
}

func (s formed) ProposeEach(ctx context.Context, lists [][]command.Command) []state.Answer {
	return memstore.Each(ctx, s.Propose, lists)
}

// talk is a zone without nodes, Top, whose dialect a conversation speaks to. Its children are Pod1 to
// Pod6, its parent is World. Callers are admin and member.
type talk struct {
	http.Handler
	store *memstore.Store
	zone  *zone.Zone
	now   time.Time
}

func newTalk(tb testing.TB) *talk {
	tb.Helper()
	w := &talk{store: memstore.New(), now: time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)}
	now, log := func() time.Time { return w.now }, slog.New(slog.DiscardHandler)
	w.zone = zone.New(zone.Config{Store: formed{w.store, tb}, Now: now, Log: log})
	w.Handler = New(door.Config{Zone: w.zone, Tokens: secrets{}, Log: log, Now: now, Leader: func() bool { return true }})
	stamp := w.zone.Stamp()
	cmds := []command.Command{command.Init{Stamp: stamp, Zone: "zone-top", Name: "Top"}}
	for i, name := range []string{"World", "Pod1", "Pod2", "Pod3", "Pod4", "Pod5", "Pod6"} {
		role := api.LinkChild
		if i == 0 {
			role = api.LinkParent
		}
		cmds = append(cmds, command.LinkPut{Stamp: stamp, Link: api.Link{
			ID: api.LinkID("link-" + name), Name: name, Role: role, Zone: api.ZoneID("zone-" + name), Created: stamp.At,
			Endpoints: []string{"https://" + strings.ToLower(name) + ".example:1"}, CA: []byte{1}, Scale: 1, State: api.LinkActive,
		}})
	}
	for id, role := range map[string]api.UserRole{"admin": api.RoleAdmin, "member": api.RoleMember} {
		cmds = append(cmds, command.TokenPut{Stamp: stamp, Token: api.Token{
			ID: api.TokenID(id), Hash: []byte("s"), User: api.UserID(id), Project: "ops", Roles: []api.UserRole{role}, Created: stamp.At, Expires: api.Forever,
		}})
	}
	w.store.Must(tb, cmds...)
	return w
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
	if as != "nobody" {
		r.Header.Set("X-Auth-Token", as+":s")
	}
	return r
}

// inOrder returns all bindings by their start; each minute of a conversation begins at most one.
func (w *talk) inOrder() []*api.Binding {
	out := append([]*api.Binding{}, w.store.View().Bindings()...)
	for i := range out {
		for j := i; j > 0 && out[j].Start < out[j-1].Start; j-- {
			out[j], out[j-1] = out[j-1], out[j]
		}
	}
	return out
}

// drawn is an id that the zone has drawn.
var drawn = regexp.MustCompile(`"[0-9a-f]{8}-[0-9a-f]{4}-[48][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"`)

// flat has only plain values.
var flat = regexp.MustCompile(`[{\[][^{}\[\]]*[}\]]`)

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
	var body bytes.Buffer
	require.NoError(tb, json.Indent(&body, rec.Body.Bytes(), "", "  "))
	text := flat.ReplaceAllStringFunc(body.String(), func(s string) string { return strings.Join(strings.Fields(s), " ") })
	for i, b := range w.inOrder() {
		text = strings.ReplaceAll(text, `"`+string(b.ID)+`"`, fmt.Sprintf("{%d}", i+1))
	}
	return out + "\n" + drawn.ReplaceAllString(text, `"UUID"`)
}

func (w *talk) do(tb testing.TB, c script.Command) (string, error) {
	tb.Helper()
	switch c.Name {
	case "wait": // for a minute
		w.now = w.now.Add(time.Minute)
		return "", nil
	case "abroad": // a project of the parent is bound
		w.store.Must(tb, command.BindingSet{Stamp: w.zone.Stamp(), ID: "binding-abroad", Project: "far", Origin: "link-World", Link: "link-Pod3"})
		return "", nil
	case http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodPatch:
		rec := httptest.NewRecorder()
		before := w.store.View().Index()
		w.ServeHTTP(rec, w.request(c))
		if rec.Code >= http.StatusBadRequest {
			require.Equal(tb, before, w.store.View().Index(), "%s: a refused call changed the state", c.Pos)
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
		w.store.Must(t, command.BindingSet{Stamp: w.zone.Stamp(), ID: api.BindingID("id-" + p), Project: api.ProjectID(p), Link: "link-Pod1"})
	}
	for query, want := range map[string]string{
		"": "id-a id-b id-c", "?limit=3": "id-a id-b id-c", "?limit=2": "id-a id-b > id-b", "?limit=2&marker=id-b": "id-c", "?marker=id-c": "",
	} {
		rec := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, Mount+root+"/bindings"+query, nil)
		r.Header.Set("X-Auth-Token", "admin:s")
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
	for _, name := range conversations {
		t.Run(name, func(t *testing.T) {
			w := newTalk(t)
			script.Run(t, "testdata/"+name+".txt", func(c script.Command) (string, error) { return w.do(t, c) })
		})
	}
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
