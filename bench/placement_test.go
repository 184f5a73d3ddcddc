package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api/client"
	"berth/dev"
)

// What is asked of the placement API: the amounts of each claim and candidate.
const (
	claimed    = `"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 10`
	candidates = "/allocation_candidates?resources=VCPU:1,MEMORY_MB:512,DISK_GB:10&limit=100"
)

// crowd is how many clients call at once where many do.
const crowd = 8

// BenchmarkPlacement measures calls of the placement API from outside: one provider
// after another is looked at, all are listed, candidates are asked for, and
// consumers claim, each once, of one provider that has enough for all or of all in
// turn. A zone has so many providers of three classes, and no hosts. cpu-ms is what
// the whole process has used for one call: client and all nodes.
func BenchmarkPlacement(b *testing.B) {
	for _, x := range []struct{ nodes, providers int }{{1, 1_000}, {1, 10_000}, {3, 1_000}} {
		b.Run(fmt.Sprintf("nodes=%d/providers=%d", x.nodes, x.providers), func(b *testing.B) {
			p := newBook(b, x.nodes, x.providers)
			p.measure(b, "get=one", 1, func(n int) error { return p.call(http.MethodGet, "/resource_providers/"+provider(n%p.providers), "") })
			p.measure(b, "get=all", 1, func(int) error { return p.call(http.MethodGet, "/resource_providers", "") })
			for _, clients := range []int{1, crowd} {
				p.measure(b, "get=candidates", clients, func(int) error { return p.call(http.MethodGet, candidates, "") })
			}
			for _, clients := range []int{1, crowd} {
				p.measure(b, "claim=one", clients, func(n int) error { return p.claim(n, p.providers) })
				p.measure(b, "claim=spread", clients, func(n int) error { return p.claim(n, n%p.providers) })
			}
		})
	}
}

// book is a zone with providers, and a client of its first node.
type book struct {
	providers int // and one more, which has enough for all
	base      string
	http      *http.Client
	calls     atomic.Int64
}

func newBook(b *testing.B, nodes, providers int) *book {
	b.Helper()
	none := 0
	z, _ := start(b, dev.Spec{Name: "root", Hosts: &none}, nodes)
	t := &http.Transport{MaxIdleConnsPerHost: crowd}
	b.Cleanup(t.CloseIdleConnections)
	p := &book{providers: providers, base: z.API() + "/placement", http: &http.Client{Transport: t, Timeout: patience}}
	require.NoError(b, p.all(crowd, providers+1, func(n int) error { // also the last one
		total := "1000000"
		if n == providers {
			total = "1000000000"
		}
		body := fmt.Sprintf(`{"uuid": %q, "name": "provider-%d"}`, provider(n), n)
		stock := strings.NewReplacer(": 1,", `: {"total": T},`, ": 512,", `: {"total": T},`, ": 10", `: {"total": T}`).Replace(claimed)
		stock = fmt.Sprintf(`{"resource_provider_generation": 0, "inventories": {%s}}`, strings.ReplaceAll(stock, "T}", total+"}"))
		return errors.Join(p.call(http.MethodPost, "/resource_providers", body), p.call(http.MethodPut, "/resource_providers/"+provider(n)+"/inventories", stock))
	}))
	return p
}

func provider(n int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000000", n) }

// claim claims of a provider for a new consumer.
func (p *book) claim(n, of int) error {
	body := fmt.Sprintf(`{"allocations": {%q: {"resources": {%s}}}, "project_id": "p", "user_id": "u", "consumer_type": "T", "consumer_generation": null}`,
		provider(of), claimed)
	return p.call(http.MethodPut, fmt.Sprintf("/allocations/00000000-0000-4000-8000-%012d", n), body)
}

// call makes one call, and reads the answer.
func (p *book) call(method, path, body string) error {
	r, err := http.NewRequestWithContext(context.Background(), method, p.base+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("OpenStack-API-Version", "placement "+client.PlacementVersion)
	r.Header.Set("Content-Type", "application/json")
	res, err := p.http.Do(r)
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, res.Body)
	if res.StatusCode >= http.StatusMultipleChoices {
		err = errors.Join(err, fmt.Errorf("%s %s: %s, %d bytes", method, path, res.Status, n))
	}
	return errors.Join(err, res.Body.Close())
}

// all makes n calls, so many at once.
func (p *book) all(clients, n int, call func(n int) error) error {
	var wg sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, clients)
	for c := range clients {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[c] == nil; i = int(next.Add(1)) - 1 {
				errs[c] = call(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// measure measures calls, so many at once.
func (p *book) measure(b *testing.B, name string, clients int, call func(n int) error) {
	b.Helper()
	b.Run(fmt.Sprintf("%s/clients=%d", name, clients), func(b *testing.B) {
		took := make([]time.Duration, b.N)
		before, began := processTime(b), time.Now()
		require.NoError(b, p.all(clients, b.N, func(n int) error {
			began := time.Now()
			err := call(int(p.calls.Add(1))) // a number that no other call has
			took[n] = time.Since(began)
			return err
		}))
		all, cpu := time.Since(began), processTime(b)-before
		slices.Sort(took)
		b.ReportMetric(float64(b.N)/all.Seconds(), "calls/s")
		for metric, d := range map[string]time.Duration{"p50-ms": took[b.N/2], "p99-ms": took[b.N*99/100], "cpu-ms": cpu / time.Duration(b.N)} {
			b.ReportMetric(float64(d.Microseconds())/1000, metric)
		}
	})
}

// processTime returns what this process has used of its processors.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
