package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"berth/agent/driver"
	"berth/agent/driver/fake"
	"berth/api"
	"berth/internal/await"
	"berth/internal/codec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// zone has a zone's agent listeners in memory: one node is the leader, the others redirect
// to it, and those that are down do not answer.
type zone struct {
	mu         sync.Mutex
	term       uint64
	leader     string
	down       map[string]bool
	addresses  []string
	ids        map[string]api.HostID
	lists      map[api.HostID]api.HostWorkload
	generation uint64
	moved      chan struct{} // closed at each change
	status     map[api.InstanceID]api.InstanceReport
	reports    []api.AgentReport
	beats      int
	registered int
	hosts      []api.AgentHost // as registered last
	calls      int
	loseAcks   int          // how many reports to take without an answer
	lost       []api.HostID // hosts that were written off
	forgot     bool         // answers not_found until hosts register
	hasty      bool         // answers questions for work at once, also with nothing
	tells      []string     // where it says that its nodes are; nil for where they are
	terms      []api.WorkTerms
	form       api.Form // that its nodes read; 0 for the newest
	afters     []uint64 // generations after which it was asked for lists
	beat       time.Duration
	last       time.Time       // when the newest call came that was answered
	trust      api.Fingerprint // in answers to reports
	trusted    api.AgentTrusted
	trustAsks  []time.Time
	trustHas   []api.AgentTrust // what it was told with each of them
	outputs
}

func newZone() *zone {
	return &zone{
		term: 1, leader: "n1:1", addresses: []string{"n1:1", "n2:1", "n3:1"}, down: map[string]bool{},
		ids: map[string]api.HostID{}, lists: map[api.HostID]api.HostWorkload{}, moved: make(chan struct{}),
		status: map[api.InstanceID]api.InstanceReport{}, beat: 4 * time.Second,
	}
}

// do runs f under the zone's lock and lets waiting questions look again.
func (z *zone) do(f func()) {
	z.mu.Lock()
	defer z.mu.Unlock()
	f()
	close(z.moved)
	z.moved = make(chan struct{})
}

// set makes instances the list of a host.
func (z *zone) set(host string, instances ...api.Workload) {
	z.do(func() {
		z.generation++
		id := z.id(host)
		z.lists[id] = api.HostWorkload{Host: id, Generation: z.generation, Instances: instances}
	})
}

func (z *zone) id(host string) api.HostID {
	if z.ids[host] == "" {
		z.ids[host] = api.HostID("id-of-" + host)
		z.generation++
		z.lists[z.ids[host]] = api.HostWorkload{Host: z.ids[host], Generation: z.generation}
	}
	return z.ids[host]
}

func (z *zone) report(id api.InstanceID) api.InstanceReport {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.status[id]
}

func (z *zone) of(id api.InstanceID) api.Status { return z.report(id).Status }

// RoundTrip answers like a node of the zone.
func (z *zone) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.calls++
	came := time.Now()
	resp, err := z.serve(r, body)
	if err == nil && z.form != 0 {
		resp.Header.Set(api.HeaderForm, z.form.String())
	}
	if err == nil && resp.StatusCode == http.StatusOK && came.After(z.last) {
		z.last = came
	}
	return resp, err
}

func (z *zone) serve(r *http.Request, body []byte) (*http.Response, error) {
	if z.down[r.URL.Host] || !slices.Contains(z.addresses, r.URL.Host) {
		return nil, errors.New("connection refused")
	}
	if r.URL.Host != z.leader {
		return answer(http.StatusMisdirectedRequest, api.AgentRedirect{Leader: z.leader, Addresses: z.addresses})
	}
	if z.forgot && r.URL.Path != api.PathAgentRegister {
		return answer(http.StatusNotFound, api.ErrorBody{Error: api.ErrorDetail{Code: api.CodeNotFound, Message: "no such hosts"}})
	}
	switch r.URL.Path {
	case api.PathAgentRegister:
		var in api.AgentRegister
		if err := codec.Unmarshal(body, &in); err != nil {
			return nil, err
		}
		z.registered++
		z.hosts = in.Hosts
		z.forgot = false
		out := api.AgentRegistered{Term: z.term, Beat: z.beat, Lost: z.lost}
		for _, h := range in.Hosts {
			out.Hosts = append(out.Hosts, z.id(h.Name))
		}
		return answer(http.StatusOK, out)
	case api.PathAgentWork:
		var in api.AgentWork
		if err := codec.Unmarshal(body, &in); err != nil {
			return nil, err
		}
		return z.work(r.Context(), in)
	case api.PathAgentOutputs:
		return z.takeOutputs(body)
	case api.PathAgentTrust:
		var in api.AgentTrust
		if err := codec.Unmarshal(body, &in); err != nil {
			return nil, err
		}
		z.trustAsks, z.trustHas = append(z.trustAsks, time.Now()), append(z.trustHas, in)
		out := z.trusted
		out.Term = z.term
		return answer(http.StatusOK, out)
	default:
		var in api.AgentReport
		if err := codec.Unmarshal(body, &in); err != nil {
			return nil, err
		}
		return z.take(in)
	}
}

