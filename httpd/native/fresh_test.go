package native

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

func TestReadsSayHowFreshTheyAre(t *testing.T) {
	w := newWorld(t)
	for _, kind := range []string{"", "?read=local", "?read=linearizable"} {
		rec := w.do(call{method: http.MethodGet, target: "/servers" + kind, token: member})
		assert.Equal(t, http.StatusOK, rec.Code, kind)
	}
	assert.Empty(t, w.forwarded)
	w.refused(t, call{method: http.MethodGet, target: "/servers?read=fast", token: member}, api.CodeInvalid, "read must be")
	w.refused(t, call{method: http.MethodDelete, target: "/servers/x?read=linearizable", token: member}, api.CodeInvalid, "read must be")

	w.follower = true
	w.do(call{method: http.MethodGet, target: "/servers?read=local", token: member})
	assert.Empty(t, w.forwarded, "a follower answers from its replica")
	w.do(call{method: http.MethodGet, target: "/servers?read=linearizable", token: member})
	assert.Len(t, w.forwarded, 1, "the leader alone can tell")
}

// TestALinearizableReadHoldsWhatWasAcknowledged reads a server that a node which
// led once has not heard of.
func TestALinearizableReadHoldsWhatWasAcknowledged(t *testing.T) {
	for kind, want := range map[string]int{"": http.StatusNotFound, "?read=local": http.StatusNotFound, "?read=linearizable": http.StatusOK} {
		w := newWorld(t)
		w.serve(memstore.NewPast(w.store, tokensAlone(t), false))
		assert.Equal(t, want, w.do(call{method: http.MethodGet, target: "/servers/id-web" + kind, token: admin}).Code, kind)
	}
	w := newWorld(t)
	w.serve(memstore.NewPast(w.store, tokensAlone(t), true))
	w.refused(t, call{method: http.MethodGet, target: "/servers/id-web?read=linearizable", token: admin}, api.CodeUnavailable, "another node leads")
}

// restless is a store whose state moves on whenever it was looked at.
type restless struct {
	*memstore.Store
	t     *testing.T
	views map[uint64]*state.State // all that were looked at, by index
	wrote uint64                  // the entry of the call, if it writes
}

func (s *restless) View() *state.State {
	v := s.Store.View()
	s.views[v.Index()] = v
	s.move(v)
	return v
}

func (s *restless) Linearizable(context.Context) (*state.State, error) { return s.View(), nil }

// Wait ends as if nothing had happened.
func (s *restless) Wait(context.Context, uint64) (*state.State, error) {
	return nil, context.DeadlineExceeded
}

// WaitFor ends as if nothing had happened after the first look.
func (s *restless) WaitFor(_ context.Context, _ state.Topic, ok func(*state.State) bool) (*state.State, error) {
	v := s.View()
	ok(v)
	return v, context.DeadlineExceeded
}

func (s *restless) Propose(ctx context.Context, cmds ...command.Command) ([]state.Result, error) {
	rs, err := s.Store.Propose(ctx, cmds...)
	s.wrote = s.Store.View().Index()
	s.move(s.Store.View())
	return rs, err
}

func (s *restless) ProposeEach(ctx context.Context, lists [][]command.Command) []state.Answer {
	return memstore.Each(ctx, s.Propose, lists)
}

// move changes everything that the API shows, in one entry.
func (s *restless) move(v *state.State) {
	name, n := fmt.Sprint("n", v.Index()), int64(v.Index())
	at := command.Stamp{At: v.Now()}
	h, _ := v.HostByName("host-1")
	enabled := !h.Enabled
	i, _ := v.Instance("id-web")
	_, small := v.Flavor("small")
	status := api.StatusActive
	if i.Status == status {
		status = api.StatusShutoff
	}
	rs, err := s.Store.Propose(s.t.Context(),
		command.HostSet{Stamp: at, ID: h.ID, Enabled: &enabled},
		command.FlavorPut{Stamp: at, Flavor: api.Flavor{ID: "small", Name: "small", Resources: api.Resources{api.VCPU: n}}, Replace: small},
		command.TokenPut{Stamp: at, Token: api.Token{ID: api.TokenID(name), Project: "p1", Roles: []api.UserRole{api.RoleReader}, Expires: api.Forever}},
		command.InstanceReport{Stamp: at, Agent: "agent-1", Items: []api.InstanceReport{{Host: h.ID, Instance: i.ID, Status: status}}},
		command.LinkSet{Stamp: at, ID: "link-east", Offset: &n},
		command.ConfigSet{Stamp: at, Config: api.ZoneConfig{Tags: []string{name}}},
	)
	require.NoError(s.t, err)
	for _, r := range rs {
		require.NoError(s.t, r.Err)
	}
}

