package client_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/internal/await"
	"berth/internal/codec"
)

// calls are all calls between zones, as far as the client is concerned.
var calls = map[string]func(ctx context.Context, p *client.Peers, l *api.Link) error{
	"select": func(ctx context.Context, p *client.Peers, l *api.Link) error {
		_, err := p.Select(ctx, l, placementValue)
		return err
	},
	"hold": func(ctx context.Context, p *client.Peers, l *api.Link) error {
		_, err := p.Hold(ctx, l, &api.HoldRequest{})
		return err
	},
	"hold and commit": func(ctx context.Context, p *client.Peers, l *api.Link) error {
		_, err := p.Hold(ctx, l, &api.HoldRequest{Commit: true})
		return err
	},
	"commit": func(ctx context.Context, p *client.Peers, l *api.Link) error {
		_, err := p.Decide(ctx, l, "h", api.DecisionCommit)
		return err
	},
	"abort": func(ctx context.Context, p *client.Peers, l *api.Link) error {
		_, err := p.Decide(ctx, l, "h", api.DecisionAbort)
		return err
	},
	"decision": func(ctx context.Context, p *client.Peers, l *api.Link) error {
		_, err := p.Decision(ctx, l, "h")
		return err
	},
	"end": func(ctx context.Context, p *client.Peers, l *api.Link) error { return p.EndInstance(ctx, l, "i") },
	"info": func(ctx context.Context, p *client.Peers, l *api.Link) error {
		_, err := p.Info(ctx, l)
		return err
	},
	"hello": func(ctx context.Context, p *client.Peers, l *api.Link) error {
		return p.Hello(ctx, l, &api.Hello{})
	},
	"above": func(ctx context.Context, p *client.Peers, l *api.Link) error {
		_, err := p.Above(ctx, l, "z")
		return err
	},
	"below": func(ctx context.Context, p *client.Peers, l *api.Link) error {
		_, err := p.Below(ctx, l)
		return err
	},
	"confirmed changes": func(ctx context.Context, p *client.Peers, l *api.Link) error {
		_, err := p.ConfirmedChanges(ctx, l, 1)
		return err
	},
	"changes": func(ctx context.Context, p *client.Peers, l *api.Link) error {
		_, err := p.Changes(ctx, l, 1, 3*time.Second)
		return err
	},
}

// budget is what the zones give most calls.
const budget = 5 * time.Second

// frozen accepts connections and answers nothing; gone drops what it is sent.
var (
	frozen  = gatewayNode{after: time.Hour}
	gone    = gatewayNode{gone: true}
	refused = gatewayNode{}
	well    = gatewayNode{answer: struct{}{}}
)

// What each call sends: its method, its target and what it is given.
func TestWhatIsSent(t *testing.T) {
	request, hold := *placementValue, api.HoldRequest{ID: "h", Attempt: 2}
	commit := hold
	commit.Commit = true
	for _, c := range []struct {
		do     func(ctx context.Context, p *client.Peers, l *api.Link) error
		target string
		body   any // nil for none
	}{
		{func(ctx context.Context, p *client.Peers, l *api.Link) error {
			_, err := p.Select(ctx, l, &request)
			return err
		}, "POST /zones/select", request},
		{func(ctx context.Context, p *client.Peers, l *api.Link) error {
			_, err := p.Hold(ctx, l, &hold)
			return err
		}, "POST /zones/holds", hold},
		{func(ctx context.Context, p *client.Peers, l *api.Link) error {
			_, err := p.Hold(ctx, l, &commit)
			return err
		}, "POST /servers", commit},
		{calls["commit"], "POST /zones/holds/h/commit", nil},
		{calls["abort"], "DELETE /zones/holds/h", nil},
		{calls["decision"], "GET /zones/holds/h/decision", nil},
		{calls["end"], "DELETE /servers/i", nil},
		{calls["info"], "GET /zones/info", nil},
		{calls["hello"], "POST /zones/hello", api.Hello{}},
		{calls["above"], "POST /zones/above", api.AboveQuestion{Zone: "z"}},
		{calls["below"], "GET /zones/below", nil},
		{calls["confirmed changes"], "GET /zones/changes?after=1&wait=1s&confirmed=true", nil},
		{calls["changes"], "GET /zones/changes?after=1&restored=0&wait=3s", nil},
	} {
		to := &child{nodes: map[string]gatewayNode{"a": well}}
		p, l := peersTo(to, "a")
		require.NoError(t, c.do(t.Context(), p, l), c.target)
		assert.Equal(t, []string{c.target}, to.calls)
		var want []byte
		if c.body != nil {
			b, err := codec.Marshal(c.body)
			require.NoError(t, err)
			want = b
		}
		assert.Equal(t, string(want), string(to.bodies[0]), c.target)
	}
}

