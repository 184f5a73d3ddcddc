package federation

import (
	"sync"
	"time"
)

// Limits of calls by somebody who is not known yet and shows a join token. They count
// only calls with tokens that this node has never seen: those that it was given good
// tokens for are never turned away for the sake of others.
const (
	lookupsAtOnce    = 8  // unknown tokens that are looked up with a majority at one time
	lookupsPerSecond = 16 // and within one second
)

// lookupLimit bounds how often a caller without any right makes this node ask a majority.
type lookupLimit struct {
	mu       sync.Mutex // guards the fields below
	second   time.Time  // the one that made counts
	made     int
	underWay int
}

// beginLookup reports whether one more may begin at a time.
func (c *lookupLimit) beginLookup(at time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.Sub(c.second) >= time.Second || at.Before(c.second) {
		c.second, c.made = at, 0
	}
	if c.underWay >= lookupsAtOnce || c.made >= lookupsPerSecond {
		return false
	}
	c.underWay++
	c.made++
	return true
}

func (c *lookupLimit) endLookup() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underWay--
}
