package native

import (
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
)

// offered is what a caller reads of a select.
type offered struct {
	Reservation string    `json:"reservation_id"`
	Weights     [][]int64 `json:"weights"`
	Blob        []byte    `json:"blob"`
	ExpiresInMS int64     `json:"expires_in_ms"`
}

func (w *world) estimate(t *testing.T, fields ...string) offered {
	t.Helper()
	var e offered
	before := w.saved(t)
	w.answered(t, call{method: "POST", target: "/zones/select", token: member, body: order(fields...)}, 200, &e)
	require.Equal(t, before, w.saved(t), "a select changes nothing")
	require.NotEmpty(t, e.Blob)
	return e
}

// take is the call that takes a plan up.
func take(e offered, fields ...string) call {
	fields = append([]string{
		fmt.Sprintf(`"blob":%q`, base64.StdEncoding.EncodeToString(e.Blob)), fmt.Sprintf(`"reservation_id":%q`, e.Reservation),
		`"return_reservation_id":true`,
	}, fields...)
	return call{
		method: "POST", target: "/servers", token: member, body: order(fields...),
		head: map[string]string{api.HeaderRequestID: "req-1"},
	}
}

func TestAPlanIsTakenUp(t *testing.T) {
	w := newWorld(t)
	e := w.estimate(t, `"max_count":2`)
	assert.Len(t, e.Weights, 1)
	assert.Len(t, e.Weights[0], 2)
	assert.Equal(t, api.PlanTTLDefault.Milliseconds(), e.ExpiresInMS)
	c := take(e, `"max_count":2`)
	c.head = map[string]string{api.HeaderRequestID: "req-1", api.HeaderIdempotencyKey: "once"}
	var got rest.BootAnswer
	w.answered(t, c, 202, &got)
	assert.Equal(t, e.Reservation, string(got.Reservation))

	before := w.saved(t)
	var again rest.BootAnswer
	w.answered(t, c, 202, &again)
	assert.Equal(t, got, again, "a repeat of the call gives the first answer")
	w.refused(t, take(e, `"max_count":2`), api.CodePlanRefused, api.PlanRefusedMessage) // the same plan in another call
	c.head[api.HeaderIdempotencyKey] = "twice"
	w.refused(t, c, api.CodePlanRefused, api.PlanRefusedMessage)
	assert.Equal(t, before, w.saved(t), "neither changes anything")
	w.refused(t, take(e, `"max_count":2`, `"name":"other"`), api.CodePlanRefused, api.PlanRefusedMessage)
	w.refused(t, take(e, `"max_count":2`, `"min_count":1`), api.CodePlanRefused, api.PlanRefusedMessage)
}

func TestAPlanThatCannotBeUsedIsRefusedWithoutAWord(t *testing.T) {
	clock := epoch
	w := newWorldAt(t, "zone-root", func() time.Time { return clock })
	e := w.estimate(t, `"max_count":2`)
	bad := map[string]call{}
	with := func(name string, edit func(e *offered), fields ...string) {
		changed := e
		changed.Blob = append([]byte(nil), e.Blob...)
		edit(&changed)
		bad[name] = take(changed, append([]string{`"max_count":2`}, fields...)...)
	}
	for i := 0; i < len(e.Blob); i += 1 + len(e.Blob)/40 {
		for _, bit := range []byte{1, 0x80} {
			with(fmt.Sprintf("byte %d ^ %#x", i, bit), func(e *offered) { e.Blob[i] ^= bit })
		}
	}
	with("cut short", func(e *offered) { e.Blob = e.Blob[:len(e.Blob)-1] })
	with("one byte", func(e *offered) { e.Blob = e.Blob[:1] })
	with("longer", func(e *offered) { e.Blob = append(e.Blob, 0) })
	with("too long", func(e *offered) { e.Blob = make([]byte, api.BlobMaxBytes+1) })
	with("noise", func(e *offered) { e.Blob = []byte(strings.Repeat("noise", 100)) })
	with("another reservation", func(e *offered) { e.Reservation = "r-web2" })
	with("a reservation that exists", func(e *offered) { e.Reservation = "r-web" })
	with("another count", func(*offered) {}, `"max_count":1`)
	with("another flavor", func(*offered) {}, `"flavorRef":"huge"`)
	with("another zone", func(e *offered) {
		*e = newWorldAt(t, "zone-else", w.now).estimate(t, `"max_count":2`, fmt.Sprintf(`"reservation_id":%q`, e.Reservation))
	})
	mine := bad["another count"]
	mine.token = other
	bad["another project"] = mine

	var one []byte
	for name, c := range bad {
		w.refused(t, c, api.CodePlanRefused, api.PlanRefusedMessage)
		body := w.do(c).Body.Bytes()
		if one == nil {
			one = body
		}
		assert.Equal(t, string(one), string(body), "%s: no two refusals can be told apart", name)
	}
	clock = epoch.Add(api.PlanTTLDefault)
	w.refused(t, take(e, `"max_count":2`), api.CodePlanRefused, api.PlanRefusedMessage)
	assert.Equal(t, string(one), w.do(take(e, `"max_count":2`)).Body.String())
	clock = clock.Add(-time.Millisecond)
	w.answered(t, take(e, `"max_count":2`), 202, nil)
}

