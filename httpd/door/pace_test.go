package door

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/httpd/rates"
	"berth/internal/await"
	"berth/internal/budget"
	"berth/internal/turns"
)

// paced returns a world with rates, in which a header of a request says where it comes from.
func paced(tb testing.TB, r rates.Rates) *world {
	tb.Helper()
	w := newWorld(tb)
	w.token(tb, "second", api.Forever, api.RoleMember)
	w.Rates = rates.New(r)
	w.Address = func(r *http.Request) string { return r.Header.Get("From") }
	return w
}

// from is a request from an address.
func from(addr, token string) *http.Request {
	r := bearer(token)
	r.Header.Set("From", addr)
	return r
}

func TestClassOf(t *testing.T) {
	for _, c := range []struct {
		method string
		read   api.Read
		role   api.UserRole
		want   rates.Class
	}{
		{http.MethodGet, api.ReadLocal, "", rates.Reads},
		{http.MethodPost, api.ReadLog, "", rates.Joins},
		{http.MethodGet, api.ReadLocal, api.RoleReader, rates.Reads},
		{http.MethodPost, api.ReadLocal, api.RoleMember, rates.Reads},
		{http.MethodPost, api.ReadLog, api.RoleMember, rates.Writes},
		{http.MethodPut, api.ReadLog, api.RoleMember, rates.Writes},
		{http.MethodDelete, api.ReadLog, api.RoleMember, rates.Releases},
		{http.MethodDelete, api.ReadLog, api.RoleAdmin, rates.Admins},
		{http.MethodGet, api.ReadLocal, api.RoleAdmin, rates.Admins},
	} {
		assert.Equal(t, c.want, ClassOf(c.method, c.read, c.role), "%+v", c)
	}
}

// unread is a body that nobody may read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, errors.New("no")
}

func (unread) Close() error { return nil }

// TestCallsThatComeTooOften are refused before anything is done for them, and other classes and
// callers have room.
func TestCallsThatComeTooOften(t *testing.T) {
	const most = 2 // one a second, and a burst of two
	w := paced(t, rates.Rates{rates.Writes: 1, rates.Releases: 1})
	done := 0
	serve := func(class rates.Class, r *http.Request) int {
		rec := ask(w.Authenticate(w.Pace(class)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { done++ }))), r)
		if rec.Code == http.StatusTooManyRequests {
			assert.Equal(t, "1", rec.Header().Get("Retry-After"))
			assert.Contains(t, rec.Body.String(), `"overloaded"`)
			assert.Contains(t, rec.Body.String(), "of the class writes")
		}
		return rec.Code
	}
	for range most {
		assert.Equal(t, http.StatusOK, serve(rates.Writes, bearer("member:s")))
	}
	again := bearer("member:s")
	again.Body = unread{t}
	assert.Equal(t, http.StatusTooManyRequests, serve(rates.Writes, again))
	assert.Equal(t, most, done)
	assert.Equal(t, http.StatusOK, serve(rates.Releases, bearer("member:s")), "what ends something has room of its own")
	for range most {
		assert.Equal(t, http.StatusOK, serve(rates.Writes, bearer("second:s")), "and so has another user")
	}
	assert.Equal(t, uint64(1), w.Rates.Refused()[rates.Writes])
}

// TestAnAddressHasARate for all its users together. What another node has passed on has none.
func TestAnAddressHasARate(t *testing.T) {
	w := paced(t, rates.Rates{rates.Reads: 1})
	h := w.Pace(rates.Reads)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	taken := 0
	for range 100 {
		if ask(h, from("192.0.2.1", "")).Code == http.StatusOK {
			taken++
		}
	}
	assert.Equal(t, 4*2, taken)
	assert.Equal(t, http.StatusOK, ask(h, from("192.0.2.2", "")).Code)
	for range 100 {
		require.Equal(t, http.StatusOK, ask(h, from("", "")).Code)
	}
}

// TestStrangersAskNobody: a token that nobody knows is looked up with the leader, and a flood of
// them is not. Whoever has a valid one, at the same address, is served.
func TestStrangersAskNobody(t *testing.T) {
	w := paced(t, rates.Rates{rates.Strangers: 1})
	w.follower = true
	h := w.Authenticate(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	codes := map[int]int{}
	for range 100 {
		codes[ask(h, from("192.0.2.1", "unknown:s")).Code]++
		codes[ask(h, from("192.0.2.1", "member:s")).Code]++
	}
	assert.Equal(t, map[int]int{http.StatusTeapot: 8, http.StatusTooManyRequests: 92, http.StatusOK: 100}, codes)
	assert.Equal(t, 8, w.passed)
	assert.Equal(t, http.StatusTooManyRequests, ask(h, from("192.0.2.1", "")).Code, "also without any token")
	assert.Equal(t, http.StatusTeapot, ask(h, from("192.0.2.2", "unknown:s")).Code)
}

// TestHowLongToWait is in whole seconds, at least one.
func TestHowLongToWait(t *testing.T) {
	for wait, want := range map[time.Duration]string{1: "1", time.Second: "1", time.Second + 1: "2", time.Hour: "3600"} {
		h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			err := TooOften(w, &rates.Over{Wait: wait})
			assert.Equal(t, api.CodeOverloaded, api.CodeOf(err))
		})
		assert.Equal(t, want, ask(h, get("/")).Header().Get("Retry-After"), "%s", wait)
	}
}

