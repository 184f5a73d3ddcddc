// Package events streams the events of a zone over HTTP, as server-sent events. A stream
// belongs to no node: the id of its last event goes on at any other.
//
// It decides neither who may see what, which is zone/events, nor who a caller is. It keeps
// nothing for a reader: one who is too slow is dropped, and resumes.
package events

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/events"
)

// Limits of streams.
const (
	StreamsMax       = 256              // open ones of one node
	StreamsCallerMax = 16               // open ones of one user in one project
	HeartbeatEvery   = 15 * time.Second // between bytes of a stream without events
	writeTimeout     = 10 * time.Second // of one event
	atOnce           = 100              // events between two looks at who the caller is
	lookEvery        = time.Second      // at the caller, the leader and the end of the process
	catchUpMax       = 10 * time.Second // for an event that this node has not seen yet
	leaderlessMax    = 10 * time.Second // without a leader, before a stream ends
	retryAfter       = time.Second      // that readers should wait before they come back
)

// Config holds what the streams of one node need.
type Config struct {
	Zone    *zone.Zone
	Led     func() bool     // whether the zone has a leader, as far as this node knows
	Closing <-chan struct{} // closed when the process is about to end
}

// Streams are the open streams of one node. Its methods may be called concurrently.
type Streams struct {
	conf Config

	mu    sync.Mutex // guards the fields below
	open  int
	users map[user]int
}

type user struct {
	project api.ProjectID
	user    api.UserID
}

// New returns the streams of a node, of which none is open.
func New(c Config) *Streams { return &Streams{conf: c, users: map[user]int{}} }

// Ask is what a caller asks for.
type Ask struct {
	Caller api.Caller
	Watch  events.Watch
	After  *api.EventID // nil for the oldest event that is kept
	New    bool         // only what happens from now on; After is not used
	Once   bool         // the stream ends after what there is now
	Admits func() bool  // whether the caller may still see what he asked for
}

// Serve writes a stream until the caller is gone, is admitted no more or reads too slowly,
// or this node ends or loses its zone. It returns an error only if it has written nothing.
func (s *Streams) Serve(w http.ResponseWriter, r *http.Request, a Ask) error {
	leave, err := s.enter(user{a.Caller.Project, a.Caller.User})
	if err != nil {
		return err
	}
	defer leave()
	v, err := s.reach(r.Context(), a.After)
	if err != nil {
		return err
	}
	st := &stream{Streams: s, ask: a, w: w, flow: http.NewResponseController(w)}
	switch {
	case a.New:
		st.at = v.EventsEnd()
	case a.After != nil:
		st.at = *a.After
	default:
		st.at = v.EventsBegin()
	}
	_ = st.flow.SetReadDeadline(time.Time{}) // the request has been read; not every server has deadlines
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set(api.HeaderIndex, strconv.FormatUint(v.Index(), 10)) // of the first view that is read
	h.Set("X-Accel-Buffering", "no")                          // proxies pass events on at once
	w.WriteHeader(http.StatusOK)
	st.run(r.Context(), v)
	return nil
}

// enter counts a stream, or refuses one too many.
func (s *Streams) enter(u user) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.users[u] >= StreamsCallerMax:
		return nil, api.Errorf(api.CodeOverloaded, "you have %d open event streams on this node, which is the limit; close one", StreamsCallerMax)
	case s.open >= StreamsMax:
		return nil, api.Errorf(api.CodeUnavailable, "this node has %d open event streams, which is the limit; try another node", StreamsMax)
	}
	s.open++
	s.users[u]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
		if s.users[u]--; s.users[u] == 0 {
			delete(s.users, u)
		}
	}, nil
}

// Open returns the number of open streams.
func (s *Streams) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// reach returns a view that has an event, if it is one of the zone's present history. Another
// node may have shown it before it was here.
func (s *Streams) reach(ctx context.Context, id *api.EventID) (*state.State, error) {
	v := s.conf.Zone.View()
	if !s.conf.Led() {
		return nil, api.Errorf(api.CodeUnavailable, "this node does not hear of a leader; try another node")
	}
	if id == nil || id.Index <= v.Index() {
		return v, nil
	}
	ctx, cancel := context.WithTimeout(ctx, catchUpMax)
	defer cancel()
	later, err := s.conf.Zone.Store().Wait(ctx, id.Index-1)
	if err == nil {
		return later, nil
	}
	if v = s.conf.Zone.View(); v.EventsEnd().History != id.History {
		return v, nil // the log of this zone has begun anew
	}
	return nil, api.Errorf(api.CodeUnavailable, "this node has not reached event %s yet; try another node", id)
}

// stream is one open stream.
type stream struct {
	*Streams
	ask   Ask
	w     http.ResponseWriter
	flow  *http.ResponseController
	at    api.EventID // the caller has everything up to here
	wrote time.Time   // when the last bytes were written
	led   time.Time   // when the zone last had a leader
}

// run writes what there is, and then what comes.
func (s *stream) run(ctx context.Context, v *state.State) {
	if s.write(fmt.Sprintf("retry: %d\n", retryAfter.Milliseconds())) != nil || s.tellPosition() != nil {
		return
	}
	for s.goesOn(ctx) {
		list, to := s.ask.Watch.Read(v, s.at, atOnce)
		for i := range list {
			if s.tell(&list[i]) != nil {
				return
			}
		}
		more := len(list) == atOnce
		switch {
		case len(list) > 0 && s.flush() != nil:
			return
		case s.ask.Once && !more:
			s.at = to
			_ = s.tellPosition() // the stream is over
			return
		}
		if s.at = to; more {
			continue
		}
		if s.conf.Zone.Now().Sub(s.wrote) >= HeartbeatEvery && s.tellPosition() != nil {
			return
		}
		v = s.await(ctx)
	}
}

// await returns the next view with something for the caller, or that of a moment later.
func (s *stream) await(ctx context.Context) *state.State {
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	v, err := s.conf.Zone.Store().WaitFor(ctx, s.ask.Watch.Topic(), func(v *state.State) bool { return s.ask.Watch.Any(v, s.at) })
	if err != nil {
		return s.conf.Zone.View()
	}
	return v
}

// goesOn reports whether the stream may go on.
func (s *stream) goesOn(ctx context.Context) bool {
	now := s.conf.Zone.Now()
	if s.led.IsZero() || s.conf.Led() {
		s.led = now
	}
	select {
	case <-s.conf.Closing:
		return false
	default:
		return ctx.Err() == nil && now.Sub(s.led) < leaderlessMax && s.ask.Admits()
	}
}

// tell writes one event.
func (s *stream) tell(e *rest.Event) error {
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("writing event %s: %w", e.ID, err)
	}
	return s.write(fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", e.ID, e.Kind, data))
}

// tellPosition tells the caller's side how far it is, without an event. A caller that comes
// back with that id misses nothing, and is not told of events that were dropped before it.
func (s *stream) tellPosition() error {
	if err := s.write(fmt.Sprintf(":\nid: %s\n\n", s.at)); err != nil {
		return err
	}
	return s.flush()
}

// flush sends what was written. In HTTP/2 a deadline would end a stream without events.
func (s *stream) flush() error {
	if err := s.flow.Flush(); err != nil {
		return err
	}
	_ = s.flow.SetWriteDeadline(time.Time{}) // not every server has deadlines
	return nil
}

// write writes bytes of the stream, within the time that a reader may take.
func (s *stream) write(text string) error {
	s.wrote = s.conf.Zone.Now()
	_ = s.flow.SetWriteDeadline(s.wrote.Add(writeTimeout)) // not every server has deadlines
	_, err := s.w.Write([]byte(text))
	return err
}
