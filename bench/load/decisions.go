package load

import (
	"context"
	"fmt"
	"sync"

	"berth/api"
	"berth/api/client"
)

// decisions follows the events of a zone and tells callers when their boots are decided: one
// stream for all of them.
type decisions struct {
	stop context.CancelFunc
	done chan struct{}

	mu       sync.Mutex // guards what follows
	expected map[api.ReservationID]chan error
	broken   error // the stream has ended
}

// followDecisions starts to follow the decisions that come after it is called. It reads a
// flavor to learn how far the log is.
func followDecisions(ctx context.Context, c *client.Client, flavor api.FlavorID) (*decisions, error) {
	var index uint64
	if _, err := c.Flavor(client.WithAnswer(ctx, func(a client.Answer) { index = a.Index }), flavor); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	d := &decisions{stop: stop, done: make(chan struct{}), expected: map[api.ReservationID]chan error{}}
	go func() { // close waits for it
		defer close(d.done)
		d.follow(ctx, c, fmt.Sprintf("%d-0", index))
	}()
	return d, nil
}

// close ends the stream.
func (d *decisions) close() {
	d.stop()
	<-d.done
}

// expect returns a channel that gets a value when boot id is decided: nil if it is committed.
// The caller calls forget when it waits no longer.
func (d *decisions) expect(id api.ReservationID) (decided <-chan error, forget func()) {
	ch := make(chan error, 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken != nil {
		ch <- d.broken
		return ch, func() {}
	}
	d.expected[id] = ch
	return ch, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.expected, id)
	}
}

func (d *decisions) follow(ctx context.Context, c *client.Client, after string) {
	query := client.EventsQuery{After: after, Follow: true, Kinds: []string{"boot.decided"}}
	var broken error
	for e, err := range c.Events(ctx, query) {
		if err != nil {
			broken = err
			break
		}
		if e.Kind == "gap" {
			broken = api.Errorf(api.CodeInternal, "the zone no longer keeps the events that tell of decisions")
			break
		}
		var failed error
		if e.Code != "" {
			failed = api.Errorf(e.Code, "the boot failed")
		}
		d.tell(e.Reservation, failed)
	}
	if broken == nil {
		broken = api.Errorf(api.CodeUnavailable, "the stream of events has ended")
	}
	d.end(broken)
}

// tell tells the caller of one boot.
func (d *decisions) tell(id api.ReservationID, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ch, ok := d.expected[id]; ok {
		ch <- err
		delete(d.expected, id)
	}
}

// end tells all callers, also future ones, that they will not learn of decisions.
func (d *decisions) end(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken = err
	for id, ch := range d.expected {
		ch <- err
		delete(d.expected, id)
	}
}
