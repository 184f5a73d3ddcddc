package sim

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"berth/api"
)

// books record what really happens on all hosts of a federation, and hold at once
// what must hold on hosts whatever zones think.
type books struct {
	fail func(format string, args ...any)
	late func(api.InstanceID) bool // its window is over, and it is being ended
	left func(api.InstanceID) int  // how often its zone has moved it

	mu    sync.Mutex // guards what follows
	runs  map[api.InstanceID]running
	past  []stay                   // what has run
	last  map[api.InstanceID]begun // where each was started last, also what is gone
	roam  map[api.InstanceID]bool  // what had a fence, also what is gone
	used  map[api.HostID]api.Resources
	sent  map[api.InstanceID]int // starts on the same host, after moves away from it and back
	moved int                    // starts on another host than before
	again int                    // starts on the same host, after a fence
	tight int                    // starts on a host that was full but for what was being ended there
}

// running is one instance on one host.
type running struct {
	host  api.HostID
	need  api.Resources
	since api.Instant
}

// begun is where an instance was started, after so many moves and orders to run again.
type begun struct {
	host  api.HostID
	moves int
	runs  uint64
}

func newBooks(fail func(string, ...any)) *books {
	return &books{
		fail: fail, runs: map[api.InstanceID]running{}, last: map[api.InstanceID]begun{},
		roam: map[api.InstanceID]bool{}, used: map[api.HostID]api.Resources{}, sent: map[api.InstanceID]int{},
	}
}

// started is asked before each real start of an instance. One that has run is
// started again only on another host, where its fence has struck, where it was moved
// away from and back to before it was started elsewhere, or once for each order of its owner.
func (b *books) started(host api.HostID, w api.Workload) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, ok := b.runs[w.Instance]; ok {
		b.fail("instance %s starts on host %s and runs on %s", w.Instance, host, at.host)
	}
	now := begun{host, b.left(w.Instance), w.Runs}
	switch last, ran := b.last[w.Instance]; {
	case ran && w.Volume != "":
		b.fail("volume %s was on host %s, and is made on %s", w.Instance, last.host, host)
	case ran && last.host != host:
		b.moved++
	case ran && w.Runs > last.runs: // ordered
	case ran && w.Fence > 0:
		b.again++
	case ran && now.moves >= last.moves+2:
		b.sent[w.Instance]++
	case ran:
		b.fail("instance %s is started on %s again", w.Instance, host)
	}
	b.last[w.Instance] = now
	if w.Fence > 0 {
		b.roam[w.Instance] = true
	}
	b.runs[w.Instance] = running{host, w.Resources, api.InstantOf(time.Now())}
	if b.used[host] == nil {
		b.used[host] = api.Resources{}
	}
	for c, n := range w.Resources {
		b.used[host][c] += n
		room, has := shape[c]
		if !has || b.used[host][c] <= room.Capacity() {
			continue // of what no host has, a pool or a part gives
		}
		if b.used[host][c]-b.lateOn(host, c) > room.Capacity() {
			b.fail("host %s runs %d of %s, and has %d", host, b.used[host][c], c, room.Capacity())
		}
		b.tight++
	}
	return nil
}

// lateOn returns what is taken on a host by what is being ended because its lifetime
// is over: its room is free from that moment, and it may need seconds.
func (b *books) lateOn(host api.HostID, c api.ResourceClass) (sum int64) {
	for id, r := range b.runs {
		if r.host == host && b.late(id) {
			sum += r.need[c]
		}
	}
	return sum
}

// stopped is asked before each real stop.
func (b *books) stopped(id api.InstanceID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.runs[id]
	if _, ran := b.last[id]; !ok && ran {
		return nil // its owner has stopped it
	}
	if !ok {
		return fmt.Errorf("instance %s does not run", id)
	}
	delete(b.runs, id)
	b.past = append(b.past, r.stay(id, api.InstantOf(time.Now())))
	for c, n := range r.need {
		b.used[r.host][c] -= n
	}
	return nil
}

// at returns where an instance really runs.
func (b *books) at(id api.InstanceID) (api.HostID, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.runs[id]
	return r.host, ok
}

// roams returns what may be started elsewhere when its host is lost.
func (b *books) roams() map[api.InstanceID]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.roam)
}

// ranOn adds to all what was started last on a host.
func (b *books) ranOn(h api.HostID, all map[api.InstanceID]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, at := range b.last {
		if at.host == h {
			all[id] = true
		}
	}
}

func (b *books) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.runs)
}

func (b *books) names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for id := range b.runs {
		out = append(out, string(id))
	}
	return out
}
