//go:build openstack

package openstack

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/dev"
)

// loginReservation returns the client for the reservation API of a zone, with settings in
// its environment.
func loginReservation(t *testing.T, node *dev.Process, settings ...string) stock {
	t.Helper()
	return login(t, node, append([]string{"OS_ENDPOINT=http://" + node.Node.Addresses().API + "/reservation/v1"}, settings...)...)
}

// day returns a time of a day ahead, as one word: run splits at spaces.
func day(days int, clock string) string {
	return time.Now().UTC().AddDate(0, 0, days).Format("2006-01-02") + noBreak + clock
}

// shown returns how the client shows the time that day returns.
func shown(days int, clock string) string {
	return strings.Replace(day(days, clock), noBreak, "T", 1) + ":00.000000"
}

// denied runs a command that the server must refuse, with words that the client shows: it
// never shows the status.
func (s stock) denied(reason, words string, a ...any) {
	s.t.Helper()
	words = fmt.Sprintf(words, a...)
	out, fault, err := s.run(words)
	require.Error(s.t, err, "%s %s\n%s", s.command(), words, out)
	assert.Contains(s.t, fault, reason, words)
}

// TestReservations goes through the life of leases of both types with the stock client, at
// a node that does not lead its zone.
func TestReservations(t *testing.T) {
	t.Parallel()
	zone := startZone(t, 3, 2, false)
	s := loginReservation(t, follower(t, zone), "OS_AUTH_TYPE=admin_token", "OS_TOKEN="+zone.Token)

	hosts := s.list("reservation host list")
	require.Len(t, hosts, 2, "the hosts of the zone are in the pool shared")
	name := hosts[0]["hypervisor_hostname"]
	s.do("reservation host set --extra gpu=A %s", name)
	assert.Equal(t, "A", s.show("reservation host show %s", hosts[0]["id"])["gpu"])
	assert.Contains(t, s.do("reservation host property list --detail"), "gpu")
	s.denied("already", "reservation host create %s", name)

	window := "--start-date " + day(2, "10:00") + " --end-date " + day(2, "12:00")
	s.do(`reservation lease create %s --reservation resource_type=physical:host,min=1,max=1,resource_properties=["==","$gpu","A"] whole`, window)
	s.do("reservation lease create %s --reservation resource_type=virtual:instance,vcpus=1,memory_mb=1024,disk_gb=0,amount=2,affinity=True room", window)
	s.denied("Not enough hosts", "reservation lease create %s --reservation resource_type=virtual:instance,vcpus=3,memory_mb=1024,disk_gb=0,amount=1 more", window)
	s.denied("Malformed requirements", "reservation lease create %s --reservation resource_type=physical:host,min=1,max=1,resource_properties=nonsense bad", window)
	s.denied("in use", "reservation host set --extra gpu=B %s", name)

	leases := s.list("reservation lease list")
	require.Len(t, leases, 2)
	room := s.show("reservation lease show room")
	assert.Equal(t, "PENDING", room["status"])
	assert.Contains(t, room["reservations"], `"amount": 2`)
	assert.Contains(t, s.show("reservation lease show whole")["reservations"], `"allocated": 1`)

	s.do("reservation lease set --name wide room")
	s.do("reservation lease set --reduce-by 1h wide")
	assert.Equal(t, shown(2, "11:00"), s.show("reservation lease show wide")["end_date"])
	s.do("reservation lease set --prolong-for 1h wide")
	assert.Equal(t, shown(2, "12:00"), s.show("reservation lease show wide")["end_date"])

	// Both hosts are full: what shrinks needs no room, and what grows finds none until
	// another gives it back.
	id := regexp.MustCompile(`"id": "([0-9a-f-]+)"`).FindStringSubmatch(room["reservations"])
	require.Len(t, id, 2, room["reservations"])
	s.do("reservation lease set --reservation id=%s,amount=1 wide", id[1])
	assert.Contains(t, s.show("reservation lease show wide")["reservations"], `"amount": 1`)
	s.do("reservation lease create %s --reservation resource_type=virtual:instance,vcpus=1,memory_mb=1024,disk_gb=0,amount=3 between", window)
	s.denied("Not enough hosts", "reservation lease set --reservation id=%s,amount=2 wide", id[1])
	wide := s.show("reservation lease show wide")
	assert.Equal(t, "PENDING", wide["status"], "a refused update changes nothing")
	assert.Contains(t, wide["reservations"], `"amount": 1`)
	s.do("reservation lease delete between")
	s.do("reservation lease set --reservation id=%s,amount=2 wide", id[1])
	assert.Contains(t, s.show("reservation lease show wide")["reservations"], `"allocated": 2`)

	s.do("reservation lease create --start-date now --end-date %s --reservation resource_type=virtual:instance,vcpus=1,memory_mb=1024,disk_gb=0,amount=2 today", day(1, "10:00"))
	today := s.show("reservation lease show today")
	assert.Equal(t, "ACTIVE", today["status"])
	id = regexp.MustCompile(`"id": "([0-9a-f-]+)"`).FindStringSubmatch(today["reservations"])
	require.Len(t, id, 2, today["reservations"])
	s.denied("cannot be reduced", "reservation lease set --reservation id=%s,amount=1 today", id[1])
	s.do("reservation lease set --reservation id=%s,amount=3 today", id[1])
	assert.Contains(t, s.show("reservation lease show today")["reservations"], `"allocated": 3`)
	s.do("reservation lease delete today")

	s.do("reservation lease delete wide")
	s.do("reservation lease delete whole")
	assert.Empty(t, s.list("reservation lease list"))
}