// frozen is a store that stands still.
type frozen struct {
	zone.Store
	at *state.State
}

func (s frozen) View() *state.State { return s.at }

func (s frozen) Wait(context.Context, uint64) (*state.State, error) {
	return nil, context.DeadlineExceeded
}

func (s frozen) WaitFor(_ context.Context, _ state.Topic, ok func(*state.State) bool) (*state.State, error) {
	ok(s.at)
	return s.at, context.DeadlineExceeded
}

func indexOf(t *testing.T, h http.Header) uint64 {
	t.Helper()
	require.Len(t, h.Values(api.HeaderIndex), 1)
	index, err := strconv.ParseUint(h.Get(api.HeaderIndex), 10, 64)
	require.NoError(t, err)
	return index
}

// TestAReadIsOfTheIndexThatItSays reads while the state moves on, and once more
// from the very state whose index the answer has named.
func TestAReadIsOfTheIndexThatItSays(t *testing.T) {
	eachRoute(t, func(t *testing.T, method string, r row) {
		t.Helper()
		if method != http.MethodGet {
			return
		}
		for _, kind := range []string{"read=local", "read=linearizable"} {
			w := r.of(t)
			s := &restless{Store: w.store, t: t, views: map[uint64]*state.State{}}
			w.serve(s)
			c := call{method: method, target: withQuery(r.target, kind), token: admin}
			rec := w.answered(t, c, r.status, nil)
			v := s.views[indexOf(t, rec.Header())]
			require.NotNil(t, v)
			assert.Less(t, v.Index(), s.Store.View().Index(), "it moves on")
			w.serve(frozen{w.store, v})
			again := w.answered(t, call{method: method, target: r.target, token: admin}, r.status, nil)
			assert.Equal(t, again.Body.String(), rec.Body.String())
		}
	})
}

// TestAWriteIsBelowTheIndexThatItSays, so that a node that passed it on can wait
// for that index and then shows what was written.
func TestAWriteIsBelowTheIndexThatItSays(t *testing.T) {
	eachRoute(t, func(t *testing.T, method string, r row) {
		t.Helper()
		w := r.of(t)
		s := &restless{Store: w.store, t: t, views: map[uint64]*state.State{}}
		w.serve(s)
		rec := w.answered(t, call{method: method, target: r.target, token: admin, body: r.body}, r.status, nil)
		assert.GreaterOrEqual(t, indexOf(t, rec.Header()), s.wrote)
	})
}

func TestAReleaseShowsOneView(t *testing.T) {
	w := newWorld(t)
	s := &restless{Store: w.store, t: t, views: map[uint64]*state.State{}}
	w.serve(s)
	type body struct {
		Boot rest.Boot `json:"boot"`
	}
	var got, want body
	rec := w.answered(t, call{method: http.MethodDelete, target: "/zones/boot/r-web", token: member}, http.StatusAccepted, &got)
	index := indexOf(t, rec.Header())
	assert.Equal(t, index, got.Boot.Index)
	require.Greater(t, index, s.wrote, "the state has moved on since")
	w.serve(frozen{w.store, s.views[index]})
	again := w.answered(t, call{method: http.MethodGet, target: "/zones/boot/r-web", token: member}, http.StatusOK, nil)
	require.NoError(t, json.Unmarshal(again.Body.Bytes(), &want))
	assert.Equal(t, want, got)
}
