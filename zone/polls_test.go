package zone_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/fleet"
	"berth/zone/saga"
	"berth/zone/zonetest"
)

// looks is a store that counts how often somebody who waits has looked.
type looks struct {
	*memstore.Store
	n atomic.Int64
}

func (s *looks) WaitFor(ctx context.Context, topic state.Topic, ok func(*state.State) bool) (*state.State, error) {
	return s.Store.WaitFor(ctx, topic, func(v *state.State) bool {
		s.n.Add(1)
		return ok(v)
	})
}

// pollsWorld is a zone with a parent, with two agents of one host each, and with an
// instance on each host, of which one is the parent's.
func pollsWorld(t *testing.T) (*looks, *zonetest.Conduct) {
	t.Helper()
	s := &looks{Store: memstore.New()}
	s.Must(t,
		command.Init{Stamp: command.Stamp{At: 1}, Zone: "z", Name: "zone"},
		command.LinkPut{Link: api.Link{ID: "up", Name: "up", Role: api.LinkParent, Zone: "z-up", State: api.LinkActive, Scale: 1}},
		pollsHost("a1", "h1"), pollsHost("a2", "h2"),
	)
	s.Must(t, append(pollsBoot("first", "h1", ""), pollsBoot("abroad", "h2", "up")...)...)
	z := zone.New(zone.Config{Store: s, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	return s, &zonetest.Conduct{Zone: z, Saga: saga.New(saga.Config{Zone: z}), Fleet: fleet.New(z, nil)}
}

func pollsHost(agent, id string) command.HostsPut {
	return command.HostsPut{Agent: api.AgentID(agent), Whole: true, Hosts: []command.HostEntry{{ID: api.HostID(id), Host: api.AgentHost{
		Name: id, Driver: "fake", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 9}},
	}}}}
}

// pollsBoot returns what boots one instance on a host; for a parent, if origin names it.
func pollsBoot(name, host string, origin api.LinkID) []command.Command {
	spec := api.InstanceSpec{ID: api.InstanceID("i-" + name), Name: "i"}
	req := api.Request{
		Reservation: api.ReservationID("r-" + name), Project: "p", User: "u", Class: api.Firm, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: 1, Flavor: "f", Resources: api.Resources{api.VCPU: 1}}},
	}
	h := command.Hold{
		ID: api.HoldID(name), Origin: origin, Attempt: 1, Request: req, Commit: true, Expires: api.Forever,
		Slots: []command.Slot{{Instance: spec, Host: api.HostID(host)}},
	}
	if origin != "" {
		return []command.Command{h}
	}
	return []command.Command{command.BootCreate{BootTerms: command.BootTerms{Digest: []byte(name), Name: name, Request: req, Min: 1, Instances: []api.InstanceSpec{spec}}}, h}
}

// backupOf returns the command that brings a state back.
func backupOf(t *testing.T, v *state.State) command.Restore {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, v.Save(&b))
	sum := sha256.Sum256(b.Bytes())
	return command.Restore{Sum: sum[:], Size: int64(b.Len()), Data: b.Bytes()}
}

// TestPollsWakeByWhatConcernsThem holds a poll of each kind while entries come. Those
// that concern others leave it alone, and each that concerns it wakes it.
func TestPollsWakeByWhatConcernsThem(t *testing.T) {
	work := func(ctx context.Context, z *zonetest.Conduct) string {
		w, err := z.Work(ctx, "a1", &api.AgentWork{After: z.View().Index(), Wait: time.Minute})
		if err != nil {
			return string(api.CodeOf(err))
		}
		return fmt.Sprint("hosts ", len(w.Hosts))
	}
	changes := func(ctx context.Context, z *zonetest.Conduct) string {
		return fmt.Sprint("items ", len(z.Changes(ctx, &api.Link{ID: "up"}, z.View().Index(), z.View().Restored(), time.Minute).Items))
	}
	boot := func(ctx context.Context, z *zonetest.Conduct) string {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		b, _, err := z.WaitBoot(ctx, "p", "r-first")
		if err != nil {
			return string(api.CodeOf(err))
		}
		return fmt.Sprint("ended ", b.Ended)
	}
	deleteFirst := []command.Command{
		command.BootRelease{Project: "p", Reservation: "r-first"},
		command.InstanceReport{Agent: "a1", Items: []api.InstanceReport{{Host: "h1", Instance: "i-first", Status: api.StatusDeleted}}},
	}
	for name, c := range map[string]struct {
		poll    func(ctx context.Context, z *zonetest.Conduct) string
		others  []command.Command // concern somebody else
		wakes   []command.Command // one entry; nil for none
		restore bool              // the entry restores a backup that was made after wakes
		want    string
	}{
		"work of others":   {work, append(pollsBoot("x", "h2", ""), pollsHost("a2", "h2"), command.ConfigSet{}), nil, false, "hosts 0"},
		"work":             {work, pollsBoot("x", "h2", ""), pollsBoot("y", "h1", ""), false, "hosts 1"},
		"an end of work":   {work, nil, deleteFirst[:1], false, "hosts 1"},
		"work for parents": {work, pollsBoot("x", "h2", "up"), pollsBoot("y", "h1", "up"), false, "hosts 1"},
		"no host":          {work, nil, slices.Concat(deleteFirst, []command.Command{command.HostDelete{ID: "h1"}}), false, "not_found"},
		"other agent":      {work, nil, slices.Concat(deleteFirst, []command.Command{command.HostDelete{ID: "h1"}, pollsHost("a2", "h1")}), false, "not_found"},
		"restored work":    {work, nil, nil, true, "hosts 1"},
		"a new node":       {work, nil, []command.Command{command.NodePut{Node: api.Node{ID: "n9", AgentAddr: "n9:1"}}}, false, "hosts 0"},

		"changes for nobody": {changes, append(pollsBoot("x", "h1", ""), pollsHost("a1", "h1"), command.ConfigSet{}), nil, false, "items 0"},
		"changes":            {changes, pollsBoot("x", "h1", ""), pollsBoot("y", "h2", "up"), false, "items 1"},
		"restored changes":   {changes, nil, nil, true, "items 1"},

		"boots of others": {boot, append(pollsBoot("x", "h1", ""), pollsBoot("y", "h1", "up")...), nil, false, "ended false"},
		"boot":            {boot, pollsBoot("x", "h1", ""), deleteFirst, false, "ended true"},
		"forgotten boot":  {boot, nil, slices.Concat(deleteFirst, []command.Command{command.Prune{Before: api.Forever, Limit: 9}}), false, "not_found"},
		"restored boot":   {boot, nil, deleteFirst, true, "ended true"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, z := pollsWorld(t)
				got := make(chan string, 1)
				begun := time.Now()
				go func() { got <- c.poll(t.Context(), z) }()
				synctest.Wait()
				before := s.n.Load()
				require.Equal(t, int64(1), before, "it has looked once")
				s.Must(t, c.others...)
				synctest.Wait()
				assert.Equal(t, before, s.n.Load(), "nothing of this concerns it")

				entry, waited := c.wakes, time.Duration(0)
				if c.restore {
					other, _ := pollsWorld(t)
					other.Must(t, c.wakes...)
					entry = []command.Command{backupOf(t, other.View())}
				}
				if entry == nil {
					waited = time.Minute
				} else {
					_, err := s.Propose(t.Context(), entry...)
					require.NoError(t, err)
				}
				assert.Equal(t, c.want, <-got)
				assert.Equal(t, waited, time.Since(begun))
			})
		})
	}
}
