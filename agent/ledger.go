package agent

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"berth/agent/driver"
	"berth/api"
)

// action is an action on one instance.
type action int

const (
	nothing action = iota
	start
	attach // let it use other volumes
	notify // give it the notice that it must leave
	halt   // end it and keep what it has
	stop
	kill    // its fence has expired, or its notice
	actions // number of actions
)

// entry is the agent's knowledge of one instance on one host.
type entry struct {
	host api.HostID
	work api.Workload // as last listed; only Instance is set if it never was

	attached []api.InstanceID // volumes that it can use, by id

	listed    bool       // in the newest list of its host
	have      api.Status // "" if nothing of it is here
	runs      uint64     // Runs of the workload that what is here was started with
	fault     string
	severed   api.RestartReason // why what ran here was killed unasked; "" if it was not, or runs again
	restarted api.Instant       // when it was last started anew after that; 0 for never
	reason    api.RestartReason // of restarted
	toldAgain api.Instant       // the restart that the zone surely knows of
	told      api.Status        // status that the zone surely has; "" if that is not certain
	toldFault string

	busy   bool          // a driver call is under way
	doubt  bool          // its driver listed it during the call
	seq    uint64        // ledger.seq at the end of the last driver call
	queued [actions]bool // the lanes it is queued in
	saying bool          // it is queued in ledger.say
	fails  int           // consecutive driver calls without an outcome
	cut    func()        // cancels the present driver call; nil before the first one

	ack    uint64 // ledger.acks when the zone took the last report of it
	lapsed bool   // its fence has expired, and its driver has not yet confirmed that nothing is left
	stale  bool   // its fence has expired, and its list was requested before that
	lapse  uint64 // ledger.lapses when its fence expired last

	due     time.Time // deadline of its notice, by the monotonic clock; zero without one
	noticed time.Time // the deadline in the notice that it was given last; zero without one
	overdue bool      // its deadline has passed, and its driver has not yet confirmed that nothing is left
}

// isDoomed reports whether e must be killed, whatever the lists say.
func (e *entry) isDoomed() bool { return e.lapsed || e.overdue }

// isGone reports whether e is known to be absent.
func (e *entry) isGone() bool { return e.have == "" || e.have == api.StatusDeleted }

// isStray reports whether e is to end, and something of it runs that another agent of this machine has started.
func (e *entry) isStray(d driver.Driver) bool {
	if e.have != "" || !e.listed || e.busy || !e.work.Stop && !e.work.Halt {
		return false
	}
	strays, ok := d.(driver.StrayFinder)
	return ok && strays.HasStray(e.work.Instance)
}

// isWanted reports whether e should run according to the zone's newest list.
func (e *entry) isWanted() bool { return e.listed && !e.work.Stop }

// hostLedger is the agent's knowledge of one host.
type hostLedger struct {
	driver     driver.Driver
	listed     bool   // its list has been received
	generation uint64 // of that list: when it changed last
	current    uint64 // it is the zone's list of this generation too; see ledger.isCurrent
	entries    map[api.InstanceID]*entry
}

// ledger holds the wanted and the actual instances, and derives the next actions. It has
// no side effects: no call, no clock. Its owner guards it with a mutex.
type ledger struct {
	hosts map[api.HostID]*hostLedger
	every map[api.InstanceID][]*entry // the entries of an instance, of one host each
	known map[driver.Driver]bool      // drivers whose list has been received
	again map[driver.Driver]bool      // drivers that must be listed once more
	after uint64                      // generation to ask for next
	seq   uint64                      // counts driver calls that have ended
	calls int                         // driver calls that are under way
	lanes [actions][]*entry           // in order of arrival
	say   []*entry                    // with something to report, in order of arrival

	absent []*entry // were to be stopped and are not here, for the journal

	acks     uint64        // counts acknowledgements
	lapses   uint64        // counts expiries of fences
	shortest time.Duration // lower bound of all fences; 0: there is none
	soonest  time.Time     // lower bound of all deadlines of notices; zero: there is none
	recheck  bool          // an entry with a fence or a notice has changed
}

// question is a request for lists, with the state of the ledger at that time.
type question struct{ after, lapses, acks uint64 }

// nextQuestion returns the next request for lists.
func (b *ledger) nextQuestion() question { return question{b.after, b.lapses, b.acks} }

