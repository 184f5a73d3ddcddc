package rogue

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/codec"
)

// party is somebody who was let in and misbehaves.
type party struct {
	name     string
	attacks  func(t *testing.T, p *phase) []attack
	budget   size  // by how much the root may grow with it, whatever its attacks are and however long they last
	lanes    int   // attacks at once; 0 for lanes
	triesMin int   // of each attack and lane; 0 for triesMin
	memory   int64 // what this process may have with it; 0 for any

	lacks func() bool // whether more rounds are needed to show something; set by attacks, may be nil
}

// attack is something that a party tries again and again. It returns an error if it gained what
// it must not; that a try is refused is none. Several may run at once, also of one attack.
type attack struct {
	name string
	try  func(ctx context.Context, r *record) error
}

// Limits of one phase.
const (
	lanes      = 2                // attacks at once
	triesMin   = 3                // of each attack and lane
	roundsMax  = 40               // of a party that has not done enough
	tryTimeout = 20 * time.Second // of one try
	kept       = 1 << 20          // bytes of answers to one attack that are kept, to look for canaries
)

// phase is one party at work.
type phase struct {
	*world
	party   *party
	answers string // directory of what was answered
	records []*record
	done    chan struct{} // closed when the attacks are over
}

// record is what came of one attack. Its methods may be called concurrently.
type record struct {
	name string
	path string

	mu       sync.Mutex // guards the fields below
	tries    int
	outcomes map[string]int
	gained   []error
	answers  bytes.Buffer
}

// note counts an outcome.
func (r *record) note(outcome any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes[fmt.Sprint(outcome)]++
}

// keep keeps an answer.
func (r *record) keep(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answers.Len() < kept {
		r.answers.Write(b)
	}
}

// String says it for people.
func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, o := range slices.Sorted(maps.Keys(r.outcomes)) {
		out = append(out, fmt.Sprintf("%s: %d", o, r.outcomes[o]))
	}
	return fmt.Sprintf("%s: %d tries; %s", r.name, r.tries, strings.Join(out, ", "))
}

// attack lets the party do all it can for d, and each attack at least triesMin times.
func (p *phase) attack(t *testing.T, d time.Duration) {
	t.Helper()
	defer close(p.done)
	all := p.party.attacks(t, p)
	for i, a := range all {
		path := filepath.Join(p.answers, fmt.Sprintf("%04d-out-gateway-%s.bin", i, strings.ReplaceAll(a.name, " ", "_")))
		p.records = append(p.records, &record{name: a.name, path: path, outcomes: map[string]int{}})
	}
	until, lanes, least := time.Now().Add(d), cmp.Or(p.party.lanes, lanes), cmp.Or(p.party.triesMin, triesMin)
	var wg sync.WaitGroup
	for lane := range lanes {
		wg.Go(func() {
			lacks := func(round int) bool { return round < roundsMax && p.party.lacks != nil && p.party.lacks() }
			for round := 0; (round < least || time.Now().Before(until) || lacks(round)) && p.ctx.Err() == nil; round++ {
				for i := range all {
					n := (i + lane*len(all)/lanes) % len(all)
					p.tryOnce(all[n], p.records[n])
				}
			}
		})
	}
	wg.Wait()
	for _, r := range p.records {
		require.NoError(t, os.WriteFile(r.path, r.answers.Bytes(), 0o600))
	}
}

func (p *phase) tryOnce(a attack, r *record) {
	ctx, cancel := context.WithTimeout(p.ctx, tryTimeout)
	defer cancel()
	err := a.try(ctx, r)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries++
	if err != nil && len(r.gained) < 10 {
		r.gained = append(r.gained, err)
	}
}

// caller makes calls to one listener.
type caller struct {
	http *http.Client
	base string
	head map[string]string
	mute bool // its answers are not searched for secrets
}

// muted is c for calls whose answers repeat what was said in them.
func (c *caller) muted() *caller {
	out := *c
	out.mute = true
	return &out
}

// callers of mutual TLS send CBOR, those of the public API JSON.
func (p *phase) caller(rt *http.Transport, base string, head map[string]string) *caller {
	p.t.Cleanup(rt.CloseIdleConnections)
	return &caller{http: &http.Client{Transport: rt}, base: base, head: head}
}

// answerMax is what a rogue reads of an answer.
const answerMax = 32 << 20

// call makes one call. A body is text, bytes, or something to encode as CBOR. It returns status 0
// if there was no answer.
func (c *caller) call(ctx context.Context, r *record, method, path string, body any) (int, []byte) {
	var b []byte
	switch body := body.(type) {
	case nil:
	case string:
		b = []byte(body)
	case []byte:
		b = body
	default:
		b, _ = codec.Marshal(body) // our own types can be encoded
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(b))
	if err != nil {
		r.note("no request")
		return 0, nil
	}
	for k, v := range c.head {
		req.Header.Set(k, v)
	}
	res, err := c.http.Do(req)
	if err != nil {
		r.note("no answer")
		return 0, nil
	}
	defer func() { _ = res.Body.Close() }() // it is read
	out, err := io.ReadAll(io.LimitReader(res.Body, answerMax))
	if !c.mute {
		r.keep(out)
	}
	if err != nil {
		r.note("answer cut")
		return 0, nil
	}
	r.note(res.StatusCode)
	return res.StatusCode, out
}

// cborHead are the headers of calls between zones.
func cborHead() map[string]string {
	return map[string]string{"Content-Type": api.MediaCBOR, api.HeaderForm: api.FormNewest.String()}
}

// jsonHead are the headers of a caller of the public API.
func jsonHead(token string) map[string]string {
	return map[string]string{"Content-Type": "application/json", "Authorization": "Bearer " + token}
}

// unless returns an error with what was gained if it was.
func unless(refused bool, format string, args ...any) error {
	if refused {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// refused reports whether an answer is none or a refusal.
func refused(status int) bool { return status == 0 || status >= http.StatusBadRequest }
