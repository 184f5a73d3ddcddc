package federation

import (
	"sync"
	"time"
)

// Limits of unauthenticated calls with a join token. They count only calls with tokens
// that this node has never seen, so that callers with valid tokens are never refused
// because of others.
const (
	lookupsAtOnce    = 8  // concurrent lookups of unknown tokens with a majority
	lookupsPerSecond = 16 // lookups within one second
)

// lookupLimit bounds how often unauthenticated callers can make this node ask a
// majority.
type lookupLimit struct {
	mu       sync.Mutex // guards the fields below
	second   time.Time  // the second that made counts
	made     int
	underWay int
}

// beginLookup reports whether another lookup may begin at now.
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