// newLedger returns a ledger of the hosts in ids; drivers has their drivers in order.
func newLedger(ids []api.HostID, drivers []driver.Driver) *ledger {
	b := &ledger{
		hosts: map[api.HostID]*hostLedger{}, every: map[api.InstanceID][]*entry{},
		known: map[driver.Driver]bool{}, again: map[driver.Driver]bool{},
	}
	for i, id := range ids {
		b.hosts[id] = &hostLedger{driver: drivers[i], entries: map[api.InstanceID]*entry{}}
	}
	return b
}

// servesHosts reports whether these are the hosts of the ledger.
func (b *ledger) servesHosts(ids []api.HostID) bool {
	for _, id := range ids {
		if b.hosts[id] == nil {
			return false
		}
	}
	return len(ids) == len(b.hosts)
}

// decideAction returns the action that e needs now. An agent acts only on a host whose
// list it has received, and only after its driver has been listed.
func (b *ledger) decideAction(e *entry) action {
	h := b.hosts[e.host]
	if h == nil || h.entries[e.work.Instance] != e || e.busy || !h.listed || !b.known[h.driver] {
		return nothing
	}
	switch {
	case e.isDoomed():
		return kill
	case e.mustEnd():
		return halt
	case e.mustRun() && !e.stale && !b.isElsewhere(e):
		return start
	case e.isWanted() && e.have == api.StatusActive && !slices.Equal(e.attached, e.work.Volumes):
		return attach
	case e.isWanted() || e.isGone():
		return nothing
	case e.listed && e.work.Notice != nil && e.have == api.StatusActive:
		return e.decideNotice()
	}
	return stop
}

// isElsewhere reports whether e's instance is, or may be, on another host of this
// agent: a moved instance starts at its new host when it is gone from the old one.
func (b *ledger) isElsewhere(e *entry) bool {
	return slices.ContainsFunc(b.every[e.work.Instance], func(o *entry) bool {
		return o != e && (o.busy || o.isDoomed() || !o.isGone())
	})
}

// queueEntry puts e into the lane of its next action.
func (b *ledger) queueEntry(e *entry) {
	if a := b.decideAction(e); a != nothing && !e.queued[a] {
		e.queued[a] = true
		b.lanes[a] = append(b.lanes[a], e)
	}
}

// placeEntry queues e after any change to it: in a lane or among the reports, or removes
// it from the ledger.
func (b *ledger) placeEntry(e *entry) {
	h := b.hosts[e.host]
	if h == nil || h.entries[e.work.Instance] != e {
		return // it was forgotten while it was among the reports
	}
	if e.isStray(h.driver) && b.known[h.driver] {
		e.have = api.StatusActive
	}
	// A stop of an instance that is not here is already done.
	if e.listed && e.work.Stop && e.have == "" && !e.busy && !e.isDoomed() && b.known[h.driver] {
		e.have = api.StatusDeleted
		b.absent = append(b.absent, e)
	}
	// One that is to be stopped and is not here, as after a move, is stopped already.
	if e.isWanted() && e.work.Halt && e.isGone() && !e.busy && !e.isDoomed() && b.known[h.driver] {
		e.have, e.fault, e.runs = api.StatusShutoff, "", 0
	}
	b.recheck = b.recheck || e.work.Fence > 0 || !e.due.IsZero()
	for _, o := range b.every[e.work.Instance] { // another host may be waiting for e's change
		b.queueEntry(o)
	}
	if b.mustReport(e) && !e.saying {
		e.saying = true
		b.say = append(b.say, e)
	}
	if !e.listed && !e.busy && !e.isDoomed() && !b.mustReport(e) && e.isGone() {
		b.forgetEntry(h, e)
	}
}

// forgetEntry removes e from the ledger.
func (b *ledger) forgetEntry(h *hostLedger, e *entry) {
	id := e.work.Instance
	delete(h.entries, id)
	b.every[id] = slices.DeleteFunc(b.every[id], func(o *entry) bool { return o == e })
	if len(b.every[id]) == 0 {
		delete(b.every, id)
	}
}

// mustReport reports whether e must be reported to the zone. An instance about to be
// stopped is reported only once it is gone, and one that is wanted here again, or being
// started, is no longer reported gone. What its owner has ended or started is reported when that is done.
func (b *ledger) mustReport(e *entry) bool {
	if e.isDoomed() || e.have == "" || e.have == e.told && e.fault == e.toldFault && e.restarted == e.toldAgain {
		return false
	}
	if e.have == api.StatusDeleted {
		return !e.isWanted() && !e.busy
	}
	return e.isWanted() && !e.mustRun() && !e.mustEnd()
}

