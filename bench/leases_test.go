package bench

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/dev"
)

// standing is how many leases are there already: as many on every day, of one slot each and
// for an hour, over so many days.
const (
	standing     = 10_000
	standingDays = 30
)

// day is the hour of the standing leases n days on.
func day(n int) time.Time { return time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1+n) }

// slots is a lease of some slots, for a time.
func slots(name string, amount int, from time.Time, long time.Duration) rest.LeaseCreate {
	return rest.LeaseCreate{
		Name: name, Start: rest.LeaseDateOf(api.InstantOf(from)), End: rest.LeaseDateOf(api.InstantOf(from.Add(long))),
		Reservations: []rest.ReservationSpec{{
			Type: api.ReserveInstances, Amount: &amount, VCPUs: new(int64(1)), Memory: new(int64(512)), Disk: new(int64(1)),
		}},
	}
}

// whole is a lease of one whole host, for a time.
func whole(name string, from time.Time, long time.Duration) rest.LeaseCreate {
	l, none := slots(name, 1, from, long), ""
	l.Reservations = []rest.ReservationSpec{{Type: api.ReserveHosts, Min: new(1), Max: new(1), HypervisorProperties: &none, ResourceProperties: &none}}
	return l
}

// BenchmarkLease measures POST /leases at a zone with as many hosts and 10,000 leases,
// from outside, until the answer: all room is held, durably. cpu-ms is what the whole process has
// used for one: client, node, and the agent of all hosts. Its window meets that of the leases of a day.
func BenchmarkLease(b *testing.B) {
	for _, hosts := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("hosts=%d/leases=%d", hosts, standing), func(b *testing.B) {
			_, c := start(b, dev.Spec{Name: "root", Hosts: &hosts}, 1)
			stand(b, c)
			for name, of := range map[string]func(n int) rest.LeaseCreate{
				"slots=1":  func(n int) rest.LeaseCreate { return slots(fmt.Sprint("b", n), 1, day(n%standingDays), time.Hour) },
				"slots=10": func(n int) rest.LeaseCreate { return slots(fmt.Sprint("b", n), 10, day(n%standingDays), 36*time.Hour) },
				"hosts=1":  func(n int) rest.LeaseCreate { return whole(fmt.Sprint("b", n), day(n%standingDays), time.Hour) },
			} {
				b.Run(name, func(b *testing.B) { createLeases(b, c, of) })
			}
		})
	}
}

// stand makes the leases that are there already.
func stand(b *testing.B, c *client.Client) {
	b.Helper()
	var g errgroup.Group
	g.SetLimit(crowd)
	for n := range standing {
		g.Go(func() error {
			_, err := c.CreateLease(b.Context(), slots(fmt.Sprint("s", n), 1, day(n%standingDays), time.Hour), "")
			return err
		})
	}
	require.NoError(b, g.Wait())
}

// createLeases measures leases that are made one after the other, and deletes them unmeasured.
func createLeases(b *testing.B, c *client.Client, of func(n int) rest.LeaseCreate) {
	b.Helper()
	var cpu time.Duration
	var took []time.Duration
	for n := 0; b.Loop(); n++ {
		before, began := processTime(b), time.Now()
		l, err := c.CreateLease(b.Context(), of(n), "")
		took = append(took, time.Since(began))
		cpu += processTime(b) - before
		require.NoError(b, err)
		b.StopTimer()
		require.NoError(b, c.DeleteLease(b.Context(), l.ID))
		b.StartTimer()
	}
	slices.Sort(took)
	b.ReportMetric(float64(cpu.Microseconds())/1000/float64(len(took)), "cpu-ms")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// starting is how many leases begin in one minute.
const starting = 100

// BenchmarkLeasesStart measures how long after their minute 100 leases are all ACTIVE, of whole
// hosts and of slots, in a zone of three nodes; start-ms is that time. Most of an iteration is
// waiting for the minute.
func BenchmarkLeasesStart(b *testing.B) {
	hosts := 200
	z, c := start(b, dev.Spec{Name: "root", Hosts: &hosts}, 3)
	var sum time.Duration
	n := 0
	for b.Loop() {
		n++
		at := time.Now().UTC().Truncate(time.Minute).Add(time.Minute)
		if time.Until(at) < 10*time.Second { // to make them takes a while
			at = at.Add(time.Minute)
		}
		var g errgroup.Group
		g.SetLimit(crowd)
		for i := range starting {
			g.Go(func() error {
				l := slots(fmt.Sprintf("r%d-%d", n, i), 2, at, time.Minute)
				if i%2 == 0 {
					l = whole(l.Name, at, time.Minute)
				}
				_, err := c.CreateLease(b.Context(), l, "")
				return err
			})
		}
		require.NoError(b, g.Wait())
		require.True(b, time.Now().Before(at), "they were made in time")
		sum += active(b, z, n*starting) - time.Duration(at.UnixNano())
	}
	b.ReportMetric(float64(sum.Milliseconds())/float64(n), "start-ms")
}

// active waits until so many leases are or were ACTIVE, as the first node learns of it, and returns
// when that was.
func active(b *testing.B, z *dev.Zone, count int) time.Duration {
	b.Helper()
	store := z.Nodes[0].Node.Store()
	for v := store.View(); ; {
		begun := 0
		for _, l := range v.Leases("") {
			if l.Event(api.EventStartLease).Status == api.EventDone {
				begun++
			}
		}
		if begun == count {
			return time.Duration(time.Now().UnixNano())
		}
		next, err := store.Wait(b.Context(), v.Index())
		require.NoError(b, err)
		v = next
	}
}
