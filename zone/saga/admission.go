package saga

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"berth/api"
	"berth/internal/codec"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/estimate"
)

// Limits of the admission of boots.
const (
	admitMax       = 256             // boots of one batch
	admitSlotsMax  = api.CountMax    // instances of one batch, or those of one boot
	admitQueueMax  = 4096            // boots that wait for a batch; others are recorded without a plan
	admitWait      = 2 * time.Second // after which a boot that waits is recorded without a plan
	admitSparesMax = 1               // alternates of a hold; few are needed, for a batch has no two claims on one room
)

// admission plans new boots before they are recorded, so that the record of a boot, its
// slots and its decision are in one log entry. It takes boots in batches: those that arrive
// while one batch is on its way into the log wait for the next, which is planned on a view
// that has them all. Alike boots of a batch share one scan of the hosts, and the others are planned
// beside what those before them get; all share an entry. So no two boots are given the same room, and costs
// count what the boots of one moment take. What a plan does not cover is left to the loop of undecided boots,
// as is every boot of a zone with children.
//
// It is only memory: a boot that is not recorded has had no answer. Callers do the work:
// the first one of a batch plans and proposes for all of it.
type admission struct {
	mu      sync.Mutex // guards what follows
	waiting []*ticket  // in order of arrival
	busy    bool       // a batch is under way
	counts  Admission  // but for Waiting
}

// Admission is what the admission of boots has done since this process started, and what waits.
type Admission struct {
	Waiting   int           // boots that wait for a batch
	Batches   uint64        // that were planned
	Planned   uint64        // boots of them that were recorded with their slots
	Alone     uint64        // boots of them that were recorded without, for want of room for all of it
	Conflicts uint64        // boots that were recorded with their slots and refused some of them
	Planning  time.Duration // for which batches were planned, summed up
	Logging   time.Duration // for which boots with their slots were on their way into the log, summed up
}

// Admission returns what the admission of boots has done, and what waits.
func (s *Saga) Admission() Admission {
	a := &s.admission
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.counts
	out.Waiting = len(a.waiting)
	return out
}

// count changes the counts.
func (a *admission) count(change func(*Admission)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.counts)
}

// ticket is one owner on its way through the admission.
type ticket struct {
	want   *want
	key    string          // of its caller, "" for none: a repeat has the same
	record command.Command // that makes it
	turn   chan turn       // gets one
	req    api.Request     // that it is planned for
	hold   *command.Hold   // of all its slots, which commits it; nil for no plan
}

// turn is what a boot waits for: the batch that it is the first of and has to take into the log,
// or the answer of the log if another one did. A boot that was not planned has no results.
type turn struct {
	batch  []*ticket
	answer state.Answer
}

// enter queues a boot. It returns false if the queue is full.
func (a *admission) enter(t *ticket) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) >= admitQueueMax {
		return false
	}
	a.waiting = append(a.waiting, t)
	a.startBatch()
	return true
}

// startBatch hands the next batch to its first boot, unless one is under way. The caller
// holds the lock.
func (a *admission) startBatch() {
	if a.busy || len(a.waiting) == 0 {
		return
	}
	var batch []*ticket
	batch, a.waiting = nextBatch(a.waiting)
	a.busy = true
	batch[0].turn <- turn{batch: batch}
}

// await waits for the turn of a boot. It returns false for a boot that has waited for too long,
// which is in no batch.
func (a *admission) await(ctx context.Context, t *ticket) (turn, bool) {
	ctx, cancel := context.WithTimeout(ctx, admitWait)
	defer cancel()
	select {
	case got := <-t.turn:
		return got, true
	case <-ctx.Done():
	}
	if a.withdraw(t) {
		return turn{}, false
	}
	return <-t.turn, true // a plan and a proposal do not take long
}

// withdraw takes a boot out of the queue. It returns false if the boot is in a batch.
func (a *admission) withdraw(t *ticket) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.Index(a.waiting, t)
	if i >= 0 {
		a.waiting = slices.Delete(a.waiting, i, i+1)
	}
	return i >= 0
}

// leave ends the batch under way.
func (a *admission) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.busy = false
	a.startBatch()
}

// nextBatch takes the next batch from a queue: each project has its turn, in the order in
// which they came, so that one with many boots does not delay the others.
func nextBatch(waiting []*ticket) (batch, rest []*ticket) {
	turns := map[api.ProjectID]int{}
	turn := make(map[*ticket]int, len(waiting))
	for _, t := range waiting {
		turn[t] = turns[t.want.request.Project]
		turns[t.want.request.Project]++
	}
	order := slices.Clone(waiting)
	slices.SortStableFunc(order, func(x, y *ticket) int { return turn[x] - turn[y] })
	slots, taken := 0, map[*ticket]bool{}
	for _, t := range order {
		n := t.want.request.Count()
		if len(batch) == admitMax || len(batch) > 0 && slots+n > admitSlotsMax {
			break
		}
		batch, slots, taken[t] = append(batch, t), slots+n, true
	}
	for _, t := range waiting {
		if !taken[t] {
			rest = append(rest, t)
		}
	}
	return batch, rest
}

