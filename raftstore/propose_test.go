package raftstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

func TestEntryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var cmds []command.Command
		for i := range rapid.IntRange(1, 20).Draw(t, "count") {
			cmds = append(cmds, put(fmt.Sprint("n", i), rapid.String().Draw(t, "addr")))
		}
		body, err := encodeCommands(cmds, api.FormFirst)
		require.NoError(t, err)
		got, err := decodeEntry(body, api.FormNewest)
		require.NoError(t, err)
		require.Equal(t, cmds, got)
		short := rapid.IntRange(0, len(body)-1).Draw(t, "cut")
		if got, err := decodeEntry(body[:short], api.FormNewest); err == nil {
			require.Less(t, len(got), len(cmds), "a whole number of commands was left")
		}
	})
}

func TestProposeLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		many := func(n int) []command.Command {
			cmds := make([]command.Command, n)
			for i := range cmds {
				cmds[i] = put("a", "1")
			}
			return cmds
		}
		sized := func(n int) []command.Command { return []command.Command{put("a", strings.Repeat("x", n))} }
		over := len(entryOf(t, sized(proposeMaxBytes/2)...)) - proposeMaxBytes/2
		n := solo(t, nil)
		for name, c := range map[string]struct {
			cmds []command.Command
			code api.Code
		}{
			"none":              {nil, api.CodeInvalid},
			"most commands":     {many(commandsMax), ""},
			"a command more":    {many(commandsMax + 1), api.CodeInvalid},
			"larger than batch": {sized(batchMaxBytes + 1), ""},
			"a byte more":       {sized(proposeMaxBytes - over + 1), api.CodeTooLarge},
		} {
			_, err := n.Propose(within(t), c.cmds...)
			assert.Equal(t, c.code, api.CodeOf(err), name)
		}
		_, err := encodeCommands(sized(proposeMaxBytes-over), api.FormNewest)
		assert.NoError(t, err, "at the limit")
	})
}

// TestProposeEach: lists share an entry, in order, and one that is refused says nothing about
// the others.
func TestProposeEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := solo(t, nil)
		before := s.View().Index()
		out := s.ProposeEach(within(t), [][]command.Command{
			{put("a", "1")}, {}, {put("a", "2"), put("b", "1")}, {put("c", strings.Repeat("x", proposeMaxBytes))},
		})
		require.Len(t, out, 4)
		require.NoError(t, out[0].Err)
		assert.Len(t, out[0].Results, 1)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(out[1].Err))
		require.NoError(t, out[2].Err)
		assert.Len(t, out[2].Results, 2)
		assert.Equal(t, api.CodeTooLarge, api.CodeOf(out[3].Err))
		assert.Equal(t, before+1, s.View().Index(), "one entry")
		assert.Empty(t, s.ProposeEach(within(t), nil))
	})
}

// TestBatchOrder has many callers share entries and checks that each gets its own
// results, and that the log keeps the order in which one caller proposed.
func TestBatchOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := solo(t, nil)
		start := n.raft.LastIndex()
		const callers, calls = 64, 20
		failed := make(chan error, callers)
		for c := range callers {
			go func() { failed <- proposeInTurn(n, fmt.Sprint("c", c), calls) }()
		}
		for range callers {
			require.NoError(t, <-failed)
		}
		entries := n.raft.LastIndex() - start
		assert.Less(t, entries, uint64(callers*calls/2), "they shared entries")
	})
}

// proposeInTurn makes calls of three commands each, and says which answer is wrong.
func proposeInTurn(n *node, id string, calls int) error {
	for i := range calls {
		want := strconv.Itoa(i)
		r, err := n.Propose(within(n.t), put(id, want+"-first"), refusable(), put(id, want))
		if err != nil {
			return err
		}
		if len(r) != 3 || r[0].Err != nil || r[1].Err == nil || r[2].Err != nil {
			return fmt.Errorf("%s got another's results: %v", id, r)
		}
		if got := addrOf(n.View(), id); got != want {
			return fmt.Errorf("%s proposed %s and sees %s", id, want, got)
		}
	}
	return nil
}

func someProposal(bytes, count int) *proposal {
	return &proposal{body: make([]byte, bytes), count: count, done: make(chan state.Answer, 1)}
}

// putOne puts p into the queue, or returns why it does not take it.
func putOne(q *queue, p *proposal) error {
	q.putProposals([]*proposal{p})
	select {
	case a := <-p.done:
		return a.Err
	default:
		return nil
	}
}

func TestQueueSharesWithinBounds(t *testing.T) {
	for name, c := range map[string]struct {
		sizes  [][2]int // bytes, commands
		shares []int    // proposals per entry
	}{
		"all fit":          {[][2]int{{10, 1}, {10, 1}, {10, 1}}, []int{3}},
		"bytes at limit":   {[][2]int{{batchMaxBytes - 1, 1}, {1, 1}, {1, 1}}, []int{2, 1}},
		"count at limit":   {[][2]int{{1, batchMaxCommands - 1}, {1, 1}, {1, 1}}, []int{2, 1}},
		"a large one":      {[][2]int{{1, 1}, {batchMaxBytes + 1, 1}, {1, 1}}, []int{1, 1, 1}},
		"a large one only": {[][2]int{{proposeMaxBytes, 1}}, []int{1}},
	} {
		q := newQueue()
		for _, s := range c.sizes {
			require.NoError(t, putOne(q, someProposal(s[0], s[1])), name)
		}
		for _, want := range c.shares {
			<-q.ready // a token for each entry
			assert.Len(t, q.takeBatch(), want, name)
		}
		assert.Empty(t, q.takeBatch(), name)
		assert.Zero(t, q.bytes, name)
	}
}

