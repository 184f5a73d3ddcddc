package agent

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent/driver"
	"berth/agent/driver/fake"
	"berth/api"
	"berth/internal/await"
	"berth/internal/codec"
)

// TestWorkHasItsTerms: what the instances of an answer have in common is in each workload that is started; an answer that does not
// have it is a failure, after which the zone is asked again.
func TestWorkHasItsTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var started []api.Workload
		z, r := newZone(), &record{}
		c := config(z, fake.New(fake.Options{FailStart: func(_ api.HostID, w api.Workload) error {
			mu.Lock()
			defer mu.Unlock()
			started = append(started, w)
			return nil
		}}), 1)
		c.Log = r.logger(slog.LevelInfo)
		defer run(t, c)()
		w := work("a")
		w.Terms = 2
		z.do(func() { z.terms = []api.WorkTerms{{Flavor: "small"}} })
		z.set("host-0001", w)
		settle()
		assert.Empty(t, started)
		lines := r.take()
		require.Len(t, lines, 1)
		assert.Contains(t, lines[0], "call=work err=")
		assert.Contains(t, lines[0], "has terms 2 of 1")
		z.do(func() { z.terms = append(z.terms, api.WorkTerms{Flavor: "large", Fence: testFence}) })
		settle()
		w.Terms, w.Flavor, w.Fence = 0, "large", testFence
		assert.Equal(t, []api.Workload{w}, started)
	})
}

// TestAnOlderZoneHearsOfNoRestart: it could not read the report.
func TestAnOlderZoneHearsOfNoRestart(t *testing.T) {
	for form, want := range map[api.Form]bool{api.FormFourth: false, api.FormFifth: true} {
		synctest.Test(t, func(t *testing.T) {
			z, d := newZone(), newTimed(fake.Options{})
			z.form = form
			d.severed = []driver.State{{Host: "id-of-host-0001", Instance: "a", Fenced: true}}
			defer run(t, config(z, d, 1))()
			z.set("host-0001", fenced("a"))
			settle()
			got := z.report("a")
			assert.Equal(t, api.StatusActive, got.Status)
			assert.Equal(t, want, got.Restarted != 0, "form %d", form)
			assert.Equal(t, want, got.Reason != "", "form %d", form)
			assert.Equal(t, []int{1}, z.sized(), "it is told once")
		})
	}
}

// refusal returns what the log says of the outage that begins.
func (r *record) refusal(t *testing.T) string {
	t.Helper()
	lines := r.take()
	require.NotEmpty(t, lines)
	return lines[0]
}

// TestARegistrationThatIsRefused: it is tried again until it is not, whatever it is for, and the log says why it was refused.
func TestARegistrationThatIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		first bool // the one at the start is refused
		cause func(z *zone)
	}{
		"at the start":           {true, func(*zone) {}},
		"of hosts forgotten":     {false, func(z *zone) { z.do(func() { z.forgot = true }) }},
		"of hosts not served":    {false, func(z *zone) { z.set("host-0009", work("x")) }},
		"of two, one not served": {false, func(z *zone) { z.set("host-0008"); z.set("host-0009") }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				z, r := &partial{zone: newZone()}, &record{}
				conf := config(z.zone, fake.New(fake.Options{}), 1)
				conf.Transport, conf.Log = z, r.logger(slog.LevelDebug)
				if c.first {
					z.refuse(api.PathAgentRegister)
				}
				defer run(t, conf)()
				settle()
				z.refuse(api.PathAgentRegister)
				before := z.registered
				c.cause(z.zone)
				z.set("host-0001", work("a"))
				settle()
				assert.Equal(t, before, z.registered)
				failed := slices.DeleteFunc(r.take(), func(l string) bool { return strings.Contains(l, "call=report") })
				require.NotEmpty(t, failed)
				for _, l := range failed {
					assert.Contains(t, l, "not now", "not that the hosts are unknown")
				}
				z.refuse("")
				settle()
				assert.Equal(t, before+1, z.registered)
				assert.Equal(t, api.StatusActive, z.of("a"))
				await.Sleep(WaitDefault) // of a poll
				synctest.Wait()
				lines := r.take()
				require.NotEmpty(t, lines)
				assert.Contains(t, lines[len(lines)-1], "answered again", "the outage is over")
				assert.Equal(t, before+1, z.registered, "once")
			})
		})
	}
}

// TestStrangeHostsInAnyOrder are the same.
func TestStrangeHostsInAnyOrder(t *testing.T) {
	z := newZone()
	a, err := New(config(z, fake.New(fake.Options{}), 1))
	require.NoError(t, err)
	for _, strange := range [][]api.HostID{{"b", "a"}, {"a", "b"}, {"b", "a"}, nil} {
		require.NoError(t, a.tellStrange(t.Context(), strange))
		assert.Equal(t, 1, z.registered)
	}
	require.NoError(t, a.tellStrange(t.Context(), []api.HostID{"c"}))
	assert.Equal(t, 2, z.registered)
}

