package leak

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/buildplan/seal"
	"berth/internal/await"
	"berth/internal/codec"
	"berth/zone/estimate"
)

func shake(ctx context.Context, c net.Conn, conf *tls.Config) (net.Conn, error) {
	t := tls.Client(c, conf)
	return t, t.HandshakeContext(ctx)
}

// call makes one call and returns the answer's status and body.
func (c *caller) call(t *testing.T, method, path string, body any, head ...string) (int, []byte) {
	t.Helper()
	b, raw := body.([]byte)
	if !raw && body != nil {
		var err error
		b, err = codec.Marshal(body)
		require.NoError(t, err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, c.base+path, bytes.NewReader(b))
	require.NoError(t, err)
	req.Header.Set("Content-Type", api.MediaCBOR)
	req.Header.Set(api.HeaderForm, api.FormNewest.String())
	for i := 0; i+1 < len(head); i += 2 {
		req.Header.Set(head[i], head[i+1])
	}
	res, err := c.http.Do(req)
	require.NoError(t, err, "%s %s", method, path)
	out, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode, out
}

func request(n int, r api.ReservationID) api.Request {
	return api.Request{
		Reservation: r, Project: "p1", User: "somebody", Class: api.Firm, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: n, Flavor: "small", Resources: api.Resources{api.VCPU: 1, api.MemoryMB: 512}}},
	}
}

func count(n int) *int { return &n }

// boot boots at a zone and waits for the outcome.
func boot(t *testing.T, c *client.Client, name string, n int) rest.Boot {
	t.Helper()
	return bootOf(t, c, "small", name, n)
}

func bootOf(t *testing.T, c *client.Client, flavor, name string, n int) rest.Boot {
	t.Helper()
	id, err := c.Boot(t.Context(), rest.ServerCreate{
		Name: name, FlavorRef: flavor, Reservation: name, MinCount: count(n), MaxCount: count(n),
	}, "")
	require.NoError(t, err)
	return outcome(t, c, id)
}

// work makes a federation do what it is for: boots that span it, one that fails,
// deletes, a release.
func work(t *testing.T, root *place) {
	t.Helper()
	c := root.client()
	b := boot(t, c, "wide", 9)
	require.Equal(t, api.BootActive, b.State, b.Reason)
	require.NotEqual(t, api.BootActive, boot(t, c, "huge", 500).State)
	boot(t, c, "doomed", 3)
	page, err := c.Servers(t.Context(), client.ServerQuery{Reservation: "wide"}, client.ListOptions{})
	require.NoError(t, err)
	require.Len(t, page.Items, 9)
	require.NoError(t, c.DeleteServer(t.Context(), page.Items[0].ID))
	for _, r := range []api.ReservationID{"wide", "doomed"} {
		giveBack(t, c, r)
	}
}

// card is a class of which only parts of hosts have any.
const card api.ResourceClass = "CUSTOM_CARD"

// draw gives a zone a part of a host, somebody who claims some of it, and boots from
// above it what draws on it.
func draw(t *testing.T, root, owner *place) {
	t.Helper()
	c := owner.client()
	require.NoError(t, c.CreateResourceClass(t.Context(), card))
	host := owner.node.Store().View().AllHosts()[0].ID
	p, err := c.CreateProvider(t.Context(), client.ProviderSpec{Name: "secret-cards", Parent: &host})
	require.NoError(t, err)
	_, err = c.SetInventories(t.Context(), p.ID, client.Inventories{
		Generation: p.Generation, Inventories: map[api.ResourceClass]rest.Inventory{card: {Total: 2}},
	})
	require.NoError(t, err)
	require.NoError(t, c.PutAllocations(t.Context(), api.ConsumerID(api.NewUUID()), client.Allocations{
		Project: "p", User: "u", Type: "SECRET", Allocations: map[api.ProviderID]client.Allocated{p.ID: {Resources: api.Resources{card: 1}}},
	}))
	_, err = root.client().CreateFlavor(t.Context(), rest.FlavorSpec{Name: "carded", VCPUs: new(int64(1)), RAM: new(int64(512)), Resources: api.Resources{card: 1}})
	require.NoError(t, err)
	tries := 0
	await.True(t, "the zones above have heard of cards", func() bool {
		tries++
		return bootOf(t, root.client(), "carded", fmt.Sprint("carded-", tries), 1).State == api.BootActive
	})
	require.NotEqual(t, api.BootActive, bootOf(t, root.client(), "carded", "more", 1).State)
	u, err := c.Linearizable().ProviderUsages(t.Context(), p.ID)
	require.NoError(t, err)
	require.EqualValues(t, 2, u.Usages[card], "the boot draws on it")
	release(t, root, api.ReservationID(fmt.Sprint("carded-", tries))) // what follows needs its room
}

