package agent

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/agent/driver/fake"
	"berth/api"
	"berth/internal/await"
)

// sized returns the sizes of the reports with items that z has had.
func (z *zone) sized() (sizes []int) {
	z.mu.Lock()
	defer z.mu.Unlock()
	for _, r := range z.reports {
		if len(r.Items) > 0 {
			sizes = append(sizes, len(r.Items))
		}
	}
	return sizes
}

func works(from, to int) (all []api.Workload) {
	for n := from; n < to; n++ {
		all = append(all, work(fmt.Sprintf("i%04d", n)))
	}
	return all
}

// TestASingleStateIsReportedAtOnce: nothing is waited for where nothing else is going on.
func TestASingleStateIsReportedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZone()
		defer run(t, config(z, fake.New(fake.Options{}), 1))()
		settle()
		for n := range 5 {
			z.set("host-0001", works(0, n+1)...)
			synctest.Wait() // and no time passes
			assert.Len(t, z.sized(), n+1)
		}
	})
}

// TestStatesOfManyAreReportedTogether: the states of instances that start together are in one report.
func TestStatesOfManyAreReportedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZone()
		defer run(t, config(z, fake.New(fake.Options{StartDelay: time.Millisecond}), 1))()
		settle()
		z.set("host-0001", works(0, 5*CallsDefault)...)
		settle()
		assert.Equal(t, []int{5 * CallsDefault}, z.sized())
	})
}

// TestAHungCallHoldsUpNoReport: a call that does not end delays a report by gatherMax at most.
func TestAHungCallHoldsUpNoReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZone()
		defer run(t, config(z, fake.New(fake.Options{StopDelay: time.Minute}), 1))()
		z.set("host-0001", work("a"))
		settle()
		z.set("host-0001", stopping("a"), work("b"))
		await.Sleep(gatherMax)
		synctest.Wait()
		assert.Equal(t, api.StatusActive, z.of("b"))
		assert.Equal(t, api.StatusActive, z.of("a"), "it is still being stopped")
	})
}

// TestManyStatesCostFewReports: while more comes than a call takes, states are collected.
func TestManyStatesCostFewReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZone()
		c := config(z, fake.New(fake.Options{}), 1)
		c.Transport = slowly{z, 2 * time.Millisecond}
		defer run(t, c)()
		settle()
		const many = 1_000
		for n := range many { // 4 each millisecond
			z.set("host-0001", works(max(n-50, 0), n+1)...)
			await.Sleep(time.Millisecond / 4)
		}
		settle()
		sizes := z.sized()
		assert.Less(t, len(sizes), 2*many/40, "about one in 12 ms, of 48")
		assert.LessOrEqual(t, sizes[0], 2, "the first ones are not waited for")
	})
}

// slowly carries calls to a zone that takes a while for each.
type slowly struct {
	zone *zone
	each time.Duration
}

func (s slowly) RoundTrip(r *http.Request) (*http.Response, error) {
	await.Sleep(s.each)
	return s.zone.RoundTrip(r)
}

func TestGatherTime(t *testing.T) {
	for n, want := range map[int]time.Duration{
		0: 0, 1: 0, 2: gatherEach, 3: 2 * gatherEach, 21: gatherMax, 22: gatherMax,
		api.ReportsMax - 1: gatherMax, api.ReportsMax: 0,
	} {
		assert.Equal(t, want, gatherTime(n), "after %d", n)
	}
}
