package node

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"berth/api"
	"berth/internal/budget"
)

// Limits of callers that send: a body may keep its reader waiting for bodyGrace in all, and for a second more for each
// bodySpeed bytes of it that have come, so that it comes at that speed at least.
const (
	bodyGrace = 10 * time.Second
	bodySpeed = 64 << 10 // bytes in a second

	bodyRest = time.Second // that a body may still keep its reader waiting once it is of no use
)

// bodyBuffer is how much of the bodies of one connection with HTTP/2 waits to be read.
const bodyBuffer = 64 << 10

// errSlowBody is the end of a body that comes too slowly. It is an os.ErrDeadlineExceeded.
var errSlowBody error = slowBodyError{}

type slowBodyError struct{}

// Error implements error.
func (slowBodyError) Error() string { return "the body comes too slowly" }

// Is makes it an os.ErrDeadlineExceeded for those who ask.
func (slowBodyError) Is(target error) bool { return target == os.ErrDeadlineExceeded }

// pacedBody is a body that must come at a least speed. The time between two reads is the reader's own.
type pacedBody struct {
	io.ReadCloser
	flow   *http.ResponseController
	end    time.Time     // of the whole request; zero for none
	got    time.Duration // that it may take for what has come
	waited time.Duration
	late   bool  // it is of no use
	err    error // of its end

	mu    sync.Mutex // guards over: nobody may set deadlines when the call is over
	over  bool
	ended bool // nothing more comes of it; written with the lock, by who reads the body
}

// Read implements io.Reader.
func (b *pacedBody) Read(p []byte) (int, error) {
	if b.ended { // a deadline would be that of the connection's next request
		return 0, b.err
	}
	began := time.Now() //nolint:forbidigo // sockets know no other clock
	until := began.Add(bodyGrace + b.got - b.waited)
	if !b.end.IsZero() && b.end.Before(until) {
		until = b.end
	}
	if !b.setDeadline(until) {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.ReadCloser.Read(p)
	b.waited += time.Since(began) //nolint:forbidigo // as above
	if !b.late {
		b.got += time.Duration(n) * time.Second / bodySpeed
	}
	b.err = err
	switch {
	case errors.Is(err, io.EOF):
		b.setDeadline(time.Time{}) // nothing cuts what follows
		b.noteEnd()
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.err = errSlowBody
		b.noteEnd()
	}
	return n, b.err
}

// Hurry implements wire.Hurried.
func (b *pacedBody) Hurry() {
	b.got, b.late = min(b.got, b.waited+bodyRest-bodyGrace), true
}

// setDeadline sets the deadline of reads, unless the call is over.
func (b *pacedBody) setDeadline(t time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return false
	}
	_ = b.flow.SetReadDeadline(t) // every server of ours has deadlines
	return true
}

// noteEnd notes that nothing more comes of the body.
func (b *pacedBody) noteEnd() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
}

// finish ends the deadlines. The server waits for the rest of a body before it sends the answer, but not for long.
func (b *pacedBody) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over && !b.ended {
		_ = b.flow.SetReadDeadline(time.Now().Add(bodyRest)) //nolint:forbidigo // sockets know no other clock
	}
	b.over = true
}

// accounts begins the account of each call of a listener, nil for one without limits.
type accounts func(r *http.Request) *budget.Account

// accountsOf returns the accounts of a listener, under its name. A caller who is known by his address has its share.
func (n *Node) accountsOf(listener string) accounts {
	return func(r *http.Request) *budget.Account {
		parties := []budget.Party{{Scope: budget.Listener, ID: listener}}
		if listener != listenerAdmin { // who looks at a node that is full must not be kept out
			parties = append(parties, budget.Party{Scope: budget.Node})
		}
		if from := sharer(remote(r.RemoteAddr)); listener != listenerNode && from != "" {
			parties = append(parties, budget.Party{Scope: budget.Address, ID: listener + " " + from})
		}
		return n.budget.Begin(parties...)
	}
}

// The listeners, as what they hold is counted under.
const (
	listenerAPI     = "api"
	listenerGateway = "gateway"
	listenerEnrol   = "enrol"
	listenerNode    = "node"
	listenerAgent   = "agent"
	listenerAdmin   = "admin"
)

// newBudget returns what the calls of a node may hold, if one address may have each connections of a listener; see newPlaces.
func newBudget(each int) *budget.Budget {
	if each == 0 {
		each = ConnsMax / 2
	}
	return budget.New(budget.Defaults(int64(each), ConnsMax))
}

// answerMost is what one answer is counted as, at most: one may be longer than its reader's share.
const answerMost = 8 << 20

// errLateAnswer is the error of a write for which there is no room.
var errLateAnswer = api.Errorf(api.CodeUnavailable, "too much of answers is under way")
