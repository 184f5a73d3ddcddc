// Package refusals counts callers that a node turns away: those that it cannot authenticate, whom it
// also logs, and changes that an authenticated caller may not make.
//
// It decides nothing, and keeps nothing but the counts.
package refusals

import (
	"log/slog"
	"sync"
	"time"
)

// Listener is a listener of a node.
type Listener string

// The listeners that authenticate their callers.
const (
	API     Listener = "api"
	Gateway Listener = "gateway"
	Node    Listener = "node"
	Agent   Listener = "agent"
)

// Reason is why somebody was not authenticated.
type Reason string

// The reasons.
const (
	TokenMissing   Reason = "token_missing"
	TokenMalformed Reason = "token_malformed"
	TokenUnknown   Reason = "token_unknown" // also one that was revoked
	TokenWrong     Reason = "token_wrong"   // its secret half
	TokenExpired   Reason = "token_expired"
	JoinToken      Reason = "join_token"   // unknown, used or expired
	ForeignPage    Reason = "foreign_page" // a page of another site, to a zone that asks for no token
	Handshake      Reason = "handshake"    // TLS did not come to an end: a wrong certificate, or none, or no TLS
	NotMember      Reason = "not_member"   // of a node that was removed
	NotLinked      Reason = "not_linked"   // of a zone
	Revoked        Reason = "revoked"      // of an agent
	Crowded        Reason = "crowded"      // too many zones enrol at once
)

// reasons has every reason that a listener has.
var reasons = map[Listener][]Reason{
	API:     {TokenMissing, TokenMalformed, TokenUnknown, TokenWrong, TokenExpired, JoinToken, ForeignPage},
	Gateway: {Handshake, NotLinked, JoinToken, Crowded},
	Node:    {Handshake, NotMember},
	Agent:   {Handshake, Revoked},
}

// Limits of the log.
const (
	LinesMax = 60 // in LinesEvery; what is beyond is counted
	// LinesEvery begins with a line, so the log is silent between two bursts.
	LinesEvery = time.Minute
)

// Key is a series of Authentications.
type Key struct {
	Listener Listener
	Reason   Reason
}

// Counter counts what one node refuses. A nil one counts nothing. Its methods may be called concurrently.
type Counter struct {
	log *slog.Logger
	now func() time.Time

	mu         sync.Mutex // guards what follows
	unknown    map[Key]uint64
	forbidden  map[Listener]uint64
	since      time.Time // when the count of lines began
	lines      int
	suppressed int // lines since then
}

// New returns a counter that logs to log.
func New(log *slog.Logger, now func() time.Time) *Counter {
	c := &Counter{log: log, now: now, unknown: map[Key]uint64{}, forbidden: map[Listener]uint64{}}
	for l, all := range reasons {
		c.forbidden[l] = 0
		for _, r := range all {
			c.unknown[Key{l, r}] = 0
		}
	}
	return c
}

// NoteAuthentication counts somebody who was not authenticated, and logs it with attrs, pairs of key and
// value, unless LinesMax lines were logged within LinesEvery; the next line says how many were not.
func (c *Counter) NoteAuthentication(l Listener, r Reason, attrs ...any) {
	if c == nil {
		return
	}
	line, suppressed := c.count(Key{l, r})
	if !line {
		return
	}
	if suppressed > 0 {
		attrs = append(attrs, "suppressed", suppressed)
	}
	c.log.Info("authentication refused", append([]any{"listener", l, "reason", r}, attrs...)...)
}

// count counts one refusal, and reports whether it is logged and how many before it were not.
func (c *Counter) count(k Key) (line bool, suppressed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unknown[k]++
	if now := c.now(); c.since.IsZero() || now.Sub(c.since) >= LinesEvery {
		c.since, c.lines = now, 0
		suppressed, c.suppressed = c.suppressed, 0
	}
	if c.lines == LinesMax {
		c.suppressed++
		return false, 0
	}
	c.lines++
	return true, suppressed
}

// NoteAuthorization counts a change that an authenticated caller may not make.
func (c *Counter) NoteAuthorization(l Listener) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forbidden[l]++
}

// Counts are what a counter has counted, with a zero for what there was not.
type Counts struct {
	Authentications map[Key]uint64
	Authorizations  map[Listener]uint64
}

// Counts returns the counts so far.
func (c *Counter) Counts() Counts {
	out := Counts{map[Key]uint64{}, map[Listener]uint64{}}
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, n := range c.unknown {
		out.Authentications[k] = n
	}
	for l, n := range c.forbidden {
		out.Authorizations[l] = n
	}
	return out
}
