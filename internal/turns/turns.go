// Package turns shares what one process can do at once between the parties that ask for it: so many pieces of work run at a
// time, and those that wait have their turns by queue, so that a party with much work does not delay the others. It knows
// nothing of the work, and decides nothing about capacity.
package turns

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// mixedFor is for how long the processors are shared after two parties have taken turns one after the other. A party alone has
// nobody to leave room for, and its work costs less the more of it is done at once.
const mixedFor = time.Second

// quickRise is the room that a quick turn makes for others.
const quickRise = 0.25

// keepBelow is the share below which processors are so short that turns are kept.
const keepBelow = 0.5

// Queue is work that is done in order of arrival: what one party has of one kind.
type Queue struct {
	Party string
	Kind  string // work of one kind does not delay that of another; "" for all
}

// Config is what turns are made of.
type Config struct {
	AtOnce int            // turns that are taken at a time, while all is well; at least 1
	Least  int            // of AtOnce that may be taken however small the share is; at least 1 is
	Lasts  time.Duration  // after which a turn ends though its work goes on; 0 for never
	Share  func() float64 // of AtOnce that may be taken while several parties have work, from 0 to 1; nil for all
	// Keep says that no turn ends by itself while the share is below keepBelow: work that goes on for longer than
	// Lasts then waits for a processor, and the more of it begins, the less of it ends.
	Keep bool
	// Most, if it is more than AtOnce, is how many turns are taken at a time when there is much work and a turn of it
	// ends within Quick: each one that does, while others wait, makes room for a quarter of another, and each that does
	// not takes the room of one back.
	Most  int
	Quick time.Duration
	Now   func() time.Time
}

// Turns are the turns of one kind of work. Its methods may be called concurrently.
type Turns struct {
	conf Config

	mu      sync.Mutex // guards what follows
	taken   int
	more    float64                   // turns that may be taken beside conf.AtOnce
	last    string                    // the party that asked for the newest turn
	mixed   time.Time                 // when a party asked for a turn after another one
	next    []Queue                   // those in which work waits, in the order of their turns
	waiting map[Queue][]chan struct{} // what waits in each, in order of arrival; none is empty
}

// New returns turns of which none is taken.
func New(c Config) *Turns { return &Turns{conf: c, waiting: map[Queue][]chan struct{}{}} }

// Take waits for a turn of a queue until ctx ends, and then returns false. Otherwise the caller calls Leave when its work has
// ended.
func (t *Turns) Take(ctx context.Context, q Queue) (*Turn, bool) {
	turn := &Turn{turns: t, queue: q}
	return turn, turn.Again(ctx)
}

// Waiting returns how many pieces of work wait for a turn.
func (t *Turns) Waiting() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, of := range t.waiting {
		n += len(of)
	}
	return n
}

// enter queues a piece of work, and returns what is closed when it has its turn.
func (t *Turns) enter(q Queue) (turn chan struct{}) {
	turn = make(chan struct{})
	t.mu.Lock()
	defer t.mu.Unlock()
	if q.Party != t.last {
		t.last, t.mixed = q.Party, t.conf.Now()
	}
	if len(t.waiting[q]) == 0 {
		t.next = append(t.next, q)
	}
	t.waiting[q] = append(t.waiting[q], turn)
	t.startNext()
	return turn
}

// endTurn ends a turn, and begins the next.
func (t *Turns) endTurn() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken--
	t.startNext()
}

// noteWork follows how long the work of one turn took.
func (t *Turns) noteWork(took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case len(t.waiting) == 0:
		t.more = 0
	case took < t.conf.Quick:
		t.more = max(0, min(t.more+quickRise, float64(t.conf.Most-t.conf.AtOnce)))
	default:
		t.more = max(0, t.more-1)
	}
}

// withdraw takes work out that waits. It returns false if it has its turn.
func (t *Turns) withdraw(q Queue, turn chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting[q], turn)
	if i < 0 {
		return false
	}
	t.keepWaiting(q, slices.Delete(t.waiting[q], i, i+1))
	if _, waits := t.waiting[q]; !waits {
		t.next = slices.DeleteFunc(t.next, func(n Queue) bool { return n == q })
	}
	return true
}

// startNext gives free turns to the queues in which work waits, one after the other. The caller holds the lock.
func (t *Turns) startNext() {
	for len(t.next) > 0 && t.taken < t.atOnce() {
		q := t.next[0]
		t.next = t.next[1:]
		of := t.waiting[q]
		t.taken++
		close(of[0])
		if t.keepWaiting(q, of[1:]); len(of) > 1 {
			t.next = append(t.next, q)
		}
	}
}

// keepWaiting sets what waits in a queue. The caller holds the lock.
func (t *Turns) keepWaiting(q Queue, turns []chan struct{}) {
	if len(turns) == 0 {
		delete(t.waiting, q)
		return
	}
	t.waiting[q] = turns
}

// atOnce returns how many turns may be taken now. The caller holds the lock.
func (t *Turns) atOnce() int {
	if t.conf.Share == nil || t.conf.Now().Sub(t.mixed) >= mixedFor {
		return t.conf.AtOnce + int(t.more)
	}
	return max(1, t.conf.Least, int(t.conf.Share()*float64(t.conf.AtOnce)))
}

// mustKeep reports whether turns end only with their work now.
func (t *Turns) mustKeep() bool {
	return t.conf.Keep && t.conf.Share != nil && t.conf.Share() < keepBelow
}

// Turn is one turn of a queue, or those that one piece of work has one after the other. Its methods are for one
// goroutine at a time.
type Turn struct {
	turns *Turns
	queue Queue
	leave func() // ends it; nil before the first
}

// Leave ends the turn, if it has not ended. A nil Turn has.
func (t *Turn) Leave() {
	if t != nil && t.leave != nil {
		t.leave()
	}
}

// Again waits for another turn until ctx ends, and then returns false. The one before has ended.
func (t *Turn) Again(ctx context.Context) bool {
	came := t.turns.enter(t.queue)
	select {
	case <-came:
	case <-ctx.Done():
		if t.turns.withdraw(t.queue, came) {
			return false
		}
	}
	if ctx.Err() != nil { // both came at once, and nobody waits for the work
		t.turns.endTurn()
		return false
	}
	t.leave = t.turns.startTurn()
	return true
}

// startTurn returns what ends a turn that begins now, and ends it after its time.
func (t *Turns) startTurn() (leave func()) {
	var over atomic.Bool
	end := sync.OnceFunc(func() { over.Store(true); t.endTurn() })
	began, d := t.conf.Now(), t.conf.Lasts
	if d <= 0 {
		return sync.OnceFunc(func() { t.noteWork(t.conf.Now().Sub(began)); end() })
	}
	var look func()
	look = func() {
		if !over.Load() && t.mustKeep() {
			time.AfterFunc(d, look)
			return
		}
		end()
	}
	timer := time.AfterFunc(d, look)
	return sync.OnceFunc(func() { timer.Stop(); t.noteWork(t.conf.Now().Sub(began)); end() })
}
