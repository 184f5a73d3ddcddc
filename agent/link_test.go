package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent/driver/fake"
	"berth/api"
	"berth/internal/await"
	"berth/internal/codec"
)

// frozenNode is a transport to a zone one of whose nodes answers nothing.
type frozenNode string

// RoundTrip implements http.RoundTripper.
func (f frozenNode) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == string(f) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	b, err := codec.Marshal(api.AgentAck{})
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(b)), Request: r}, err
}

// A node that stands still is left by all calls at once as soon as one of them got no
// answer: the question for work does not wait there for the rest of its time.
func TestAFrozenNodeIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink([]string{"a:1", "b:1"}, frozenNode("a:1"))
		began := time.Now()
		polled := make(chan time.Duration)
		go func() {
			assert.Error(t, l.postTo(t.Context(), api.PathAgentWork, api.AgentWork{}, new(api.AgentWorkload)))
			polled <- time.Since(began)
		}()
		r := retry{rand: func() float64 { return 0 }}
		ctx, cancel := context.WithTimeout(t.Context(), r.nextTimeout())
		defer cancel()
		require.Error(t, l.postTo(ctx, api.PathAgentReport, api.AgentReport{}, new(api.AgentAck)))
		assert.Equal(t, callFirst, <-polled)
		require.NoError(t, l.postTo(t.Context(), api.PathAgentReport, api.AgentReport{}, new(api.AgentAck)))
		assert.Equal(t, "b:1", l.nextAddress())
	})
}

// TestAPollLeavesANodeThatLeadsNoMore: once another call has learned who leads, the poll goes there too, though the
// node that it waits for is frozen meanwhile.
func TestAPollLeavesANodeThatLeadsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frozen := frozenNode("a:1")
		answer, err := codec.Marshal(api.AgentRedirect{Leader: "b:1"})
		require.NoError(t, err)
		l := newLink([]string{"a:1", "b:1"}, tripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "a:1" && r.URL.Path == api.PathAgentReport {
				return &http.Response{StatusCode: http.StatusMisdirectedRequest, Body: io.NopCloser(bytes.NewReader(answer)), Request: r}, nil
			}
			return frozen.RoundTrip(r)
		}))
		polled := make(chan error, 1)
		go func() { polled <- l.postTo(t.Context(), api.PathAgentWork, api.AgentWork{}, new(api.AgentWorkload)) }()
		synctest.Wait()
		require.ErrorIs(t, l.postTo(t.Context(), api.PathAgentReport, api.AgentReport{}, new(api.AgentAck)), errMoved)
		require.ErrorIs(t, <-polled, errMoved)
		assert.Equal(t, "b:1", l.nextAddress())

		require.ErrorIs(t, l.followLeader("a:1", answer), errMoved)
		old, err := codec.Marshal(api.AgentRedirect{Leader: "c:1"})
		require.NoError(t, err)
		require.ErrorIs(t, l.followLeader("a:1", old), errMoved)
		assert.Equal(t, "b:1", l.nextAddress(), "a late word of a node that was left moves nobody")
	})
}

type tripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t tripper) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func TestCallsHaveMoreTimeAfterFailures(t *testing.T) {
	r := retry{rand: func() float64 { return 0 }}
	var got []time.Duration
	for range 5 {
		got = append(got, r.nextTimeout())
		r.nextDelay()
	}
	assert.Equal(t, []time.Duration{callFirst, 2 * callFirst, 4 * callFirst, callTimeout, callTimeout}, got)
	r.endFailures()
	assert.Equal(t, callFirst, r.nextTimeout())
}

// TestARedirectIsFollowedAtOnce: the node that leads is the next to be called, without a
// round over the others; a word that is no address, or the asked node's own, leaves it.
func TestARedirectIsFollowedAtOnce(t *testing.T) {
	for leader, want := range map[string]string{"d:1": "d:1", "": "b:1", "x:1/y": "b:1", "a:1": "b:1"} {
		l := newLink([]string{"a:1", "b:1", "c:1"}, nil)
		answer, err := codec.Marshal(api.AgentRedirect{Leader: leader})
		require.NoError(t, err)
		err = l.followLeader("a:1", answer)
		assert.Equal(t, want == leader, errors.Is(err, errMoved), "%q", leader)
		assert.Equal(t, want, l.nextAddress(), "%q", leader)
	}
}

// TestARedirectReplacesNoAddress: a node that has just started may name members that are
// long gone; the agent still finds those that the leader named last.
func TestARedirectReplacesNoAddress(t *testing.T) {
	l := newLink([]string{"a:1"}, nil)
	l.learnAddresses([]string{"x:1", "y:1"})
	for _, of := range [][]string{{"a:1", "b:1"}, {"c:1"}, {}, {"nonsense"}, {"c:1"}} {
		answer, err := codec.Marshal(api.AgentRedirect{Addresses: of})
		require.NoError(t, err)
		require.Error(t, l.followLeader(l.nextAddress(), answer))
	}
	tried := map[string]bool{}
	for range 8 {
		tried[l.nextAddress()] = true
		l.leaveAddress(l.nextAddress())
	}
	assert.Equal(t, map[string]bool{"a:1": true, "x:1": true, "y:1": true, "c:1": true}, tried)
}

// formedNode is a transport to a zone that reads forms up to a number.
type formedNode struct {
	form  api.Form
	paths []string
}

