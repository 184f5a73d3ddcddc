package state

import (
	"berth/api"
	"berth/raftstore/command"
)

// An instance that its owner has stopped keeps its claims: its power changes no room. Each start that
// its owner orders is a run with a number, which its agent carries out once.

// instancePower stops, starts or restarts an instance; a repeat changes nothing.
func (s *workBook) instancePower(c command.InstancePower) Result {
	i, ok := s.instances.Get(string(c.ID))
	switch {
	case !ok || !i.Live() || i.Reserved || i.Host == "":
		return refuseWith(api.CodeNotFound, "no such server on a host of this zone")
	case !c.Order.Valid():
		return refuseWith(api.CodeInvalid, "a server can be stopped, started or restarted, and nothing else")
	case i.Volume != "":
		return refuseWith(api.CodeConflict, "nothing runs in a volume that could be stopped or started")
	case i.Status == api.StatusDeleting:
		return refuseWith(api.CodeConflict, "the server is being deleted")
	case c.Run > i.Run():
		return refuseWith(api.CodeInvalid, "the server is at run %d, and the order is for run %d", i.Run(), c.Run)
	case c.Run < i.Run(): // a repeat, or another one came first
	case c.Order == api.PowerStop:
		s.haltInstance(i)
	case c.Order == api.PowerRestart || i.Halted || i.Status == api.StatusShutoff || i.Status == api.StatusError:
		s.runAgain(i)
	}
	return Result{}
}

// haltInstance has an instance end and stay so. Its status follows when its agent has done that.
func (s *workBook) haltInstance(old *api.Instance) {
	if old.Halted {
		return
	}
	i := *old
	i.ChangeExtras(func(x *api.InstanceExtras) { x.Halted = true })
	s.putInstance(old, &i)
	s.touchHost(i.Host, i.ID)
}

// runAgain begins another run of an instance: it is BUILD until its agent has started it.
func (s *workBook) runAgain(old *api.Instance) {
	i := *old
	i.Status = api.StatusBuild
	i.ChangeExtras(func(x *api.InstanceExtras) {
		x.Halted, x.Fault = false, ""
		x.Runs++
	})
	s.putInstance(old, &i)
	s.touchHost(i.Host, i.ID)
}
