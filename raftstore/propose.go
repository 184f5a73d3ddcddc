package raftstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// Propose writes cmds to the log, in order and in one entry, and returns the result of each
// once the entry is applied here. Other callers' commands may share the entry. A Result may
// itself be a refusal; an error means that no results are known:
//
//   - CodeInvalid, CodeTooLarge, CodeOverloaded: nothing was changed.
//   - CodeUnavailable: nothing was changed, and nothing will be; this node is not
//     the leader, say. Another node, or the same one later, may take it.
//   - CodeTimeout: not known; the commands may have been applied, or still will be.
//     Repeat the same commands, which therefore must be harmless to repeat.
//
// It waits for ctx, and no longer than Config.Timeout.
func (s *Store) Propose(ctx context.Context, cmds ...command.Command) ([]state.Result, error) {
	return s.proposePatiently(ctx, s.cfg.Timeout, cmds)
}

// ProposeEach proposes several lists of commands at once and returns the answer to each, as
// Propose does. The lists are independent: one that is refused says nothing about the others.
// They share as few entries as they fit into.
func (s *Store) ProposeEach(ctx context.Context, lists [][]command.Command) []state.Answer {
	return s.proposeEach(ctx, s.cfg.Timeout, lists)
}

// proposePatiently is Propose with a wait of its own.
func (s *Store) proposePatiently(ctx context.Context, patience time.Duration, cmds []command.Command) ([]state.Result, error) {
	a := s.proposeEach(ctx, patience, [][]command.Command{cmds})[0]
	return a.Results, a.Err
}

func (s *Store) proposeEach(ctx context.Context, patience time.Duration, lists [][]command.Command) []state.Answer {
	if ctx.Err() != nil { // nobody waits for it
		gone := state.Answer{Err: api.Wrap(api.CodeUnavailable, opPropose, msgBusy, ctx.Err())}
		return slices.Repeat([]state.Answer{gone}, len(lists))
	}
	form, leads := s.Form(), s.IsLeader()
	ps := make([]*proposal, len(lists))
	for i, cmds := range lists {
		ps[i] = &proposal{form: form, count: len(cmds), done: make(chan state.Answer, 1)}
		body, err := encodeCommands(cmds, max(form, formRaised(cmds)))
		if err == nil && !leads {
			err = notLeader(opPropose)
		}
		ps[i].body = body
		if err != nil {
			ps[i].answer(nil, err)
		}
	}
	s.queue.putProposals(ps)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out := make([]state.Answer, len(ps))
	for i, p := range ps {
		out[i] = s.awaitAnswer(ctx, p)
	}
	return out
}

// awaitAnswer waits for the answer to a proposal until ctx ends.
func (s *Store) awaitAnswer(ctx context.Context, p *proposal) state.Answer {
	select {
	case a := <-p.done:
		return a
	case <-ctx.Done():
	}
	if s.queue.dropProposal(p) {
		return state.Answer{Err: api.Wrap(api.CodeUnavailable, opPropose, msgBusy, ctx.Err())}
	}
	select {
	case a := <-p.done: // it has just arrived
		return a
	default:
		return state.Answer{Err: api.Wrap(api.CodeTimeout, opPropose, msgUnknown, ctx.Err())}
	}
}

// proposeQueued turns what waits in the queue into entries until ctx ends. One entry
// is in flight at a time: what arrives meanwhile shares the next.
func (s *Store) proposeQueued(ctx context.Context) {
	handing := handover{limit: handoverMax, fail: s.failNode}
	defer handing.noteError(nil)
	r := s.term.Load()
	for {
		select {
		case <-s.queue.ready:
		case <-r.changed: // a node that no longer leads owes nobody an entry
			r = s.term.Load()
			handing.noteError(nil)
			continue
		case <-ctx.Done():
			return
		}
		batch, err := s.takeCurrent(ctx)
		if err != nil {
			handing.noteError(err)
			continue
		}
		if len(batch) == 0 {
			continue
		}
		entry := batch[0].body
		for _, p := range batch[1:] {
			entry = append(entry, p.body...)
		}
		began, commands := s.cfg.Now(), 0
		for _, p := range batch {
			commands += p.count
		}
		err = answerBatch(batch, s.raft.Apply(entry, s.cfg.Timeout))
		s.measures.noteEntry(commands, s.cfg.Now().Sub(began), err)
		handing.noteError(err)
	}
}

