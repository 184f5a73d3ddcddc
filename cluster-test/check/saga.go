package check

import (
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

// boot is one request to boot, with the holds that were made for it, in order.
type boot struct {
	id       bootID
	key      string
	digest   []byte
	least    int
	request  api.Request
	decision api.Decision
	code     api.Code // why it failed
	ended    bool
	faded    bool // holds of it were pruned
	holds    []*hold
}

// hold is slots on own hosts and parts of children, and what was decided of them.
type hold struct {
	id       holdID
	boot     *boot // nil for a parent's
	request  api.Request
	groups   map[api.InstanceID]int
	plan     api.PlanID
	slots    []*claim
	parts    []*part
	refused  int
	atOnce   bool // it decides for itself once it is complete
	decision api.Decision
	dead     api.Instant // when it was aborted, if it never came
}

type part struct {
	link            api.LinkID
	ids             []api.InstanceID // asked for; after the answer, held
	answered, acked bool
	committed       bool // the child has said that it made them
}

// complete reports whether every child has answered.
func (h *hold) complete() bool {
	return !slices.ContainsFunc(h.parts, func(p *part) bool { return !p.answered })
}

// ids returns the instances that h names, own ones first; of a child that has
// answered, those that it holds.
func (h *hold) ids() (out []api.InstanceID) {
	for _, c := range h.slots {
		out = append(out, c.consumer)
	}
	for _, p := range h.parts {
		out = append(out, p.ids...)
	}
	return out
}

func (m *model) hold(c command.Hold) *no {
	id := holdID{c.Origin, c.ID}
	if h, repeat := m.holds[id]; repeat {
		if h.plan != "" && h.plan != c.Plan {
			return &no{RulePlan, "the hold was made with another plan"}
		}
		m.moved[id] = true
		return nil
	}
	b, not := m.mayHold(c)
	if not != nil {
		return not
	}
	h := &hold{
		id: id, boot: b, plan: c.Plan, atOnce: c.Commit, decision: api.DecisionPending,
		request: c.Request, groups: map[api.InstanceID]int{},
	}
	if c.Plan != "" {
		m.plans[c.Plan] = c.Expires
	}
	for _, sl := range c.Slots {
		m.place(h, &c, sl)
	}
	for _, p := range c.Parts {
		m.ask(h, p)
	}
	m.holds[id], m.moved[id] = h, true
	if b != nil {
		b.holds = append(b.holds, h)
	}
	m.advance(h)
	return nil
}

// mayHold returns the boot that a hold is for, nil for a parent's, or why the
// hold must be refused.
func (m *model) mayHold(c command.Hold) (*boot, *no) {
	if _, used := m.plans[c.Plan]; used && c.Plan != "" {
		return nil, &no{RulePlan, "plan " + string(c.Plan) + " was taken up before"}
	}
	if c.Plan != "" && m.now >= c.Expires {
		return nil, &no{RulePlanAge, "plan " + string(c.Plan) + " had expired"}
	}
	b, own := m.boots[bootID{c.Request.Project, c.Request.Reservation}]
	switch {
	case c.Origin != "":
		b = nil
		if l, ok := m.links[c.Origin]; !ok || l.role != api.LinkParent {
			return nil, &no{RuleModel, string(c.Origin) + " is no parent"}
		} else if l.paused {
			return nil, &no{RuleModel, string(c.Origin) + " is paused"}
		}
		if w := c.Request.Window; w.Start > m.now || c.Request.Class != api.Firm || w.End != api.Forever && w.End > m.now.Add(api.WindowMax) {
			return nil, &no{RuleWindow, "it is not for now"}
		}
		if m.prepared(c.Origin)+c.Count() > api.HoldsPerLinkMax {
			return nil, &no{RuleModel, "the parent holds too much"}
		}
	case !own || b.decision != api.DecisionPending:
		return nil, &no{RuleSaga, "the reservation is not waiting for slots"}
	case len(c.Request.Groups) != len(b.request.Groups):
		return nil, &no{RuleModel, "the boot has other groups"}
	}
	return b, m.mayName(c)
}

// mayName returns why a hold cannot be for what it names.
func (m *model) mayName(c command.Hold) *no {
	groups := len(c.Request.Groups)
	if groups == 0 {
		return &no{RuleModel, "it has no group"}
	}
	var all []api.InstanceSpec
	for _, sl := range c.Slots {
		all = append(all, sl.Instance)
		if sl.Group < 0 || sl.Group >= groups {
			return &no{RuleModel, "the request has no such group"}
		}
	}
	for _, p := range c.Parts {
		all = append(all, slices.Concat(p.Instances...)...)
		if l, ok := m.links[p.Link]; !ok || l.role != api.LinkChild {
			return &no{RuleModel, string(p.Link) + " is no child"}
		}
		if len(p.Instances) > groups {
			return &no{RuleModel, "the request has no such group"}
		}
	}
	seen := map[api.InstanceID]bool{}
	for _, i := range all {
		if seen[i.ID] || m.knows(i.ID) {
			return &no{RuleOnce, "instance id " + string(i.ID) + " is in use"}
		}
		seen[i.ID] = true
	}
	return nil
}

// prepared counts what a parent holds without a decision.
func (m *model) prepared(origin api.LinkID) (n int) {
	for _, h := range m.held {
		if h.id.origin == origin {
			n++
		}
	}
	return n
}

// place claims one slot: on its host, else on the first spare with room that its
// rules allow, else not.
func (m *model) place(h *hold, c *command.Hold, sl command.Slot) {
	hosts := []api.HostID{sl.Host}
	if sl.Group < len(c.Spares) {
		hosts = append(hosts, c.Spares[sl.Group]...)
	}
	for _, id := range hosts {
		cl := m.claimFor(c, sl, id)
		if m.fits(cl) && m.obeys(h, sl.Group, spot{host: id}, nil) {
			m.grant(cl)
			h.slots = append(h.slots, cl)
			m.held[cl.consumer] = h
			m.bind(h, sl.Group, cl.consumer, "")
			return
		}
	}
	h.refused++
}

// claimFor returns what a slot wants on a host. A boot's window begins now, and a
// lifetime ends it.
func (m *model) claimFor(c *command.Hold, sl command.Slot, on api.HostID) *claim {
	w := c.Request.Window
	if w.Start == 0 {
		w.Start = m.now
	}
	if c.Request.Lifetime > 0 && w.End == api.Forever {
		w.End = w.Start + api.Instant(c.Request.Lifetime.Milliseconds())
	}
	return &claim{
		consumer: sl.Instance.ID, host: on, want: c.Request.Groups[sl.Group].Resources,
		start: w.Start, end: w.End, class: c.Request.Class,
	}
}

func (m *model) holdParts(c command.HoldParts) *no {
	h, ok := m.holds[holdID{c.Origin, c.ID}]
	if !ok {
		return &no{RuleModel, "there is no such hold"}
	}
	m.moved[h.id] = true
	news := false
	for _, a := range c.Answers {
		for _, p := range h.parts {
			if p.link == a.Link && !p.answered {
				m.answer(h, p, a)
				news = true
			}
		}
	}
	if news && h.decision == api.DecisionPending {
		m.advance(h)
	}
	return nil
}

// answer splits what a child was asked for into what it holds and the rest.
func (m *model) answer(h *hold, p *part, a command.PartAnswer) {
	var keep []api.InstanceID
	for _, id := range p.ids {
		if slices.Contains(a.Held, id) {
			keep = append(keep, id)
			continue
		}
		h.refused++
		if m.held[id] == h {
			delete(m.held, id)
		}
	}
	p.ids, p.answered = keep, true
	if h.decision == api.DecisionPending {
		p.acked, p.committed = a.Committed, a.Committed
	}
}

// advance decides a hold that was asked to decide for itself.
func (m *model) advance(h *hold) {
	if !h.atOnce || !h.complete() {
		return
	}
	switch {
	case h.boot == nil && h.refused > 0:
		m.decide(h, api.DecisionAbort)
	case h.boot == nil:
		m.decide(h, api.DecisionCommit)
	case h.refused == 0 && h.boot.lacks() == "":
		m.decideBoot(h.boot, api.DecisionCommit)
	}
}

func (m *model) holdDecide(c command.HoldDecide) *no {
	id := holdID{c.Origin, c.ID}
	h, ok := m.holds[id]
	commit := c.Decision == api.DecisionCommit
	switch {
	case !ok && commit:
		return &no{RuleSaga, "there is no such hold to commit"}
	case !ok && m.neverCame(c.Origin) >= api.TombstonesPerLinkMax:
		return &no{RuleModel, "too many holds that never came were aborted"}
	case !ok: // it may be on its way: it is dead when it comes
		m.holds[id] = &hold{id: id, decision: api.DecisionAbort, dead: m.now}
		m.moved[id] = true
		return nil
	case commit && h.decision == api.DecisionAbort:
		return &no{RuleSaga, "the hold was released"}
	case commit && h.decision == api.DecisionPending && !h.complete():
		return &no{RuleSaga, "not every child has answered"}
	case c.Origin == "" && (commit || c.Forced || h.decision == api.DecisionCommit):
		return &no{RuleModel, "the hold belongs to a boot of this zone"}
	}
	m.decide(h, c.Decision)
	return nil
}

// neverCame counts the holds over a link of which only the abort came.
func (m *model) neverCame(origin api.LinkID) (n int) {
	for id, h := range m.holds {
		if id.origin == origin && h.dead > 0 {
			n++
		}
	}
	return n
}

func (m *model) bootDecide(c command.BootDecide) *no {
	b, ok := m.boots[bootID{c.Project, c.Reservation}]
	switch {
	case !ok:
		return &no{RuleModel, "there is no such reservation"}
	case b.decision == c.Decision:
		return nil
	case b.decision != api.DecisionPending:
		return &no{RuleSaga, "the reservation was decided before"}
	}
	if text := b.lacks(); c.Decision == api.DecisionCommit && text != "" {
		return &no{RuleSaga, text}
	}
	b.code = c.Code
	m.decideBoot(b, c.Decision)
	return nil
}

// decideBoot decides a boot and its holds. What is not complete is given back.
func (m *model) decideBoot(b *boot, d api.Decision) {
	b.decision = d
	m.told[b.id] = true
	for _, h := range b.holds {
		switch {
		case h.decision != api.DecisionPending:
		case h.complete():
			m.decide(h, d)
		default:
			m.decide(h, api.DecisionAbort)
		}
	}
}

func (m *model) bootRelease(c command.BootRelease) *no {
	b, ok := m.boots[bootID{c.Project, c.Reservation}]
	if !ok {
		return &no{RuleModel, "there is no such reservation"}
	}
	if b.ended {
		return nil
	}
	b.ended = true
	m.told[b.id] = true
	if b.decision == api.DecisionPending {
		m.decideBoot(b, api.DecisionAbort)
		return nil
	}
	for _, h := range b.holds {
		m.decide(h, api.DecisionAbort)
	}
	return nil
}

// decide carries a decision out: a commit makes instances, an abort gives back
// what is held, and after a commit asks for the end of what was made.
func (m *model) decide(h *hold, d api.Decision) {
	before := h.decision
	if before == d {
		return
	}
	h.decision = d
	m.moved[h.id] = true
	for _, id := range h.ids() {
		if m.held[id] == h {
			delete(m.held, id)
		}
	}
	switch {
	case d == api.DecisionCommit:
		m.makeAll(h)
	case before == api.DecisionCommit:
		m.endAll(h)
	default:
		for _, c := range h.slots {
			m.end(c.consumer)
		}
	}
	for _, p := range h.parts {
		p.acked = p.acked && d == api.DecisionCommit // of an abort every child must be told
	}
}

func (m *model) makeAll(h *hold) {
	for _, c := range h.slots {
		m.make(c.consumer, &instance{hold: h, group: h.groups[c.consumer], host: c.host})
	}
	for _, p := range h.parts {
		for _, id := range p.ids {
			m.make(id, &instance{hold: h, group: h.groups[id], link: p.link})
		}
	}
}

// endAll asks for the end of all that h has made.
func (m *model) endAll(h *hold) {
	for _, id := range h.ids() {
		if i := m.madeBy(h, id); i != nil && i.live() {
			m.set(id, api.StatusDeleting)
		}
	}
}

func (m *model) partAck(c command.PartAck) {
	h, ok := m.holds[holdID{c.Origin, c.ID}]
	if !ok || h.decision != c.Decision || c.Decision == api.DecisionPending {
		return
	}
	for _, p := range h.parts {
		if p.link != c.Link || p.acked {
			continue
		}
		p.acked = true
		p.committed = p.committed || !c.Lost && c.Decision == api.DecisionCommit
		if c.Lost {
			m.lose(h, p)
		}
	}
}

// lose marks what a child gave up against its word.
func (m *model) lose(h *hold, p *part) {
	for _, id := range p.ids {
		switch i := m.madeBy(h, id); {
		case i == nil || !i.live():
		case i.status == api.StatusDeleting:
			m.set(id, api.StatusDeleted)
		default:
			m.set(id, api.StatusError)
		}
	}
}