// TestCallsHaveTurns: when a node does all that it may do at once, the calls of a project wait for each other, those of others,
// of another class and of admins go first, and one that has waited for too long is refused.
func TestCallsHaveTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Turns = turns.New(turns.Config{AtOnce: callsAtOnce, Now: time.Now}) // which last as long as their calls
		over := make(chan struct{})
		var began atomic.Int32
		work := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { began.Add(1); <-over })
		serve := func(class rates.Class, h http.Handler, r *http.Request) *httptest.ResponseRecorder {
			return ask(w.Authenticate(w.Pace(class)(h)), r)
		}
		for range callsAtOnce {
			go serve(rates.Writes, work, bearer("member:s"))
		}
		synctest.Wait()
		require.EqualValues(t, callsAtOnce, began.Load())
		first := time.Now()
		late := serve(rates.Writes, work, bearer("member:s"))
		assert.Equal(t, turnWait, time.Since(first))
		assert.Equal(t, http.StatusTooManyRequests, late.Code)
		assert.Equal(t, "1", late.Header().Get("Retry-After"))
		assert.Contains(t, late.Body.String(), "has waited for 10s")
		quick := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		assert.Equal(t, http.StatusOK, serve(rates.Admins, quick, bearer("member:s")).Code)
		order := make(chan rates.Class, 3)
		for _, class := range []rates.Class{rates.Writes, rates.Writes, rates.Releases} {
			go serve(class, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { order <- class }), bearer("member:s"))
			synctest.Wait()
		}
		over <- struct{}{} // of one, after which one begins at a time
		synctest.Wait()
		close(over)
		assert.Equal(t, rates.Writes, <-order)
		assert.Equal(t, rates.Releases, <-order)
		assert.Equal(t, rates.Writes, <-order)
	})
}

// TestCallsThatLast keep no others out.
func TestCallsThatLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Turns = NewTurns(time.Now, nil)
		over := make(chan struct{})
		var began atomic.Int32
		h := w.Authenticate(w.Pace(rates.Reads)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { began.Add(1); <-over })))
		for range callsAtOnce + 1 {
			go ask(h, bearer("member:s"))
		}
		synctest.Wait()
		assert.EqualValues(t, callsAtOnce, began.Load())
		await.Sleep(callLasts)
		synctest.Wait()
		assert.EqualValues(t, callsAtOnce+1, began.Load())
		close(over)
	})
}

// TestWhatIsUnderWayIsCountedForItsCaller: for a user in his project, wherever he calls from, and for the address of a stranger. One
// call too many is refused before its body is read, and a call that is over leaves room.
func TestWhatIsUnderWayIsCountedForItsCaller(t *testing.T) {
	w := paced(t, rates.Off())
	b := budget.New(budget.Limits{budget.Calls: {budget.User: 1, budget.Stranger: 1, budget.Strangers: 2}})
	serve := func(addr, token string) (*budget.Account, int) {
		a := b.Begin()
		require.NoError(t, a.Take(budget.Calls, 1))
		h := w.Pace(rates.Writes)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		r := from(addr, token)
		if token != "" {
			h = w.Authenticate(h)
		}
		r.Body = unread{t}
		return a, ask(h, r.WithContext(budget.With(r.Context(), a))).Code
	}
	for _, c := range []struct {
		addr, token string
		code        int
	}{
		{"10.0.0.1", "member:s", http.StatusOK},
		{"10.0.0.2", "member:s", http.StatusTooManyRequests},
		{"10.0.0.1", "second:s", http.StatusOK}, // of another user
		{"10.0.0.1", "", http.StatusOK},
		{"10.0.0.1", "", http.StatusTooManyRequests},
		{"10.0.0.2", "", http.StatusOK},
		{"10.0.0.3", "", http.StatusServiceUnavailable},
	} {
		a, code := serve(c.addr, c.token)
		assert.Equal(t, c.code, code, "%s %s", c.addr, c.token)
		if code != http.StatusOK {
			a.End()
			continue
		}
		defer func() {
			a.End()
			again, code := serve(c.addr, c.token)
			again.End()
			assert.Equal(t, http.StatusOK, code)
		}()
	}
}