// formRaised returns the form in which cmds are written if one of them raises the form of the zone: all members read the form
// to which it is raised, so they read the one that introduced the command.
func formRaised(cmds []command.Command) api.Form {
	for _, c := range cmds {
		if c.Kind() == command.KindFormRaise {
			return command.NeededForm(c)
		}
	}
	return api.FormFirst
}

// takeCurrent takes the next batch from the queue, without what was encoded in an older form than the zone writes. A leader that has
// just been elected learns that form from what its predecessors have left in the log.
func (s *Store) takeCurrent(ctx context.Context) ([]*proposal, error) {
	batch := s.queue.takeBatch()
	if len(batch) == 0 {
		return nil, nil
	}
	if err := s.confirmTerm(ctx, s.Term()); err != nil {
		for _, p := range batch {
			p.answer(nil, unwrittenError(opPropose, err))
		}
		return nil, err
	}
	return s.dropOutdated(batch), nil
}

// dropOutdated refuses the proposals of a batch that were encoded before the zone began to write a newer form, and returns the
// others: the forms of entries never fall.
func (s *Store) dropOutdated(batch []*proposal) []*proposal {
	form := s.Form()
	return slices.DeleteFunc(batch, func(p *proposal) bool {
		if p.form == form {
			return false
		}
		p.answer(nil, api.Errorf(api.CodeUnavailable, "the zone has just begun to write form %d; try again", form))
		return true
	})
}

// handoverMax is how long Raft may refuse entries because it hands the lead over:
// far longer than its own limit, which is the election timeout.
const handoverMax = 10 * time.Second

// handover ends the process when Raft does not come back from handing its lead over.
// A leader that steps down at the wrong moment never does (hashicorp/raft 1.8.0,
// issue 696), and refuses every entry when it is elected again.
type handover struct {
	limit time.Duration
	fail  func(error)
	timer *countdown // runs while Raft reports it
}

// noteError records the error of each entry, nil for none.
func (h *handover) noteError(err error) {
	switch {
	case !errors.Is(err, raft.ErrLeadershipTransferInProgress):
		if h.timer != nil {
			h.timer.stopWait()
			h.timer = nil
		}
	case h.timer == nil:
		h.timer = startCountdown(h.limit, func() {
			h.fail(fmt.Errorf("raft has been handing over its lead for %s and takes no entries; the process ends to begin anew", h.limit))
		})
	}
}

// answerBatch waits for Raft and answers every proposal of a batch. It returns Raft's
// error.
func answerBatch(batch []*proposal, future raft.ApplyFuture) error {
	results, err := resultsOf(future)
	if err == nil {
		want := 0
		for _, p := range batch {
			want += p.count
		}
		if len(results) != want {
			err = fmt.Errorf("entry %d has %d results for %d commands", future.Index(), len(results), want)
		}
	}
	for _, p := range batch {
		if err != nil {
			p.answer(nil, failureOf(opPropose, err, future.Index()))
			continue
		}
		p.answer(results[:p.count:p.count], nil)
		results = results[p.count:]
	}
	return err
}

func resultsOf(future raft.ApplyFuture) ([]state.Result, error) {
	if err := future.Error(); err != nil {
		return nil, err
	}
	switch r := future.Response().(type) {
	case []state.Result:
		return r, nil
	case error:
		return nil, r
	default:
		return nil, errors.New("the state machine gave no answer")
	}
}
