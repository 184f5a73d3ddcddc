package gossip

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"berth/internal/backoff"
)

// Limits of a pool's endpoints.
const (
	EndpointsMax     = 128 // endpoints that a pool knows at once
	PeersKeptMax     = 32  // endpoints that it hands to its PeerStore
	endpointMaxBytes = 512
	selfRecheck      = 5 * time.Minute // an endpoint that led back to this node may lead elsewhere later
)

// addressBook maps endpoints to the synthetic names that answered there, and returns
// the endpoints to try next. A name comes from an answer, never from gossip.
type addressBook struct {
	self     string
	now      func() time.Time
	min, max time.Duration // bounds of the backoff

	mu     sync.Mutex // guards what follows
	places map[string]*place
	dirty  bool // the endpoints worth persisting have changed
}

// place is the record of one endpoint.
type place struct {
	listed bool      // among the endpoints of the last refresh
	good   time.Time // of the last answer by another member; zero if there was none yet
	kept   bool      // another member has answered there, now or in an earlier run
	name   string    // who answered last; "" if the last attempt failed
	tries  int       // attempts since the member there was last seen alive
	next   time.Time // not to be tried before
}

func newAddressBook(self string, now func() time.Time, tune Tuning) *addressBook {
	return &addressBook{self: self, now: now, min: tune.RejoinMin, max: tune.RejoinMax, places: map[string]*place{}}
}

// restoreEndpoints adds endpoints that were known good in an earlier run.
func (b *addressBook) restoreEndpoints(endpoints []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range endpoints[:min(len(endpoints), PeersKeptMax)] {
		if p := b.placeOf(e); p != nil {
			p.kept = true
		}
	}
}

// refreshEndpoints replaces the listed endpoints. An endpoint that is no longer listed
// stays only if another member once answered there.
func (b *addressBook) refreshEndpoints(endpoints []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.places {
		p.listed = false
	}
	for _, e := range endpoints {
		if p := b.placeOf(e); p != nil {
			p.listed = true
		}
	}
	maps.DeleteFunc(b.places, func(_ string, p *place) bool { return !p.listed && !p.kept })
}

// placeOf returns the entry of an endpoint, made if there is room; nil otherwise.
// The caller holds mu.
func (b *addressBook) placeOf(endpoint string) *place {
	p := b.places[endpoint]
	if p == nil && endpoint != "" && len(endpoint) <= endpointMaxBytes && len(b.places) < EndpointsMax {
		p = &place{}
		b.places[endpoint] = p
	}
	return p
}

// dueEndpoints returns the endpoints to try now, in order, and counts an attempt at
// each: all without a known live member, each after its backoff.
func (b *addressBook) dueEndpoints(live func(name string) bool) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []string
	now := b.now()
	for _, e := range slices.Sorted(maps.Keys(b.places)) {
		p := b.places[e]
		if p.name != "" && p.name != b.self && live(p.name) {
			p.tries, p.next = 0, time.Time{}
			continue
		}
		if now.Before(p.next) {
			continue
		}
		p.next = now.Add(backoff.Double(b.min, b.max, p.tries))
		p.tries++
		list = append(list, e)
	}
	return list
}

// noteAnswer records who answered at an endpoint.
func (b *addressBook) noteAnswer(endpoint, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.places[endpoint]
	if p == nil {
		return // no longer listed
	}
	p.name = name
	if name == b.self {
		p.next = b.now().Add(selfRecheck)
		return
	}
	b.dirty = b.dirty || !p.kept
	p.kept, p.good = true, b.now()
}

// noteFailure records that nobody answered at an endpoint.
func (b *addressBook) noteFailure(endpoint string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.places[endpoint]; p != nil {
		p.name = ""
	}
}

// endpointsOf returns the endpoints that may lead to a member: first those where it
// answered, then those without a known member, each in order.
func (b *addressBook) endpointsOf(name string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var sure, open []string
	for _, e := range slices.Sorted(maps.Keys(b.places)) {
		switch b.places[e].name {
		case name:
			sure = append(sure, e)
		case "":
			open = append(open, e)
		}
	}
	return append(sure, open...)
}

// changedEndpoints returns, in order, the endpoints worth persisting, latest answer
// first where there are more than PeersKeptMax; ok is false if they are those
// of the last call.
func (b *addressBook) changedEndpoints() (endpoints []string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.dirty {
		return nil, false
	}
	b.dirty = false
	for e, p := range b.places {
		if p.kept {
			endpoints = append(endpoints, e)
		}
	}
	slices.SortFunc(endpoints, func(x, y string) int {
		return cmp.Or(b.places[y].good.Compare(b.places[x].good), cmp.Compare(x, y))
	})
	for _, e := range endpoints[min(len(endpoints), PeersKeptMax):] {
		b.places[e].kept = false
	}
	endpoints = endpoints[:min(len(endpoints), PeersKeptMax)]
	slices.Sort(endpoints)
	return endpoints, true
}

// markChanged makes changedEndpoints report the endpoints again, after a failed save.
func (b *addressBook) markChanged() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dirty = true
}
