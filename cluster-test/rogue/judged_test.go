package rogue

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/internal/codec"
)

// Of the boots of others, so many may be asked to be held by a child that holds nothing.
const (
	judgedBoots = 150
	judgedMax   = 15 // those under way at first, and one now and then
)

// TestFewMeetAChildThatHoldsNothing: a child that offers all that is asked for at the lowest price, and does not
// hold it, is asked last from the first time on, whatever it says when it is asked for a hold.
func TestFewMeetAChildThatHoldsNothing(t *testing.T) {
	if *forFlag > 0 {
		t.Skip("it would disturb what TestRogues measures")
	}
	t.Parallel()
	w := newWorld(t)
	var warm load // so that it is known how long children usually take
	for n := range bootsMin {
		warm.boot(w, 1+n%3)
	}
	assert.Empty(t, warm.failed)
	for name, how := range map[string]struct {
		liar *zone // another one each time: what was learnt of one stays for a while
		hold http.HandlerFunc
	}{
		"it is unavailable": {w.thief, func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusServiceUnavailable, api.ErrorBody{Error: api.ErrorDetail{Code: api.CodeUnavailable}})
		}},
		"it says nothing": {w.cheat, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
	} {
		t.Run(name, func(t *testing.T) {
			c := &counted{met: map[api.ReservationID]bool{}, hold: how.hold}
			w.lies[how.liar].start(c.serve)
			defer w.lies[how.liar].stop()
			var l load
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for n := range judgedBoots / callers {
						l.boot(w, 1+n%3)
					}
				})
			}
			wg.Wait()
			t.Log(&l)
			assert.Empty(t, l.failed)
			assert.NotEmpty(t, c.met)
			assert.LessOrEqual(t, len(c.met), judgedMax, "boots of %d", judgedBoots)
		})
	}
}

// counted is a child that offers everything, and counts the boots that ask it for a hold.
type counted struct {
	hold http.HandlerFunc

	mu  sync.Mutex // guards met
	met map[api.ReservationID]bool
}

func (c *counted) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, answerMax))
	if err != nil {
		return
	}
	var q api.Request
	var h api.HoldRequest
	var many api.Holds
	var d api.Decisions
	switch {
	case r.URL.Path == "/zones/select" && codec.Unmarshal(body, &q) == nil:
		answer(w, http.StatusOK, cheap(&q))
	case r.URL.Path == "/zones/holds/many" && codec.Unmarshal(body, &many) == nil:
		c.note(many.Items...)
		c.hold(w, r)
	case (r.URL.Path == "/zones/holds" || r.URL.Path == "/servers") && codec.Unmarshal(body, &h) == nil:
		c.note(h)
		c.hold(w, r)
	case r.Method == http.MethodDelete && strings.HasPrefix(r.URL.Path, "/zones/holds/"):
		answer(w, http.StatusOK, api.HoldAnswer{ID: api.HoldID(strings.TrimPrefix(r.URL.Path, "/zones/holds/")), State: api.HoldReleased})
	case r.URL.Path == "/zones/decisions" && codec.Unmarshal(body, &d) == nil:
		answer(w, http.StatusOK, api.DecisionsAnswer{Codes: make([]api.Code, len(d.Holds))})
	default:
		answer(w, http.StatusServiceUnavailable, api.ErrorBody{Error: api.ErrorDetail{Code: api.CodeUnavailable, Message: "no"}})
	}
}

// note counts the boots of some holds.
func (c *counted) note(hs ...api.HoldRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range hs {
		c.met[hs[i].Request.Reservation] = true
	}
}