// TestReservationsWithBlazar goes through the life of leases of both types with the command of
// the service's own client.
func TestReservationsWithBlazar(t *testing.T) {
	t.Parallel()
	zone := startZone(t, 1, 3, false)
	s := loginReservation(t, zone.Nodes[0], "OS_AUTH_TYPE=admin_token", "OS_TOKEN="+zone.Token)
	s.tool = blazar
	require.Len(t, s.list("host-list"), 3)
	assert.Empty(t, s.list("lease-list"))

	window := "--start-date " + day(2, "10:00") + " --end-date " + day(2, "12:00")
	s.do(`lease-create %s --physical-reservation min=1,max=1,hypervisor_properties=[">=","$vcpus","1"] whole`, window)
	s.do("lease-create %s --reservation resource_type=virtual:instance,vcpus=1,memory_mb=1024,disk_gb=0,amount=2,affinity=False room", window)
	s.denied("Not enough hosts", "lease-create %s --physical-reservation min=1,max=1 more", window)
	s.denied("Malformed requirements", "lease-create %s --physical-reservation min=1,max=1,hypervisor_properties=nonsense bad", window)
	require.Len(t, s.list("lease-list"), 2)
	for name, has := range map[string][]string{
		"whole": {`"resource_type": "physical:host"`, `"max": 1`, `"allocated": 1`}, "room": {`"resource_type": "virtual:instance"`, `"amount": 2`, `"allocated": 2`},
	} {
		l := s.show("lease-show %s", name)
		assert.Equal(t, "PENDING", l["status"])
		assert.Equal(t, shown(2, "12:00"), l["end_date"])
		for _, text := range has {
			assert.Contains(t, l["reservations"], text, name)
		}
	}

	// Both types shrink, grow and move to another time.
	s.do("lease-update --reservation id=%s,amount=1 room", s.reservation("room"))
	assert.Contains(t, s.show("lease-show room")["reservations"], `"allocated": 1`)
	s.do("lease-update --reservation id=%s,min=1,max=2 whole", s.reservation("whole"))
	assert.Contains(t, s.show("lease-show whole")["reservations"], `"allocated": 2`)
	s.denied("Not enough hosts", "lease-update --reservation id=%s,amount=2 room", s.reservation("room"))
	s.do("lease-update --reservation id=%s,min=1,max=1 whole", s.reservation("whole"))
	s.do("lease-update --reservation id=%s,amount=2 room", s.reservation("room"))
	for _, name := range []string{"whole", "room"} {
		s.do("lease-update --prolong-for 1h %s", name)
		s.do("lease-update --reduce-by 30m %s", name)
		s.do("lease-update --name %s-2 %s", name, name)
		assert.Equal(t, shown(2, "12:30"), s.show("lease-show %s-2", name)["end_date"])
		s.do("lease-delete %s-2", name)
		s.denied("Unable to find", "lease-show %s-2", name)
	}
	assert.Empty(t, s.list("lease-list"))
}

// reservation returns the id of the one reservation of a lease.
func (s stock) reservation(lease string) string {
	s.t.Helper()
	all := s.show("lease-show %s", lease)["reservations"]
	id := regexp.MustCompile(`"id": "([0-9a-f-]+)"`).FindStringSubmatch(all)
	require.Len(s.t, id, 2, all)
	return id[1]
}

// TestReservationsOfStrangers: who may not, is told so in words that the client shows.
func TestReservationsOfStrangers(t *testing.T) {
	t.Parallel()
	zone := startZone(t, 1, 0, false)
	loginReservation(t, zone.Nodes[0], "OS_AUTH_TYPE=none").denied("needs a valid token", "reservation lease list")
	loginReservation(t, zone.Nodes[0], "OS_AUTH_TYPE=admin_token", "OS_TOKEN=guessed").denied("needs a valid token", "reservation lease list")
}
