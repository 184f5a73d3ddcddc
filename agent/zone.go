package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	"berth/agent/driver"
	"berth/api"
	"berth/internal/backoff"
	"berth/internal/crash"
	"berth/internal/requestid"
)

// Durations and intervals of calls.
const (
	callTimeout = 15 * time.Second       // longest call, except for polls
	callFirst   = 2 * time.Second        // first call; doubles after each failure
	idlePause   = 100 * time.Millisecond // between an empty answer and the next poll
	gatherMax   = 10 * time.Millisecond  // longest time in which reports are collected
	gatherEach  = time.Millisecond / 2   // of it for each item of the report before, but the first
	beatMin     = 100 * time.Millisecond // shortest beat that a zone can request
	// elsewhereMax is how long an agent that has just been started is told that it runs elsewhere before it ends. One whose
	// machine was restarted is told so until the zone has forgotten where it was, which takes 10 s.
	elsewhereMax = 15 * time.Second
)

// nameCall returns the context of a call of the zone, with an id of its own: the agent and the node that is
// called log it.
func nameCall(ctx context.Context) context.Context {
	return requestid.With(ctx, api.RequestID("req-"+api.NewUUID()))
}

// callZone makes one call and checks the term of its answer: only an answer with the
// highest term seen is valid. term must point into out.
func (a *Agent) callZone(ctx context.Context, path string, timeout time.Duration, in, out any, term *uint64) (err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	addr, sent := a.link.nextAddress(), a.conf.Now()
	defer func() { a.outage.noteCall(addr, err, a.conf.Now()) }()
	err = a.link.postTo(ctx, path, in, out)
	a.noteCall(path, sent, err)
	if errors.Is(err, errElsewhere) && a.isElsewhere(a.conf.Now()) {
		a.end(err)
	}
	if err != nil {
		return err
	}
	raised, err := a.fence.admitTerm(*term)
	if stale, ok := errors.AsType[*staleTermError](err); ok {
		a.conf.Log.WarnContext(ctx, "answer of a lower term refused", "address", addr, "path", path, "term", stale.got, "seen", stale.seen)
		a.journal.writeLine(line{Term: stale.seen, Event: eventRefused, Detail: path + " of a lower term"})
		a.link.leaveAddress(addr)
	}
	if raised {
		a.journal.writeLine(line{Term: *term, Event: eventTerm})
		a.editLedger((*ledger).beginTerm)
	}
	if err == nil {
		a.noteAnswer(sent)
	}
	return err
}

// isElsewhere reports whether an agent that was just told that it runs elsewhere must end: at once if it has served its hosts before,
// and otherwise if it was first told so elsewhereMax ago.
func (a *Agent) isElsewhere(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.elsewhere.IsZero() {
		a.elsewhere = now
	}
	return a.registered || now.Sub(a.elsewhere) >= elsewhereMax
}

// registerAtLast registers the hosts, with as many attempts as needed. It reports whether
// they are registered: otherwise ctx has ended.
func (a *Agent) registerAtLast(ctx context.Context) bool {
	r := retry{rand: a.conf.Rand}
	for ctx.Err() == nil {
		call := nameCall(ctx)
		err := a.register(call, r.nextTimeout())
		if err == nil {
			a.endFailures(call, &r)
			return true
		}
		a.waitAfterFailure(call, &r, "register", err)
	}
	return false
}

