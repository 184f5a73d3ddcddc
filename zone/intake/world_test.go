package intake

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/zone"
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// world is a zone, root, with the children east and west, the hosts host-1 to host-3,
// the flavor small, the server group apart and the aggregate rack1 with host-1. Project
// p1 has the instance id-web on host-1, p2 has id-hidden on host-2.
type world struct {
	store *memstore.Store
	zone  *zone.Zone
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	return worldOn(tb, memstore.New())
}

func worldOn(tb testing.TB, store *memstore.Store) *world {
	tb.Helper()
	w := &world{store: store}
	w.serve(w.store)
	at := w.zone.Stamp()
	link := func(name string) command.LinkPut {
		return command.LinkPut{Stamp: at, Link: api.Link{
			ID: api.LinkID("link-" + name), Name: name, Role: api.LinkChild, Zone: api.ZoneID("zone-" + name),
			Endpoints: []string{"https://" + name + ".example:1"}, CA: []byte{1}, Scale: 1, State: api.LinkActive,
		}}
	}
	hosts := command.HostsPut{Stamp: at, Agent: "agent-1"}
	for _, n := range []string{"1", "2", "3"} {
		hosts.Hosts = append(hosts.Hosts, command.HostEntry{ID: api.HostID("host-id-" + n), Host: api.AgentHost{
			Name: "host-" + n, Driver: "fake", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}},
		}})
	}
	w.store.Must(
		tb, command.Init{Stamp: at, Zone: "zone-root", Name: "root"}, hosts, link("east"), link("west"),
		command.FlavorPut{Stamp: at, Flavor: api.Flavor{ID: "small", Name: "small", Resources: api.Resources{api.VCPU: 1}}},
		command.FlavorPut{Stamp: at, Flavor: api.Flavor{ID: "large", Name: "large", Resources: api.Resources{api.VCPU: 2}}},
		command.GroupPut{Stamp: at, Group: api.ServerGroup{ID: "group-apart", Name: "apart", Project: "p1", Policy: api.AntiAffinity, Max: 1}},
		command.TokenPut{Stamp: at, Token: api.Token{ID: "token", Hash: []byte("s"), User: "u", Project: "p1", Roles: []api.UserRole{api.RoleReader}, Expires: api.Forever}},
	)
	w.store.Must(tb, command.AggregatePut{Stamp: at, Aggregate: api.Aggregate{ID: "aggregate-rack1", Name: "rack1", Hosts: []api.HostID{"host-id-1"}}})
	w.place(tb, "p1", "web", "host-id-1")
	w.place(tb, "p2", "hidden", "host-id-2")
	return w
}

// serve makes the zone use a store.
func (w *world) serve(store zone.Store) {
	w.zone = zone.New(zone.Config{Store: store, Now: func() time.Time { return epoch }, Log: slog.New(slog.DiscardHandler)})
}

// place makes an instance on a host.
func (w *world) place(tb testing.TB, project api.ProjectID, name string, host api.HostID) {
	tb.Helper()
	w.placeUnder(tb, project, name, host, func(*api.Group) {})
}

// placeUnder is place under conditions.
func (w *world) placeUnder(tb testing.TB, project api.ProjectID, name string, host api.HostID, condition func(*api.Group)) {
	tb.Helper()
	at, one := w.zone.Stamp(), api.InstanceSpec{ID: api.InstanceID("id-" + name), Name: name}
	req := api.Request{
		Reservation: api.ReservationID("r-" + name), Project: project, User: "somebody", Class: api.Firm, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: 1, Flavor: "small", Resources: api.Resources{api.VCPU: 1}}},
	}
	condition(&req.Groups[0])
	w.store.Must(
		tb, command.BootCreate{Stamp: at, BootTerms: command.BootTerms{Digest: []byte(name), Name: name, Request: req, Min: 1, Instances: []api.InstanceSpec{one}}},
		command.Hold{
			Stamp: at, ID: api.HoldID("hold-" + name), Attempt: 1, Request: req, Expires: api.Forever, Commit: true,
			Slots: []command.Slot{{Instance: one, Host: host}},
		},
	)
}

// index returns how many entries the log has.
func (w *world) index() uint64 { return w.store.View().Index() }

// refused checks a refusal.
func refused(tb testing.TB, err error, code api.Code, part string) {
	tb.Helper()
	require.Error(tb, err, part)
	require.Equal(tb, code, api.CodeOf(err), "%v", err)
	require.Contains(tb, api.MessageOf(err), part)
}

func many(n int) []string { return strings.Split(strings.Repeat("x,", n-1)+"x", ",") }
