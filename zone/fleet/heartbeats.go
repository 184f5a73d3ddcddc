package fleet

import (
	"sync"
	"time"

	"berth/api"
)

// heartbeats records when this leader last heard from each agent. It is only a hint and
// not needed for replay: its consequences are proposed.
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

// silentFor returns how long this leader has not heard from an agent.
func (b *heartbeats) silentFor(a api.AgentID, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	last, ok := b.last[a]
	if !ok {
		last = b.since
	}
	return now.Sub(last)
}

// isKnown reports whether this leader has ever heard from the agent.
func (b *heartbeats) isKnown(a api.AgentID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.last[a]
	return ok
}

// lastBeat returns when an agent was last heard from, or zero if it was not.
func (b *heartbeats) lastBeat(a api.AgentID) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last[a]
}