// RoundTrip implements http.RoundTripper.
func (f *formedNode) RoundTrip(r *http.Request) (*http.Response, error) {
	f.paths = append(f.paths, r.URL.Path)
	b, err := codec.Marshal(api.AgentAck{})
	head := http.Header{api.HeaderForm: {f.form.String()}}
	return &http.Response{StatusCode: http.StatusOK, Header: head, Body: io.NopCloser(bytes.NewReader(b)), Request: r}, err
}

// TestTheZoneGetsNoMessageThatItDoesNotRead: hosts whose needs an older zone cannot know
// are registered once all its nodes read them.
func TestTheZoneGetsNoMessageThatItDoesNotRead(t *testing.T) {
	zone := &formedNode{form: api.FormFirst}
	l := newLink([]string{"a:1"}, zone)
	register := func(needs *api.Needs) error {
		return l.postTo(t.Context(), api.PathAgentRegister, api.AgentRegister{Hosts: []api.AgentHost{{Needs: needs}}}, new(api.AgentAck))
	}
	require.NoError(t, register(nil))
	err := register(&api.Needs{Image: true})
	require.Equal(t, api.CodeUnavailable, api.CodeOf(err))
	require.ErrorContains(t, err, "reads forms up to 1")
	zone.form = api.FormSecond
	require.NoError(t, register(&api.Needs{Image: true}))
	assert.Equal(t, []string{api.PathAgentRegister, api.PathAgentReport, api.PathAgentReport, api.PathAgentRegister}, zone.paths)
}

// TestWhatCanBeDialled is a host and a port alone.
func TestWhatCanBeDialled(t *testing.T) {
	for addr, want := range map[string]bool{
		"a:1": true, "[::1]:1": true, "10.0.0.7:443": true, "": false, "a": false, ":1": false, "a:": false, "a:1/x": false, "u@a:1": false,
		"a:1?x": false, "a:1#x": false, "a b:1": false, "a:b": false, "a:1:2": false,
	} {
		assert.Equal(t, want, isDialable(addr), "%q", addr)
	}
}

// endless is a body of zeros, which breaks off after so many with an error, if there is one.
type endless struct {
	left int
	err  error
}

func (b *endless) Read(p []byte) (int, error) {
	n := min(len(p), b.left)
	clear(p[:n])
	b.left -= n
	if b.left == 0 {
		return n, b.err
	}
	return n, nil
}

// TestAnAnswerThatBreaksOff is none, and another node is asked; so it is with one that is too long.
func TestAnAnswerThatBreaksOff(t *testing.T) {
	for _, c := range []struct {
		body endless
		want string
	}{
		{endless{9, errors.New("reset")}, "reset"}, {endless{answerMaxBytes, io.EOF}, "decoding"}, {endless{answerMaxBytes + 1, io.EOF}, "more than"},
	} {
		l := newLink([]string{"a:1", "b:1"}, tripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(&c.body), Request: r}, nil
		}))
		err := l.postTo(t.Context(), api.PathAgentReport, api.AgentReport{}, new(api.AgentAck))
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, "calling a:1: ")
		assert.Equal(t, "b:1", l.nextAddress(), c.want)
	}
}

// TestACallThatCannotBeMade reaches nobody.
func TestACallThatCannotBeMade(t *testing.T) {
	calls := 0
	nobody := tripper(func(*http.Request) (*http.Response, error) {
		calls++
		return nil, errors.New("nobody is there")
	})
	l := newLink([]string{"a:1"}, nobody)
	require.Error(t, l.post(t.Context(), api.PathAgentReport, make(chan int), new(api.AgentAck)))
	require.Error(t, newLink([]string{"a b:1"}, nobody).postTo(t.Context(), api.PathAgentReport, api.AgentReport{}, new(api.AgentAck)))
	assert.Zero(t, calls)
	needs := api.AgentRegister{Hosts: []api.AgentHost{{Needs: &api.Needs{Image: true}}}}
	require.ErrorContains(t, l.postTo(t.Context(), api.PathAgentRegister, needs, new(api.AgentAck)), "nobody is there", "which form it reads is not known")
	assert.Equal(t, 1, calls)
}

// TestNodesThatRedirectToEachOther are called with pauses.
func TestNodesThatRedirectToEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		c := config(nil, fake.New(fake.Options{}), 1)
		c.Transport = tripper(func(r *http.Request) (*http.Response, error) {
			calls++
			other := map[string]string{"n1:1": "n2:1", "n2:1": "n1:1"}[r.URL.Host]
			return answer(http.StatusMisdirectedRequest, api.AgentRedirect{Leader: other})
		})
		r := &record{}
		c.Log = r.logger(slog.LevelInfo)
		end := run(t, c)
		synctest.Wait()
		assert.Equal(t, movesMax+1, calls, "at once")
		await.Sleep(time.Minute)
		synctest.Wait()
		end()
		assert.Greater(t, calls, 20)
		assert.Less(t, calls, 40)
		assert.Len(t, r.take(), 1)
	})
}

// TestARedirectOfHTTPIsNotFollowed: nodes say who leads in another way.
func TestARedirectOfHTTPIsNotFollowed(t *testing.T) {
	calls := 0
	l := newLink([]string{"a:1"}, tripper(func(r *http.Request) (*http.Response, error) {
		calls++
		return &http.Response{
			StatusCode: http.StatusTemporaryRedirect, Header: http.Header{"Location": {"https://elsewhere:1/"}}, Body: http.NoBody, Request: r,
		}, nil
	}))
	require.ErrorContains(t, l.postTo(t.Context(), api.PathAgentReport, api.AgentReport{}, new(api.AgentAck)), "status 307 without an error body")
	assert.Equal(t, 1, calls)
}
