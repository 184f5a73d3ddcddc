package native

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
)

// talkative is the peers of a zone whose children have instances that printed a word.
type talkative struct{}

func (talkative) Output(_ context.Context, _ *api.Link, q *api.OutputQuestion) (*api.OutputAnswer, error) {
	const word = "hello"
	from := min(q.After, uint64(len(word)))
	if q.Last {
		from = uint64(max(0, len(word)-q.Limit)) //nolint:gosec // it is not negative
	}
	return &api.OutputAnswer{Offset: from, Total: uint64(len(word)), Data: []byte(word[from:min(int(from)+q.Limit, len(word))])}, nil //nolint:gosec // it is small
}

// TestPiecesOfAnOutput: the newest bytes, or those after an offset.
func TestPiecesOfAnOutput(t *testing.T) {
	w := newWorld(t)
	for query, want := range map[string]rest.Output{
		"":                        {Stream: api.Stdout, Offset: 0, Next: 5, Total: 5, Data: []byte("hello")},
		"?limit=2":                {Stream: api.Stdout, Offset: 3, Next: 5, Total: 5, Data: []byte("lo")},
		"?after=1&limit=2":        {Stream: api.Stdout, Offset: 1, Next: 3, Total: 5, Data: []byte("el")},
		"?after=5&stream=stderr":  {Stream: api.Stderr, Offset: 5, Next: 5, Total: 5, Data: []byte{}},
		"?limit=262144&after=0":   {Stream: api.Stdout, Offset: 0, Next: 5, Total: 5, Data: []byte("hello")},
		"?after=9007199254740992": {Stream: api.Stdout, Offset: 5, Next: 5, Total: 5, Data: []byte{}},
	} {
		var got struct{ Output rest.Output }
		w.answered(t, call{method: "GET", target: "/servers/id-far/output" + query, token: reader}, 200, &got)
		assert.Equal(t, want, got.Output, query)
	}
	for query, says := range map[string]string{
		"?limit=262145": "limit must be 1 to 262144", "?limit=0": "limit must be", "?limit=x": "limit must be", "?after=-1": "after must be 0 to",
		"?after=9007199254740993": "after must be 0 to", "?stream=core": "stream must be stdout or stderr", "?follow=true": "unknown query parameter",
	} {
		w.refused(t, call{method: "GET", target: "/servers/id-far/output" + query, token: reader}, api.CodeInvalid, says)
	}
}

// TestAnOutputIsOfItsProject: who may see a server may read its output, and nobody else; another project's is like none.
func TestAnOutputIsOfItsProject(t *testing.T) {
	w := newWorld(t)
	w.store.Must(t, command.HostsState{Stamp: w.zone.Stamp(), State: api.HostDown, Hosts: []api.HostID{"host-id-1", "host-id-2"}}) // none is waited for
	for id, may := range map[string][]string{
		"id-far": {reader, member, admin}, "id-web": {reader, member, admin}, "id-hidden": {other, admin}, "id-absent": {},
	} {
		for _, token := range []string{reader, member, admin, other} {
			c := call{method: "GET", target: "/servers/" + id + "/output", token: token}
			switch sees := slices.Contains(may, token); {
			case !sees:
				w.refused(t, c, api.CodeNotFound, "no such server")
			case id == "id-far":
				w.answered(t, c, 200, nil)
			default:
				w.refused(t, c, api.CodeTimeout, "does not answer")
			}
		}
	}
	boots := w.custom(t, "boots", "p1", api.AreaBoots.Reads())
	w.refused(t, call{method: "GET", target: "/servers/id-far/output", token: boots}, api.CodeForbidden, "servers:read")
}

// TestEachLackIsARefusal with a sentence of its own, which names no host.
func TestEachLackIsARefusal(t *testing.T) {
	said := map[string]bool{}
	for lack, code := range map[api.OutputLack]api.Code{
		api.OutputUnstarted: api.CodeConflict, api.OutputSilent: api.CodeTimeout, api.OutputUnkept: api.CodeConflict, api.OutputOlder: api.CodeConflict,
		api.OutputBusy: api.CodeOverloaded, api.OutputUnreadable: api.CodeUnavailable, "word of a later release": api.CodeUnavailable,
	} {
		err := refuseLack(lack)
		assert.Equal(t, code, api.CodeOf(err), string(lack))
		said[api.MessageOf(err)] = true
	}
	assert.Len(t, said, 6, "what is not known is unreadable")
	assert.NoError(t, refuseLack(""))
}

// TestAnOutputOfAHostHere: the agent of its host is asked, and its answer returned.
func TestAnOutputOfAHostHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldAt(t, "zone-root", time.Now)
		go func() {
			waits, done := w.outputs.Await(t.Context(), "agent-1", api.FormFifth)
			defer done()
			<-waits.Done()
			for _, a := range w.outputs.Take("agent-1") {
				_, err := w.outputs.Answer(t.Context(), "agent-1", &api.AgentOutputs{Items: []api.AgentOutput{{ID: a.ID, Answer: api.OutputAnswer{Lack: api.OutputUnkept}}}})
				assert.NoError(t, err)
			}
		}()
		began := time.Now()
		w.refused(t, call{method: "GET", target: "/servers/id-web/output", token: reader}, api.CodeConflict, "keeps no output")
		assert.Zero(t, time.Since(began))
		w.refused(t, call{method: "GET", target: "/servers/id-web/output", token: reader}, api.CodeTimeout, "does not answer")
		require.Equal(t, api.OutputWait, time.Since(began), "nobody polls any more")
	})
}
