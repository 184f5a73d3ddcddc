package reservation

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/internal/script"
	"berth/raftstore/command"
	"berth/zone/estimate"
	"berth/zone/fleet"
	"berth/zone/leases"
	"berth/zone/saga"
)

// lively are the conversations with a zone whose leader works: its leases are real. In a path,
// {NAME} is the id of the lease or the series with that name, which is never shown, and
// {NAME:2} that of the second lease of a series.
var lively = []string{"plans", "series", "shared", "repeats", "maintenance", "availability", "quotas", "cleaning", "late", "policies", "checks", "roles", "grace"}

func TestLivelyConversations(t *testing.T) {
	for _, name := range lively {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTalkAt(t, time.Time{})
				stop := w.enliven(t)
				defer stop()
				script.Run(t, "testdata/"+name+".txt", func(c script.Command) (string, error) { return w.doLively(t, c) })
			})
		})
	}
}

// enliven has a leader work for the zone from now on, in virtual time.
func (w *talk) enliven(tb testing.TB) (stop func()) {
	tb.Helper()
	w.alive = true
	e := estimate.New(estimate.Config{Zone: w.Zone, Keys: ring{Epoch: [4]byte{1}, Secret: [32]byte{2}}})
	w.service = newService()
	check, stopService := w.service.check(tb, w)
	l := leases.New(w.Zone, e, fleet.New(w.Zone, e)).WithCheck(check)
	s := saga.New(saga.Config{Zone: w.Zone, Estimator: e})
	w.Handler = New(Config{Leases: l, Book: Records{}, Door: w.Door()})
	ctx, cancel := context.WithCancel(tb.Context())
	var wg sync.WaitGroup
	wg.Go(func() { s.Lead(ctx) })
	wg.Go(func() { l.Lead(ctx) })
	wg.Go(func() { check.Lead(ctx) })
	return func() { cancel(); wg.Wait(); stopService() }
}

func (w *talk) doLively(tb testing.TB, c script.Command) (string, error) {
	tb.Helper()
	if c.Name == "wait" { // for some minutes
		await.Sleep(time.Duration(c.Int(tb, 0)) * time.Minute)
		return "", nil
	}
	switch c.Name {
	case "boot": // an instance into a lease, on a host without an agent
		w.bootInto(tb, c.Arg(0))
		return "", nil
	case "service": // how the external service answers from now on: a status, slow or gone, and a body
		w.service.set(c.Arg(0), strings.Join(c.Args[1:], " "))
		return "", nil
	case "asked": // what the service was asked and told
		synctest.Wait()
		return w.service.show(), nil
	}
	if c.Name == "on" { // the hosts on which leases have slots
		return w.slotsOn(), nil
	}
	for i, arg := range c.Args {
		if m := named.FindStringSubmatch(arg); m != nil {
			c.Args[i] = m[1] + w.idNamed(tb, m[1] == "/series/", m[2]) + m[3]
		}
	}
	synctest.Wait()
	before := w.Store.View().Index()
	out, err := w.do(tb, c)
	if c.Name == http.MethodGet || strings.HasSuffix(c.Arg(0), "/plan") {
		synctest.Wait()
		require.Equal(tb, before, w.Store.View().Index(), "%s: a call that promises to change nothing has changed the state", c.Pos)
	}
	return ids.ReplaceAllString(out, "UUID"), err
}

// bootInto boots an instance of one CPU into the first reservation of a lease, for its project.
func (w *talk) bootInto(tb testing.TB, name string) {
	tb.Helper()
	v := w.Store.View()
	l, _ := v.Lease(api.LeaseID(w.idNamed(tb, false, name)))
	r := api.Request{
		Reservation: "boot-of-" + api.ReservationID(name), Project: l.Terms.Project, User: "u", Class: api.Firm, Within: l.Terms.Reservations[0].ID,
		Window: api.Window{Start: w.Zone.Instant(), End: l.Terms.Window.End},
		Groups: []api.Group{{Count: 1, Min: 1, Flavor: "small", Resources: api.Resources{api.VCPU: 1}}},
	}
	terms := command.BootTerms{Digest: []byte{1}, Name: name, Request: r, Min: 1, Instances: []api.InstanceSpec{{ID: "instance-in-" + api.InstanceID(name), Name: name}}}
	w.Store.Must(tb, command.BootCreate{Stamp: w.Zone.Stamp(), BootTerms: terms})
	synctest.Wait()
	require.Len(tb, w.Store.View().Within(v.LeaseSlots(l)[0].ID), 1)
}

// ids are those that the zone draws.
var ids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[48][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)

// slotsOn returns the leases that have slots on each host, by name.
func (w *talk) slotsOn() string {
	v, out := w.Store.View(), []string{}
	for _, l := range v.Leases("") {
		for _, i := range v.LeaseSlots(l) {
			h, _ := v.Host(i.Host)
			out = append(out, h.Name+" "+l.Terms.Name+" "+string(i.Status))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// named finds the path of a lease or a series by its name.
var named = regexp.MustCompile(`^(/leases/|/series/){([^}]+)}(.*)$`)

// idNamed returns the id of the lease or the series with a name.
func (w *talk) idNamed(tb testing.TB, series bool, name string) string {
	tb.Helper()
	name, number, _ := strings.Cut(name, ":")
	v := w.Store.View()
	leases := v.Leases("")
	for _, s := range v.AllSeries("") {
		if s.Name == name && series {
			return string(s.ID)
		}
		if n, err := strconv.Atoi(number); s.Name == name && err == nil {
			return string(v.SeriesLeases(s.ID)[n-1].Terms.ID)
		}
	}
	for _, l := range leases {
		if l.Terms.Name == name {
			return string(l.Terms.ID)
		}
	}
	require.Fail(tb, "no such lease", name)
	return ""
}
