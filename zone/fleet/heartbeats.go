package fleet

import (
	"strings"
	"sync"
	"time"

	"berth/api"
)

// heartbeats records when this leader last heard from each agent, and from which folder of which machine. It is only a hint and
// not needed for replay: its consequences are proposed.
type heartbeats struct {
	mu    sync.Mutex // guards what follows
	since time.Time
	began api.Instant // the same, in the zone's time
	last  map[api.AgentID]time.Time
	told  map[api.AgentID]string // the addresses of the zone's nodes that an agent was told last
	home  map[api.AgentID]string
	about map[api.AgentID]About
	given map[api.AgentID]api.Instant // the zone's time in the newest list that an agent was answered with
}

func newHeartbeats() heartbeats {
	return heartbeats{
		last: map[api.AgentID]time.Time{}, told: map[api.AgentID]string{}, home: map[api.AgentID]string{}, about: map[api.AgentID]About{},
		given: map[api.AgentID]api.Instant{},
	}
}

func (b *heartbeats) resetAll(now time.Time, began api.Instant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.since, b.began = now, began
	clear(b.last)
	clear(b.home)
	clear(b.told)
	clear(b.about)
	clear(b.given)
}

// knowsAddresses reports whether an agent was told these addresses last, by this leader. One that this leader has told nothing knows
// them from its leader before.
func (b *heartbeats) knowsAddresses(a api.AgentID, addresses []string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := strings.Join(addresses, " ")
	if told, ok := b.told[a]; ok {
		return told == now
	}
	b.told[a] = now
	return true
}

func (b *heartbeats) noteAddresses(a api.AgentID, addresses []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told[a] = strings.Join(addresses, " ")
}

func (b *heartbeats) noteBeat(a api.AgentID, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last[a] = now
}

// moveHome notes the home of an agent that calls, and reports whether it may call from there: not while it was heard from
// another home within grace.
func (b *heartbeats) moveHome(a api.AgentID, home string, now time.Time, grace time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	last, heard := b.last[a]
	if was := b.home[a]; was != "" && was != home && heard && now.Sub(last) <= grace {
		return false
	}
	b.home[a] = home
	return true
}

func (b *heartbeats) noteGiven(a api.AgentID, at api.Instant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.given[a] = at
}

// lastGiven returns the zone's latest time of which an agent can have been given a list. What leaders before have
// given, and what polls that began at one of them still give, this one does not know.
func (b *heartbeats) lastGiven(a api.AgentID) api.Instant {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.given[a], b.began.Add(EvacuateAfter))
}

func (b *heartbeats) noteAbout(a api.AgentID, about About) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.about[a] = about
}

func (b *heartbeats) aboutOf(a api.AgentID) About {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.about[a]
}

// leaveHome forgets the home of an agent, whose next call may come from anywhere.
func (b *heartbeats) leaveHome(a api.AgentID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.home, a)
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
