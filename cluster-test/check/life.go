package check

import (
	"berth/api"
	"berth/raftstore/command"
)

// instance is one instance, own (host) or of a child (link). DELETED ones stay
// until the zone prunes them.
type instance struct {
	hold   *hold
	group  int
	host   api.HostID
	target api.HostID // where it moves to
	link   api.LinkID
	status api.Status
	stays  uint64      // how many stays on hosts have ended by a move
	away   api.Instant // since when its zone says that it is out of reach; 0 while it is not
}

func (i *instance) live() bool { return i.status != api.StatusDeleted }

func (m *model) make(id api.InstanceID, i *instance) {
	i.status = api.StatusBuild
	m.instances[id], m.hit[id] = i, true
}

// madeBy returns an instance if h made it: after an abort another hold may have
// used the id.
func (m *model) madeBy(h *hold, id api.InstanceID) *instance {
	if i, ok := m.instances[id]; ok && i.hold.id == h.id {
		return i
	}
	return nil
}

// set moves an instance on. Its claim ends when it is DELETED.
func (m *model) set(id api.InstanceID, st api.Status) {
	i := m.instances[id]
	if i.status == st {
		return
	}
	i.status, m.hit[id] = st, true
	m.touch(i)
	if st == api.StatusDeleting || st == api.StatusDeleted {
		m.stay(id, i)
	}
	if st == api.StatusDeleted {
		i.away = 0
		m.end(id)
	}
}

// since returns since when an instance is out of reach; 0 while it is not.
func (m *model) since(i *instance) api.Instant {
	switch {
	case !i.live():
		return i.away
	case i.host != "":
		return m.hosts[i.host].downSince
	case i.away == 0 && m.links[i.link] != nil:
		return m.links[i.link].silent
	}
	return i.away
}

// wander takes in that a child says since when an instance is out of reach: not since
// a time that has not come here.
func (m *model) wander(id api.InstanceID, since api.Instant) {
	i, was := m.instances[id], m.instances[id].away
	switch {
	case since <= 0:
		i.away = 0
	case since <= m.now:
		i.away = since
	case i.away == 0:
		i.away = m.now
	}
	if i.away != was {
		m.hit[id] = true
	}
}

// rise takes in that a host is up, or down: of all on it that is news.
func (m *model) rise(h *host, up bool) {
	if h.up == up {
		return
	}
	h.up, h.downSince = up, 0
	if !up {
		h.downSince = m.now
	}
	for id, i := range m.instances {
		if i.host == h.id && i.live() {
			m.hit[id] = true
		}
	}
}

func (m *model) instanceDelete(c command.InstanceDelete) *no {
	i, ok := m.instances[c.ID]
	if !ok || !i.live() {
		return &no{RuleModel, "there is no instance " + string(c.ID)}
	}
	m.set(c.ID, api.StatusDeleting)
	return nil
}

func (m *model) instanceTold(c command.InstanceTold) {
	for _, id := range c.Gone {
		if i, ok := m.instances[id]; ok && i.link != "" && i.status == api.StatusDeleting {
			m.set(id, api.StatusDeleted)
		}
	}
}

// instanceReport folds in what an agent says of instances on its own hosts.
func (m *model) instanceReport(c command.InstanceReport) {
	for _, r := range c.Items {
		i, ok := m.instances[r.Instance]
		h, known := m.hosts[r.Host]
		if !ok || i.host != r.Host || !i.live() || !known || h.agent != c.Agent {
			continue
		}
		if r.Stay > 0 && r.Stay != i.stays+1 {
			continue // of an earlier stay
		}
		m.failed(h, i, r.Status)
		switch {
		case r.Status == api.StatusDeleted && i.status == api.StatusDeleting:
			m.set(r.Instance, api.StatusDeleted)
		case r.Status == api.StatusDeleted && i.target != "":
			m.arrive(r.Instance, i)
		case r.Status == api.StatusDeleted:
			m.set(r.Instance, api.StatusError) // gone unasked
		case i.status == api.StatusDeleting: // it will be gone
		case r.Status == api.StatusActive || r.Status == api.StatusShutoff || r.Status == api.StatusError:
			m.set(r.Instance, r.Status)
		}
	}
}

// failed counts what could not be started on a host since something could.
func (m *model) failed(h *host, i *instance, reported api.Status) {
	const most = 1000
	switch {
	case reported == api.StatusError && i.status == api.StatusBuild && h.failures < most:
		h.failures++
		m.bump(h)
	case reported == api.StatusActive && i.status != api.StatusActive && i.status != api.StatusDeleting && h.failures > 0:
		h.failures = 0
		m.bump(h)
	}
}

// instanceChanges folds in what a child says, up to the first instance that is
// not decided here yet.
func (m *model) instanceChanges(c command.InstanceChanges) *no {
	l, ok := m.links[c.Link]
	if !ok || l.next != c.After {
		return &no{RuleModel, "the child was followed from elsewhere"}
	}
	next := c.Next
	for _, ch := range c.Items {
		if _, pending := m.held[ch.ID]; pending {
			next = min(next, ch.Index-1)
			break
		}
		i, ok := m.instances[ch.ID]
		if !ok || i.link != c.Link || !i.live() {
			continue
		}
		switch ch.Status {
		case api.StatusDeleted:
			m.set(ch.ID, ch.Status)
		case api.StatusBuild, api.StatusActive, api.StatusShutoff, api.StatusError, api.StatusDeleting:
			if i.status != api.StatusDeleting {
				m.set(ch.ID, ch.Status)
			}
			m.wander(ch.ID, ch.Unreachable)
		}
	}
	l.next = next
	return nil
}
