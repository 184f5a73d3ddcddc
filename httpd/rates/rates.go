// Package rates limits how many calls a party makes in a second. Each class of calls has room of
// its own, so that a flood of one leaves room for the others of the same party: ends of
// what runs, decisions and the calls of admins are never behind boots.
//
// It knows no HTTP and reads no clock. It keeps nothing on disk: a node that starts
// again has forgotten what was used.
package rates

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"berth/api"
)

// Class is a class of calls with a rate of its own.
type Class string

// The classes.
const (
	Reads      Class = "reads"      // of the public API, and estimates
	Writes     Class = "writes"     // of the public API
	Releases   Class = "releases"   // calls of the public API that end something
	Admins     Class = "admins"     // calls that only admins may make
	Joins      Class = "joins"      // enrolments, and what a node or agent joins with
	Strangers  Class = "strangers"  // calls without a valid token
	Peers      Class = "peers"      // of a linked zone
	Decisions  Class = "decisions"  // of a linked zone, about what is held already
	Heartbeats Class = "heartbeats" // of an agent
)

// Kind is a kind of party.
type Kind string

// The kinds.
const (
	User    Kind = "user" // in one project
	Project Kind = "project"
	Address Kind = "address"
	Link    Kind = "zone"
	Agent   Kind = "agent"
)

// times is by how much the rate of a kind of party is higher than that of a class: a project has
// several users, and many come from one address.
var times = map[Kind]int64{User: 1, Project: 2, Address: 4, Link: 1, Agent: 1}

// Limits of rates and of what is remembered.
const (
	PerSecondMax = 1_000_000 // of one class
	PartiesMax   = 1 << 16   // times classes; those that have not called for longest are forgotten
	burst        = 2         // seconds of calls that may come at once
)

// Rates are the calls of each class that one party may make in a second, 0 for any number.
type Rates map[Class]int64

// Defaults returns what a node allows unless its operator says otherwise. They are above what one
// caller of an honest zone needs.
func Defaults() Rates {
	return Rates{
		Reads: 10_000, Writes: 5_000, Releases: 5_000, Admins: 2_000, Joins: 20, Strangers: 20,
		Peers: 10_000, Decisions: 10_000, Heartbeats: 2_000,
	}
}

// Off returns rates that limit nothing.
func Off() Rates {
	out := Defaults()
	for c := range out {
		out[c] = 0
	}
	return out
}

// With returns r with some rates replaced by others.
func (r Rates) With(others map[string]int64) (Rates, error) {
	out := maps.Clone(r)
	for _, name := range slices.Sorted(maps.Keys(others)) {
		n := others[name]
		if _, known := r[Class(name)]; !known {
			return nil, api.Errorf(api.CodeInvalid, "there is no rate %q; rates are %s", name, strings.Join(Classes(), ", "))
		}
		if n < 0 || n > PerSecondMax {
			return nil, api.Errorf(api.CodeInvalid, "the rate %s must be 0 (no limit) to %d calls in a second, got %d", name, PerSecondMax, n)
		}
		out[Class(name)] = n
	}
	return out, nil
}

// Classes returns the names of all classes in order.
func Classes() []string {
	var out []string
	for c := range Defaults() {
		out = append(out, string(c))
	}
	slices.Sort(out)
	return out
}

// Party is somebody who makes calls.
type Party struct {
	Kind Kind
	ID   string
}

// Over says why a call is refused.
type Over struct {
	Class     Class
	Party     Party
	PerSecond int64         // what the party may make of the class
	Wait      time.Duration // until it may make one more
}

// Limiter counts the calls at one node. Its methods may be called concurrently. A nil
// Limiter refuses nothing.
type Limiter struct {
	rates atomic.Pointer[Rates]

	mu      sync.Mutex                     // guards the fields below
	full    *simplelru.LRU[key, time.Time] // when each bucket is full; one that is not kept is
	refused map[Class]uint64
}

type key struct {
	class Class
	party Party
}

// New returns a limiter that has seen no call.
func New(r Rates) *Limiter { return newLimiter(r, PartiesMax) }

// newLimiter returns a limiter that keeps most buckets.
func newLimiter(r Rates, most int) *Limiter {
	full, err := simplelru.NewLRU[key, time.Time](most, nil)
	if err != nil {
		panic("rates.newLimiter: " + err.Error()) // most is not positive
	}
	l := &Limiter{full: full, refused: map[Class]uint64{}}
	l.SetRates(r)
	return l
}

// SetRates changes the rates. What was counted so far counts on.
func (l *Limiter) SetRates(r Rates) {
	r = maps.Clone(r)
	l.rates.Store(&r)
}

// Take counts a call of a class against each party, at the time now. It returns nil if all of
// them may make it. Otherwise nothing is counted, and the party that must wait longest is
// returned.
func (l *Limiter) Take(now time.Time, c Class, parties ...Party) *Over {
	if l == nil {
		return nil
	}
	perSecond := (*l.rates.Load())[c]
	if perSecond == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var over *Over
	for _, p := range parties {
		per := perSecond * cmp.Or(times[p.Kind], 1)
		_, wait := l.next(now, key{c, p}, per)
		if wait > 0 && (over == nil || wait > over.Wait) {
			over = &Over{Class: c, Party: p, PerSecond: per, Wait: wait}
		}
	}
	if over != nil {
		l.refused[c]++
		return over
	}
	for _, p := range parties {
		k := key{c, p}
		full, _ := l.next(now, k, perSecond*cmp.Or(times[p.Kind], 1))
		l.full.Add(k, full)
	}
	return nil
}

// next returns when a bucket would be full if one more call was taken from it now, and how long
// until that call may be made.
func (l *Limiter) next(now time.Time, k key, per int64) (full time.Time, wait time.Duration) {
	const room = burst * time.Second
	full = now
	if kept, ok := l.full.Peek(k); ok && kept.After(now) {
		full = kept
		if latest := now.Add(room); full.After(latest) { // the clock was set back
			full = latest
			l.full.Add(k, full)
		}
	}
	full = full.Add(time.Second / time.Duration(per))
	return full, max(full.Sub(now)-room, 0)
}

// Refused returns the number of refused calls of each class.
func (l *Limiter) Refused() map[Class]uint64 {
	out := map[Class]uint64{}
	for c := range Defaults() {
		out[c] = 0
	}
	if l == nil {
		return out
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.Copy(out, l.refused)
	return out
}
