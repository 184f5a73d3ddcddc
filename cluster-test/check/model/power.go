package model

import (
	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

// instancePower carries out what the owner of an instance wants of its process. Its claims stay.
func (m *Model) instancePower(c command.InstancePower) *Refusal {
	i := m.Instances[c.ID]
	switch {
	case i == nil || !i.Live() || i.Host == "" || i.Reserved():
		return &Refusal{promise.Model, "there is no instance " + string(c.ID) + " here"}
	case c.Order != api.PowerStop && c.Order != api.PowerStart && c.Order != api.PowerRestart:
		return &Refusal{promise.Power, "that is no order"}
	case i.Volume() != "":
		return &Refusal{promise.Power, "nothing runs in a volume"}
	case i.Status == api.StatusDeleting:
		return &Refusal{promise.Power, "the instance is being deleted"}
	case c.Run > i.Orders+1:
		return &Refusal{promise.Power, "nobody has ordered that run"}
	case c.Run != i.Orders+1:
		return nil // somebody else was first
	}
	runs := !i.Halted && (i.Status == api.StatusBuild || i.Status == api.StatusActive)
	switch {
	case c.Order == api.PowerStop && !i.Halted:
		i.Halted, m.Hit[c.ID] = true, true
	case c.Order == api.PowerStart && !runs, c.Order == api.PowerRestart:
		i.Halted = false
		i.Orders++
		i.Status, m.Hit[c.ID] = api.StatusBuild, true
		m.touchRules(i)
	}
	return nil
}