// A gateway that is frozen or gone costs a part of one call, whatever the call is,
// and the next call nothing.
func TestOneBadGateway(t *testing.T) {
	for how, bad := range map[string]gatewayNode{"frozen": frozen, "gone": gone, "refusing": refused} {
		for name, do := range calls {
			t.Run(how+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					to := &child{nodes: map[string]gatewayNode{"a": well, "b": well, "c": well}}
					p, l := peersTo(to, "a", "b", "c")
					ctx, cancel := context.WithTimeout(t.Context(), budget)
					defer cancel()
					require.NoError(t, do(ctx, p, l), "a is the one that answered last")
					to.nodes["a"], to.asked = bad, nil
					most := time.Second
					if name == "changes" {
						most += 3 * time.Second
					}
					for range 2 {
						began := time.Now()
						ctx, cancel := context.WithTimeout(t.Context(), budget)
						defer cancel()
						require.NoError(t, do(ctx, p, l))
						assert.LessOrEqual(t, time.Since(began), most)
						most = 0
					}
					assert.Equal(t, []string{"a", "b", "b"}, to.asked)
				})
			})
		}
	}
}

// An address that nobody can be called at costs nothing.
func TestAMalformedAddressIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &child{nodes: map[string]gatewayNode{"b": well}}
		p, l := peersTo(to, "no address", "b")
		began := time.Now()
		require.NoError(t, p.EndInstance(t.Context(), l, "i"))
		assert.Zero(t, time.Since(began))
		assert.Equal(t, []string{"b"}, to.asked)
		p, l = peersTo(to, "no address")
		assert.Equal(t, api.CodeUnavailable, api.CodeOf(p.EndInstance(t.Context(), l, "i")))
	})
}

// Two of three are bad, in all ways: both are found out in one call.
func TestTwoBadGateways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &child{nodes: map[string]gatewayNode{"a": frozen, "b": gone, "c": well}}
		p, l := peersTo(to, "a", "b", "c")
		ctx, cancel := context.WithTimeout(t.Context(), budget)
		defer cancel()
		began := time.Now()
		require.NoError(t, p.EndInstance(ctx, l, "i"))
		assert.Less(t, time.Since(began), 1500*time.Millisecond)
		require.NoError(t, p.EndInstance(ctx, l, "i"))
		assert.Equal(t, []string{"a", "b", "c", "c"}, to.asked)
	})
}

// All are bad: the call ends with the caller's budget, and the most significant error.
func TestAllGatewaysAreBad(t *testing.T) {
	for name, c := range map[string]struct {
		nodes []gatewayNode
		takes time.Duration
		code  api.Code
	}{
		"frozen":                      {[]gatewayNode{frozen, frozen, frozen}, budget, api.CodeTimeout},
		"gone":                        {[]gatewayNode{gone, gone, gone}, budget, api.CodeUnavailable},
		"one may have had it":         {[]gatewayNode{gone, frozen, gone}, budget, api.CodeTimeout},
		"nobody there":                {[]gatewayNode{refused, refused, refused}, 0, api.CodeUnavailable},
		"nobody there, one gone":      {[]gatewayNode{gone, refused, refused}, budget, api.CodeUnavailable},
		"no leader":                   {[]gatewayNode{{code: api.CodeUnavailable}, {code: api.CodeUnavailable}}, 0, api.CodeUnavailable},
		"a leader was lost meanwhile": {[]gatewayNode{{code: api.CodeTimeout}, {code: api.CodeUnavailable}}, 0, api.CodeTimeout},
		"busy":                        {[]gatewayNode{{code: api.CodeOverloaded}, {code: api.CodeUnavailable}}, 0, api.CodeOverloaded},
		"a bug":                       {[]gatewayNode{{code: api.CodeInternal}, {code: api.CodeUnavailable}}, 0, api.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := &child{nodes: map[string]gatewayNode{}}
				var at []string
				for i, n := range c.nodes {
					at = append(at, string(rune('a'+i)))
					to.nodes[at[i]] = n
				}
				p, l := peersTo(to, at...)
				ctx, cancel := context.WithTimeout(t.Context(), budget)
				defer cancel()
				began := time.Now()
				err := p.EndInstance(ctx, l, "i")
				assert.Equal(t, c.code, api.CodeOf(err), "%v", err)
				assert.Equal(t, c.takes, time.Since(began))
				assert.Equal(t, at, to.asked[:len(at)])
				if name == "frozen" {
					require.ErrorContains(t, err, "the zone did not answer in time")
				}
				if c.takes == 0 {
					assert.Len(t, to.asked, len(at), "nobody is asked twice while nobody works")
				}
				synctest.Wait()
				p.Close() // nothing is left of the call
			})
		})
	}
}

