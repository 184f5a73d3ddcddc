// Package openstacktest is what the tests of all OpenStack dialects share: a zone without nodes that a dialect speaks for,
// callers with tokens, and answers as conversations show them. It must never know a dialect.
package openstacktest

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/httpd/door"
	"berth/internal/memstore"
	"berth/internal/script"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// Secrets are "id:secret"; the hash of a secret is the secret.
type Secrets struct{}

// Parse implements door.Tokens.
func (Secrets) Parse(text string) (api.TokenID, []byte, error) {
	id, secret, ok := strings.Cut(text, ":")
	if !ok {
		return "", nil, api.Errorf(api.CodeUnauthenticated, "malformed")
	}
	return api.TokenID(id), []byte(secret), nil
}

// Check implements door.Tokens.
func (Secrets) Check(stored, presented []byte) bool { return bytes.Equal(stored, presented) }

// Caller is somebody with a token, whose id is his name.
type Caller struct {
	Name    string
	Project api.ProjectID
	Role    api.UserRole
}

// As has somebody make a request; nobody has no token.
func As(r *http.Request, name string) {
	if name != "nobody" {
		r.Header.Set("X-Auth-Token", name+":s")
	}
}

// Logged is a store that gets its commands as they are in a log, in the newest form.
type Logged struct {
	*memstore.Store
	TB testing.TB
}

// Propose implements zone.Store.
func (s Logged) Propose(ctx context.Context, cmds ...command.Command) ([]state.Result, error) {
	for i, c := range cmds {
		b, err := command.Encode(c, api.FormNewest)
		require.NoError(s.TB, err)
		cmds[i], err = command.Decode(b, api.FormNewest)
		require.NoError(s.TB, err)
	}
	return s.Store.Propose(ctx, cmds...)
}

// ProposeEach implements zone.Store.
func (s Logged) ProposeEach(ctx context.Context, lists [][]command.Command) []state.Answer {
	return memstore.Each(ctx, s.Propose, lists)
}

// World is a zone without nodes, and the dialect that speaks for it.
type World struct {
	http.Handler
	Store    *memstore.Store
	Zone     *zone.Zone
	Now      time.Time        // stands still; if it is 0, time moves by itself
	Follower bool             // the node that is spoken to
	Forward  http.HandlerFunc // to which a follower passes calls on

	dialect func(door.Config) http.Handler
}

// New returns a world at a time, without a zone yet: see Init.
func New(tb testing.TB, now time.Time, dialect func(door.Config) http.Handler) *World {
	tb.Helper()
	w := &World{Store: memstore.New(), Now: now, dialect: dialect}
	w.Serve(Logged{w.Store, tb})
	return w
}

// Serve makes the dialect answer from a store.
func (w *World) Serve(store zone.Store) {
	w.Zone = zone.New(zone.Config{Store: store, Now: w.Time, Log: slog.New(slog.DiscardHandler)})
	w.Handler = w.dialect(w.Door())
}

// Door returns what a dialect needs to let callers in.
func (w *World) Door() door.Config {
	return door.Config{
		Zone: w.Zone, Tokens: Secrets{}, Log: slog.New(slog.DiscardHandler), Now: w.Time,
		Leader:  func() bool { return !w.Follower },
		Forward: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.Forward(rw, r) }),
	}
}

// Time returns the time of the world.
func (w *World) Time() time.Time {
	if w.Now.IsZero() {
		return time.Now()
	}
	return w.Now
}

// Init begins the zone, with callers.
func (w *World) Init(tb testing.TB, id api.ZoneID, name string, callers ...Caller) {
	tb.Helper()
	stamp := w.Zone.Stamp()
	cmds := []command.Command{command.Init{Stamp: stamp, Zone: id, Name: name}}
	for _, c := range callers {
		cmds = append(cmds, command.TokenPut{Stamp: stamp, Token: api.Token{
			ID: api.TokenID(c.Name), Hash: []byte("s"), User: api.UserID(c.Name), Project: c.Project,
			Roles: []api.UserRole{c.Role}, Created: stamp.At, Expires: api.Forever,
		}})
	}
	w.Store.Must(tb, cmds...)
}

var (
	plain = regexp.MustCompile(`[{\[][^{}\[\]]*[}\]]`)                                                     // has no value with parts
	drawn = regexp.MustCompile(`"[0-9a-f]{8}-[0-9a-f]{4}-[48][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"`) // by a zone
)

// Fold writes JSON with a line for each value, of which those without parts have one.
func Fold(tb testing.TB, body []byte) string {
	tb.Helper()
	var out bytes.Buffer
	require.NoError(tb, json.Indent(&out, body, "", "  "))
	return plain.ReplaceAllStringFunc(out.String(), func(s string) string { return strings.Join(strings.Fields(s), " ") })
}

// HideIDs writes "UUID" for each quoted id that a zone has drawn, but for those that begin as in one of keep.
func HideIDs(text string, keep ...string) string {
	return drawn.ReplaceAllStringFunc(text, func(s string) string {
		for _, k := range keep {
			if strings.HasPrefix(s, `"`+k) {
				return s
			}
		}
		return `"UUID"`
	})
}

// Converse runs the conversations in the files of testdata with some names, each in what begin returns.
func Converse(t *testing.T, names []string, begin func(testing.TB) func(testing.TB, script.Command) (string, error)) {
	t.Helper()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			do := begin(t)
			script.Run(t, "testdata/"+name+".txt", func(c script.Command) (string, error) { return do(t, c) })
		})
	}
}
