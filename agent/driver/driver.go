// Package driver declares the operations of a host on instances. Its sub-packages
// implement them: process runs real processes, fake only records them.
package driver

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"berth/api"
)

// ErrEnded is what Start returns for an instance that ran here and has ended.
// It is not started again; List has its final status.
var ErrEnded = errors.New("the instance has ended here; it is not started again")

// State is the state of one instance that a driver has not forgotten.
type State struct {
	Host     api.HostID
	Instance api.InstanceID
	Status   api.Status // ACTIVE, SHUTOFF (ended with exit code 0) or ERROR
	Fault    string     // reason, only with ERROR; at most api.FaultMaxBytes
	Fenced   bool       // it was started with a fence
	Runs     uint64     // of the workload that it was started with

	Volumes []api.InstanceID // attached to it, by id
}

// Notice tells a preemptible instance that it must leave.
type Notice struct {
	Deadline          time.Time // UTC: the agent kills it then
	api.PreemptNotice           // its Left counts from now on
}

// Driver starts and stops instances. Calls are keyed by instance id, which no two hosts
// share, and a call whose result holds already succeeds: every call may be repeated after
// a crash at any point. All methods may be called from several goroutines; two calls for
// one instance wait for each other.
type Driver interface {
	// Start makes w run on host and returns once it does. It returns nil when w
	// runs already, ErrEnded when it has ended, and any other error when it
	// cannot run: such an instance is then in List as ERROR, and a repeat returns
	// an error again. If ctx ends first, only List shows the outcome.
	// A w with the type of a volume makes that, empty, and runs nothing: it is in List as ACTIVE,
	// until Stop removes it with all that is in it.
	// A w with a fence does not outlive the driver: nothing of it runs any more when
	// the next driver of the same instances is ready.
	// What has ended here, or could not be started, with fewer Runs than w has is started again, in the
	// files that it has left, and with its outputs after the earlier ones.
	Start(ctx context.Context, host api.HostID, w api.Workload) error

	// Halt ends the instance as Stop does, but keeps its files and its entry in List, as SHUTOFF if it
	// ran. It returns nil when nothing of it runs, and for an instance that is not known.
	Halt(ctx context.Context, id api.InstanceID) error

	// Attach lets an instance use volumes on this machine, and no others; they are listed by id.
	// It returns nil for an instance that does not run, and an error if one of the volumes could
	// not be attached; the others are.
	Attach(ctx context.Context, id api.InstanceID, volumes []api.InstanceID) error

	// Notify puts a notice where the instance can read it, in place of an earlier one, and
	// then asks the instance to end, as Stop does first, unless the notice is quiet. It does
	// not wait for the end, which Changed announces, and asks only once. It returns nil for
	// an instance that does not run, and an error if the notice could not be put there: the
	// instance is asked to end all the same.
	Notify(ctx context.Context, id api.InstanceID, n Notice) error

	// Stop ends the instance, softly and then hard, and returns nil when nothing
	// of it is left on this host: no process, no file, no entry in List. It
	// returns an error when that could not be verified before ctx ended.
	Stop(ctx context.Context, id api.InstanceID) error

	// Kill is Stop without the soft part. It waits for its turn as any call does:
	// end the context of a Stop that goes on. An OutputKeeper keeps the outputs.
	Kill(ctx context.Context, id api.InstanceID) error

	// List returns every instance that the driver has not forgotten, by id: those
	// that run, also from before a restart, those that ended by themselves and
	// those that could not be started.
	List(ctx context.Context) ([]State, error)

	// Severed returns the instances with a fence that an earlier driver left behind. They
	// were killed and forgotten before this one was ready, and are not in List. The
	// result is the same in each call.
	Severed() []State

	// Changed gets a value after instances have ended by themselves, and one
	// value may stand for many. It is the same channel in each call, and is
	// never closed; it has one reader.
	Changed() <-chan struct{}

	// Needs returns the requirements on a flavor for the driver to run it. The result is
	// the same in each call.
	Needs() api.Needs

	// Describe describes the driver and the limits that it can enforce, for the log.
	Describe() string
}

// StrayFinder is a driver that may find what runs of an instance and is not in its List, because another agent of this machine has started it.
// Start and Stop of the instance end that.
type StrayFinder interface {
	HasStray(id api.InstanceID) bool
}

// Reason returns err's text as a fault to report: valid UTF-8 on one line, of
// at most api.FaultMaxBytes bytes, cut where a character begins.
func Reason(err error) string {
	if err == nil {
		return ""
	}
	return Clip(err.Error())
}

// Clip returns text under the rules of Reason.
func Clip(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if len(text) <= api.FaultMaxBytes {
		return text
	}
	cut := api.FaultMaxBytes
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}