// work answers with what is newer than in.After, and waits for it with the lock
// given back.
func (z *zone) work(ctx context.Context, in api.AgentWork) (*http.Response, error) {
	t := time.NewTimer(in.Wait)
	defer t.Stop()
	late := z.hasty
	z.afters = append(z.afters, in.After)
	for z.generation <= in.After && !late && len(z.asks) == 0 {
		moved := z.moved
		z.mu.Unlock()
		select {
		case <-moved:
		case <-t.C:
			late = true
		case <-ctx.Done():
			z.mu.Lock()
			return nil, ctx.Err()
		}
		z.mu.Lock()
	}
	out := api.AgentWorkload{Term: z.term, Generation: z.generation, Addresses: z.addresses, Terms: z.terms, Asks: z.takeAsks()}
	if z.tells != nil {
		out.Addresses = z.tells
	}
	for _, l := range z.lists {
		if l.Generation > in.After {
			out.Hosts = append(out.Hosts, l)
		}
	}
	return answer(http.StatusOK, out)
}

func (z *zone) take(in api.AgentReport) (*http.Response, error) {
	if len(in.Items) == 0 {
		z.beats++
	}
	z.reports = append(z.reports, in)
	for _, i := range in.Items {
		z.status[i.Instance] = i
	}
	if z.loseAcks > 0 && len(in.Items) > 0 {
		z.loseAcks--
		return nil, errors.New("connection reset")
	}
	return answer(http.StatusOK, api.AgentAck{Term: z.term, Trust: z.trust})
}

func answer(status int, body any) (*http.Response, error) {
	b, err := codec.Marshal(body)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {api.MediaCBOR}, api.HeaderForm: {api.FormNewest.String()}},
		Body: io.NopCloser(bytes.NewReader(b)),
	}, nil
}

// config is of an agent that serves n hosts of z with d.
func config(z *zone, d driver.Driver, n int) Config {
	c := Config{
		Addresses: []string{"n1:1", "n2:1", "n3:1"}, Transport: z,
		Log: slog.New(slog.DiscardHandler), Now: time.Now, Rand: func() float64 { return 0.5 },
	}
	for _, h := range FakeHosts("host", n, Inventory{api.VCPU: {Total: 4}}) {
		c.Hosts = append(c.Hosts, Host{AgentHost: h, Driver: d})
	}
	return c
}

// run starts an agent and returns what ends it and waits for that.
func run(t *testing.T, c Config) (end func()) {
	t.Helper()
	a, err := New(c)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	return func() {
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, a.Close())
	}
}

const settleTime = 15 * time.Second

// settle lets everything happen that takes no longer than a few retries.
func settle() {
	await.Sleep(settleTime) // of the bubble's own time
	synctest.Wait()
}

func work(id string) api.Workload { return api.Workload{Instance: api.InstanceID(id), Name: id} }

func stopping(id string) api.Workload {
	w := work(id)
	w.Stop = true
	return w
}

func running(t *testing.T, d *fake.Driver) (ids []string) {
	t.Helper()
	list, err := d.List(t.Context())
	require.NoError(t, err)
	for _, s := range list {
		if s.Status == api.StatusActive {
			ids = append(ids, string(s.Instance))
		}
	}
	return ids
}

// needy is a driver that needs something of flavors.
type needy struct {
	*fake.Driver
	needs api.Needs
}

func (d needy) Needs() api.Needs { return d.needs }

// TestReportedNeeds checks that only needs which the zone does not know by the name of the
// driver are reported: a node of an earlier build could not read others.
func TestReportedNeeds(t *testing.T) {
	for _, c := range []struct {
		driver string
		needs  api.Needs
		want   *api.Needs
	}{
		{"fake", api.Needs{}, nil},
		{driverProcess, api.Needs{Command: true}, nil},
		{driverProcess, api.Needs{}, &api.Needs{}},
		{"other", api.Needs{}, nil},
		{"other", api.Needs{Image: true}, &api.Needs{Image: true}},
	} {
		h := Host{AgentHost: api.AgentHost{Driver: c.driver}, Driver: needy{fake.New(fake.Options{}), c.needs}}
		assert.Equal(t, c.want, reportedNeeds(h), "%s %v", c.driver, c.needs)
	}
}

// TestNeedsAreRegistered has an agent register a host whose driver needs an image.
func TestNeedsAreRegistered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZone()
		c := config(z, needy{fake.New(fake.Options{}), api.Needs{Image: true}}, 1)
		c.Hosts[0].AgentHost.Driver = "other"
		defer run(t, c)()
		settle()
		z.do(func() {
			require.Len(t, z.hosts, 1)
			assert.Equal(t, &api.Needs{Image: true}, z.hosts[0].Needs)
		})
	})
}
