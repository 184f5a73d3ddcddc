// Package fake is a driver that starts nothing: it records calls in memory. One of it
// serves thousands of hosts, without goroutines. It is for demonstrations, benchmarks and
// tests of everything above a driver.
package fake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/agent/driver"
	"berth/api"
	"berth/internal/backoff"
)

// ErrInjected is the failure of a start that FailEvery chose.
var ErrInjected = errors.New("injected failure of the fake driver")

// Options control the behaviour of a fake. The zero value does everything at once and
// without failures.
type Options struct {
	StartDelay time.Duration // how long a start takes; at least 0
	StopDelay  time.Duration // how long a stop takes; at least 0
	Stubborn   bool          // instances that a notice asks to end run on; otherwise they end at once
	FailEvery  int           // each n-th start fails with ErrInjected; 0 for none
	// FailStart, FailStop and FailNotify, if set, are called before each start, stop and
	// notice; an error is its outcome. They may be called from several goroutines.
	FailStart  func(host api.HostID, w api.Workload) error
	FailStop   func(id api.InstanceID) error
	FailNotify func(id api.InstanceID) error
}

// Driver is a fake. Use New.
type Driver struct {
	opts    Options
	changed chan struct{}

	turns driver.Turns

	mu     sync.Mutex // guards what follows
	states map[api.InstanceID]driver.State
	told   map[api.InstanceID]driver.Notice
	starts int
}

var _ driver.Driver = (*Driver)(nil)

// New returns a fake that runs nothing yet.
func New(o Options) *Driver {
	return &Driver{opts: o, changed: make(chan struct{}, 1), states: map[api.InstanceID]driver.State{}, told: map[api.InstanceID]driver.Notice{}}
}

// Start records w as running. See driver.Driver.
func (d *Driver) Start(ctx context.Context, host api.HostID, w api.Workload) error {
	leave, err := d.turns.Take(ctx, w.Instance)
	if err != nil {
		return err
	}
	defer leave()
	if known, outcome := d.isKnown(host, w); known {
		return outcome
	}
	if err = pause(ctx, d.opts.StartDelay); err != nil {
		return err
	}
	if d.opts.FailStart != nil {
		err = d.opts.FailStart(host, w)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.starts++
	if err == nil && d.opts.FailEvery > 0 && d.starts%d.opts.FailEvery == 0 {
		err = ErrInjected
	}
	s := driver.State{Host: host, Instance: w.Instance, Status: api.StatusActive, Fenced: w.Fence > 0, Runs: w.Runs}
	if err != nil {
		s.Status, s.Fault = api.StatusError, driver.Reason(err)
	}
	d.states[w.Instance] = s
	return err
}

// isKnown reports whether the instance has a state, and the result of Start for it.
func (d *Driver) isKnown(host api.HostID, w api.Workload) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.states[w.Instance]
	switch {
	case !ok || s.Host == host && s.Status != api.StatusActive && s.Runs < w.Runs:
		return false, nil
	case s.Host != host:
		return true, fmt.Errorf("the instance is on host %s", s.Host)
	case s.Status == api.StatusActive:
		return true, nil
	case s.Status == api.StatusError:
		return true, errors.New(s.Fault)
	}
	return true, driver.ErrEnded
}

// Notify records a notice. See driver.Driver.
func (d *Driver) Notify(ctx context.Context, id api.InstanceID, n driver.Notice) error {
	leave, err := d.turns.Take(ctx, id)
	if err != nil {
		return err
	}
	defer leave()
	if d.opts.FailNotify != nil {
		err = d.opts.FailNotify(id)
	}
	d.mu.Lock()
	_, again := d.told[id]
	runs := d.states[id].Status == api.StatusActive
	if runs && err == nil {
		d.told[id] = n
	}
	d.mu.Unlock()
	if runs && !again && !n.Quiet && !d.opts.Stubborn {
		d.Exit(id, 0)
	}
	return err
}