// A refusal is an answer: no other endpoint is tried, and the refusing one counts as good.
func TestARefusalIsAnAnswer(t *testing.T) {
	for _, code := range []api.Code{
		api.CodeInvalid, api.CodeForbidden, api.CodeNotFound, api.CodeConflict, api.CodePlanRefused, api.CodeNoCapacity,
	} {
		synctest.Test(t, func(t *testing.T) {
			to := &child{nodes: map[string]gatewayNode{"a": frozen, "b": {code: code}, "c": well}}
			p, l := peersTo(to, "a", "b", "c")
			for range 2 {
				assert.Equal(t, code, api.CodeOf(p.EndInstance(t.Context(), l, "i")))
			}
			assert.Equal(t, []string{"a", "b", "b"}, to.asked)
		})
	}
}

// A gateway that was bad is used again when it is well and needed: after those that
// answered, and after its penalty before those that are still bad.
func TestABadGatewayComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &child{nodes: map[string]gatewayNode{"a": frozen, "b": well}}
		p, l := peersTo(to, "a", "b")
		end := func() (asked []string, took time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), budget)
			defer cancel()
			to.asked = nil
			began := time.Now()
			require.NoError(t, p.EndInstance(ctx, l, "i"))
			return to.asked, time.Since(began)
		}
		end()
		to.nodes["a"], to.nodes["b"] = well, frozen
		asked, took := end()
		assert.Equal(t, []string{"b", "a"}, asked, "it is asked although it was bad a moment ago")
		assert.Equal(t, 500*time.Millisecond, took)
		to.nodes["a"], to.nodes["b"] = frozen, well
		asked, _ = end()
		assert.Equal(t, []string{"a", "b"}, asked)
	})
}

// The penalty doubles with each call that a gateway does not answer, from a second
// to a minute: until it is over, the gateway is asked after all others.
func TestPenaltiesDouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// first returns who is asked first so long after a has failed so often.
		first := func(failures int, after time.Duration) string {
			to := &child{nodes: map[string]gatewayNode{"a": refused, "b": {code: api.CodeUnavailable}}}
			p, l := peersTo(to, "a", "b")
			for range failures {
				require.Error(t, p.EndInstance(t.Context(), l, "i"))
			}
			await.Sleep(after)
			to.asked = nil
			require.Error(t, p.EndInstance(t.Context(), l, "i"))
			return to.asked[0]
		}
		for i, penalty := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
			after := time.Duration(penalty) * time.Second
			assert.Equal(t, "b", first(i+1, after-1))
			assert.Equal(t, "a", first(i+1, after))
		}
		assert.Equal(t, "a", first(100, time.Minute))
	})
}

