package agent

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent/driver/fake"
	"berth/api"
	"berth/internal/await"
)

// record is a log whose lines can be taken while it is written.
type record struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.Write(p)
}

// take returns the lines about calls since it was called last.
func (r *record) take() (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range strings.Lines(r.b.String()) {
		if strings.Contains(line, `msg="call`) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	r.b.Reset()
	return out
}

func (r *record) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{Level: level}))
}

// partial is a zone that refuses some calls.
type partial struct {
	*zone
	mu      sync.Mutex // guards refused
	refused string     // path
}

func (p *partial) refuse(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = path
}

func (p *partial) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	refused := p.refused
	p.mu.Unlock()
	if r.URL.Path == refused {
		return answer(http.StatusConflict, api.ErrorBody{Error: api.ErrorDetail{Code: api.CodeConflict, Message: "not now"}})
	}
	return p.zone.RoundTrip(r)
}

func setDown(z *zone, down bool) {
	z.do(func() {
		for _, addr := range z.addresses {
			z.down[addr] = down
		}
		z.generation++ // ends the poll that waits
	})
}

// TestAnOutageIsLoggedOnce: an outage of the zone is one line when it begins, one per outageEvery while it lasts, and
// one when it is over; the calls themselves are seen at debug only.
func TestAnOutageIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, r := newZone(), &record{}
		c := config(z, fake.New(fake.Options{}), 1)
		c.Log = r.logger(slog.LevelInfo)
		defer run(t, c)()
		settle()
		require.Empty(t, r.take(), "all is well")

		setDown(z, true)
		settle()
		lines := r.take()
		require.Len(t, lines, 1)
		assert.Contains(t, lines[0], `level=WARN msg="calls to the zone fail; they are repeated" call=`)
		assert.Contains(t, lines[0], "connection refused")
		await.Sleep(outageEvery - 2*settleTime)
		synctest.Wait()
		assert.Empty(t, r.take(), "the outage is known")
		await.Sleep(2 * settleTime)
		synctest.Wait()
		lines = r.take()
		require.Len(t, lines, 1)
		assert.Regexp(t, `level=WARN msg="calls to the zone still fail" for=5m\S+ tries=[1-9]\d\d call=`, lines[0])
		await.Sleep(2*outageEvery + settleTime)
		synctest.Wait()
		assert.Len(t, r.take(), 2)

		setDown(z, false)
		settle()
		lines = r.take()
		require.Len(t, lines, 1)
		assert.Regexp(t, `level=INFO msg="calls to the zone are answered again" since=\S+ for=15m\S+ tries=[1-9]\d\d `, lines[0])
		for _, addr := range c.Addresses {
			assert.Contains(t, lines[0], addr)
		}

		setDown(z, true)
		settle()
		setDown(z, false)
		settle()
		lines = r.take()
		require.Len(t, lines, 2, "the next outage is another one")
		assert.Regexp(t, ` for=1[4-9]\S*s tries=\d\d? `, lines[1])
	})
}

// TestAnOutageOfSomeCalls: a zone that answers some calls and refuses others all the time is one outage, which is over
// when the others are answered.
func TestAnOutageOfSomeCalls(t *testing.T) {
	for _, path := range []string{api.PathAgentReport, api.PathAgentWork} {
		synctest.Test(t, func(t *testing.T) {
			z, r := &partial{zone: newZone()}, &record{}
			c := config(z.zone, fake.New(fake.Options{}), 1)
			c.Transport, c.Log = z, r.logger(slog.LevelInfo)
			defer run(t, c)()
			settle()
			z.refuse(path)
			setDown(z.zone, false) // a poll ends
			await.Sleep(outageEvery / 2)
			synctest.Wait()
			lines := r.take()
			require.Len(t, lines, 1, path)
			assert.Contains(t, lines[0], "not now")
			z.refuse("")
			settle()
			await.Sleep(WaitDefault) // of a poll
			synctest.Wait()
			lines = r.take()
			require.Len(t, lines, 1, path)
			assert.Contains(t, lines[0], "answered again")
		})
	}
}

// TestEachTryIsLoggedAtDebug: with the level debug, each call that fails is in the log.
func TestEachTryIsLoggedAtDebug(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, r := newZone(), &record{}
		c := config(z, fake.New(fake.Options{}), 1)
		c.Log = r.logger(slog.LevelDebug)
		setDown(z, true)
		end := run(t, c)
		settle()
		end()
		lines := r.take()
		require.Greater(t, len(lines), 5)
		tries := 0
		for _, l := range lines {
			if strings.Contains(l, `level=DEBUG msg="call to the zone failed" call=register err=`) {
				tries++
			}
		}
		assert.Equal(t, len(lines)-1, tries, "and one line that the outage begins")
	})
}

// TestAddressesOfAnOutageAreBounded: the last line of an outage names outageNamed addresses and no more.
func TestAddressesOfAnOutageAreBounded(t *testing.T) {
	for _, n := range []int{outageNamed, outageNamed + 1} {
		var o outage
		for i := range n {
			o.noteCall(fmt.Sprintf("n%d:1", i), assert.AnError, time.Time{})
			o.noteCall(fmt.Sprintf("n%d:1", i), assert.AnError, time.Time{})
		}
		assert.Len(t, o.tried, outageNamed)
	}
}

// TestWhatAnOutageHasTried is of that outage alone, and it is over with the first call that is answered.
func TestWhatAnOutageHasTried(t *testing.T) {
	r := &record{}
	c := config(newZone(), fake.New(fake.Options{}), 1)
	now := time.Unix(1_000, 0)
	c.Now, c.Log = func() time.Time { return now }, r.logger(slog.LevelInfo)
	a, err := New(c)
	require.NoError(t, err)
	var one, other retry
	step := func(d time.Duration, f func()) {
		now = now.Add(d)
		f()
	}
	for _, addr := range []string{"n1:1", "n2:1"} {
		a.outage.noteCall(addr, assert.AnError, now)
		a.noteFailure(t.Context(), &one, "work", assert.AnError)
		step(time.Second, func() { a.noteFailure(t.Context(), &other, "report", assert.AnError) })
		step(time.Second, func() { a.outage.noteCall("n3:1", nil, now) })
		step(time.Second, func() { a.outage.noteCall("n3:1", nil, now) })
		a.endFailures(t.Context(), &one)
		a.endFailures(t.Context(), &one)
		lines := r.take()
		require.Len(t, lines, 1, "the other loop fails yet")
		assert.Contains(t, lines[0], "they are repeated\" call=work err=")
		a.endFailures(t.Context(), &other)
		lines = r.take()
		require.Len(t, lines, 1)
		assert.Contains(t, lines[0], " for=2s tries=2 addresses_tried=["+addr+"]")
	}
	// What fails again after an answer goes on with the same outage.
	a.noteFailure(t.Context(), &one, "work", assert.AnError)
	step(time.Second, func() { a.outage.noteCall("n3:1", nil, now) })
	step(time.Second, func() { a.noteFailure(t.Context(), &one, "work", assert.AnError) })
	step(time.Second, func() { a.outage.noteCall("n3:1", nil, now) })
	a.endFailures(t.Context(), &one)
	lines := r.take()
	require.Len(t, lines, 2)
	assert.Contains(t, lines[1], " for=3s tries=2 ")
}
