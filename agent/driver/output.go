package driver

import (
	"context"

	"berth/api"
)

// OutputReader is a Driver that keeps what instances print.
type OutputReader interface {
	// ReadOutput returns a piece of what an instance on host has printed, if q is valid. It reads nothing else, whatever
	// the instance has made of its files, and api.OutputUnstarted is the lack of one that it does not know. An error is
	// for the log of the agent. It does not wait for other calls for longer than ctx lasts.
	ReadOutput(ctx context.Context, host api.HostID, q *api.OutputQuestion) (*api.OutputAnswer, error)
}

// OutputKeeper is a Driver that keeps what an instance has printed when it is killed with a fence: it is the beginning of
// its output if it is started anew.
type OutputKeeper interface {
	// ForgetOutputs removes what is kept of instances that are not wanted any more. Stop of an instance does so too.
	ForgetOutputs(wanted func(id api.InstanceID) bool) error
}