func boots(t *testing.T, w *world) int {
	t.Helper()
	return len(w.store.View().UndecidedBoots())
}

func TestARepeatedBootIsOneBoot(t *testing.T) {
	key := map[string]string{api.HeaderIdempotencyKey: "k-1"}
	for _, target := range []string{"/zones/boot", "/servers"} {
		t.Run(target, func(t *testing.T) {
			w := newWorld(t)
			async := func(fields ...string) string {
				if target == "/servers" {
					fields = append(fields, `"return_reservation_id":true`)
				}
				return order(fields...)
			}
			byKey := call{method: "POST", target: target, token: member, body: async(`"max_count":2`), head: key}
			byID := call{method: "POST", target: target, token: member, body: async(`"reservation_id":"r-mine"`)}
			for _, c := range []call{byKey, byID} {
				var first, again rest.BootAnswer
				w.answered(t, c, 202, &first)
				before := w.saved(t)
				w.answered(t, c, 202, &again)
				assert.Equal(t, first, again)
				assert.Equal(t, before, w.saved(t), "a repeat changes nothing")
			}
			assert.Equal(t, 2, boots(t, w))
			for _, fields := range []string{
				`"max_count":3`, `"name":"other"`, `"min_count":1`, `"flavorRef":"huge"`, `"metadata":{"a":"b"}`, `"reservation_id":"r-else"`,
			} {
				changed := byKey
				changed.body = async(`"max_count":2`, fields)
				w.refused(t, changed, api.CodeConflict, "used for a different request")
			}
			changed := byID
			changed.body = async(`"reservation_id":"r-mine"`, `"max_count":3`)
			w.refused(t, changed, api.CodeConflict, "used for a different request")

			theirs := byKey
			theirs.token = other
			w.answered(t, theirs, 202, nil)
			theirs.body, theirs.head = byID.body, nil
			w.answered(t, theirs, 202, nil)
			assert.Equal(t, 4, boots(t, w), "keys and ids of projects are apart")
		})
	}
}

func TestRepeatsAtOnceMakeOneBoot(t *testing.T) {
	for name, c := range map[string]call{
		"key":         {body: order(`"max_count":3`), head: map[string]string{api.HeaderIdempotencyKey: "k-1"}},
		"reservation": {body: order(`"max_count":3`, `"reservation_id":"r-mine"`)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.method, c.target, c.token = "POST", "/zones/boot", member
			const callers = 64
			bodies := make([]string, callers)
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() { bodies[i] = w.do(c).Body.String() })
			}
			wg.Wait()
			for _, b := range bodies {
				assert.Equal(t, bodies[0], b)
				assert.Contains(t, b, `"reservation_id"`)
			}
			assert.Equal(t, 1, boots(t, w))
		})
	}
}
