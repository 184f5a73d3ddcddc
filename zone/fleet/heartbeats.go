package fleet

import (
	"sync"
	"time"

	"berth/api"
)

// heartbeats remembers when each agent was last heard, on this leader. It is a hint
// that is never needed to replay a decision: what follows from it is proposed.
type heartbeats struct {
	mu    sync.Mutex // guards since and last
	since time.Time
	last  map[api.AgentID]time.Time
}

func (b *heartbeats) resetAll(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.since = now
	clear(b.last)
}

func (b *heartbeats) noteBeat(a api.AgentID, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last[a] = now
}

// silentFor returns for how long an agent was not heard by this leader.
func (b *heartbeats) silentFor(a api.AgentID, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	last, ok := b.last[a]
	if !ok {
		last = b.since
	}
	return now.Sub(last)
}

// isKnown reports whether this leader has heard the agent at all.
func (b *heartbeats) isKnown(a api.AgentID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.last[a]
	return ok
}