func TestQueueLimits(t *testing.T) {
	q := newQueue()
	for range queueMax {
		require.NoError(t, putOne(q, someProposal(1, 1)))
	}
	assert.Equal(t, api.CodeOverloaded, api.CodeOf(putOne(q, someProposal(1, 1))))

	q = newQueue()
	for range queueMaxBytes / proposeMaxBytes {
		require.NoError(t, putOne(q, someProposal(proposeMaxBytes, 1)))
	}
	assert.Equal(t, api.CodeOverloaded, api.CodeOf(putOne(q, someProposal(1, 1))))

	a := newAsks()
	for range queueMax {
		require.NoError(t, a.put(make(ask, 1)))
	}
	assert.Equal(t, api.CodeOverloaded, api.CodeOf(a.put(make(ask, 1))))
	a.close()
	assert.Equal(t, api.CodeUnavailable, api.CodeOf(a.put(make(ask, 1))))
}

func TestQueueDropAndClose(t *testing.T) {
	q := newQueue()
	first, second, third := someProposal(1, 1), someProposal(1, 1), someProposal(1, 1)
	require.NoError(t, putOne(q, first))
	require.NoError(t, putOne(q, second))
	assert.True(t, q.dropProposal(second), "it waited")
	assert.Equal(t, []*proposal{first}, q.takeBatch(), "what was dropped is never taken")
	assert.False(t, q.dropProposal(first), "too late")
	require.NoError(t, putOne(q, third))
	q.close()
	assert.Equal(t, api.CodeUnavailable, api.CodeOf((<-third.done).Err))
	assert.Equal(t, api.CodeUnavailable, api.CodeOf(putOne(q, someProposal(1, 1))))
}

// TestProposeDeadlines tells what was never written from what may have been.
func TestProposeDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(Config{
			ID: "n1", Memory: NewMemory(), Bootstrap: true, Timing: quick,
			Advertise: "n1:1", Stream: newNetwork().listen("n1:1"), Log: discard(),
		})
		require.NoError(t, err)
		require.True(t, <-s.raft.LeaderCh())

		short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err = s.Propose(short, put("a", "1")) // Run has not been called: nobody takes it
		assert.Equal(t, api.CodeUnavailable, api.CodeOf(err))
		assert.Empty(t, s.queue.takeBatch(), "and nobody ever will")
		for _, a := range s.ProposeEach(short, [][]command.Command{{put("a", "1")}, {put("b", "1")}}) {
			assert.Equal(t, api.CodeUnavailable, api.CodeOf(a.Err), "nobody waits for it")
		}
		assert.Empty(t, s.queue.waiting)

		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := s.Propose(ctx, put("a", "1"))
			assert.Equal(t, api.CodeTimeout, api.CodeOf(err))
		})
		for len(s.queue.takeBatch()) == 0 { // then it is on its way
			<-s.queue.ready
		}
		cancel()
		wg.Wait()
		require.NoError(t, s.Close())
	})
}

// answer is a future that has come true.
type answer struct {
	err      error
	index    uint64
	response any
}

func (a answer) Error() error  { return a.err }
func (a answer) Index() uint64 { return a.index }
func (a answer) Response() any { return a.response }

var _ raft.ApplyFuture = answer{}

func TestSettle(t *testing.T) {
	three := []state.Result{{Err: errors.New("1")}, {Err: errors.New("2")}, {Err: errors.New("3")}}
	for name, c := range map[string]struct {
		future answer
		code   api.Code
	}{
		"applied":         {answer{index: 7, response: three}, ""},
		"not the leader":  {answer{err: raft.ErrNotLeader}, api.CodeUnavailable},
		"leadership lost": {answer{err: raft.ErrLeadershipLost, index: 7}, api.CodeTimeout},
		"shut down later": {answer{err: raft.ErrRaftShutdown, index: 7}, api.CodeTimeout},
		"stopped":         {answer{index: 7, response: errBroken}, api.CodeTimeout},
		"other answer":    {answer{index: 7, response: 1}, api.CodeTimeout},
		"other length":    {answer{index: 7, response: three[:2]}, api.CodeTimeout},
		"store error":     {answer{err: errors.New("no space left"), index: 7}, api.CodeTimeout},
	} {
		batch := []*proposal{someProposal(1, 1), someProposal(1, 2)}
		answerBatch(batch, c.future)
		for i, own := range [][]state.Result{three[:1], three[1:]} {
			out := <-batch[i].done
			assert.Equal(t, c.code, api.CodeOf(out.Err), name)
			if c.code == "" {
				assert.Equal(t, own, out.Results, name)
			}
		}
	}
}