// Attach records volumes. See driver.Driver.
func (d *Driver) Attach(ctx context.Context, id api.InstanceID, volumes []api.InstanceID) error {
	leave, err := d.turns.Take(ctx, id)
	if err != nil {
		return err
	}
	defer leave()
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.states[id]
	if !ok || s.Status != api.StatusActive {
		return nil
	}
	s.Volumes = nil
	for _, vol := range volumes {
		if d.states[vol].Status == api.StatusActive {
			s.Volumes = append(s.Volumes, vol)
		} else {
			err = fmt.Errorf("volume %s is not here", vol)
		}
	}
	d.states[id] = s
	return err
}

// Notice returns the notice that an instance has, and whether it has one.
func (d *Driver) Notice(id api.InstanceID) (driver.Notice, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, ok := d.told[id]
	return n, ok
}

// Halt ends the instance and remembers it. See driver.Driver.
func (d *Driver) Halt(ctx context.Context, id api.InstanceID) error {
	leave, err := d.turns.Take(ctx, id)
	if err != nil {
		return err
	}
	defer leave()
	d.mu.Lock()
	runs := d.states[id].Status == api.StatusActive
	d.mu.Unlock()
	if !runs {
		return nil
	}
	if err := pause(ctx, d.opts.StopDelay); err != nil {
		return err
	}
	if d.opts.FailStop != nil {
		if err := d.opts.FailStop(id); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.states[id]; s.Status == api.StatusActive {
		s.Status, s.Volumes = api.StatusShutoff, nil
		d.states[id] = s
	}
	delete(d.told, id)
	return nil
}

// Stop forgets the instance. See driver.Driver.
func (d *Driver) Stop(ctx context.Context, id api.InstanceID) error {
	return d.endInstance(ctx, id, d.opts.StopDelay)
}

// Kill is Stop without StopDelay. See driver.Driver.
func (d *Driver) Kill(ctx context.Context, id api.InstanceID) error { return d.endInstance(ctx, id, 0) }

// Severed is empty: instances end with the fake. See driver.Driver.
func (d *Driver) Severed() []driver.State { return nil }

func (d *Driver) endInstance(ctx context.Context, id api.InstanceID, delay time.Duration) error {
	leave, err := d.turns.Take(ctx, id)
	if err != nil {
		return err
	}
	defer leave()
	d.mu.Lock()
	_, ok := d.states[id]
	d.mu.Unlock()
	if !ok {
		return nil
	}
	if err := pause(ctx, delay); err != nil {
		return err
	}
	if d.opts.FailStop != nil {
		if err := d.opts.FailStop(id); err != nil {
			return err
		}
	}
	d.mu.Lock()
	delete(d.states, id)
	delete(d.told, id)
	d.mu.Unlock()
	return nil
}

// List returns the recorded instances, by id.
func (d *Driver) List(context.Context) ([]driver.State, error) {
	d.mu.Lock()
	all := slices.Collect(maps.Values(d.states))
	d.mu.Unlock()
	slices.SortFunc(all, func(a, b driver.State) int {
		return strings.Compare(string(a.Instance), string(b.Instance))
	})
	return all, nil
}

// Changed gets a value after Exit.
func (d *Driver) Changed() <-chan struct{} { return d.changed }

// Needs is nothing: a fake runs any flavor.
func (d *Driver) Needs() api.Needs { return api.Needs{} }

// Describe describes a driver that runs nothing real.
func (d *Driver) Describe() string { return "fake: remembers instances, runs nothing, limits nothing" }

// Exit lets a running instance end by itself with an exit code and reports
// whether it ran.
func (d *Driver) Exit(id api.InstanceID, code int) bool {
	d.mu.Lock()
	s, ok := d.states[id]
	ok = ok && s.Status == api.StatusActive
	if ok {
		s.Status = api.StatusShutoff
		if code != 0 {
			s.Status, s.Fault = api.StatusError, fmt.Sprintf("exit code %d", code)
		}
		d.states[id] = s
	}
	d.mu.Unlock()
	if ok {
		select {
		case d.changed <- struct{}{}:
		default: // a pending value means the same
		}
	}
	return ok
}

// Starts returns the number of starts carried out, including failed ones but not repeats.
func (d *Driver) Starts() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.starts
}

// pause waits for delay or until ctx ends.
func pause(ctx context.Context, delay time.Duration) error {
	if delay > 0 && !backoff.Sleep(ctx, delay) {
		return context.Cause(ctx)
	}
	return nil
}
