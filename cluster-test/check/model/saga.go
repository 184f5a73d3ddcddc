package model

import (
	"slices"
	"time"

	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

// Boot is one request to boot, with the holds that were made for it, in order.
type Boot struct {
	ID       BootID
	Key      string
	Digest   []byte
	Least    int
	Request  api.Request
	Decision api.Decision
	Code     api.Code // reason of its failure
	Ended    bool
	Faded    bool // holds of it were pruned
	Refills  int  // orders for preempted instances of it
	Gone     int  // instances of it that were pruned
	Metadata map[string]string
	Data     int64 // bytes that count for its project
	Holds    []*Hold
	Lifted   []api.ServerGroupID // of its rules, deleted: they bind nothing that is still made for it
}

// Hold is slots on own hosts and parts of children, and what was decided of them.
type Hold struct {
	ID       HoldID
	Boot     *Boot // nil for a parent's
	Request  api.Request
	Attempt  int
	Groups   map[api.InstanceID]int
	Names    map[api.InstanceID]string
	Start    api.Instant // of its claims
	End      api.Instant
	Plan     api.PlanID
	Slots    []*Claim
	Parts    []*Part
	Refused  int
	AtOnce   bool // it decides for itself once it is complete
	Created  api.Instant
	Decision api.Decision
	Made     bool        // it was decided commit, whatever came later
	Dead     api.Instant // when it was aborted, if it never came
	Grace    time.Duration
	Choices  []api.BindingChoice
	Lifted   []api.ServerGroupID // deleted since: their rules bind nothing that it has made
}

// Part is the part of a hold at one child.
type Part struct {
	Link            api.LinkID
	IDs             []api.InstanceID // asked for; after the answer, held
	Answered, Acked bool
	Committed       bool // the child has reported that it made them
}

// isComplete reports whether every child has answered.
func (h *Hold) isComplete() bool {
	return !slices.ContainsFunc(h.Parts, func(p *Part) bool { return !p.Answered })
}

// IDs returns the instances that h names, own ones first; of a child that has
// answered, those that it holds.
func (h *Hold) IDs() (out []api.InstanceID) {
	for _, c := range h.Slots {
		out = append(out, c.Consumer)
	}
	for _, p := range h.Parts {
		out = append(out, p.IDs...)
	}
	return out
}

func (m *Model) makeHold(c command.Hold) *Refusal {
	id := HoldID{c.Origin, c.ID}
	if h, repeat := m.Holds[id]; repeat {
		if h.Plan != "" && h.Plan != c.Plan {
			return &Refusal{promise.Plan, "the hold was made with another plan"}
		}
		m.Moved[id] = true
		return nil
	}
	b, not := m.MayHold(c)
	if not != nil {
		return not
	}
	h := &Hold{
		ID: id, Boot: b, Plan: c.Plan, AtOnce: c.Commit, Decision: api.DecisionPending, Created: m.Now,
		Request: c.Request, Attempt: c.Attempt, Groups: map[api.InstanceID]int{}, Names: map[api.InstanceID]string{}, Choices: c.Choices,
	}
	for _, sl := range c.Slots {
		h.Names[sl.Instance.ID] = sl.Instance.Name
	}
	for _, p := range c.Parts {
		for _, i := range slices.Concat(p.Instances...) {
			h.Names[i.ID] = i.Name
		}
	}
	if c.Plan != "" {
		m.Plans[c.Plan] = c.Expires
	}
	if b != nil {
		m.liftAtOnce(h)
	}
	h.Start, h.End = m.windowOf(h)
	if h.Request.Reserves {
		h.Grace = m.Preempt.GraceOf(h.Request.Grace)
	}
	for _, whole := range []bool{true, false} { // whole hosts come first
		for _, sl := range c.Slots {
			if c.Request.Groups[sl.Group].Whole == whole {
				m.placeSlot(h, &c, sl)
			}
		}
	}
	m.dropUnpaired(h)
	for _, p := range c.Parts {
		m.askPart(h, p)
	}
	m.Holds[id], m.Moved[id] = h, true
	if b != nil {
		b.Holds = append(b.Holds, h)
	}
	m.advanceHold(h)
	return nil
}

// MayHold returns the boot that a hold is for, nil for a parent's, or the reason why the
// hold must be refused.
func (m *Model) MayHold(c command.Hold) (*Boot, *Refusal) {
	if _, used := m.Plans[c.Plan]; used && c.Plan != "" {
		return nil, &Refusal{promise.Plan, "plan " + string(c.Plan) + " was taken up before"}
	}
	if c.Plan != "" && m.Now >= c.Expires {
		return nil, &Refusal{promise.PlanAge, "plan " + string(c.Plan) + " had expired"}
	}
	b, own := m.Boots[BootID{c.Request.Project, c.Request.Reservation, c.Refill}]
	switch {
	case c.Origin != "":
		b = nil
		if l, ok := m.Links[c.Origin]; !ok || l.Role != api.LinkParent {
			return nil, &Refusal{promise.Model, string(c.Origin) + " is no parent"}
		} else if l.Paused {
			return nil, &Refusal{promise.Model, string(c.Origin) + " is paused"}
		}
		if not := m.mayWant(&c.Request); not != nil {
			return nil, not
		}
		if c.Request.Reserves && m.countSlots(c.Origin)+c.Count() > api.ReservedPerLinkMax {
			return nil, &Refusal{promise.Lease, "the parent has reserved too much"}
		}
		if m.countPrepared(c.Origin)+c.Count() > api.HoldsPerLinkMax {
			return nil, &Refusal{promise.Model, "the parent holds too much"}
		}
	case !own || b.Decision != api.DecisionPending:
		return nil, &Refusal{promise.Saga, "the reservation is not waiting for slots"}
	case len(c.Request.Groups) != len(b.Request.Groups):
		return nil, &Refusal{promise.Model, "the boot has other groups"}
	}
	if not := m.mayChoose(c); not != nil {
		return nil, not
	}
	return b, m.mayName(c)
}

// mayWant returns why a parent may not ask for a request: at another time than now only room
// of a lease.
func (m *Model) mayWant(r *api.Request) *Refusal {
	switch w := r.Window; {
	case r.Preempt && m.Preempt.Closed:
		return &Refusal{promise.Model, "the zone makes no room for parents"}
	case r.Reserves:
		if w.Start > m.Now.Add(api.LeaseLeadMax) || w.End > m.Now.Add(api.LeaseLeadMax+api.LeaseDurationMax) {
			return &Refusal{promise.Window, "it is too far ahead"}
		}
	case w.Start < 0 || w.Start > m.Now || w.End != api.Forever && w.End > m.Now.Add(api.WindowMax):
		return &Refusal{promise.Window, "it is not for now"}
	}
	return nil
}

// mayName returns why a hold cannot be for what it names.
func (m *Model) mayName(c command.Hold) *Refusal {
	groups := len(c.Request.Groups)
	if groups == 0 {
		return &Refusal{promise.Model, "it has no group"}
	}
	var all []api.InstanceSpec
	for _, sl := range c.Slots {
		all = append(all, sl.Instance)
		if sl.Group < 0 || sl.Group >= groups {
			return &Refusal{promise.Model, "the request has no such group"}
		}
	}
	for _, p := range c.Parts {
		all = append(all, slices.Concat(p.Instances...)...)
		if l, ok := m.Links[p.Link]; !ok || l.Role != api.LinkChild {
			return &Refusal{promise.Model, string(p.Link) + " is no child"}
		}
		if len(p.Instances) > groups {
			return &Refusal{promise.Model, "the request has no such group"}
		}
	}
	seen := map[api.InstanceID]bool{}
	for _, i := range all {
		if seen[i.ID] || m.knowsInstance(i.ID) {
			return &Refusal{promise.Once, "instance id " + string(i.ID) + " is in use"}
		}
		seen[i.ID] = true
	}
	return nil
}

// countPrepared counts what a parent holds without a decision.
func (m *Model) countPrepared(origin api.LinkID) (n int) {
	for _, h := range m.Held {
		if h.ID.Origin == origin {
			n++
		}
	}
	return n
}

// placeSlot claims one slot: on its host, else on the first spare with room that its
// rules allow, else not.
func (m *Model) placeSlot(h *Hold, c *command.Hold, sl command.Slot) {
	hosts := []api.HostID{sl.Host}
	if sl.Group < len(c.Spares) {
		hosts = append(hosts, c.Spares[sl.Group]...)
	}
	for _, id := range hosts {
		if cl := m.takeSlot(h, sl, id); cl != nil {
			m.grantClaim(cl)
			h.Slots = append(h.Slots, cl)
			m.Held[cl.Consumer] = h
			m.bindRules(h, sl.Group, cl.Consumer, "")
			return
		}
	}
	h.Refused++
}

// takeSlot returns the claim of a slot on a host, or nil if there is no room: within the slot
// that id names, in place of the one that it keeps, or beside all others.
func (m *Model) takeSlot(h *Hold, sl command.Slot, id api.HostID) *Claim {
	cl := h.claimFor(sl, id)
	switch {
	case h.isWithin(sl.Group):
		if m.fitsWithin(h, cl, sl.Group, api.InstanceID(id)) {
			return cl
		}
		return nil
	case sl.Keeps != "" && id == sl.Host:
		if kept := h.claimFor(sl, id); m.keepSlot(h, kept, sl) {
			return kept
		}
	}
	if slot := m.Instances[api.InstanceID(id)]; slot != nil && h.Request.Class == api.Preemptible {
		if m.fitsLent(h, cl, sl.Group, api.InstanceID(id)) {
			return cl
		}
		return nil
	}
	if m.Fits(cl) && m.Obeys(h, sl.Group, Spot{Host: id}, nil) && m.mayLend(h, cl, "") {
		return cl
	}
	return nil
}

// windowOf returns the window of the claims of a hold. That of a boot begins now, and a
// lifetime ends it; within a reservation it ends with that.
func (m *Model) windowOf(h *Hold) (start, end api.Instant) {
	w := h.Request.Window
	if w.Start == 0 {
		w.Start = m.Now
	}
	if h.Request.Lifetime > 0 && w.End == api.Forever {
		w.End = w.Start + api.Instant(h.Request.Lifetime.Milliseconds())
	}
	for _, id := range m.Slots(h.ID.Origin, h.Request.Within) {
		w.End = min(w.End, m.Instances[id].Hold.End)
	}
	return w.Start, w.End
}

// claimFor returns what a slot wants on a host.
func (h *Hold) claimFor(sl command.Slot, on api.HostID) *Claim {
	g := h.Request.Groups[sl.Group]
	return &Claim{
		Consumer: sl.Instance.ID, Host: on, Want: g.Resources, Start: h.Start, End: h.EndOf(sl.Group), Class: h.Request.Class, Whole: g.Whole,
		Grace: h.Grace, Pushes: h.Pushes(sl.Group),
	}
}

func (m *Model) holdParts(c command.HoldParts) *Refusal {
	h, ok := m.Holds[HoldID{c.Origin, c.ID}]
	if !ok {
		return &Refusal{promise.Model, "there is no such hold"}
	}
	m.Moved[h.ID] = true
	news := false
	for _, a := range c.Answers {
		for _, p := range h.Parts {
			if p.Link == a.Link && !p.Answered {
				m.splitAnswer(h, p, a)
				news = true
			}
		}
	}
	if news && h.Decision == api.DecisionPending {
		m.advanceHold(h)
	}
	return nil
}

// splitAnswer splits what a child was asked for into what it holds and the rest.
func (m *Model) splitAnswer(h *Hold, p *Part, a command.PartAnswer) {
	var keep []api.InstanceID
	for _, id := range p.IDs {
		if slices.Contains(a.Held, id) {
			keep = append(keep, id)
			continue
		}
		h.Refused++
		if m.Held[id] == h {
			delete(m.Held, id)
		}
	}
	p.IDs, p.Answered = keep, true
	if h.Decision == api.DecisionPending {
		p.Acked, p.Committed = a.Committed, a.Committed
	}
}

// advanceHold decides a hold that was asked to decide for itself.
func (m *Model) advanceHold(h *Hold) {
	if !h.AtOnce || !h.isComplete() {
		return
	}
	switch {
	case h.Boot == nil && h.Refused > 0:
		m.carryOut(h, api.DecisionAbort)
	case h.Boot == nil:
		m.carryOut(h, api.DecisionCommit)
	case h.Refused == 0 && m.DescribeShortfall(h.Boot) == "":
		m.decideBoot(h.Boot, api.DecisionCommit)
	}
}

func (m *Model) holdDecide(c command.HoldDecide) *Refusal {
	id := HoldID{c.Origin, c.ID}
	h, ok := m.Holds[id]
	commit := c.Decision == api.DecisionCommit
	switch {
	case !ok && commit:
		return &Refusal{promise.Saga, "there is no such hold to commit"}
	case !ok && m.neverCame(c.Origin) >= api.TombstonesPerLinkMax:
		return &Refusal{promise.Model, "too many holds that never came were aborted"}
	case !ok: // it may be on its way: it is dead when it comes
		m.Holds[id] = &Hold{ID: id, Decision: api.DecisionAbort, Dead: m.Now}
		m.Moved[id] = true
		return nil
	case commit && h.Decision == api.DecisionAbort:
		return &Refusal{promise.Saga, "the hold was released"}
	case commit && h.Decision == api.DecisionPending && !h.isComplete():
		return &Refusal{promise.Saga, "not every child has answered"}
	case c.Origin == "" && (commit || c.Forced || h.Decision == api.DecisionCommit):
		return &Refusal{promise.Model, "the hold belongs to a boot of this zone"}
	case !commit && slices.ContainsFunc(h.Slots, func(c *Claim) bool { return m.Kept[c.Consumer] != nil }):
		return &Refusal{promise.Lease, "an update takes over its slots"}
	}
	m.carryOut(h, c.Decision)
	for _, group := range c.Lifted {
		if commit && m.form >= api.FormFifth {
			m.lift(h, group)
		}
	}
	return nil
}

// neverCame counts the holds over a link of which only the abort came.
func (m *Model) neverCame(origin api.LinkID) (n int) {
	for id, h := range m.Holds {
		if id.Origin == origin && h.Dead > 0 {
			n++
		}
	}
	return n
}

func (m *Model) bootDecide(c command.BootDecide) *Refusal {
	b, ok := m.Boots[BootID{c.Project, c.Reservation, c.Refill}]
	switch {
	case !ok && c.Refill > 0:
		return &Refusal{promise.Saga, "the order for preempted instances was decided before"}
	case !ok:
		return &Refusal{promise.Model, "there is no such reservation"}
	case b.Decision == c.Decision:
		return nil
	case b.Decision != api.DecisionPending:
		return &Refusal{promise.Saga, "the reservation was decided before"}
	}
	if text := m.DescribeShortfall(b); c.Decision == api.DecisionCommit && text != "" {
		return &Refusal{promise.Saga, text}
	}
	b.Code = c.Code
	m.decideBoot(b, c.Decision)
	return nil
}

// decideBoot decides a boot and its holds. Incomplete holds are released.
func (m *Model) decideBoot(b *Boot, d api.Decision) {
	b.Decision = d
	m.Told[b.ID] = true
	for _, h := range b.Holds {
		switch {
		case h.Decision != api.DecisionPending:
		case h.isComplete():
			m.carryOut(h, d)
		default:
			m.carryOut(h, api.DecisionAbort)
		}
	}
	if b.ID.Refill > 0 {
		m.settleRefill(b)
	}
}

func (m *Model) bootRelease(c command.BootRelease) *Refusal {
	b, ok := m.Boots[BootID{Project: c.Project, Reservation: c.Reservation}]
	switch {
	case !ok:
		return &Refusal{promise.Model, "there is no such reservation"}
	case b.Request.Reserves:
		return &Refusal{promise.Lease, "the reservation is the room of a lease"}
	}
	m.releaseBoot(b)
	return nil
}

// releaseBoot gives up all that a boot has.
func (m *Model) releaseBoot(b *Boot) {
	if b.Ended {
		return
	}
	b.Ended = true
	m.Told[b.ID] = true
	m.unqueue(b)
	if b.Decision == api.DecisionPending {
		m.decideBoot(b, api.DecisionAbort)
		return
	}
	for _, h := range b.Holds {
		m.carryOut(h, api.DecisionAbort)
	}
}

// carryOut carries a decision out: a commit makes instances, an abort gives back
// what is held, and after a commit asks for the end of what was made.
func (m *Model) carryOut(h *Hold, d api.Decision) {
	before := h.Decision
	if before == d {
		return
	}
	h.Decision = d
	m.Moved[h.ID] = true
	for _, id := range h.IDs() {
		if m.Held[id] == h {
			delete(m.Held, id)
		}
	}
	switch {
	case d == api.DecisionCommit:
		h.Made = true
		m.bindFor(h)
		m.makeAll(h)
	case before == api.DecisionCommit:
		m.endAll(h)
	default:
		for _, c := range h.Slots {
			m.unkeepSlot(c)
			m.endInstance(c.Consumer)
		}
	}
	for _, p := range h.Parts {
		gone := m.form >= api.FormFifth && m.Links[p.Link] == nil
		p.Acked = p.Acked && d == api.DecisionCommit || d == api.DecisionAbort && gone // of an abort every child must be told
	}
	if d == api.DecisionCommit {
		m.letGoLifted(h)
	}
}

func (m *Model) makeAll(h *Hold) {
	for _, c := range h.Slots {
		if c.Keeps != "" {
			m.replaceSlot(h, c)
			continue
		}
		i := &Instance{Hold: h, Group: h.Groups[c.Consumer], Host: c.Host}
		m.makeInstance(c.Consumer, i)
		if m.form >= api.FormFourth && c.End <= m.Now {
			m.setStatus(c.Consumer, api.StatusDeleted) // decided too late
		}
		m.beginMade(c.Consumer)
	}
	for _, p := range h.Parts {
		for _, id := range p.IDs {
			m.makeInstance(id, &Instance{Hold: h, Group: h.Groups[id], Link: p.Link})
		}
	}
	m.attachBooted(h)
}

// endAll asks for the end of all that h has made.
func (m *Model) endAll(h *Hold) {
	for _, id := range h.IDs() {
		if i := m.MadeBy(h, id); i != nil && i.Live() {
			m.setStatus(id, api.StatusDeleting)
		}
	}
}

func (m *Model) partAck(c command.PartAck) {
	h, ok := m.Holds[HoldID{c.Origin, c.ID}]
	if !ok || h.Decision != c.Decision || c.Decision == api.DecisionPending || c.Lifted < len(h.Lifted) {
		return
	}
	for _, p := range h.Parts {
		if p.Link != c.Link || p.Acked {
			continue
		}
		p.Acked = true
		p.Committed = p.Committed || !c.Lost && c.Decision == api.DecisionCommit
		if c.Lost {
			m.loseInstances(h, p)
		}
	}
}

// loseInstances marks the instances that a child gave up against its promise.
func (m *Model) loseInstances(h *Hold, p *Part) {
	for _, id := range p.IDs {
		switch i := m.MadeBy(h, id); {
		case i == nil || !i.Live():
		case i.Status == api.StatusDeleting:
			m.setStatus(id, api.StatusDeleted)
		case m.Links[p.Link] != nil && m.Links[p.Link].Forgot > 0 && h.Created <= m.Links[p.Link].Forgot:
			m.stayEnded(id)
			m.setStatus(id, api.StatusDeleted)
		default:
			m.setStatus(id, api.StatusError)
		}
	}
}

// Untold reports whether the decision must still be sent to a child.
func (h *Hold) Untold() bool {
	return h.Decision != api.DecisionPending && slices.ContainsFunc(h.Parts, func(p *Part) bool { return !p.Acked })
}

// Unacked counts the holds of a boot that may live in a child which has not confirmed
// their end or their start. An abort of what was never decided commit is final when it
// is logged.
func (b *Boot) Unacked() (n int) {
	for _, h := range b.Holds {
		if (h.Made || h.AtOnce) && h.Untold() {
			n++
		}
	}
	return n
}

// HeldIDs returns the instances that h certainly holds: own slots and answered parts.
func (h *Hold) HeldIDs() (out []api.InstanceID) {
	for _, c := range h.Slots {
		out = append(out, c.Consumer)
	}
	for _, p := range h.Parts {
		if p.Answered {
			out = append(out, p.IDs...)
		}
	}
	return out
}
