package reservation

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

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/door"
	"berth/httpd/openstack"
	"berth/httpd/openstack/openstacktest"
	"berth/internal/script"
	"berth/quota"
	"berth/raftstore/command"
	"berth/zone/intake"
)

// epoch is when each conversation begins.
var epoch = time.Date(2030, 6, 1, 12, 0, 30, 0, time.UTC)

// talk is a zone without nodes, with tokens and one flavor, whose reservation API a
// conversation speaks to. Callers are admin, member and reader of p1, mate, another member
// of p1, and other, a member of p2.
type talk struct {
	*openstacktest.World
	fake  *fakeLeases
	alive bool // its leases are real: see enliven

	service *checkService // nil unless it is alive
}

func newTalk(tb testing.TB) *talk {
	tb.Helper()
	return newTalkAt(tb, epoch)
}

// newTalkAt returns a conversation at a time that stands still, or if it is 0 moves by itself.
func newTalkAt(tb testing.TB, now time.Time) *talk {
	tb.Helper()
	w := &talk{}
	w.World = openstacktest.New(tb, now, func(c door.Config) http.Handler {
		w.fake = newFake(c.Zone.View, c.Zone.Instant)
		return New(Config{Leases: w.fake, Book: w.fake, Door: c})
	})
	w.Init(tb, "zone-root", "root",
		openstacktest.Caller{Name: "admin", Project: "ops", Role: api.RoleAdmin},
		openstacktest.Caller{Name: "member", Project: "p1", Role: api.RoleMember},
		openstacktest.Caller{Name: "mate", Project: "p1", Role: api.RoleMember},
		openstacktest.Caller{Name: "reader", Project: "p1", Role: api.RoleReader},
		openstacktest.Caller{Name: "other", Project: "p2", Role: api.RoleMember},
	)
	w.Store.Must(tb, command.FlavorPut{
		Stamp: w.Zone.Stamp(), Flavor: api.Flavor{ID: "small", Name: "small", Resources: api.Resources{api.VCPU: 2, api.MemoryMB: 512}},
	})
	return w
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
	w.Store.Must(tb, command.HostsPut{Stamp: w.Zone.Stamp(), Agent: "agent-" + api.AgentID(h.Name), Hosts: []command.HostEntry{{ID: "host-" + api.HostID(h.Name), Host: h}}})
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
	openstacktest.As(r, as)
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
	text := openstacktest.Fold(tb, rec.Body.Bytes())
	if rec.Code >= http.StatusBadRequest {
		return out + "\n" + rec.Body.String()
	}
	return out + "\n" + openstacktest.HideIDs(text, "00000000") // which are drawn by the fake
}

// mark returns what a refused call leaves as it is: the log, or where the zone itself refuses
// by the log, every lease.
func (w *talk) mark() string {
	v := w.Store.View()
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
		w.Store.Must(tb, command.HostsState{Stamp: w.Zone.Stamp(), State: api.HostDown, Hosts: []api.HostID{api.HostID("host-" + c.Arg(0))}})
		return "", nil
	case "policy": // JSON, as in the configuration of a zone
		var rule rest.LeaseRule
		require.NoError(tb, json.Unmarshal([]byte(strings.Join(c.Args, " ")), &rule), c.Pos)
		conf := api.ZoneConfig{Leases: rule.Rule(), WebhookNetworks: []string{"127.0.0.0/8"}}
		var err error
		conf.Leases.Check, err = intake.LeaseCheck(w.Zone, rule.Check, func(_, token string) ([]byte, error) { return []byte(token), nil })
		require.NoError(tb, err, c.Pos)
		return "", intake.SetConfig(tb.Context(), w.Zone, conf)
	case "quota": // PROJECT, then limits, each NAME=NUMBER
		limits := quota.Limits{}
		for n, pair := range c.Args[1:] {
			name, _, _ := strings.Cut(pair, "=")
			c.Args[n+1] = strings.TrimPrefix(pair, name+"=")
			limits[quota.Item(name)] = c.Int(tb, n+1)
		}
		w.Store.Must(tb, command.QuotaSet{Stamp: w.Zone.Stamp(), Project: api.ProjectID(c.Arg(0)), Set: limits})
		return "", nil
	case "number": // of a host
		return numberOf(api.HostID("host-" + c.Arg(0))), nil
	case "wait": // for some minutes
		w.Now = w.Now.Add(time.Duration(c.Int(tb, 0)) * time.Minute)
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
	openstacktest.Converse(t, conversations, func(tb testing.TB) func(testing.TB, script.Command) (string, error) { return newTalk(tb).do })
}
