package raftstore

import (
	"sync"
	"time"
)

// countdownSlices is the number of slices of a countdown.
const countdownSlices = 10

// countdown is a time limit on what a process waits for while it runs. A process that
// is stopped, or whose machine is, uses up one slice of it at the most: what it waits
// for may have come meanwhile, and it could not see it.
type countdown struct {
	mu    sync.Mutex // guards timer and left
	timer *time.Timer
	left  int // slices to come; none are left when it was stopped or has ended
}

// startCountdown calls f after d, in a goroutine of its own, unless it is stopped.
func startCountdown(d time.Duration, f func()) *countdown {
	p := &countdown{left: countdownSlices}
	slice := d / countdownSlices
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(slice, func() {
		if p.countSlice(slice) {
			f()
		}
	})
	return p
}

// countSlice counts a slice that has passed, and reports whether it was the last.
func (p *countdown) countSlice(slice time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left--; p.left > 0 {
		p.timer.Reset(slice)
	}
	return p.left == 0 // less if it was stopped
}

// stopWait ends the wait. It reports whether it came in time.
func (p *countdown) stopWait() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer.Stop()
	in := p.left > 0
	p.left = 0
	return in
}