// nextEntry returns the next entry for action a and marks it busy, or returns nil.
func (b *ledger) nextEntry(a action) *entry {
	for len(b.lanes[a]) > 0 {
		e := b.lanes[a][0]
		b.lanes[a][0] = nil
		b.lanes[a] = b.lanes[a][1:]
		e.queued[a] = false
		if b.decideAction(e) == a {
			e.busy = true
			b.calls++
			return e
		}
	}
	b.lanes[a] = nil
	return nil
}

// hasCalls reports whether driver calls are due or under way.
func (b *ledger) hasCalls() bool {
	return b.calls > 0 || slices.ContainsFunc(b.lanes[:], func(lane []*entry) bool { return len(lane) > 0 })
}

// endCall ends the driver call for e with its present state.
func (b *ledger) endCall(e *entry, have api.Status, fault string) {
	b.seq++
	e.busy, e.seq, e.have, e.fault = false, b.seq, have, fault
	h := b.hosts[e.host]
	switch {
	case h == nil || h.entries[e.work.Instance] != e: // from an earlier ledger, unknown to this one
		for d := range b.known {
			b.again[d] = true
		}
		return
	case e.doubt:
		b.again[h.driver] = true
	}
	b.calls--
	e.doubt = false
	b.placeEntry(e)
}

// applyLists takes over the lists of one answer to a question, which came at an instant of the
// monotonic clock. It returns the hosts in it that this agent does not serve. If an answer has
// changes of a list that this agent does not have, all lists are requested.
func (b *ledger) applyLists(work api.AgentWorkload, asked question, came time.Time) (strange []api.HostID) {
	gap := false
	for _, hw := range work.Hosts {
		h := b.hosts[hw.Host]
		switch {
		case h == nil:
			strange = append(strange, hw.Host)
		case h.listed && hw.Generation < h.generation: // overtaken
		case hw.Since > 0 && !b.isCurrent(h, hw.Since):
			gap = true
		default:
			h.listed, h.generation, h.current = true, hw.Generation, max(h.current, work.Generation)
			b.setList(h, hw, asked, came)
		}
	}
	switch {
	case gap:
		b.after = 0
	case b.after == asked.after && b.lapses == asked.lapses: // it has not been reset since
		b.after = max(b.after, work.Generation)
	}
	return strange
}

// knowsLists reports whether the lists of all hosts have been received.
func (b *ledger) knowsLists() bool {
	for _, h := range b.hosts {
		if !h.listed {
			return false
		}
	}
	return true
}

// isCurrent reports whether the list of h is the one that the zone had at a generation, or a later
// one. All lists are those of the generation to ask for next, unless that was reset; then
// each is at least that of the last answer with it.
func (b *ledger) isCurrent(h *hostLedger, generation uint64) bool {
	return h.listed && max(b.after, h.current) >= generation
}

// beginTerm prepares for a new term: its generations cannot be compared with those of
// earlier terms, so all lists are requested again.
func (b *ledger) beginTerm() {
	b.after = 0
	for _, h := range b.hosts {
		h.generation, h.current = 0, 0
	}
}

// setList makes hw, which came at an instant, the list of h, or applies the changes in it.
func (b *ledger) setList(h *hostLedger, hw api.HostWorkload, asked question, came time.Time) {
	before := hw.Gone
	if hw.Since == 0 {
		before = slices.Sorted(maps.Keys(h.entries)) // sorted: the order of stops
	}
	for _, id := range before {
		if e := h.entries[id]; e != nil {
			e.listed = false
		}
	}
	for _, w := range hw.Instances {
		e := b.entryOf(h, hw.Host, w.Instance)
		if w.Stay != e.work.Stay {
			e.told = "" // nothing has been reported of this stay
		}
		e.listed, e.work = true, w
		b.setDeadline(e, came)
		e.stale = e.lapse > asked.lapses
		if w.Stop && e.told == api.StatusDeleted && e.ack <= asked.acks {
			e.told = "" // the zone has moved it here again since, and away again
		}
		if w.Fence > 0 {
			b.shortest = min(cmp.Or(b.shortest, w.Fence), w.Fence)
		}
		b.placeEntry(e)
	}
	for _, id := range before {
		if e := h.entries[id]; e != nil && !e.listed {
			b.placeEntry(e)
		}
	}
}

