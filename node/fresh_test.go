package node

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// TestPlacementReadsItsWritesAtEveryNode writes at one node and reads at another, as
// a load balancer deals calls out. A client of this dialect cannot ask for a fresh
// read: each is one.
func TestPlacementReadsItsWritesAtEveryNode(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		const rounds = 40
		zone := threeNodes(t, "p")
		ask := func(n int, method, path, body string) (int, string) {
			head := map[string]string{"Openstack-Api-Version": "placement latest"}
			if body != "" {
				head["Content-Type"] = "application/json"
			}
			return zone[n%len(zone)].answers(call{method: method, path: "/placement" + path, token: zone[0].home.token, body: body, header: head})
		}
		for n := range rounds {
			id := api.NewUUID()
			status, said := ask(n, http.MethodPost, "/resource_providers", fmt.Sprintf(`{"name":"p%d","uuid":%q}`, n, id))
			require.Equal(t, http.StatusOK, status, said)
			status, said = ask(n+1, http.MethodGet, "/resource_providers/"+id, "")
			require.Equal(t, http.StatusOK, status, "round %d: %s", n, said)
			status, said = ask(n+2, http.MethodPut, "/resource_providers/"+id+"/inventories", `{"resource_provider_generation":0,"inventories":{"VCPU":{"total":1}}}`)
			require.Equal(t, http.StatusOK, status, "round %d: %s", n, said)
			status, said = ask(n, http.MethodGet, "/resource_providers/"+id+"/inventories", "")
			require.Equal(t, http.StatusOK, status)
			assert.Contains(t, said, `"resource_provider_generation":1`, "round %d", n)
		}
	})
}

// BenchmarkPlacementReads measures what it costs that a read is fresh: a provider, at
// a zone of one node, and at the leader and a follower of three, over connections
// that stay.
func BenchmarkPlacementReads(b *testing.B) {
	w := really(b)
	one := newZone(w, "one").run()
	three := threeNodes(w, "three")
	id := api.NewUUID()
	for _, r := range []*running{one, three[0]} {
		status, said := r.answers(call{
			method: http.MethodPost, path: "/placement/resource_providers", token: r.home.token,
			body: fmt.Sprintf(`{"name":"a","uuid":%q}`, id), header: map[string]string{"Content-Type": "application/json"},
		})
		require.Equal(b, http.StatusCreated, status, said)
	}
	rt := &http.Transport{MaxIdleConnsPerHost: 64}
	defer rt.CloseIdleConnections()
	get := func(tb testing.TB, r *running, path string) {
		tb.Helper()
		req, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, "http://"+r.Addresses().API+"/placement"+path, strings.NewReader(""))
		require.NoError(tb, err)
		req.Header.Set("X-Auth-Token", r.home.token)
		res, err := rt.RoundTrip(req)
		require.NoError(tb, err)
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(tb, err)
		require.NoError(tb, res.Body.Close())
		require.Equal(tb, http.StatusOK, res.StatusCode)
	}
	for _, at := range []struct {
		name string
		node *running
	}{{"one", one}, {"leader", three[0]}, {"follower", three[1]}} {
		for _, path := range []string{"/resource_providers/" + id, "/allocations/" + id} {
			what, _, _ := strings.Cut(path[1:], "/")
			for _, kind := range []string{"local", "linearizable"} {
				b.Run(at.name+"/"+what+"/"+kind, func(b *testing.B) {
					before := processorTime(b)
					for b.Loop() {
						get(b, at.node, path+"?read="+kind)
					}
					b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-us/op")
				})
			}
		}
	}
}

// processorTime returns what the process has used, all nodes and the client in it.
func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
