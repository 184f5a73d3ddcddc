package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"berth/agent/driver"
	"berth/api"
	"berth/internal/backoff"
	"berth/internal/crash"
)

// How long one driver call may take before it is repeated.
const (
	startTimeout = time.Minute
	stopTimeout  = 2 * time.Minute

	attachTimeout = 10 * time.Second
)

// watchDriver takes over the list of d, at first and after every change, until ctx ends.
func (a *Agent) watchDriver(ctx context.Context, d driver.Driver) {
	r := retry{rand: a.conf.Rand}
	for ctx.Err() == nil {
		if err := a.askDriver(ctx, d); err != nil {
			delay := r.nextDelay()
			a.conf.Log.Warn("driver cannot list its instances", "err", err, "retry_in", delay)
			backoff.Sleep(ctx, delay)
			continue
		}
		r.endFailures()
		select {
		case <-ctx.Done():
			return
		case <-d.Changed():
		case <-a.relist[d]:
		}
	}
}

// askDriver lists d once and takes over the result.
func (a *Agent) askDriver(ctx context.Context, d driver.Driver) error {
	var mark uint64
	var asked *ledger
	a.editLedger(func(b *ledger) { mark, asked = b.seq, b })
	states, err := d.List(ctx)
	if err != nil {
		return err
	}
	var ended, strange []driver.State
	a.editLedger(func(b *ledger) {
		if b != asked {
			signal(a.relist[d]) // the hosts have changed since
			return
		}
		ended, strange = b.applyStates(d, mark, states)
	})
	for _, s := range ended {
		a.writeJournal(eventEnded, s.Host, s.Instance, s.Fault)
	}
	return a.meetStrange(ctx, d, strange)
}

// meetStrange handles instances of hosts that are not served here. They are left alone, except
// those that are killed: those of hosts that the zone has written off, and those with a fence, as no
// zone supervises them here any more.
func (a *Agent) meetStrange(ctx context.Context, d driver.Driver, strange []driver.State) error {
	alone, lost := 0, a.lostHosts()
	for _, s := range strange {
		switch {
		case slices.Contains(lost, s.Host):
			a.writeJournal(eventStop, s.Host, s.Instance, "its host was written off")
		case s.Fenced && s.Status == api.StatusActive:
			a.writeJournal(eventFenced, s.Host, s.Instance, "its host is not served here any more")
		default:
			alone++
			continue
		}
		if err := d.Kill(ctx, s.Instance); err != nil {
			return fmt.Errorf("killing instance %s: %w", s.Instance, err)
		}
		a.writeJournal(eventGone, s.Host, s.Instance, "")
	}
	if alone > 0 {
		a.conf.Log.Warn("instances of hosts that are not served here are left alone", "instances", alone)
	}
	return nil
}

// lostHosts returns the hosts of this agent that the zone has written off.
func (a *Agent) lostHosts() []api.HostID {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lost
}

// carryOut carries out the actions of one lane, with a number of calls at once, until ctx
// ends and every call is over.
func (a *Agent) carryOut(ctx context.Context, lane action, calls int, do func(context.Context, *entry, task)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, calls)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		call, end, e, t := a.takeEntry(ctx, lane)
		if e == nil {
			return
		}
		wg.Go(func() {
			defer end(nil)
			began := a.conf.Now()
			do(call, e, t)
			a.measures.actions.NoteTime(actionNames[lane], a.conf.Now().Sub(began))
			<-slots
		})
	}
}

// task is a copy of the action that an entry needs. The entry itself belongs to the ledger.
type task struct {
	driver driver.Driver
	host   api.HostID
	work   api.Workload
	have   api.Status
	fails  int
	due    time.Time // see entry
	lapsed bool
}

// left returns the time until the deadline of the task's notice, at least 0.
func (t *task) left(now time.Time) time.Duration { return max(t.due.Sub(now), 0) }

