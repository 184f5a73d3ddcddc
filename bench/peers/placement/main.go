// Command placement makes the same calls at Berth and at another server of the placement API,
// one after the other on this machine, and prints what each does per second.
//
// Berth is one zone of one node in this process, which keeps what it acknowledges on disk. The
// other server runs already; bench/peers/placement.sh starts the stock one.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"text/tabwriter"
	"time"

	"berth/api"
	"berth/bench/load"
	"berth/bench/zones"
	"berth/internal/sysinfo"
)

// What is called.
const (
	version       = "placement 1.36" // the newest of the stock server
	fillCallers   = 8
	candidatesMax = 10 // that are asked for
	providerTotal = 1_000_000
)

// claimed are the amounts of each claim.
var claimed = map[string]int64{"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 10}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := compare(ctx, time.Now, os.Args[1:]) //nolint:forbidigo // the clock comes from here
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "placement:", err) // a failure could not be reported
		os.Exit(1)
	}
}

func compare(ctx context.Context, now func() time.Time, args []string) (err error) {
	flags := flag.NewFlagSet("placement", flag.ExitOnError) // which ends the program
	url := flags.String("url", "", "base address of the other server; none for Berth alone")
	token := flags.String("token", "admin", "its X-Auth-Token")
	providers := flags.Int("providers", 1000, "resource providers, each with room for all claims")
	duration := flags.Duration("duration", 5*time.Second, "how long each kind of call is measured")
	_ = flags.Parse(args) // ends the program on an error
	if *providers < 1 || *providers > 100_000 {
		return fmt.Errorf("-providers must be 1 to 100000, got %d", *providers)
	}
	r, err := zones.Start(ctx, load.Federation{Nodes: 1, Zones: 1, Hosts: 1}, fillCallers, "", now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	servers := []*server{newServer("Berth", r.Dev.Zones[0].API()+"/placement", "", *providers)}
	if *url != "" {
		servers = append(servers, newServer("the other", *url, *token, *providers))
	}
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(t, "SERVER\tCALLS\tCALLERS\t/S\tP50 MS\tP99 MS\tFAILED\n")
	for _, s := range servers {
		if err := s.fill(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		for _, kind := range []struct {
			name    string
			callers int
			do      func(context.Context, int64) error
		}{
			{"claim of a provider in turn", 1, s.claimInTurn},
			{"claim of a provider in turn", 8, s.claimInTurn},
			{"candidates, then a claim of one", 1, s.chooseAndClaim},
			{"candidates, then a claim of one", 8, s.chooseAndClaim},
		} {
			p := &load.Plan{
				Work: load.Claims, Until: load.UntilActive, Count: 1, MinZones: 1, Callers: kind.callers,
				Warmup: *duration / 5, Duration: *duration, Timeout: time.Minute,
			}
			result, _, err := load.Measure(ctx, p, &load.Meter{Now: now, CPU: sysinfo.ProcessTime}, func(ctx context.Context, n int64) load.Outcome {
				return load.Outcome{Work: load.Claims, Err: kind.do(ctx, n)}
			})
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			_, _ = fmt.Fprintf(t, "%s\t%s\t%d\t%.0f\t%.1f\t%.1f\t%d\n",
				s.name, kind.name, kind.callers, result.Rate, result.Latency.P50Ms, result.Latency.P99Ms, result.Failed)
			for _, e := range result.Errors {
				_, _ = fmt.Fprintf(os.Stderr, "%s: %d failed: %s\n", s.name, e.Count, e.Example)
			}
		}
	}
	return t.Flush()
}

// server is a server of the placement API.
type server struct {
	name, base, token string
	providers         []string
	http              *http.Client
}

func newServer(name, base, token string, providers int) *server {
	s := &server{name: name, base: base, token: token, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: fillCallers}}}
	for range providers {
		s.providers = append(s.providers, api.NewUUID())
	}
	return s
}

// fill makes the providers, with inventories of all classes.
func (s *server) fill(ctx context.Context) error {
	stock := map[string]any{}
	for class := range claimed {
		stock[class] = map[string]any{"total": providerTotal}
	}
	var calls []func(context.Context) error
	for _, id := range s.providers {
		calls = append(calls, func(ctx context.Context) error {
			made := s.call(ctx, http.MethodPost, "/resource_providers", map[string]any{"uuid": id, "name": "provider-" + id}, nil)
			put := map[string]any{"resource_provider_generation": 0, "inventories": stock}
			return errors.Join(made, s.call(ctx, http.MethodPut, "/resource_providers/"+id+"/inventories", put, nil))
		})
	}
	return load.CallAll(ctx, fillCallers, calls)
}

// claimInTurn claims of one provider after the other for new consumers.
func (s *server) claimInTurn(ctx context.Context, n int64) error {
	return s.claim(ctx, map[string]any{s.providers[n%int64(len(s.providers))]: map[string]any{"resources": claimed}})
}

// chooseAndClaim does as a scheduler does: it asks for candidates, and claims of one of them.
func (s *server) chooseAndClaim(ctx context.Context, n int64) error {
	query := fmt.Sprintf("?limit=%d&resources=", candidatesMax)
	for i, class := range slices.Sorted(maps.Keys(claimed)) {
		query += fmt.Sprintf("%s%s:%d", []string{"", ","}[min(i, 1)], class, claimed[class])
	}
	var found struct {
		Requests []struct {
			Allocations map[string]struct {
				Resources map[string]int64 `json:"resources"`
			} `json:"allocations"`
		} `json:"allocation_requests"`
	}
	if err := s.call(ctx, http.MethodGet, "/allocation_candidates"+query, nil, &found); err != nil {
		return err
	}
	if len(found.Requests) == 0 {
		return errors.New("no candidate was found")
	}
	chosen := map[string]any{}
	for id, a := range found.Requests[n%int64(len(found.Requests))].Allocations {
		chosen[id] = map[string]any{"resources": a.Resources}
	}
	return s.claim(ctx, chosen)
}

// claim claims for a new consumer.
func (s *server) claim(ctx context.Context, of map[string]any) error {
	return s.call(ctx, http.MethodPut, "/allocations/"+api.NewUUID(), map[string]any{
		"allocations": of, "project_id": "p", "user_id": "u", "consumer_generation": nil,
	}, nil)
}

// call makes one call, and reads the answer into out unless that is nil.
func (s *server) call(ctx context.Context, method, path string, body, out any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding a request: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, method, s.base+path, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("making a request: %w", err)
	}
	r.Header.Set("OpenStack-API-Version", version)
	r.Header.Set("Content-Type", "application/json")
	if s.token != "" {
		r.Header.Set("X-Auth-Token", s.token)
	}
	res, err := s.http.Do(r)
	if err != nil {
		return fmt.Errorf("calling %s: %w", s.name, err)
	}
	answer, err := io.ReadAll(res.Body)
	err = cmp.Or(err, res.Body.Close())
	switch {
	case err != nil:
		return fmt.Errorf("reading an answer: %w", err)
	case res.StatusCode >= http.StatusMultipleChoices:
		return fmt.Errorf("%s %s: %s: %.200s", method, path, res.Status, answer)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("reading an answer: %w", err)
	}
	return nil
}
