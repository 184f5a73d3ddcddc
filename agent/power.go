package agent

import (
	"context"

	"berth/api"
	"berth/internal/crash"
)

// mustEnd reports whether e runs and must not: its owner has it stopped, or has ordered another run.
func (e *entry) mustEnd() bool {
	return e.isWanted() && e.have == api.StatusActive && (e.work.Halt || e.runs < e.work.Runs)
}

// mustRun reports whether e is to be started: nothing of it is here, or what is here has ended and its
// owner has ordered another run since.
func (e *entry) mustRun() bool {
	return e.isWanted() && !e.work.Halt && (e.isGone() || e.have != api.StatusActive && e.runs < e.work.Runs)
}

// haltInstance ends one instance and keeps what it has. It is repeated until the driver confirms that
// nothing of it runs.
func (a *Agent) haltInstance(ctx context.Context, e *entry, t task) {
	a.writeJournal(eventHalt, t.host, t.work.Instance, "")
	a.conf.Crash.At(crash.AgentStopping)
	limited, cancel := context.WithTimeout(ctx, stopTimeout)
	err := t.driver.Halt(limited, t.work.Instance)
	cancel()
	if err != nil {
		a.resolveCall(ctx, e, t, err)
		return
	}
	a.conf.Crash.At(crash.AgentStopped)
	a.writeJournal(eventHalted, t.host, t.work.Instance, "")
	a.editLedger(func(*ledger) { e.attached = nil })
	a.endCall(e, api.StatusShutoff, "")
}