// takeEntry waits for the next entry of a lane. It returns the context of its driver call, which ends when the entry
// is doomed, and at the latest with end; or no entry when ctx has ended.
func (a *Agent) takeEntry(ctx context.Context, lane action) (call context.Context, end context.CancelCauseFunc, e *entry, t task) {
	for ctx.Err() == nil {
		a.editLedger(func(b *ledger) {
			if e = b.nextEntry(lane); e != nil {
				t = task{driver: b.hosts[e.host].driver, host: e.host, work: e.work, have: e.have, fails: e.fails, due: e.due, lapsed: e.lapsed}
				call, end = context.WithCancelCause(ctx)
				e.cut = func() { end(errDoomed) }
			}
		})
		if e != nil {
			return call, end, e, t
		}
		select {
		case <-a.wake[lane]:
		case <-ctx.Done():
		}
	}
	return nil, nil, nil, t
}

// startInstance starts one instance. One that cannot be started is in ERROR and stays so;
// if the outcome is unknown, the driver is listed.
func (a *Agent) startInstance(ctx context.Context, e *entry, t task) {
	detail := ""
	if t.work.Fence != 0 {
		detail = "fence " + t.work.Fence.String()
	}
	if t.have != "" && t.have != api.StatusDeleted { // it has ended here, and more runs are wanted
		a.writeJournal(eventOrdered, t.host, t.work.Instance, "run "+strconv.FormatUint(t.work.Runs+1, 10))
	}
	a.writeJournal(eventStart, t.host, t.work.Instance, detail)
	a.conf.Crash.At(crash.AgentStarting)
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	err := t.driver.Start(limited, t.host, t.work)
	late := limited.Err() != nil
	cancel()
	switch {
	case err == nil:
		a.conf.Crash.At(crash.AgentStarted)
		a.writeJournal(eventRunning, t.host, t.work.Instance, "")
		a.editLedger(func(*ledger) {
			e.attached, e.runs = nil, t.work.Runs
			a.noteRestart(e, t)
		})
		a.endCall(e, api.StatusActive, "")
	case late || errors.Is(err, driver.ErrEnded):
		a.resolveCall(ctx, e, t, err)
	default:
		fault := driver.Reason(err)
		a.conf.Log.Warn("instance cannot be started", "host", t.host, "instance", t.work.Instance, "err", err)
		a.writeJournal(eventFailed, t.host, t.work.Instance, fault)
		a.editLedger(func(*ledger) {
			e.runs = t.work.Runs
			a.noteRestart(e, t)
		})
		a.endCall(e, api.StatusError, fault)
	}
}

// noteRestart records that e was started anew, if nothing was here of it because that was killed unasked.
// The caller holds the ledger.
func (a *Agent) noteRestart(e *entry, t task) {
	id := e.work.Instance
	if a.severed[id] == e.host {
		e.severed = api.RestartAgent
	}
	delete(a.severed, id)
	if e.severed != "" && t.have == "" {
		e.restarted, e.reason = api.InstantOf(a.conf.Now()), e.severed
	}
	e.severed = ""
}

// attachVolumes lets an instance use the volumes of its list. It is repeated, after a pause, until
// its driver has attached all of them or the list has others.
func (a *Agent) attachVolumes(ctx context.Context, e *entry, t task) {
	limited, cancel := context.WithTimeout(ctx, attachTimeout)
	err := t.driver.Attach(limited, t.work.Instance, t.work.Volumes)
	cancel()
	r := retry{rand: a.conf.Rand, fails: t.fails}
	if err == nil {
		r.endFailures()
	} else {
		d := r.nextDelay()
		a.conf.Log.Warn("volumes cannot be attached", "host", t.host, "instance", t.work.Instance, "err", err, "retry_in", d)
		_ = backoff.Sleep(ctx, d) // without its context, it is to be killed or the agent ends
	}
	a.editLedger(func(b *ledger) {
		if e.fails = r.fails; err == nil {
			e.attached = t.work.Volumes
		}
		b.endCall(e, e.have, e.fault)
	})
}

