package raftstore

import (
	"sync"

	"berth/api"
	"berth/raftstore/state"
)

const (
	// batchMaxBytes is how large an entry may grow by sharing: what Raft suggests,
	// so that a heartbeat is never long behind an entry. One larger proposal goes
	// alone.
	batchMaxBytes = 512 << 10
	// batchMaxCommands is the number of commands that may share an entry.
	batchMaxCommands = commandsMax
)

// opPropose is the operation in errors of Propose and ProposeEach.
const opPropose = "raftstore.Propose"

// proposal is one list of commands on its way into the log.
type proposal struct {
	body  []byte // its commands, as an entry holds them
	form  api.Form
	count int               // their number
	done  chan state.Answer // takes one

	// Guarded by the queue's mutex.
	taken   bool // it is in a batch; only Raft knows now
	dropped bool // its caller is gone; it must not be taken
}

// answer ends a proposal that was in no queue, or is in none any more.
func (p *proposal) answer(results []state.Result, err error) {
	p.done <- state.Answer{Results: results, Err: err}
}

// queue holds the proposals that arrived while earlier ones were in flight.
type queue struct {
	ready chan struct{} // holds one token while something waits

	mu      sync.Mutex // guards the fields below
	waiting []*proposal
	bytes   int
	closed  bool
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

// putProposals appends those of ps that have no answer yet, so that they share entries. It
// answers those that it does not take: with CodeOverloaded at the limits, with CodeUnavailable
// once the queue is closed.
func (q *queue) putProposals(ps []*proposal) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range ps {
		switch {
		case len(p.done) > 0:
		case q.closed:
			p.answer(nil, closedError(opPropose))
		case len(q.waiting) >= queueMax, q.bytes+len(p.body) > queueMaxBytes:
			p.answer(nil, api.Errorf(api.CodeOverloaded, "%s", msgFull))
		default:
			q.waiting = append(q.waiting, p)
			q.bytes += len(p.body)
		}
	}
	if len(q.waiting) > 0 {
		q.wakeTaker()
	}
}

func (q *queue) wakeTaker() {
	select {
	case q.ready <- struct{}{}:
	default: // a token is there already
	}
}

// takeBatch removes the proposals that share the next entry, in order of arrival.
func (q *queue) takeBatch() []*proposal {
	q.mu.Lock()
	defer q.mu.Unlock()
	var batch []*proposal
	size, count, next := 0, 0, 0
	for _, p := range q.waiting {
		full := size+len(p.body) > batchMaxBytes || count+p.count > batchMaxCommands
		if !p.dropped && len(batch) > 0 && full {
			break
		}
		next++
		q.bytes -= len(p.body)
		if p.dropped {
			continue
		}
		p.taken = true
		batch = append(batch, p)
		size += len(p.body)
		count += p.count
	}
	clear(q.waiting[:next]) // release the bodies
	q.waiting = q.waiting[next:]
	if len(q.waiting) > 0 {
		q.wakeTaker()
	} else {
		q.waiting = nil
	}
	return batch
}

// dropProposal withdraws p. It reports whether p was still waiting, and so will never be
// in the log.
func (q *queue) dropProposal(p *proposal) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	p.dropped = !p.taken
	return p.dropped
}

// close refuses waiting and later proposals.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, p := range q.waiting {
		p.answer(nil, closedError(opPropose))
	}
	q.waiting, q.bytes = nil, 0
}
