package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/agent/driver/fake"
	"berth/api"
	"berth/internal/await"
	"berth/internal/codec"
)

// outputs is what a zone asks for and is answered.
type outputs struct {
	asks    []api.OutputAsk
	answers map[string]api.OutputAnswer
	batches int  // calls with answers
	older   bool // knows no such call
}

func (o *outputs) takeAsks() []api.OutputAsk {
	out := o.asks
	o.asks = nil
	return out
}

func (z *zone) takeOutputs(body []byte) (*http.Response, error) {
	if z.older {
		return answer(http.StatusNotFound, api.ErrorBody{Error: api.ErrorDetail{Code: api.CodeNotFound, Message: "no such call"}})
	}
	var in api.AgentOutputs
	if err := codec.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	z.batches++
	for _, i := range in.Items {
		z.answers[i.ID] = i.Answer
	}
	return answer(http.StatusOK, api.AgentAck{Term: z.term})
}

// ask returns questions for the newest bytes of instances. The caller holds the lock.
func (z *zone) ask(ids ...string) (asks []api.OutputAsk) {
	z.answers = map[string]api.OutputAnswer{}
	for _, id := range ids {
		asks = append(asks, api.OutputAsk{ID: "ask-" + id, Host: z.id("host-0001"), Question: api.OutputQuestion{
			Instance: api.InstanceID(id), Stream: api.Stdout, Limit: 9, Last: true,
		}})
	}
	return asks
}

// askFor has the zone ask for the newest bytes of an instance.
func (z *zone) askFor(id string) { z.do(func() { z.asks = z.ask(id) }) }

// printing is a fake driver whose instances have printed their ids; that of "stuck" cannot be read, and that of
// "broken" is none.
type printing struct{ *fake.Driver }

func (printing) ReadOutput(ctx context.Context, host api.HostID, q *api.OutputQuestion) (*api.OutputAnswer, error) {
	switch {
	case host != "id-of-host-0001":
		return nil, errors.New("another host")
	case q.Instance == "stuck":
		<-ctx.Done()
		return nil, ctx.Err()
	case q.Instance == "broken":
		return &api.OutputAnswer{Total: 1, Data: []byte("more than one")}, nil
	}
	return &api.OutputAnswer{Total: uint64(len(q.Instance)), Data: []byte(q.Instance)}, nil
}

// TestOutputsAreAnswered in one call for the questions that came together, those that cannot be as what they lack.
func TestOutputsAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZone()
		defer run(t, config(z, printing{fake.New(fake.Options{})}, 1))()
		settle()
		z.do(func() {
			z.asks = append(z.ask("a", "stuck", "broken", "b"),
				api.OutputAsk{ID: "elsewhere", Host: "id-of-another", Question: api.OutputQuestion{Instance: "a", Stream: api.Stdout, Limit: 1}},
				api.OutputAsk{ID: "none", Host: z.id("host-0001"), Question: api.OutputQuestion{Instance: "a", Stream: "../stdout.log", Limit: 1}})
		})
		await.Sleep(readTimeout + time.Millisecond) // for which one that is stuck holds the others up
		synctest.Wait()
		z.do(func() {
			lack := func(why api.OutputLack) api.OutputAnswer { return api.OutputAnswer{Lack: why} }
			assert.Equal(t, map[string]api.OutputAnswer{
				"ask-a": {Total: 1, Data: []byte("a")}, "ask-b": {Total: 1, Data: []byte("b")},
				"ask-stuck": lack(api.OutputUnreadable), "ask-broken": lack(api.OutputUnreadable),
				"elsewhere": lack(api.OutputUnstarted), "none": lack(api.OutputUnreadable),
			}, z.answers)
			assert.Equal(t, 1, z.batches)
		})
	})
}

// TestNoDriverNoOutput: a driver that keeps none says so.
func TestNoDriverNoOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZone()
		defer run(t, config(z, fake.New(fake.Options{}), 1))()
		settle()
		z.askFor("a")
		settle()
		z.do(func() { assert.Equal(t, api.OutputUnkept, z.answers["ask-a"].Lack) })
	})
}

// TestOutputsAreNoOutage: a node that does not know the call, or does not take it, is not called unreachable, and the
// agent goes on as ever.
func TestOutputsAreNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), fake.New(fake.Options{})
		z.older = true
		c := config(z, printing{d}, 1)
		var lines bytes.Buffer
		c.Log = slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
		end := run(t, c)
		settle()
		assert.NotContains(t, lines.String(), "level=DEBUG")
		z.askFor("a")
		settle()
		z.set("host-0001", work("a"))
		settle()
		assert.Equal(t, []string{"a"}, running(t, d))
		end()
		assert.NotContains(t, lines.String(), "level=WARN")
		assert.NotContains(t, lines.String(), "level=ERROR")
		assert.Contains(t, lines.String(), `level=DEBUG msg="outputs of instances were not sent" outputs=1 err=`)
	})
}

// TestADeposedLeaderIsToldNothing that an instance has printed: its questions are not answered.
func TestADeposedLeaderIsToldNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZone()
		z.term = 5
		defer run(t, config(z, printing{fake.New(fake.Options{})}, 1))()
		settle()
		z.do(func() { z.term = 4 })
		z.askFor("a")
		settle()
		z.do(func() {
			assert.Empty(t, z.asks, "they were asked")
			assert.Empty(t, z.answers)
			z.term = 5
		})
		settle()
	})
}

// TestQuestionsAreBounded: no more than api.OutputAsksMax of one answer are answered, and no call is made for none.
func TestQuestionsAreBounded(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, api.OutputAsksMax: api.OutputAsksMax, api.OutputAsksMax + 1: api.OutputAsksMax} {
		synctest.Test(t, func(t *testing.T) {
			z := newZone()
			defer run(t, config(z, printing{fake.New(fake.Options{})}, 1))()
			settle()
			var ids []string
			for i := range n {
				ids = append(ids, fmt.Sprint("i", i))
			}
			z.do(func() { z.asks = z.ask(ids...) })
			z.set("host-0001")
			settle()
			z.do(func() {
				assert.Len(t, z.answers, want)
				assert.Equal(t, min(n, 1), z.batches)
			})
		})
	}
}