// A poll that waits for a gateway which other calls have left does not wait for the
// end of its time, and calls that wait for one that has failed do not wait for the end
// of theirs.
func TestOthersNoticeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &child{nodes: map[string]gatewayNode{"a": frozen, "b": frozen, "c": well}}
		p, l := peersTo(to, "a", "b", "c")
		polled := make(chan time.Duration)
		began := time.Now()
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second+budget)
			defer cancel()
			_, err := p.Changes(ctx, l, 1, 3*time.Second)
			assert.NoError(t, err)
			polled <- time.Since(began)
		}()
		synctest.Wait()
		to.nodes["b"] = well
		_, err := p.Select(t.Context(), l, placementValue)
		require.NoError(t, err)
		assert.Equal(t, client.HedgeAfter, <-polled, "another gateway answers selects")
		to.nodes["a"], to.nodes["b"], to.asked = well, frozen, nil
		go func() { assert.NoError(t, p.EndInstance(t.Context(), l, "i")); polled <- 0 }()
		await.Sleep(300 * time.Millisecond)
		began = time.Now()
		go func() { assert.NoError(t, p.EndInstance(t.Context(), l, "j")); polled <- time.Since(began) }()
		assert.ElementsMatch(t, []time.Duration{0, 200 * time.Millisecond}, []time.Duration{<-polled, <-polled}, "another call has found it out")
		assert.Equal(t, []string{"b", "b"}, to.asked[:2])
	})
}

// The patience of a call grows with the usual time of the gateway, so that a slow zone is
// not asked three times for everything.
func TestPatienceGrowsWithTheZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := gatewayNode{answer: struct{}{}, after: 400 * time.Millisecond}
		to := &child{nodes: map[string]gatewayNode{"a": slow, "b": slow}}
		p, l := peersTo(to, "a", "b")
		require.NoError(t, p.EndInstance(t.Context(), l, "i"))
		slow.after = 1500 * time.Millisecond
		to.nodes["a"] = slow
		require.NoError(t, p.EndInstance(t.Context(), l, "i"))
		assert.Equal(t, []string{"a", "a"}, to.asked)
		to.nodes["a"] = frozen
		began := time.Now()
		require.NoError(t, p.EndInstance(t.Context(), l, "i"))
		assert.Equal(t, 2*time.Second+400*time.Millisecond, time.Since(began), "and no more than two seconds")
	})
}

// Each try has what is left of the budget, and says so.
func TestTheBudgetIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &child{nodes: map[string]gatewayNode{"a": frozen, "b": frozen, "c": well}}
		p, l := peersTo(to, "a", "b", "c")
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		require.NoError(t, p.EndInstance(ctx, l, "i"))
		var left []string
		for _, h := range to.heads {
			left = append(left, h.Get(api.HeaderDeadline))
		}
		assert.Equal(t, []string{"300", "200", "100"}, left)
	})
}

// While one gateway hangs, as the old leader does, those that had no leader a moment
// ago are asked again: they have one by now.
func TestThoseWithoutALeaderAreAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		none := gatewayNode{code: api.CodeUnavailable}
		to := &child{nodes: map[string]gatewayNode{"a": frozen, "b": none, "c": {code: api.CodeTimeout}}}
		p, l := peersTo(to, "a", "b", "c")
		ctx, cancel := context.WithTimeout(t.Context(), budget)
		defer cancel()
		time.AfterFunc(1500*time.Millisecond, func() {
			to.mu.Lock()
			defer to.mu.Unlock()
			to.nodes["b"] = well
		})
		began := time.Now()
		require.NoError(t, p.EndInstance(ctx, l, "i"))
		assert.Less(t, time.Since(began), 3*time.Second)
		assert.Equal(t, []string{"a", "b", "c"}, to.asked[:3])
	})
}

// While others hang, a gateway that refused connections is asked again: it may have
// been started again by now. Its penalty is that of one call.
func TestThoseWhereNobodyWasAreAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &child{nodes: map[string]gatewayNode{"a": frozen, "b": gone, "c": refused}}
		p, l := peersTo(to, "a", "b", "c")
		ctx, cancel := context.WithTimeout(t.Context(), budget)
		defer cancel()
		time.AfterFunc(2500*time.Millisecond, func() {
			to.mu.Lock()
			defer to.mu.Unlock()
			to.nodes["c"] = well
		})
		began := time.Now()
		require.NoError(t, p.EndInstance(ctx, l, "i"))
		assert.Less(t, time.Since(began), 3500*time.Millisecond)
		assert.Equal(t, []string{"a", "b", "c", "c"}, to.asked[:4])
	})
	synctest.Test(t, func(t *testing.T) {
		to := &child{nodes: map[string]gatewayNode{"a": refused, "b": frozen}}
		p, l := peersTo(to, "a", "b")
		ctx, cancel := context.WithTimeout(t.Context(), budget)
		defer cancel()
		require.Error(t, p.EndInstance(ctx, l, "i"))
		assert.Greater(t, len(to.asked), 4, "it was asked again and again")
		to.nodes["b"], to.asked = gatewayNode{code: api.CodeUnavailable}, nil
		await.Sleep(time.Second)
		require.Error(t, p.EndInstance(t.Context(), l, "i"))
		assert.Equal(t, "a", to.asked[0], "one call has cost it one second")
	})
}

