package agent

import (
	"context"
	"sync"
	"time"

	"berth/agent/driver"
	"berth/api"
)

// readTimeout is how long a driver may take to read one output.
const readTimeout = 2 * time.Second

// noteAsks leaves the questions of one answer of the zone to answerAsks. While others wait, these are dropped: the zone
// asks no more than a few at a time, and whoever reads asks again.
func (a *Agent) noteAsks(asks []api.OutputAsk) {
	if len(asks) == 0 {
		return
	}
	select {
	case a.asks <- asks[:min(len(asks), api.OutputAsksMax)]:
	default:
	}
}

// answerAsks answers questions for what instances have printed, until ctx ends. One that fails is not repeated, and no
// outage: the zone stops waiting by itself.
func (a *Agent) answerAsks(ctx context.Context) {
	for {
		var asks []api.OutputAsk
		select {
		case <-ctx.Done():
			return
		case asks = <-a.asks:
		}
		ctx := nameCall(ctx)
		out := api.AgentOutputs{Items: make([]api.AgentOutput, len(asks))}
		var wg sync.WaitGroup
		for n := range asks { // one that takes long holds up no other for longer than readTimeout
			wg.Go(func() { out.Items[n] = api.AgentOutput{ID: asks[n].ID, Answer: a.readOutput(ctx, &asks[n])} })
		}
		wg.Wait()
		var ack api.AgentAck
		if err := a.callZone(ctx, api.PathAgentOutputs, callTimeout, out, &ack, &ack.Term); err != nil {
			a.conf.Log.DebugContext(ctx, "outputs of instances were not sent", "outputs", len(asks), "err", err)
		}
	}
}

// readOutput reads an output of an instance on a host that is served here.
func (a *Agent) readOutput(ctx context.Context, ask *api.OutputAsk) api.OutputAnswer {
	lack := func(why api.OutputLack) api.OutputAnswer { return api.OutputAnswer{Lack: why} }
	a.mu.Lock()
	h := a.ledger.hosts[ask.Host]
	a.mu.Unlock()
	if h == nil {
		return lack(api.OutputUnstarted)
	}
	reads, ok := h.driver.(driver.OutputReader)
	if !ok {
		return lack(api.OutputUnkept)
	}
	if ask.Question.Validate() != nil {
		return lack(api.OutputUnreadable)
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	got, err := reads.ReadOutput(ctx, ask.Host, &ask.Question)
	switch {
	case err != nil:
		a.conf.Log.WarnContext(ctx, "output of an instance cannot be read", "host", ask.Host, "instance", ask.Question.Instance, "err", err)
		return lack(api.OutputUnreadable)
	case !ask.Question.Accepts(got):
		a.conf.Log.ErrorContext(ctx, "driver returned what is no answer", "host", ask.Host, "instance", ask.Question.Instance)
		return lack(api.OutputUnreadable)
	}
	return *got
}
