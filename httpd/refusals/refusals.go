// Package refusals counts callers that a node turns away: those that it cannot authenticate, and changes
// that an authenticated caller may not make. It logs whom and what a node refuses, in a bounded number of lines.
//
// It decides nothing, and keeps nothing but the counts.
package refusals

import (
	"context"
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
	LinesMax = 60 // of all kinds in LinesEvery; what is beyond is counted
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
func (c *Counter) NoteAuthentication(ctx context.Context, l Listener, r Reason, attrs ...any) {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.unknown[Key{l, r}]++
	c.mu.Unlock()
	if all, ok := c.takeLine(append([]any{"listener", l, "reason", r}, attrs...)); ok {
		c.log.InfoContext(ctx, "authentication refused", all...)
	}
}

// NoteRefusal logs, like NoteAuthentication, that somebody who is known was refused, and why. It counts nothing.
func (c *Counter) NoteRefusal(ctx context.Context, l Listener, why error, attrs ...any) {
	if c == nil {
		return
	}
	if all, ok := c.takeLine(append([]any{"listener", l, "error", why}, attrs...)); ok {
		c.log.InfoContext(ctx, "call refused", all...)
	}
}

// takeLine reports whether a refusal is logged, and returns the attributes of its line: attrs, and how many
// before it were not.
func (c *Counter) takeLine(attrs []any) (all []any, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var suppressed int
	if now := c.now(); c.since.IsZero() || now.Sub(c.since) >= LinesEvery {
		c.since, c.lines = now, 0
		suppressed, c.suppressed = c.suppressed, 0
	}
	if c.lines == LinesMax {
		c.suppressed++
		return nil, false
	}
	c.lines++
	if suppressed > 0 {
		attrs = append(attrs, "suppressed", suppressed)
	}
	return attrs, true
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