// stopInstance stops one instance. It is repeated until the driver confirms that nothing
// of it is left.
func (a *Agent) stopInstance(ctx context.Context, e *entry, t task) {
	a.writeJournal(eventStop, t.host, t.work.Instance, "")
	a.conf.Crash.At(crash.AgentStopping)
	limited, cancel := context.WithTimeout(ctx, stopTimeout)
	err := t.driver.Stop(limited, t.work.Instance)
	cancel()
	if err != nil {
		a.resolveCall(ctx, e, t, err)
		return
	}
	a.conf.Crash.At(crash.AgentStopped)
	a.writeJournal(eventGone, t.host, t.work.Instance, "")
	a.endCall(e, api.StatusDeleted, "")
}

// killInstance kills one instance whose fence or notice has expired. It is repeated until the
// driver confirms that nothing of it is left. The end of a fence is not reported, because the
// zone did not end the instance: the next list decides about it.
func (a *Agent) killInstance(ctx context.Context, e *entry, t task) {
	if t.lapsed {
		a.writeJournal(eventFenced, t.host, t.work.Instance, "no answer of the zone for "+t.work.Fence.String())
	} else {
		a.writeJournal(eventKilled, t.host, t.work.Instance, "its notice is over")
	}
	a.conf.Crash.At(crash.AgentStopping)
	limited, cancel := context.WithTimeout(ctx, stopTimeout)
	err := t.driver.Kill(limited, t.work.Instance)
	cancel()
	if err != nil {
		a.resolveCall(ctx, e, t, err)
		return
	}
	a.conf.Crash.At(crash.AgentStopped)
	a.writeJournal(eventGone, t.host, t.work.Instance, "")
	a.editLedger(func(b *ledger) {
		have := api.Status("")
		if e.overdue {
			have = api.StatusDeleted
		} else if t.have == api.StatusActive {
			e.severed = api.RestartFenced
		}
		e.fails, e.lapsed, e.overdue = 0, false, false
		b.endCall(e, have, "")
	})
}

// resolveCall resolves a call of unknown outcome from the driver's list. It pauses first,
// longer with each consecutive failure, and returns without a result only if the agent
// ends or the instance's fence or notice expires: then the instance is killed in any case.
func (a *Agent) resolveCall(ctx context.Context, e *entry, t task, err error) {
	r := retry{rand: a.conf.Rand, fails: t.fails}
	for ctx.Err() == nil {
		d := r.nextDelay()
		a.conf.Log.Warn("driver call without an outcome", "host", t.host, "instance", t.work.Instance, "err", err, "retry_in", d)
		if backoff.Sleep(ctx, d) {
			if err = a.askOutcome(ctx, e, t, r.fails); err == nil {
				return
			}
		}
	}
	if errors.Is(context.Cause(ctx), errDoomed) {
		a.editLedger(func(b *ledger) { b.endCall(e, e.have, e.fault) })
	}
}

// askOutcome ends the call for e with what its driver lists.
func (a *Agent) askOutcome(ctx context.Context, e *entry, t task, fails int) error {
	states, err := t.driver.List(ctx)
	if err != nil {
		return err
	}
	s := driver.State{}
	if i := slices.IndexFunc(states, func(s driver.State) bool { return s.Instance == t.work.Instance }); i >= 0 {
		s = states[i]
	}
	a.editLedger(func(b *ledger) {
		e.runs = s.Runs
		b.endCall(e, s.Status, s.Fault)
		e.fails = fails
	})
	return nil
}

// endCall ends the call for e with its present state.
func (a *Agent) endCall(e *entry, have api.Status, fault string) {
	a.editLedger(func(b *ledger) {
		e.fails = 0
		b.endCall(e, have, fault)
	})
}

// writeJournal adds a line to the journal.
func (a *Agent) writeJournal(event string, host api.HostID, id api.InstanceID, detail string) {
	a.journal.writeLine(line{Term: a.fence.highestTerm(), Event: event, Host: host, Instance: id, Detail: detail})
}
