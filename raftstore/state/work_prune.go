package state

import (
	"berth/api"
	"berth/raftstore/command"
)

// indexEndedInstance updates the index of DELETED instances: i replaces old, and either may
// be nil.
func (s *workBook) indexEndedInstance(old, i *api.Instance) {
	if old != nil && !old.Live() {
		s.endedInstances.Delete(prunableKey(classOf(old.Origin), old.Updated, string(old.ID)))
	}
	if i != nil && !i.Live() {
		s.endedInstances.Insert(prunableKey(classOf(i.Origin), i.Updated, string(i.ID)))
	}
}

// pruneInstances deletes instances and returns the keys of the holds that made them.
func (s *workBook) pruneInstances(c command.Prune) map[string]bool {
	bereft := map[string]bool{}
	for _, id := range prunableKeys(&s.endedInstances, c.Limit, cutoff{endOwn, c.Before}, cutoff{endAbroad, c.BeforeAbroad}) {
		i, _ := s.instances.Delete(id)
		s.indexEndedInstance(i, nil)
		s.byTenant.Delete(tenantKey(i.Tenant()), id)
		s.byRes.Delete(resKey(i.Tenant(), i.Reservation), id)
		if i.Origin != "" {
			s.changes.Delete(changeKey(i.Origin, i.ModIndex, i.ID))
			s.touchTopic(ChangesTopic(i.Origin))
		}
		bereft[joinKey(i.Origin, i.Hold)] = true
	}
	return bereft
}