func (b *ledger) entryOf(h *hostLedger, host api.HostID, id api.InstanceID) *entry {
	e := h.entries[id]
	if e == nil {
		e = &entry{host: host, work: api.Workload{Instance: id}}
		h.entries[id] = e
		b.every[id] = append(b.every[id], e)
	}
	return e
}

// applyStates takes over the list of d. mark is b.seq from before d was listed: an
// instance with a driver call at that time is left alone, and d is listed again
// afterwards if that may have hidden something. It returns the instances that have ended
// since they were last seen running, and those on hosts that this agent does not serve.
func (b *ledger) applyStates(d driver.Driver, mark uint64, states []driver.State) (ended, strange []driver.State) {
	b.known[d] = true
	present := make(map[*entry]bool, len(states))
	for _, s := range states {
		h := b.hosts[s.Host]
		if h == nil || h.driver != d {
			strange = append(strange, s)
			continue
		}
		e := b.entryOf(h, s.Host, s.Instance)
		present[e] = true
		if e.busy {
			e.doubt = true
			continue
		}
		if e.seq > mark {
			b.again[d] = b.again[d] || e.have != s.Status
			continue
		}
		if e.have != s.Status && s.Status != api.StatusActive && !e.isDoomed() {
			ended = append(ended, s)
		}
		e.have, e.fault, e.attached, e.runs = s.Status, s.Fault, s.Volumes, s.Runs
	}
	for _, host := range slices.Sorted(maps.Keys(b.hosts)) {
		if h := b.hosts[host]; h.driver == d {
			b.forgetMissing(h, mark, present)
		}
	}
	return ended, strange
}

// forgetMissing removes the entries of h that are no longer present, and places the others. It also holds for what has a driver call,
// which sets what comes of it at its end, or leaves it as it is found here.
func (b *ledger) forgetMissing(h *hostLedger, mark uint64, present map[*entry]bool) {
	for _, id := range slices.Sorted(maps.Keys(h.entries)) {
		e := h.entries[id]
		lost := e.have == api.StatusActive || e.have == api.StatusShutoff
		if lost && !present[e] && e.seq <= mark {
			e.have, e.fault = "", ""
		}
		b.placeEntry(e)
	}
}

// pendingReports returns at most limit reports, the oldest first. They stay pending until
// they are acknowledged; until then the zone's status of them is uncertain, because a
// report may arrive although its acknowledgement does not.
func (b *ledger) pendingReports(limit int) []api.InstanceReport {
	due := slices.IndexFunc(b.say, b.mustReport)
	if due < 0 {
		due = len(b.say)
	}
	b.dropReports(due)
	items := make([]api.InstanceReport, 0, min(limit, len(b.say)))
	for i := 0; i < len(b.say) && len(items) < limit; i++ {
		if e := b.say[i]; b.mustReport(e) {
			e.told, e.toldFault = "", ""
			items = append(items, api.InstanceReport{
				Host: e.host, Instance: e.work.Instance, Status: e.have, Fault: e.fault, Stay: e.work.Stay,
				Restarted: e.restarted, Reason: e.reason,
			})
		}
	}
	return items
}

// dropReports removes the first n pending reports.
func (b *ledger) dropReports(n int) {
	for _, e := range b.say[:n] {
		e.saying = false
	}
	b.say = slices.Delete(b.say, 0, n)
}

// noteAcked records that the zone has accepted these reports.
func (b *ledger) noteAcked(items []api.InstanceReport) {
	b.acks++
	for _, r := range items {
		h := b.hosts[r.Host]
		if h == nil {
			continue
		}
		if e := h.entries[r.Instance]; e != nil && e.work.Stay == r.Stay {
			e.told, e.toldFault, e.toldAgain, e.ack = r.Status, r.Fault, r.Restarted, b.acks
		}
	}
	waiting := slices.Clone(b.say)
	b.dropReports(len(b.say))
	for _, e := range waiting {
		b.placeEntry(e)
	}
}

// markUntold marks all entries as unreported, so that all are reported again.
func (b *ledger) markUntold() {
	for _, host := range slices.Sorted(maps.Keys(b.hosts)) {
		h := b.hosts[host]
		for _, id := range slices.Sorted(maps.Keys(h.entries)) {
			e := h.entries[id]
			e.told, e.toldFault = "", ""
			b.placeEntry(e)
		}
	}
}