func newHoldID() api.HoldID { return api.HoldID(strings.ReplaceAll(api.NewUUID(), "-", "")) }

// holds goes every way that a hold can go at a gateway.
func holds(t *testing.T, up *caller) {
	t.Helper()
	h := api.HoldRequest{Attempt: 1, Request: request(3, "r-1"), Instances: [][]api.InstanceSpec{nil}}
	for i := range 3 {
		h.Instances[0] = append(h.Instances[0], api.InstanceSpec{ID: api.InstanceID(api.NewUUID()), Name: fmt.Sprint("doomed-", i)})
	}
	var status int
	var b []byte
	await.Until(t, "the room of what has ended is back", func(context.Context) error {
		var a api.SelectAnswer
		status, b = up.call(t, "POST", "/zones/select", h.Request)
		require.Equal(t, 200, status, string(b))
		require.NoError(t, codec.Unmarshal(b, &a))
		h.ID, h.Blob = newHoldID(), a.Blob // a hold keeps to its plan, also in zones below
		status, b = up.call(t, "POST", "/zones/holds", h)
		if status != 200 {
			return fmt.Errorf("%d: %s", status, b)
		}
		return nil
	})
	spoilt := h
	spoilt.ID, spoilt.Blob = newHoldID(), append([]byte{}, h.Blob...)
	spoilt.Blob[len(spoilt.Blob)/2] ^= 1
	used := h
	used.ID = newHoldID()
	for _, bad := range []api.HoldRequest{spoilt, used} {
		status, _ = up.call(t, "POST", "/zones/holds", bad)
		require.Equal(t, api.CodePlanRefused.HTTPStatus(), status)
	}
	status, b = up.call(t, "POST", "/zones/holds/"+string(h.ID)+"/commit", nil)
	require.Equal(t, 200, status, string(b))
	var seen, next uint64
	await.True(t, "the parent hears that they failed", func() bool {
		status, b = up.call(t, "GET", fmt.Sprintf("/zones/changes?after=%d&wait=%s", next, lookWait), nil)
		var ch api.Changes
		if status != 200 || codec.Unmarshal(b, &ch) != nil {
			return false
		}
		for _, c := range ch.Items {
			if c.Status == api.StatusError {
				seen++
			}
		}
		next = ch.Next
		return seen >= 3
	})
	for _, i := range h.Instances[0] {
		status, _ = up.call(t, "DELETE", "/servers/"+string(i.ID), nil)
		require.Equal(t, http.StatusNoContent, status)
	}
	status, _ = up.call(t, "GET", "/zones/info", nil)
	require.Equal(t, 200, status)
}

