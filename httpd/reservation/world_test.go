package reservation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/door"
	"berth/httpd/openstack"
	"berth/internal/memstore"
	"berth/internal/script"
	"berth/quota"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/intake"
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

// formed is a store whose nodes all read the newest form, and whose commands go through
// their encoding.
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

// epoch is when each conversation begins.
var epoch = time.Date(2030, 6, 1, 12, 0, 30, 0, time.UTC)

// talk is a zone without nodes, with tokens and one flavor, whose reservation API a
// conversation speaks to. Callers are admin, member and reader of p1, mate, another member
// of p1, and other, a member of p2.
type talk struct {
	http.Handler
	store *memstore.Store
	zone  *zone.Zone
	now   time.Time
	fake  *fakeLeases
	alive bool // its leases are real: see enliven

	service *checkService // nil unless it is alive
}

func newTalk(tb testing.TB) *talk {
	tb.Helper()
	return newTalkAt(tb, epoch)
}

// newTalkAt returns a conversation at a time that stands still, or if it is 0 moves by itself.
func newTalkAt(tb testing.TB, now0 time.Time) *talk {
	tb.Helper()
	w := &talk{store: memstore.New(), now: now0}
	now, log := func() time.Time { return w.time() }, slog.New(slog.DiscardHandler)
	w.zone = zone.New(zone.Config{Store: formed{w.store, tb}, Now: now, Log: log})
	w.fake = newFake(w.store.View, w.zone.Instant)
	w.Handler = New(Config{
		Leases: w.fake, Book: w.fake,
		Door: door.Config{Zone: w.zone, Tokens: secrets{}, Log: log, Now: now, Leader: func() bool { return true }},
	})
	stamp := w.zone.Stamp()
	cmds := []command.Command{
		command.Init{Stamp: stamp, Zone: "zone-root", Name: "root"},
		command.FlavorPut{Stamp: stamp, Flavor: api.Flavor{ID: "small", Name: "small", Resources: api.Resources{api.VCPU: 2, api.MemoryMB: 512}}},
	}
	for _, t := range []struct {
		id, project string
		role        api.UserRole
	}{
		{"admin", "ops", api.RoleAdmin},
		{"member", "p1", api.RoleMember},
		{"mate", "p1", api.RoleMember},
		{"reader", "p1", api.RoleReader},
		{"other", "p2", api.RoleMember},
	} {
		cmds = append(cmds, command.TokenPut{Stamp: stamp, Token: api.Token{
			ID: api.TokenID(t.id), Hash: []byte("s"), User: api.UserID(t.id), Project: api.ProjectID(t.project),
			Roles: []api.UserRole{t.role}, Created: stamp.At, Expires: api.Forever,
		}})
	}
	w.store.Must(tb, cmds...)
	return w
}

// time returns the time of the conversation, which stands still, or that of the bubble.
func (w *talk) time() time.Time {
	if w.now.IsZero() {
		return time.Now()
	}
	return w.now
}

// host registers a host: NAME VCPUS, then its pool and attributes, each NAME=VALUE.
func (w *talk) host(tb testing.TB, c script.Command) {
	tb.Helper()
	h := api.AgentHost{
		Name: c.Arg(0), Driver: "fake", Pool: api.PoolOnDemand, Attributes: map[string]string{},
		Inventory: map[api.ResourceClass]api.Inventory{
			api.VCPU: {Total: c.Int(tb, 1)}, api.MemoryMB: {Total: 16_384}, api.DiskGB: {Total: 200},
		},
	}
	for _, pair := range c.Args[2:] {
		name, value, _ := strings.Cut(pair, "=")
		if name == "pool" {
			h.Pool = api.Pool(value)
			continue
		}
		h.Attributes[name] = value
	}
	w.store.Must(tb, command.HostsPut{Stamp: w.zone.Stamp(), Agent: "agent-" + api.AgentID(h.Name), Hosts: []command.HostEntry{{ID: "host-" + api.HostID(h.Name), Host: h}}})
}

// request makes a request of a command: METHOD PATH, then options, then the body. Options
// are as=NAME (the caller, or nobody), token=TEXT, type=TYPE, version=TEXT and key=TEXT.
func (w *talk) request(c script.Command) *http.Request {
	head, n := http.Header{}, 1
	as := "member"
options:
	for ; n < len(c.Args); n++ {
		name, value, _ := strings.Cut(c.Args[n], "=")
		switch name {
		case "as":
			as = value
		case "token":
			as = "nobody"
			head.Set("X-Auth-Token", value)
		case "type":
			head.Set("Content-Type", value)
		case "accept":
			head.Set("Accept", value)
		case "version":
			head.Set("OpenStack-API-Version", strings.ReplaceAll(value, "_", " "))
		case "key":
			head.Set(api.HeaderIdempotencyKey, value)
		default:
			break options
		}
	}
	text := strings.Join(c.Args[min(n, len(c.Args)):], " ")
	target := Mount + root + c.Arg(0)
	if rest, ok := strings.CutPrefix(c.Arg(0), "~"); ok {
		target = Mount + rest
	}
	r := httptest.NewRequest(c.Name, target, strings.NewReader(text))
	for name := range head {
		r.Header.Set(name, head.Get(name))
	}
	if as != "nobody" {
		r.Header.Set("X-Auth-Token", as+":s")
	}
	return r
}

