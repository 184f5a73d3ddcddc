package agents

import (
	"context"

	"berth/api"
)

// workOrAsks returns what is to run, and what the agent is asked: a poll ends early for a question.
func (d *agentDoor) workOrAsks(ctx context.Context, id api.AgentID, q *api.AgentWork) (*api.AgentWorkload, error) {
	if d.Outputs == nil {
		return d.Fleet.Work(ctx, id, q)
	}
	waits, done := d.Outputs.Await(ctx, id, q.Form)
	defer done()
	work, err := d.Fleet.Work(waits, id, q)
	if err == nil && ctx.Err() == nil { // else nobody reads the answer
		work.Asks = d.Outputs.Take(id)
	}
	return work, err
}