// errs provokes every refusal of a gateway that a parent can.
func errs(t *testing.T, up *caller) {
	t.Helper()
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		method, path string
		body         any
		head         []string
		status       int
	}{
		{"POST", "/zones/select", []byte{0xff, 0xfe}, nil, 400},
		{"POST", "/zones/select", []byte{}, nil, 400},
		{"POST", "/zones/select", []byte("\xa1\x18\x63\x05"), nil, 400}, // a field that nobody knows
		{"POST", "/zones/select", request(1, "r"), []string{"Content-Type", "text/plain"}, 415},
		{"POST", "/zones/select", request(1, "r"), []string{api.HeaderDepth, "99"}, 400},
		{"POST", "/zones/select", request(1, "r"), []string{"X-Request-Id", long}, 200},
		{"POST", "/zones/select", request(0, "r"), nil, 400},
		{"POST", "/zones/select", request(1, api.ReservationID(long)), nil, 400},
		{"POST", "/zones/select", noise(1, api.BodyMaxBytes+1), nil, 413},
		{"POST", "/zones/holds", noise(1, api.ZoneBodyMaxBytes+1), nil, 413},
		{"POST", "/zones/holds", api.HoldRequest{}, nil, 400},
		{"POST", "/servers", api.HoldRequest{ID: "h", Attempt: 1, Request: request(1, "r")}, nil, 400},
		{"POST", "/zones/holds/none/commit", nil, nil, 404},
		{"POST", "/zones/holds/" + long + "/commit", nil, nil, 400},
		{"POST", "/zones/holds/many", api.Holds{}, nil, 400},
		{"POST", "/zones/holds/many", api.Holds{Items: []api.HoldRequest{{ID: "h", Attempt: 1, Request: request(1, "r")}}}, nil, 200},
		{"POST", "/zones/decisions", api.Decisions{}, nil, 400},
		{"POST", "/zones/decisions", api.Decisions{Holds: []api.HoldDecision{{ID: "none", Decision: api.DecisionCommit}}}, nil, 200},
		{"GET", "/zones/holds/none/decision", nil, nil, 200},
		{"GET", "/zones/changes", nil, nil, 400},
		{"GET", "/zones/changes?after=0&wait=9h", nil, nil, 400},
		{"GET", "/zones/changes?after=18446744073709551615", nil, nil, 200},
		{"DELETE", "/servers/none", nil, nil, 404},
		{"POST", "/zones/hello", []byte{1}, nil, 400},
		{"POST", "/zones/above", api.AboveQuestion{Zone: "z"}, nil, 403},
		{"GET", "/zones/below", nil, nil, 200},
		{"GET", "/hosts", nil, nil, 404},
		{"GET", "/zones/select", nil, nil, 405},
		{"PUT", "/../../etc", nil, nil, 404},
		{"GET", "/zones/info", nil, []string{"X-Long", strings.Repeat("y", 40<<10)}, 431},
	} {
		status, b := up.call(t, c.method, c.path, c.body, c.head...)
		assert.Equal(t, c.status, status, "%s %s: %s", c.method, c.path, b)
	}
}

// garbage says what is no HTTP, and what is hardly HTTP.
func garbage(t *testing.T, up *caller) {
	t.Helper()
	for _, text := range []string{
		"GET /zones/info HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "BREW /pot HTCPCP/1.0\r\n\r\n", "\x16\x03\x01\x00\x00\r\n\r\n",
		"POST /zones/select HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", "GET /zones/info HTTP/9.9\r\n\r\n",
		"POST /zones/select HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n", "GET %zz HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		c, err := up.http.Transport.(*http.Transport).DialTLSContext(t.Context(), "tcp", strings.TrimPrefix(up.base, "https://"))
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(time.Now().Add(await.Limit)))
		_, err = io.WriteString(c, text)
		require.NoError(t, err)
		b, err := io.ReadAll(c)
		require.NoError(t, err, "%q", text)
		assert.True(t, bytes.HasPrefix(b, []byte("HTTP/1.")), "%q: %q", text, b)
		require.NoError(t, c.Close())
	}
}

// headless makes calls to the gateway of a node that does not lead, first while
// it can pass them on, and then when the leader and a majority have gone.
func headless(t *testing.T, zone, parent *place) {
	t.Helper()
	follower, third := zone.joined(2), zone.joined(3)
	up := follower.door(parent, api.ALPNHTTP)
	errs(t, up)
	zone.stop()
	status, b := up.call(t, "DELETE", "/servers/none", nil) // while another is elected
	require.True(t, status == http.StatusNotFound || status >= 500, "%d: %s", status, b)
	third.stop()
	status, b = up.call(t, "GET", "/zones/holds/none/decision", nil)
	require.GreaterOrEqual(t, status, 500, "nobody can lead: %s", b)
}

