package leak

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/internal/await"
)

// words are what callers of a zone call their leases. No other zone needs them.
func (p *place) words() []string {
	return []string{p.name + "-canary-lease", p.name + "-canary-renamed", p.name + "-canary-series"}
}

// say makes one call at a zone's own API as its admin, and returns the status and the answer.
func (p *place) say(t *testing.T, method, path string, body any) (int, []byte) {
	t.Helper()
	var b []byte
	if body != nil {
		var err error
		b, err = json.Marshal(body)
		require.NoError(t, err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+p.node.Addresses().API+path, bytes.NewReader(b))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Auth-Token", p.token)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err, "%s %s", method, path)
	out, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode, out
}

// told is what a zone has answered its own callers.
type told map[string][]byte

// ask makes a call that must succeed, and keeps the answer.
func (a told) ask(t *testing.T, p *place, method, path string, body any) []byte {
	t.Helper()
	status, b := p.say(t, method, path, body)
	require.Less(t, status, 300, "%s %s of %s: %s", method, path, p.name, b)
	a[fmt.Sprintf("%d %s %s %s", len(a), p.name, method, path)] = b
	return b
}

// leases lets a zone have leases over all zones, boot into them, change them and end them, and
// ask everything that can be asked about them; the zones below have leases of their own.
func leases(t *testing.T, root *place, below ...*place) map[*place]told {
	t.Helper()
	const path = "/reservation/v1"
	out := map[*place]told{root: {}}
	words := root.words()
	terms := leaseOf(words[0], 9)
	var made struct {
		Lease rest.Lease `json:"lease"`
	}
	await.True(t, "the zones above have heard that room is back", func() bool {
		status, b := root.say(t, "POST", path+"/leases", terms)
		return status == 201 && json.Unmarshal(b, &made) == nil
	})
	lease := path + "/leases/" + string(made.Lease.ID)
	for _, p := range below {
		out[p] = told{}
		mine := leaseOf(p.words()[0], 1)
		mine.Start, mine.End = rest.LeaseDateOf(tomorrow()), rest.LeaseDateOf(tomorrow().Add(time.Hour))
		out[p].ask(t, p, "POST", path+"/leases", mine)
		out[p].ask(t, p, "POST", path+"/series", seriesOf(p.words()[2], mine))
	}
	await.Until(t, "the lease starts", func(context.Context) error {
		status, b := root.say(t, "GET", lease, nil)
		if status == 200 && json.Unmarshal(b, &made) == nil && made.Lease.Status == api.LeaseActive {
			return nil
		}
		return fmt.Errorf("%d: %s", status, b)
	})
	inside := rest.ServerCreate{Name: "inside", FlavorRef: "small", MinCount: count(9), MaxCount: count(9)}
	inside.Hints = &rest.SchedulerHints{Reservation: made.Lease.Reservations[0].ID}
	id, err := root.client().Boot(t.Context(), inside, "")
	require.NoError(t, err)
	b := outcome(t, root.client(), id)
	require.Equal(t, api.BootActive, b.State, b.Reason)

	a := out[root]
	a.ask(t, root, "PUT", lease, map[string]any{"name": words[1]})
	a.ask(t, root, "PUT", lease, map[string]any{"end_date": rest.LeaseDateOf(api.Instant(made.Lease.End).Add(time.Hour))})
	a.ask(t, root, "POST", lease+"/plan", map[string]any{"end_date": rest.LeaseDateOf(api.Instant(made.Lease.End).Add(2 * time.Hour))})
	a.ask(t, root, "POST", path+"/leases/plan", terms)
	a.ask(t, root, "POST", path+"/series", seriesOf(words[2], leaseOf(words[2], 9)))
	a.ask(t, root, "POST", path+"/availability", map[string]any{"minutes": 30, "reservations": terms.Reservations})
	status, refusal := root.say(t, "POST", path+"/leases", leaseOf(words[0], 100))
	require.Equal(t, http.StatusConflict, status, string(refusal))
	a["refusal"] = refusal
	for _, get := range []string{
		"/leases", "/leases/" + string(made.Lease.ID), "/leases/" + string(made.Lease.ID) + "/hosts", "/series",
		"/os-hosts", "/os-hosts/allocations", "/os-hosts/properties?detail=True",
	} {
		for p, answers := range out {
			if p == root || !strings.Contains(get, string(made.Lease.ID)) {
				answers.ask(t, p, "GET", path+get, nil)
			}
		}
	}
	assert.Contains(t, string(a.ask(t, root, "GET", path+"/leases/"+string(made.Lease.ID)+"/hosts", nil)), "west", "it says which zone")
	for p := range out { // what follows needs the room
		p.clear(t)
	}
	return out
}

// clear deletes all leases and series of a zone.
func (p *place) clear(t *testing.T) {
	t.Helper()
	c := p.client()
	series, err := c.AllSeries(t.Context())
	require.NoError(t, err)
	for _, s := range series {
		require.NoError(t, c.DeleteSeries(t.Context(), s.ID))
	}
	await.Until(t, "no lease is left", func(ctx context.Context) error {
		all, err := c.Leases(ctx)
		for _, l := range all {
			_ = c.DeleteLease(ctx, l.ID) // until none is left
		}
		if err == nil && len(all) > 0 {
			err = fmt.Errorf("left: %+v", all)
		}
		return err
	})
}

func tomorrow() api.Instant { return api.InstantOf(time.Now().Add(24 * time.Hour)) }

// leaseOf is a lease of some slots that starts now.
func leaseOf(name string, slots int) rest.LeaseCreate {
	return rest.LeaseCreate{
		Name: name, Start: rest.LeaseNow, End: rest.LeaseDateOf(api.InstantOf(time.Now().Add(time.Hour))), Shared: []api.ProjectID{"friends"},
		Reservations: []rest.ReservationSpec{{
			Type: api.ReserveInstances, Amount: &slots, VCPUs: new(int64(1)), Memory: new(int64(512)), Disk: new(int64(0)),
		}},
	}
}

// seriesOf is a lease that is repeated the day after.
func seriesOf(name string, l rest.LeaseCreate) rest.SeriesCreate {
	l.Name = name
	l.Start, l.End = rest.LeaseDateOf(tomorrow().Add(3*time.Hour)), rest.LeaseDateOf(tomorrow().Add(4*time.Hour))
	return rest.SeriesCreate{LeaseCreate: l, Rule: "FREQ=DAILY;COUNT=2", TimeZone: "Europe/Berlin"}
}

// checkTold holds that no answer of a zone to its own callers has anything of other zones, and
// that what is its own would have been found.
func checkTold(t *testing.T, p *place, answers told, own, others []Canary) {
	t.Helper()
	for _, h := range answers.scan(t, others) {
		t.Errorf("zone %s tells its callers: %s", p.name, h)
	}
	assert.NotEmpty(t, answers.scan(t, own), "zone %s tells its callers its own names", p.name)
}

func (a told) scan(t *testing.T, canaries []Canary) []Hit {
	t.Helper()
	s := scanner(t, canaries...)
	for what, b := range a {
		st := s.openStream(what)
		st.write(b)
		st.end()
	}
	return s.Hits()
}
