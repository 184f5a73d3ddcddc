package saga

import (
	"sync"

	"berth/api"
)

// turns lets so many boots be worked on at once. Those that wait get a turn by project, one project after the
// other, so that one with many boots does not delay the others. Its methods may be called concurrently.
type turns struct {
	mu      sync.Mutex // guards what follows
	free    int
	next    []api.ProjectID                   // those that wait, in the order of their turns
	waiting map[api.ProjectID][]chan struct{} // what each waits for, in order of arrival; none is absent
}

// newTurns returns turns of which none is taken.
func newTurns(atOnce int) *turns {
	return &turns{free: atOnce, waiting: map[api.ProjectID][]chan struct{}{}}
}

// take waits for the turn of a boot of a project. The caller calls leave once.
func (t *turns) take(p api.ProjectID) {
	turn := make(chan struct{})
	t.mu.Lock()
	if len(t.waiting[p]) == 0 {
		t.next = append(t.next, p)
	}
	t.waiting[p] = append(t.waiting[p], turn)
	t.startNext()
	t.mu.Unlock()
	<-turn
}

// leave ends a turn.
func (t *turns) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free++
	t.startNext()
}

// startNext gives a free turn to the first boot of the next project, which is the last one then. The caller
// holds the lock.
func (t *turns) startNext() {
	if t.free == 0 || len(t.next) == 0 {
		return
	}
	p := t.next[0]
	t.next = t.next[1:]
	of := t.waiting[p]
	t.free--
	close(of[0])
	if len(of) == 1 {
		delete(t.waiting, p)
		return
	}
	t.waiting[p] = of[1:]
	t.next = append(t.next, p)
}