// TestNothingLeavesAZone runs three zones, one below the other, through all that
// they do and refuse, and looks at every byte that left each of them.
func TestNothingLeavesAZone(t *testing.T) {
	w := newWorld(t)
	root := w.zone("root", nil, 1)
	west := w.zone("west", root, 1)
	w.timing = patient // it has more nodes in the end
	edge := w.zone("edge", west, 2)
	work(t, root)
	answers := leases(t, root, west, edge)
	evictions(t, answers, root, edge)
	bound(t, answers, root, west)
	bound(t, answers, west, edge)
	volumes(t, answers, root, west, edge)
	outputs(t, answers, root, west, edge)
	for child, parent := range map[*place]*place{west: root, edge: west} {
		up := child.door(parent, api.ALPNHTTP)
		holds(t, up)
		errs(t, up)
		garbage(t, up)
		status, _ := child.door(parent, api.ALPNEnrol).call(t, "POST", "/links/enrol", api.Enrolment{Token: "berth_none"})
		assert.GreaterOrEqual(t, status, 400)
		status, _ = parent.door(child, api.ALPNHTTP).call(t, "POST", "/zones/select", request(1, "r"))
		assert.Equal(t, http.StatusForbidden, status)
		for zone, want := range map[api.ZoneID]int{"nobody": http.StatusOK, api.ZoneID(strings.Repeat("x", 300)): http.StatusBadRequest} {
			status, _ = parent.door(child, api.ALPNHTTP).call(t, "POST", "/zones/above", api.AboveQuestion{Zone: zone})
			assert.Equal(t, want, status)
		}
	}
	draw(t, root, edge)
	headless(t, edge, west)
	secrets := map[*place][]Canary{}
	for _, p := range []*place{root, west, edge} {
		secrets[p] = p.canaries()
	}
	w.end()
	for p, others := range map[*place][]*place{root: {west, edge}, west: {root, edge}, edge: {root, west}} {
		checkTold(t, p, answers[p], secrets[p], append(slices.Clone(secrets[others[0]]), secrets[others[1]]...))
	}
	for p, below := range map[*place][]*place{root: {west, edge}, west: {edge}, edge: nil} {
		all := secrets[p]
		for _, b := range below {
			all = append(all, secrets[b]...)
		}
		clean(t, p, scanner(t, all...))
	}
}

// clean looks at all that a zone has said.
func clean(t *testing.T, p *place, s *Scanner) {
	t.Helper()
	shapes := NewShapes(seal.Sizes(), estimate.WeightQuantum)
	sum, err := ScanDir(p.tap.dir, s, shapes)
	require.NoError(t, err)
	for _, h := range s.Hits() {
		t.Errorf("zone %s: %s", p.name, h)
	}
	for _, alpn := range []string{"http_1.1", "berth-gossip_1", "berth-enrol_1"} {
		spoken, err := filepath.Glob(filepath.Join(p.tap.dir, "*-out-*-"+alpn+".bin"))
		require.NoError(t, err)
		assert.NotEmpty(t, spoken, alpn)
	}
	n, forms := len(s.canaries), len(s.patterns)
	t.Logf("%s: %d bytes on %d connections, %d certificates, %d select answers; %d canaries in %d forms",
		p.name, sum.Bytes, sum.Streams, sum.Certs, shapes.answers, n, forms)
	assert.Greater(t, sum.Streams, 3, "connections")
	assert.Greater(t, sum.Certs, 3, "certificates")
	assert.Greater(t, sum.Bytes, int64(5_000), "bytes")
	assert.Empty(t, shapes.Faults())
	if p.name != "root" {
		assert.Greater(t, shapes.answers, 3)
	}
}