// admitBatch plans the boots of a batch, records those for which there is room with their slots,
// and gives each of the others its turn. It returns the answer of the first. It does not end with
// the call of that one, for it serves them all.
func (s *Saga) admitBatch(ctx context.Context, batch []*ticket) state.Answer {
	ctx = context.WithoutCancel(ctx)
	defer s.admission.leave()
	answers := make([]state.Answer, len(batch))
	defer func() {
		for i, t := range batch[1:] {
			t.turn <- turn{answer: answers[i+1]}
		}
	}()
	began := s.zone.Now()
	s.planBatch(ctx, batch)
	var lists [][]command.Command
	var planned []int
	for i, t := range batch {
		if t.hold != nil {
			lists, planned = append(lists, []command.Command{t.record, *t.hold}), append(planned, i)
		}
	}
	ready := s.zone.Now()
	logged := s.zone.ProposeEach(ctx, lists)
	took, recorded, conflicts := s.zone.Now().Sub(ready), 0, 0
	for i, ans := range logged {
		answers[planned[i]] = ans
		if ans.Err != nil || ans.Results[0].Err != nil {
			continue
		}
		recorded++
		if hold := ans.Results[1]; hold.Err != nil || len(hold.Hold.Refused) > 0 {
			conflicts++
		}
	}
	s.admission.count(func(n *Admission) {
		n.Batches, n.Planning = n.Batches+1, n.Planning+ready.Sub(began)
		n.Planned, n.Logging = n.Planned+uint64(recorded), n.Logging+time.Duration(recorded)*took
		n.Conflicts, n.Alone = n.Conflicts+uint64(conflicts), n.Alone+uint64(len(batch)-len(lists))
	})
	return answers[0]
}

// planBatch plans the boots of a batch, those that are alike by one scan of the hosts, each kind beside what
// those before it get.
func (s *Saga) planBatch(ctx context.Context, batch []*ticket) {
	v, at := s.zone.View(), s.zone.Instant()
	kinds := sortByKind(batch, at)
	var draft *state.Draft
	for n, alike := range kinds {
		s.planKind(ctx, v, alike)
		if n == len(kinds)-1 {
			return
		}
		if draft == nil {
			draft = state.NewDraft(v)
		}
		for _, t := range alike {
			if t.hold != nil {
				_ = draft.Apply(t.record, *t.hold) // what is refused takes nothing; the log says why
			}
		}
		v = draft.View()
	}
}

// planKind plans alike boots of a batch.
func (s *Saga) planKind(ctx context.Context, v *state.State, alike []*ticket) {
	reqs := make([]*api.Request, len(alike))
	for i, t := range alike {
		reqs[i] = &t.req
	}
	for i, p := range s.estimator.PlanAlike(ctx, v, reqs) {
		if p == nil {
			continue
		}
		t := alike[i]
		s.estimator.KeepExplanation(v, t.want.call, &t.req, p)
		if hold, err := s.firstHold(t, p); err == nil {
			t.hold = &hold
		}
	}
}

// sortByKind returns the boots of a batch that one scan of the hosts can serve together, with
// the requests that they are planned for, made at an instant. A repeat of another of the
// batch is not planned.
func sortByKind(batch []*ticket, at api.Instant) [][]*ticket {
	var out [][]*ticket
	places, seen := map[string]int{}, map[string]bool{}
	for i, t := range batch {
		t.req = t.want.request
		t.req.Since, t.req.Attempt = at, 1
		id, key := string(t.req.Project)+"\x00r"+string(t.req.Reservation), string(t.req.Project)+"\x00k"+t.key
		if seen[id] || t.key != "" && seen[key] {
			continue
		}
		seen[id], seen[key] = true, true
		kind := kindOf(&t.req, i)
		at, ok := places[kind]
		if !ok {
			at = len(out)
			places[kind], out = at, append(out, nil)
		}
		out[at] = append(out[at], t)
	}
	return out
}

// kindOf returns the same text for requests that one scan can serve. One with rules or with
// several groups is planned by itself.
func kindOf(r *api.Request, number int) string {
	if len(r.Groups) != 1 || len(r.Rules) > 0 {
		return "alone " + strconv.Itoa(number)
	}
	its := *r
	its.Reservation, its.Since = "", 0
	its.Groups = []api.Group{r.Groups[0]}
	its.Groups[0].Count, its.Groups[0].Min = 0, 0
	b, err := codec.Marshal(its)
	if err != nil {
		return "alone " + strconv.Itoa(number)
	}
	return "alike " + string(b)
}

// firstHold returns the hold of all slots of a boot that was planned, which commits it.
func (s *Saga) firstHold(t *ticket, p *estimate.Plan) (command.Hold, error) {
	groups := p.Layer.Groups
	for g := range groups {
		groups[g].Alternates = groups[g].Alternates[:min(admitSparesMax, len(groups[g].Alternates))]
	}
	r := newRun(s, nil, t.want) // nobody decides it: its hold does
	r.attempt = 1
	return r.holdCommand(&t.req, p, r.nextInstances(&p.Layer), true)
}