// TestAllListsAfterARegistration: the zone may have forgotten which lists the agent has; what runs is reported at once.
func TestAllListsAfterARegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZone()
		z.beat = time.Hour
		defer run(t, config(z, fake.New(fake.Options{}), 1))()
		z.set("host-0001", work("a"))
		settle()
		z.do(func() { z.forgot, z.afters = true, nil; clear(z.status) })
		await.Sleep(2 * WaitDefault)
		synctest.Wait()
		require.Equal(t, 2, z.registered)
		require.Greater(t, len(z.afters), 1)
		assert.Zero(t, z.afters[0], "whose answer is that the hosts are unknown comes before")
		assert.NotZero(t, z.afters[1])
		assert.Equal(t, api.StatusActive, z.of("a"))
	})
}

// few is a zone that registers one host fewer than it was asked to, as often as is said.
type few struct {
	*zone
	times int
}

func (f *few) RoundTrip(r *http.Request) (*http.Response, error) {
	a, err := f.zone.RoundTrip(r)
	if err != nil || r.URL.Path != api.PathAgentRegister || f.times == 0 {
		return a, err
	}
	f.times--
	body, err := io.ReadAll(a.Body)
	if err != nil {
		return nil, err
	}
	var out api.AgentRegistered
	if err = codec.Unmarshal(body, &out); err != nil {
		return nil, err
	}
	out.Hosts = out.Hosts[1:]
	return answer(http.StatusOK, out)
}

// TestARegistrationOfFewerHosts is none.
func TestARegistrationOfFewerHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, r := &few{newZone(), 1}, &record{}
		c := config(z.zone, fake.New(fake.Options{}), 2)
		c.Transport, c.Log = z, r.logger(slog.LevelInfo)
		defer run(t, c)()
		settle()
		assert.Contains(t, r.refusal(t), "registered 2 hosts and got 1 ids")
		z.set("host-0002", work("a"))
		settle()
		assert.Equal(t, api.StatusActive, z.of("a"))
	})
}

// TestAnAgentThatEndsReportsNoFailure: what is cut off by its own end is no outage.
func TestAnAgentThatEndsReportsNoFailure(t *testing.T) {
	for name, frozen := range map[string]bool{"while it polls": false, "while it registers": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				z, r := newZone(), &record{}
				c := config(z, fake.New(fake.Options{}), 1)
				c.Log = r.logger(slog.LevelDebug)
				if frozen {
					c.Transport = frozenNode("n1:1")
				}
				end := run(t, c)
				await.Sleep(time.Second)
				began := time.Now()
				end()
				assert.Zero(t, time.Since(began))
				assert.Empty(t, r.take())
			})
		})
	}
}

// TestAnAgentThatIsHeardElsewhereEndsAtOnce, if it has served its hosts.
func TestAnAgentThatIsHeardElsewhereEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, copied := newZone(), &elsewhere{moved: true}
		var moved time.Time
		c := config(z, fake.New(fake.Options{}), 1)
		c.Transport = tripper(func(r *http.Request) (*http.Response, error) {
			if time.Now().Before(moved) {
				return z.RoundTrip(r)
			}
			return copied.RoundTrip(r)
		})
		moved = time.Now().Add(time.Minute)
		a, err := New(c)
		require.NoError(t, err)
		require.ErrorIs(t, a.Run(t.Context()), errElsewhere)
		assert.Less(t, time.Since(moved), 4*time.Second, "with the next beat")
		require.NoError(t, a.Close())
	})
}

// TestADeposedLeaderIsLeft: the next call goes to another node, which may lead; the journal has what was refused.
func TestADeposedLeaderIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		terms := map[string]uint64{"n1:1": 4, "n2:1": 5}
		c := config(newZone(), fake.New(fake.Options{}), 1)
		c.Addresses, c.Dir = []string{"n2:1", "n1:1"}, t.TempDir()
		c.Transport = tripper(func(r *http.Request) (*http.Response, error) {
			return answer(http.StatusOK, api.AgentAck{Term: terms[r.URL.Host]})
		})
		a, err := New(c)
		require.NoError(t, err)
		call := func() (string, error) {
			addr := a.link.nextAddress()
			var ack api.AgentAck
			return addr, a.callZone(t.Context(), api.PathAgentReport, callTimeout, api.AgentReport{}, &ack, &ack.Term)
		}
		addr, err := call()
		require.NoError(t, err)
		require.Equal(t, "n2:1", addr)
		contact := a.contact
		require.Equal(t, time.Now(), contact)
		a.link.leaveAddress(addr)
		await.Sleep(time.Second)
		addr, err = call()
		require.ErrorContains(t, err, "answer of term 4, and term 5 was seen already")
		require.Equal(t, "n1:1", addr)
		assert.Equal(t, contact, a.contact, "it was no answer")
		addr, err = call()
		require.NoError(t, err)
		require.Equal(t, "n2:1", addr)
		assert.Equal(t, time.Now(), a.contact)
		require.NoError(t, a.Close())
		assert.Equal(t, []string{
			`"term":5,"event":"term"}`, `"term":5,"event":"refused","detail":"` + api.PathAgentReport + ` of a lower term"}`,
		}, journalOf(t, c.Dir))
	})
}