func (a *Agent) register(ctx context.Context, timeout time.Duration) error {
	ask := api.AgentRegister{Hosts: make([]api.AgentHost, len(a.conf.Hosts))}
	drivers := make([]driver.Driver, len(a.conf.Hosts))
	for i, h := range a.conf.Hosts {
		ask.Hosts[i], drivers[i] = h.AgentHost, h.Driver
		ask.Hosts[i].Needs = reportedNeeds(h)
	}
	var got api.AgentRegistered
	if err := a.callZone(ctx, api.PathAgentRegister, timeout, ask, &got, &got.Term); err != nil {
		return err
	}
	if len(got.Hosts) != len(ask.Hosts) {
		return api.Errorf(api.CodeInternal, "registered %d hosts and got %d ids", len(ask.Hosts), len(got.Hosts))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.registered = true
	a.beat, a.lost = beatOf(a.conf.Beat, got.Beat), got.Lost
	if a.ledger.servesHosts(got.Hosts) {
		a.ledger.after = 0
		a.ledger.markUntold()
	} else {
		a.ledger = newLedger(got.Hosts, drivers)
	}
	for _, d := range a.drivers {
		signal(a.relist[d])
	}
	a.conf.Log.InfoContext(ctx, "hosts registered", "hosts", len(got.Hosts), "term", got.Term, "beat", a.beat)
	return nil
}

// reportedNeeds returns the needs that a host registers: nil for those that the zone knows
// by the name of the driver, so that nodes of earlier builds, which know no other needs,
// can read the registration.
func reportedNeeds(h Host) *api.Needs {
	needs := h.Driver.Needs()
	if needs == api.UnreportedNeeds(h.AgentHost.Driver) {
		return nil
	}
	return &needs
}

// beatOf returns the shorter of two beats, where 0 means unset, less a quarter for the way
// to the zone.
func beatOf(mine, theirs time.Duration) time.Duration {
	beat := max(mine, theirs)
	if min(mine, theirs) > 0 {
		beat = min(mine, theirs)
	}
	if beat <= 0 {
		beat = BeatDefault
	}
	return max(beat-beat/4, beatMin)
}

// pollWork polls for the lists of work and takes them over, until ctx ends.
func (a *Agent) pollWork(ctx context.Context) {
	r := retry{rand: a.conf.Rand}
	for ctx.Err() == nil {
		ctx := nameCall(ctx)
		var asked question
		a.editLedger(func(b *ledger) { asked = b.nextQuestion() })
		var work api.AgentWorkload
		ask := api.AgentWork{After: asked.after, Wait: a.conf.Wait}
		err := a.callZone(ctx, api.PathAgentWork, a.conf.Wait+callTimeout, ask, &work, &work.Term)
		if err == nil {
			err = work.FillTerms()
		}
		if api.CodeOf(err) == api.CodeNotFound {
			a.conf.Log.WarnContext(ctx, "zone does not know these hosts", "err", err)
			if e := a.register(ctx, callTimeout); e != nil {
				err = e
			}
		}
		if err != nil {
			a.waitAfterFailure(ctx, &r, "work", err)
			continue
		}
		a.noteAsks(work.Asks)
		strange := a.applyWork(work, asked)
		a.keepAddresses(ctx, work.Addresses)
		if err := a.tellStrange(ctx, strange); err != nil {
			a.editLedger(func(b *ledger) { b.after = 0 }) // then the zone names them again
			a.waitAfterFailure(ctx, &r, "register", err)
			continue
		}
		a.endFailures(ctx, &r)
		if len(work.Hosts) == 0 && work.Generation <= asked.after {
			backoff.Sleep(ctx, idlePause)
		}
	}
}

// applyWork takes over one answer and returns its hosts that are not served here.
func (a *Agent) applyWork(work api.AgentWorkload, asked question) (strange []api.HostID) {
	came := a.conf.Now()
	a.editLedger(func(b *ledger) {
		strange = b.applyLists(work, asked, came)
		a.strikeIn(b) // an answer may be old already, and a deadline may have come
	})
	a.forgetOutputs()
	return strange
}

// forgetOutputs has the drivers remove what they keep of instances that were killed and that no list has any more.
func (a *Agent) forgetOutputs() {
	known := false
	a.editLedger(func(b *ledger) { known = b.knowsLists() })
	if !known {
		return
	}
	wanted := func(id api.InstanceID) (is bool) {
		a.editLedger(func(b *ledger) { is = slices.ContainsFunc(b.every[id], (*entry).isWanted) })
		return is
	}
	for _, d := range a.drivers {
		if keeper, ok := d.(driver.OutputKeeper); ok {
			if err := keeper.ForgetOutputs(wanted); err != nil {
				a.conf.Log.Warn("outputs of ended instances cannot be removed", "err", err)
			}
		}
	}
}

// tellStrange registers again if the zone lists work for hosts that are not served here:
// a registration names those that are. It does so once for the same hosts.
func (a *Agent) tellStrange(ctx context.Context, strange []api.HostID) error {
	slices.Sort(strange)
	if len(strange) == 0 || slices.Equal(strange, a.strange) {
		return nil
	}
	a.conf.Log.WarnContext(ctx, "work for hosts that are not served here", "hosts", len(strange), "first", strange[0])
	if err := a.register(ctx, callTimeout); err != nil {
		return err
	}
	a.strange = strange
	return nil
}

// keepAddresses learns the addresses of the zone's nodes, and passes them to Keep if they
// have changed.
func (a *Agent) keepAddresses(ctx context.Context, addresses []string) {
	good := slices.Sorted(slices.Values(a.link.learnAddresses(addresses)))
	if a.conf.Keep == nil || len(good) == 0 || slices.Equal(good, a.kept) {
		return
	}
	if err := a.conf.Keep(good); err != nil {
		a.conf.Log.WarnContext(ctx, "addresses of the zone cannot be kept", "err", err)
		return
	}
	a.kept = good
	a.conf.Log.InfoContext(ctx, "addresses of the zone have changed", "addresses", len(good))
}

// reportStates reports the states of instances to the zone, and sends a beat if there is
// nothing to report, until ctx ends. Unacknowledged reports are repeated. A state is reported at
// once if nothing else is going on; what comes during a call is in the next one.
func (a *Agent) reportStates(ctx context.Context) {
	r := retry{rand: a.conf.Rand}
	beat := time.NewTimer(0) // the first beat is due at once
	defer beat.Stop()
	for ctx.Err() == nil {
		var items []api.InstanceReport
		a.editLedger(func(b *ledger) { items = b.pendingReports(api.ReportsMax) })
		if len(items) == 0 {
			select {
			case <-ctx.Done():
				return
			case <-a.wake[nothing]:
				a.awaitCalls(ctx)
				continue
			case <-beat.C:
			}
		}
		if len(items) > 0 {
			a.conf.Crash.At(crash.AgentReporting)
		}
		var ack api.AgentAck
		begun, call := a.conf.Now(), nameCall(ctx)
		err := a.callZone(call, api.PathAgentReport, r.nextTimeout(), api.AgentReport{Items: a.readable(items)}, &ack, &ack.Term)
		if err != nil {
			beat.Reset(0) // still due
			a.waitAfterFailure(call, &r, "report", err)
			continue
		}
		a.endFailures(call, &r)
		a.noteTrust(ack.Trust)
		if len(items) > 0 {
			a.conf.Crash.At(crash.AgentReported)
		}
		a.editLedger(func(b *ledger) { b.noteAcked(items) })
		beat.Reset(a.beatNow())
		backoff.Sleep(ctx, gatherTime(len(items))-a.conf.Now().Sub(begun))
	}
}

// readable returns reports as the zone can read them. An older one is told of no restarts: what it has acknowledged
// counts as told all the same, or it would be told for ever.
func (a *Agent) readable(items []api.InstanceReport) []api.InstanceReport {
	if a.link.formOfZone() >= api.FormFifth {
		return items
	}
	items = slices.Clone(items)
	for n := range items {
		items[n].Restarted, items[n].Reason = 0, ""
	}
	return items
}

// gatherTime returns how long states are collected from the beginning of a report of n to the next
// one. The more there were, the more will come: then a report of many costs less than many of few.
// What changes less than once in gatherEach is not collected for longer than a call takes.
func gatherTime(n int) time.Duration {
	if n == api.ReportsMax {
		return 0 // there are more
	}
	return min(time.Duration(max(n-1, 0))*gatherEach, gatherMax)
}

// awaitCalls waits, gatherMax at most, until no driver call is due or under way: instances that
// start together are reported together.
func (a *Agent) awaitCalls(ctx context.Context) {
	limit := time.NewTimer(gatherMax)
	defer limit.Stop()
	for a.hasCalls() {
		select {
		case <-ctx.Done():
			return
		case <-limit.C:
			return
		case <-a.wake[nothing]: // as after each call, while there is something to report
		}
	}
}

func (a *Agent) hasCalls() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ledger.hasCalls()
}

func (a *Agent) beatNow() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.beat
}