// usual is what headers are unless an answer shows them.
var usual = map[string]string{"Openstack-Api-Version": "reservation 1.0", "Vary": "openstack-api-version", "Content-Type": openstack.MediaJSON}

// told writes an answer: its status, the headers that are not as always, and its body on
// one line for each element.
func told(tb testing.TB, rec *httptest.ResponseRecorder, where string) string {
	tb.Helper()
	h := rec.Header()
	id := h.Get("X-Openstack-Request-Id")
	require.True(tb, strings.HasPrefix(id, "req-"), where)
	out := strconv.Itoa(rec.Code)
	for _, name := range []string{"Openstack-Api-Version", "Vary", "Content-Type", "Allow", "Location", "Transfer-Encoding"} {
		if v := h.Get(name); v != usual[name] && (v != "" || rec.Body.Len() > 0) {
			out += fmt.Sprintf(" %s=%q", strings.ToLower(name), v)
		}
	}
	if rec.Body.Len() == 0 {
		return out
	}
	require.Equal(tb, strconv.Itoa(rec.Body.Len()), h.Get("Content-Length"), where)
	var body bytes.Buffer
	require.NoError(tb, json.Indent(&body, rec.Body.Bytes(), "", "  "), where)
	if rec.Code >= http.StatusBadRequest {
		return out + "\n" + rec.Body.String()
	}
	text := flat.ReplaceAllStringFunc(body.String(), func(s string) string { return strings.Join(strings.Fields(s), " ") })
	return out + "\n" + drawn.ReplaceAllStringFunc(text, func(s string) string {
		if strings.HasPrefix(s, `"00000000`) {
			return s // by the fake
		}
		return `"UUID"`
	})
}

var (
	flat  = regexp.MustCompile(`[{\[][^{}\[\]]*[}\]]`)                                                     // has only plain values
	drawn = regexp.MustCompile(`"[0-9a-f]{8}-[0-9a-f]{4}-[48][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"`) // by the zone
)

// mark returns what a refused call leaves as it is: the log, or where the zone itself refuses
// by the log, every lease.
func (w *talk) mark() string {
	v := w.store.View()
	if !w.alive {
		return strconv.FormatUint(v.Index(), 10)
	}
	out := ""
	for _, l := range v.Leases("") {
		out += fmt.Sprintf("%s %v %v %v %s\n", l.Terms.ID, l.Terms, l.Events, l.Status, l.Order)
	}
	return out
}

func (w *talk) do(tb testing.TB, c script.Command) (string, error) {
	tb.Helper()
	switch c.Name {
	case "host":
		w.host(tb, c)
		return "", nil
	case "down": // a host
		w.store.Must(tb, command.HostsState{Stamp: w.zone.Stamp(), State: api.HostDown, Hosts: []api.HostID{api.HostID("host-" + c.Arg(0))}})
		return "", nil
	case "policy": // JSON, as in the configuration of a zone
		var rule rest.LeaseRule
		require.NoError(tb, json.Unmarshal([]byte(strings.Join(c.Args, " ")), &rule), c.Pos)
		conf := api.ZoneConfig{Leases: rule.Rule(), WebhookNetworks: []string{"127.0.0.0/8"}}
		var err error
		conf.Leases.Check, err = intake.LeaseCheck(w.zone, rule.Check, func(_, token string) ([]byte, error) { return []byte(token), nil })
		require.NoError(tb, err, c.Pos)
		return "", intake.SetConfig(tb.Context(), w.zone, conf)
	case "quota": // PROJECT, then limits, each NAME=NUMBER
		limits := quota.Limits{}
		for n, pair := range c.Args[1:] {
			name, _, _ := strings.Cut(pair, "=")
			c.Args[n+1] = strings.TrimPrefix(pair, name+"=")
			limits[quota.Item(name)] = c.Int(tb, n+1)
		}
		w.store.Must(tb, command.QuotaSet{Stamp: w.zone.Stamp(), Project: api.ProjectID(c.Arg(0)), Set: limits})
		return "", nil
	case "number": // of a host
		return numberOf(api.HostID("host-" + c.Arg(0))), nil
	case "wait": // for some minutes
		w.now = w.now.Add(time.Duration(c.Int(tb, 0)) * time.Minute)
		return "", nil
	case http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodPatch, http.MethodHead:
		rec := httptest.NewRecorder()
		before := w.mark()
		w.ServeHTTP(rec, w.request(c))
		if rec.Code >= http.StatusBadRequest {
			require.Equal(tb, before, w.mark(), "%s: a refused call changed the state", c.Pos)
			if rec.Code != http.StatusServiceUnavailable { // that others are away is not a fault of the zone
				require.Less(tb, rec.Code, http.StatusInternalServerError, c.Pos)
			}
		}
		return told(tb, rec, c.Pos), nil
	}
	return "", errors.New("no such command")
}

// conversations are those of this world, each a file in testdata.
var conversations = []string{"versions", "access", "dates", "leases", "updates", "hosts", "properties", "allocations"}

func TestConversations(t *testing.T) {
	for _, name := range conversations {
		t.Run(name, func(t *testing.T) {
			w := newTalk(t)
			script.Run(t, "testdata/"+name+".txt", func(c script.Command) (string, error) { return w.do(t, c) })
		})
	}
}
