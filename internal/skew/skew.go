// Package skew measures by how much a clock is ahead of another one, from times that the other one shows in answers.
//
// It must never read a clock, or correct one.
package skew

import (
	"sync"
	"time"
)

const (
	// Far is by how much a clock may differ before that is worth a warning, beyond what cannot be measured.
	Far = 500 * time.Millisecond
	// Window is the time after which a measurement is replaced by any newer one, and forgotten if there is none after twice that.
	Window = time.Minute
)

// Skew is by how much a clock is ahead of another one, and by how much that may be wrong either way.
type Skew struct {
	Ahead time.Duration // negative if it is behind
	Error time.Duration // not negative
}

// Of returns the skew of a clock to another one that showed theirs between two of its own times.
func Of(sent, theirs, got time.Time) Skew {
	half := got.Sub(sent) / 2
	return Skew{sent.Add(half).Sub(theirs), max(half, 0)}
}

// IsFar reports whether the clocks differ by more than Far for certain.
func (s Skew) IsFar() bool { return s.Ahead.Abs()-s.Error > Far }

// Best keeps the most exact of the measurements of one clock. The zero value has none. Its methods may be called concurrently.
type Best struct {
	mu   sync.Mutex // guards all
	skew Skew
	at   time.Time
}

// Note takes a measurement.
func (b *Best) Note(s Skew, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at.IsZero() || s.Error <= b.skew.Error || now.Sub(b.at).Abs() > Window {
		b.skew, b.at = s, now
	}
}

// Skew returns the most exact measurement of the last Window, or the newest one; false if that is more than two of them old.
func (b *Best) Skew(now time.Time) (Skew, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.skew, !b.at.IsZero() && now.Sub(b.at).Abs() <= 2*Window
}
