package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"berth/api"
	"berth/api/rest"
)

// Limits of an event stream.
const (
	streamLineMax = 64 << 10         // bytes of one line
	streamSilence = 45 * time.Second // without a byte, three heartbeats, before it counts as broken
)

// EventsQuery selects events.
type EventsQuery struct {
	After       string // id of an event, or "now"; "" for the oldest that the zone keeps
	Follow      bool   // wait for more, until the context ends
	Kinds       []string
	Reservation api.ReservationID
	Lease       api.LeaseID
	Server      api.InstanceID
	// Nodes are addresses of further nodes of the zone. When a stream ends, it goes on at the
	// next one.
	Nodes []string
}

// Events returns the events of the zone that the caller may see, in order: those of his
// project, or of that of InProject, and for an admin without one all. It goes on behind the
// last event whenever a stream ends, at the same node or the next one, so that none is missed
// or repeated; an event of kind gap says where the zone itself does not keep some any more.
//
// The sequence ends after the events that there are now, or with Follow when ctx ends. It ends
// with an error, the only one, when a zone refuses the call, or without Follow when it could
// not be read to its end.
func (c *Client) Events(ctx context.Context, q EventsQuery) iter.Seq2[rest.Event, error] {
	return func(yield func(rest.Event, error) bool) {
		s := &eventStream{c: c, query: q, bases: c.nodes.inTurn(), after: q.After, yield: yield}
		for _, base := range q.Nodes {
			parsed, err := parseAddr(base)
			if err != nil {
				yield(rest.Event{}, err)
				return
			}
			s.bases = append(s.bases, parsed)
		}
		if err := s.readAll(ctx); err != nil {
			yield(rest.Event{}, err)
		}
	}
}

// readAll reads one stream after the other, each behind the one before.
func (s *eventStream) readAll(ctx context.Context) error {
	var pause pauses
	for failed := 0; ; {
		before := s.after
		done, err := s.readOnce(ctx)
		switch {
		case done:
			return nil
		case ctx.Err() != nil:
			return s.endWith(ctx)
		case err != nil && (!isPassing(err) || !s.query.Follow && failed+1 >= AttemptsMax):
			return err
		}
		if failed++; err == nil || s.after != before {
			failed = 1
		}
		s.bases = append(s.bases[1:], s.bases[0])
		if pause.waitAfter(ctx, failed, retryAfter(err)) != nil {
			return s.endWith(ctx)
		}
	}
}

// endWith returns how the sequence ends when ctx does: as it should if it is followed, and else
// too early.
func (s *eventStream) endWith(ctx context.Context) error {
	if s.query.Follow {
		return nil
	}
	return unreachedError(ctx, s.bases[0], "client.Events", context.Cause(ctx))
}

// eventStream is a sequence of streams that go on behind each other.
type eventStream struct {
	c     *Client
	query EventsQuery
	bases []string // of nodes; the first one is next
	after string   // id of the last event
	yield func(rest.Event, error) bool
}

// readOnce reads one stream. done is true when the sequence is over.
func (s *eventStream) readOnce(ctx context.Context) (done bool, err error) {
	const op = "client.Events"
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(s.c.timeout, func() { cancel(errSilent) })
	defer silence.Stop()
	node := s.bases[0]
	target, err := s.c.targetOf(s.call())
	if err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, node+target, http.NoBody)
	if err != nil {
		return false, api.Wrap(api.CodeInvalid, op, "the request cannot be made", err)
	}
	s.c.signRequest(req)
	req.Header.Set("Accept", rest.MediaEvents)
	if s.after != "" && s.after != s.query.After {
		req.Header.Set(api.HeaderLastEventID, s.after)
	}
	res, err := s.c.http.Do(req)
	if err != nil {
		return false, unreachedError(ctx, node, op, err)
	}
	defer func() { _ = res.Body.Close() }() // read to its end, or given up
	if res.StatusCode/100 != 2 {
		body, _ := io.ReadAll(io.LimitReader(res.Body, AnswerMaxBytes)) // what came of it
		return false, readRefusal(op, res, body)
	}
	stopped, err := s.readEvents(res.Body, func() { silence.Reset(streamSilence) })
	switch {
	case stopped, err == nil && !s.query.Follow:
		return true, nil
	case err != nil && api.CodeOf(err) == api.CodeInternal:
		return false, unreachedError(ctx, node, op, err)
	}
	return false, err
}

// errSilent is the cause of the end of a stream without heartbeats.
var errSilent = errors.New("the stream has fallen silent")

// call returns the call of one stream.
func (s *eventStream) call() call {
	q := routeCall("client.Events", "GET /events")
	q.query = s.c.whoseQuery()
	set := func(name, value string) {
		if value != "" {
			q.query.Set(name, value)
		}
	}
	set("after", s.query.After)
	set("kind", strings.Join(s.query.Kinds, ","))
	set("reservation_id", string(s.query.Reservation))
	set("lease_id", string(s.query.Lease))
	set("server_id", string(s.query.Server))
	if !s.query.Follow {
		set("follow", strconv.FormatBool(false))
	}
	return q
}

// readEvents reads the lines of one stream. stopped is true when the caller wants no more.
func (s *eventStream) readEvents(body io.Reader, alive func()) (stopped bool, err error) {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, streamLineMax)
	id, data := "", ""
	for lines.Scan() {
		alive()
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch value = strings.TrimPrefix(value, " "); name {
		case "id":
			id = value
		case "data":
			data = value
		}
		if lines.Text() != "" {
			continue
		}
		if data != "" {
			var e rest.Event
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				return false, strangeError("client.Events", fmt.Errorf("reading event %s: %w", id, err))
			}
			if !s.yield(e, nil) {
				return true, nil
			}
		}
		if id != "" {
			s.after = id
		}
		id, data = "", ""
	}
	return false, lines.Err()
}