// TestContactIsOfTheNewestCall that was answered: a poll may be answered late.
func TestContactIsOfTheNewestCall(t *testing.T) {
	a, err := New(config(newZone(), fake.New(fake.Options{}), 1))
	require.NoError(t, err)
	now := time.Now()
	for _, c := range []struct{ sent, want time.Duration }{{0, 0}, {2, 2}, {1, 2}, {2, 2}, {3, 3}} {
		a.noteAnswer(now.Add(c.sent))
		assert.Equal(t, now.Add(c.want), a.contact)
	}
}

// TestARaceOfAnAnswerAndARedirect: an answer that has come counts, though another call has been sent elsewhere meanwhile.
func TestARaceOfAnAnswerAndARedirect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, err := codec.Marshal(api.AgentRedirect{Leader: "b:1"})
		require.NoError(t, err)
		var l *link
		l = newLink([]string{"a:1", "b:1"}, tripper(func(r *http.Request) (*http.Response, error) {
			assert.ErrorIs(t, l.followLeader("a:1", to), errMoved)
			<-r.Context().Done()
			return answer(http.StatusOK, api.AgentAck{Term: 7})
		}))
		var ack api.AgentAck
		require.NoError(t, l.postTo(t.Context(), api.PathAgentReport, api.AgentReport{}, &ack))
		assert.Equal(t, uint64(7), ack.Term)
	})
}

// TestWhatALinkSends: to the path of the call, in CBOR, and with the form and the id of the caller.
func TestWhatALinkSends(t *testing.T) {
	var got *http.Request
	var body []byte
	l := newLink([]string{"a:1"}, tripper(func(r *http.Request) (*http.Response, error) {
		got = r
		body, _ = io.ReadAll(r.Body)
		return answer(http.StatusOK, api.AgentAck{})
	}))
	in := api.AgentReport{Items: []api.InstanceReport{{Host: "h", Instance: "a", Status: api.StatusActive}}}
	ctx := nameCall(context.Background())
	require.NoError(t, l.postTo(ctx, api.PathAgentReport, in, new(api.AgentAck)))
	want, err := codec.Marshal(in)
	require.NoError(t, err)
	assert.Equal(t, want, body)
	assert.Equal(t, "https://a:1"+api.PathAgentReport, got.URL.String())
	assert.Equal(t, http.MethodPost, got.Method)
	for name, value := range map[string]string{"Content-Type": api.MediaCBOR, "Accept": api.MediaCBOR, api.HeaderForm: api.FormNewest.String()} {
		assert.Equal(t, value, got.Header.Get(name), name)
	}
	assert.True(t, strings.HasPrefix(got.Header.Get(api.HeaderRequestID), "req-"))
}

// forgetful is a zone that has forgotten its hosts again after each registration.
type forgetful struct{ *zone }

func (z forgetful) RoundTrip(r *http.Request) (*http.Response, error) {
	a, err := z.zone.RoundTrip(r)
	z.do(func() { z.forgot = true })
	return a, err
}

// TestAZoneThatForgetsIsNotCalledWithoutPause: after each registration that does not help the agent waits longer.
func TestAZoneThatForgetsIsNotCalledWithoutPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := forgetful{newZone()}
		c := config(z.zone, fake.New(fake.Options{}), 1)
		c.Transport = z
		defer run(t, c)()
		await.Sleep(time.Minute)
		synctest.Wait()
		z.do(func() {
			assert.Greater(t, z.registered, 20)
			assert.Less(t, z.registered, 40)
		})
	})
}

// TestWhatWasDoneCountsAfterARegistration: what the agent knows of its hosts stays, if they are the same.
func TestWhatWasDoneCountsAfterARegistration(t *testing.T) {
	served(t, fake.Options{}, func(z *zone, d *failing, _ *record, dir string) {
		z.set("host-0001", fenced("a"))
		settle()
		leaves := quiet("a", time.Hour)
		z.set("host-0001", leaves)
		settle()
		z.do(func() { z.forgot = true })
		z.set("host-0001", leaves)
		await.Sleep(2 * WaitDefault)
		synctest.Wait()
		require.Equal(t, 2, z.registered)
		assert.Len(t, d.made("notify"), 1)
		assert.Equal(t, []string{"start", "running", "notice"}, events(t, dir, "a"))
	})
}
