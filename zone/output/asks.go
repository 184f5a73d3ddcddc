package output

import (
	"context"
	"slices"

	"berth/api"
)

// desk is where questions to one agent wait. The reader's mutex guards it.
type desk struct {
	form  api.Form        // newest that the agent reads, from its last poll of this leader; 0 before
	asks  map[string]*ask // that are not answered, by id
	queue []*ask          // those of them that it was not given yet, in order of arrival
	polls map[*poll]struct{}
}

// ask is a question to an agent.
type ask struct {
	api.OutputAsk
	agent    api.AgentID
	answered chan *api.OutputAnswer // gets one value at most
}

// poll is a poll of an agent that waits for work.
type poll struct{ end context.CancelFunc }

// deskOf returns the desk of an agent. The caller holds the lock.
func (r *Reader) deskOf(a api.AgentID) *desk {
	d := r.agents[a]
	if d == nil {
		d = &desk{asks: map[string]*ask{}, polls: map[*poll]struct{}{}}
		r.agents[a] = d
	}
	return d
}

// putAsk leaves a question for an agent, unless there are too many or it cannot read questions. The caller
// has to end it with endAsk.
func (r *Reader) putAsk(agent api.AgentID, host api.HostID, q *api.OutputQuestion) (*ask, api.OutputLack) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.deskOf(agent)
	same := 0
	for _, a := range d.asks {
		if a.Question.Instance == q.Instance {
			same++
		}
	}
	switch {
	case d.form != 0 && d.form < api.FormFifth:
		return nil, api.OutputOlder
	case len(d.asks) >= api.OutputAsksMax, same >= api.OutputAsksEach, r.open >= api.OutputAsksZoneMax:
		return nil, api.OutputBusy
	}
	a := &ask{
		OutputAsk: api.OutputAsk{ID: api.NewUUID(), Host: host, Question: *q},
		agent:     agent, answered: make(chan *api.OutputAnswer, 1),
	}
	d.asks[a.ID] = a
	d.queue = append(d.queue, a)
	r.open++
	for p := range d.polls {
		p.end()
	}
	return a, ""
}

// endAsk forgets a question; an answer that comes later is ignored. A repeat is harmless.
func (r *Reader) endAsk(a *ask) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.agents[a.agent]
	if d == nil || d.asks[a.ID] != a {
		return
	}
	delete(d.asks, a.ID)
	d.queue = slices.DeleteFunc(d.queue, func(b *ask) bool { return b == a })
	r.open--
}

// settle gives the reader that waits an answer. The caller holds the lock.
func (a *ask) settle(answer *api.OutputAnswer) {
	select {
	case a.answered <- answer:
	default: // it has one
	}
}

// Await returns a context for a poll of an agent, which ends as soon as the agent is to be asked something, or
// with ctx. The caller must call done. An agent that does not read api.FormFifth is asked nothing.
func (r *Reader) Await(ctx context.Context, agent api.AgentID, form api.Form) (waits context.Context, done func()) {
	waits, end := context.WithCancel(ctx)
	p := &poll{end}
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.deskOf(agent)
	d.form = form
	switch {
	case form < api.FormFifth:
		for _, a := range d.asks {
			a.settle(&api.OutputAnswer{Lack: api.OutputOlder})
		}
		d.queue = nil
	case len(d.queue) > 0:
		end()
	}
	d.polls[p] = struct{}{}
	return waits, func() {
		end()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(d.polls, p)
	}
}

// Take returns the questions that an agent is to be asked now, each once.
func (r *Reader) Take(agent api.AgentID) []api.OutputAsk {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.deskOf(agent)
	var out []api.OutputAsk
	for _, a := range d.queue {
		out = append(out, a.OutputAsk)
	}
	d.queue = nil
	return out
}

// Answer takes answers of an agent. Those to questions that it was not asked, or that nobody waits for any more, are
// ignored, and what cannot be an answer to its question is none.
func (r *Reader) Answer(ctx context.Context, agent api.AgentID, q *api.AgentOutputs) (*api.AgentAck, error) {
	if len(q.Items) > api.OutputAsksMax {
		return nil, api.Errorf(api.CodeInvalid, "at most %d questions are answered at once, got %d", api.OutputAsksMax, len(q.Items))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := range q.Items {
		a := r.deskOf(agent).asks[q.Items[n].ID]
		if a == nil {
			continue
		}
		answer := &q.Items[n].Answer
		if !a.Question.Accepts(answer) {
			r.zone.Log().WarnContext(ctx, "an agent gave an unusable answer", "agent", agent, "instance", a.Question.Instance)
			answer = &api.OutputAnswer{Lack: api.OutputUnreadable}
		}
		a.settle(answer)
	}
	return &api.AgentAck{Term: r.zone.Store().Term()}, nil
}

// forgetAll ends all questions and forgets all agents.
func (r *Reader) forgetAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.agents {
		for _, a := range d.asks {
			a.settle(&api.OutputAnswer{Lack: api.OutputSilent})
		}
	}
	clear(r.agents)
	r.open = 0
}
