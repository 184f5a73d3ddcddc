package agents

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/codec"
	"berth/internal/memstore"
)

// TestAnAgentIsAskedForOutputs in the answer to its poll for work, which comes at once, and answers by a call. One of
// an earlier release is asked nothing.
func TestAnAgentIsAskedForOutputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var reg api.AgentRegistered
		w.answered(t, "a-1", api.PathAgentRegister, hosts(1), &reg)
		w.place(t, "i-1", reg.Hosts[0])
		read := func() <-chan *api.OutputAnswer {
			got := make(chan *api.OutputAnswer, 1)
			go func() {
				a, err := w.conf.Outputs.Read(t.Context(), &api.OutputQuestion{Instance: "i-1", Stream: api.Stderr, Limit: 4, Last: true})
				assert.NoError(t, err)
				got <- a
			}()
			synctest.Wait()
			return got
		}
		poll := api.AgentWork{After: w.store.View().Index(), Wait: time.Minute}
		var work api.AgentWorkload
		began := time.Now()
		w.answeredTo(t, api.FormFifth, "a-1", api.PathAgentWork, api.AgentWork{After: poll.After, Wait: time.Second}, &work)
		assert.Equal(t, time.Second, time.Since(began), "without a question it waits")
		assert.Empty(t, work.Asks)

		got := read()
		w.answeredTo(t, api.FormFifth, "a-1", api.PathAgentWork, poll, &work)
		assert.Equal(t, time.Second, time.Since(began))
		require.Len(t, work.Asks, 1)
		assert.Equal(t, poll.After, work.Generation)
		assert.Equal(t, reg.Hosts[0], work.Asks[0].Host)
		answer := api.AgentOutputs{Items: []api.AgentOutput{{ID: work.Asks[0].ID, Answer: api.OutputAnswer{Total: 4, Data: []byte("oops")}}}}
		var ack api.AgentAck
		w.answered(t, "a-2", api.PathAgentOutputs, answer, &ack)
		assert.Empty(t, got, "it was not asked")
		w.answered(t, "a-1", api.PathAgentOutputs, answer, &ack)
		assert.EqualValues(t, memstore.Term, ack.Term)
		assert.Equal(t, "oops", string((<-got).Data))

		got = read()
		var older api.AgentWorkload
		w.answeredTo(t, api.FormFourth, "a-1", api.PathAgentWork, api.AgentWork{After: poll.After}, &older)
		assert.Empty(t, older.Asks)
		assert.Equal(t, api.OutputOlder, (<-got).Lack)
		w.refused(t, "a-1", api.PathAgentOutputs, api.AgentOutputs{Items: make([]api.AgentOutput, api.OutputAsksMax+1)}, api.CodeInvalid, "at most 16")
		w.refused(t, "a-1", api.PathAgentOutputs, make([]byte, api.AgentOutputsMaxBytes+1), api.CodeTooLarge, "")
	})
}

// answeredTo is answered for an agent that reads a form.
func (w *world) answeredTo(tb testing.TB, form api.Form, agent api.AgentID, path string, body, answer any) {
	tb.Helper()
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(encode(tb, body)))
	r.Header.Set("Content-Type", api.MediaCBOR)
	r.Header.Set(api.HeaderForm, form.String())
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r.WithContext(context.WithValue(r.Context(), agentKey{}, agent)))
	require.Equal(tb, http.StatusOK, rec.Code, "%s: %s", path, rec.Body)
	require.NoError(tb, codec.Unmarshal(rec.Body.Bytes(), answer))
}