// The number of tries is bounded, however long this lasts.
func TestQuestionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &child{nodes: map[string]gatewayNode{"a": frozen, "b": {code: api.CodeUnavailable}}}
		p, l := peersTo(to, "a", "b")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		assert.Equal(t, api.CodeTimeout, api.CodeOf(p.EndInstance(ctx, l, "i")))
		assert.Len(t, to.asked, 32)
	})
}

// Endpoints that a link no longer has are dropped, and a new one is tried.
func TestEndpointsOfALinkChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &child{nodes: map[string]gatewayNode{"a": well, "b": well}}
		p, l := peersTo(to, "a", "a")
		require.NoError(t, p.EndInstance(t.Context(), l, "i"))
		l.Endpoints = []string{"b"}
		require.NoError(t, p.EndInstance(t.Context(), l, "i"))
		assert.Equal(t, []string{"a", "b"}, to.asked)
		assert.Equal(t, 1, to.closed, "connections to the old one are closed")
		l.Endpoints = []string{"bad\x00address", "b"}
		require.NoError(t, p.EndInstance(t.Context(), l, "i"))
	})
}

// A link token is good for one enrolment: the next gateway is asked only when the one
// before was certainly not reached.
func TestEnrolIsNotRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		first gatewayNode
		asked string
		code  api.Code
	}{
		"gone":    {gone, "a b", ""},
		"refused": {refused, "a b", ""},
		"frozen":  {frozen, "a", api.CodeTimeout},
		"refuses": {gatewayNode{code: api.CodeConflict}, "a", api.CodeConflict},
		"timeout": {gatewayNode{code: api.CodeTimeout}, "a", api.CodeTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := &child{nodes: map[string]gatewayNode{"a": c.first, "b": well}}
				ctx, cancel := context.WithTimeout(t.Context(), budget)
				defer cancel()
				_, err := client.Enrol(ctx, to, time.Now, []string{"a", "b"}, &api.Enrolment{})
				assert.Equal(t, c.code, api.CodeOf(err), "%v", err)
				assert.Equal(t, c.asked, strings.Join(to.asked, " "))
			})
		})
	}
}

// Many callers at once and gateways that come and go, one at a time: every call is
// answered.
func TestManyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &child{nodes: map[string]gatewayNode{"a": well, "b": well, "c": well}}
		p, l := peersTo(to, "a", "b", "c")
		kinds := []gatewayNode{frozen, gone, refused, {code: api.CodeUnavailable}, {answer: struct{}{}, after: 300 * time.Millisecond}}
		names := slices.Sorted(func(yield func(string) bool) {
			for n := range calls {
				if !yield(n) {
					return
				}
			}
		})
		done := make(chan string, 1000)
		n := 0
		for round := range 50 {
			bad := string(rune('a' + round%3))
			to.mu.Lock()
			to.nodes[bad] = kinds[round%len(kinds)]
			to.mu.Unlock()
			for i := range 6 {
				do := calls[names[(round+i)%len(names)]]
				n++
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second+budget) // as long as a poll has
					defer cancel()
					began := time.Now()
					err := do(ctx, p, l)
					if err != nil {
						done <- fmt.Sprint(time.Since(began), " ", err)
						return
					}
					done <- ""
				}()
			}
			await.Sleep(700 * time.Millisecond)
			to.mu.Lock()
			to.nodes[bad] = well
			to.mu.Unlock()
		}
		for range n {
			assert.Empty(t, <-done)
		}
	})
}
