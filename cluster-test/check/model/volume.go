package model

import (
	"cmp"
	"maps"
	"slices"

	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

// Volume returns the type of a volume, "" for an instance.
func (i *Instance) Volume() string { return i.Hold.Request.Groups[i.Group].Volume }

// Volumes returns the volumes on own hosts that are attached to an instance, by id.
func (m *Model) Volumes(of api.InstanceID) (out []api.InstanceID) {
	for id, i := range m.Instances {
		if i.Attached == of && i.Host != "" {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

func (m *Model) volumeAttach(c command.VolumeAttach) *Refusal {
	vol, to := m.Instances[c.Volume], m.Instances[c.Instance]
	mine := func(i *Instance, volume bool) bool {
		return i != nil && i.Live() && i.Host != "" && (i.Volume() != "") == volume && !i.Reserved()
	}
	switch {
	case !mine(vol, true) || !mine(to, false):
		return &Refusal{promise.Volume, "they are not on hosts of this zone"}
	case vol.Hold.ID.Origin != to.Hold.ID.Origin || vol.Hold.Request.Project != to.Hold.Request.Project:
		return &Refusal{promise.Volume, "they are not of one owner"}
	case vol.Attached == c.Instance:
		return nil
	case vol.Attached != "":
		return &Refusal{promise.Volume, "the volume is attached to another"}
	case vol.Status != api.StatusActive:
		return &Refusal{promise.Volume, "the volume is not there"}
	case !m.mayAttach(c.Volume, c.Instance):
		return &Refusal{promise.Volume, "the instance may not have it"}
	}
	m.attach(c.Volume, c.Instance)
	return nil
}

// mayAttach reports whether an instance can have one more volume, on its host or in pools of it.
func (m *Model) mayAttach(vol, to api.InstanceID) bool {
	const most = 32
	i := m.Instances[to]
	return i.Status != api.StatusDeleting && i.Target == "" && len(m.Volumes(to)) < most && m.reaches(i.Host, vol)
}

func (m *Model) attach(vol, to api.InstanceID) {
	m.Instances[vol].Attached = to
	m.Hit[vol], m.Hit[to] = true, true
}

func (m *Model) volumeDetach(c command.VolumeDetach) *Refusal {
	vol := m.Instances[c.Volume]
	switch {
	case vol == nil || !vol.Live() || vol.Host == "" || vol.Volume() == "":
		return &Refusal{promise.Volume, "there is no volume " + string(c.Volume) + " here"}
	case vol.Attached == "":
		return nil
	case c.Instance != "" && c.Instance != vol.Attached:
		return &Refusal{promise.Volume, "the volume is attached to another"}
	}
	m.detach(c.Volume)
	return nil
}

// detach ends the attachment of a volume, if it has one.
func (m *Model) detach(id api.InstanceID) {
	vol := m.Instances[id]
	if vol.Attached == "" {
		return
	}
	m.Hit[id] = true
	if vol.Host != "" {
		m.Hit[vol.Attached] = true
	}
	vol.Attached = ""
}

// detachFrom ends the attachments of volumes on own hosts to an instance.
func (m *Model) detachFrom(id api.InstanceID) {
	for _, vol := range m.Volumes(id) {
		m.detach(vol)
	}
}

// reaches reports whether instances on a host can have a volume: it is on that host, or in
// nothing but what the host draws from too.
func (m *Model) reaches(host api.HostID, vol api.InstanceID) bool {
	c := m.Claims[vol]
	if c.Host == host {
		return true
	}
	rest := maps.Clone(c.Want)
	h := m.Hosts[host]
	if h == nil {
		return false
	}
	for _, p := range c.Rest {
		from := m.Hosts[p.Host]
		if m.Root(from) != h && !slices.Contains(m.sharersOf(h), from) {
			return false
		}
		for class := range p.Amounts {
			delete(rest, class)
		}
	}
	return len(rest) == 0
}

// reachesAll reports whether a host reaches all volumes of an instance.
func (m *Model) reachesAll(host api.HostID, of api.InstanceID) bool {
	return !slices.ContainsFunc(m.Volumes(of), func(vol api.InstanceID) bool { return !m.reaches(host, vol) })
}

// attachBooted attaches the volumes of a boot as its groups ask, one to each instance, by names.
func (m *Model) attachBooted(h *Hold) {
	for _, g := range h.Request.Groups {
		if g.AttachTo == "" {
			continue
		}
		volumes, to := m.membersOf(h, g.Name), m.membersOf(h, g.AttachTo)
		has := map[api.InstanceID]bool{}
		for _, id := range volumes {
			has[m.Instances[id].Attached] = true
		}
		volumes = slices.DeleteFunc(volumes, func(id api.InstanceID) bool { return m.Instances[id].Attached != "" })
		to = slices.DeleteFunc(to, func(id api.InstanceID) bool { return has[id] })
		if slices.ContainsFunc(h.Request.Rules, func(r api.Rule) bool { return r.Pairs }) {
			m.attachPairs(volumes, to)
			continue
		}
		for n := range min(len(volumes), len(to)) {
			if m.mayAttach(volumes[n], to[n]) {
				m.attach(volumes[n], to[n])
			}
		}
	}
}

// attachPairs attaches each volume, by names, to the first on its host that gets none of them.
func (m *Model) attachPairs(volumes, to []api.InstanceID) {
	has := map[api.InstanceID]bool{}
	for _, vol := range volumes {
		for _, id := range to {
			if m.Instances[id].Host == m.Instances[vol].Host && !has[id] {
				if has[id] = true; m.mayAttach(vol, id) {
					m.attach(vol, id)
				}
				break
			}
		}
	}
}

// membersOf returns what runs or is on own hosts of a group of all holds of the reservation of h,
// by name.
func (m *Model) membersOf(h *Hold, group string) (out []api.InstanceID) {
	for id, i := range m.Instances {
		r := &i.Hold.Request
		same := i.Hold.ID.Origin == h.ID.Origin && r.Project == h.Request.Project && r.Reservation == h.Request.Reservation
		if same && r.Groups[i.Group].Name == group && i.Host != "" && i.Live() && i.Status != api.StatusDeleting {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b api.InstanceID) int {
		return cmp.Or(cmp.Compare(m.nameOf(a), m.nameOf(b)), cmp.Compare(a, b))
	})
	return out
}

func (m *Model) nameOf(id api.InstanceID) string { return m.Instances[id].Hold.Names[id] }

// noteAttached records what a child reports that a volume is attached to, unless it must go.
func (m *Model) noteAttached(ch api.InstanceChange, i *Instance) {
	now := ch.Attached
	if i.Volume() == "" || i.Status == api.StatusDeleting || !api.ValidName(string(now)) {
		now = ""
	}
	if i.Attached != now {
		i.Attached, m.Hit[ch.ID] = now, true
	}
}

// isWithin reports whether a group is in the room of a lease. Volumes are in that of nobody.
func (h *Hold) isWithin(group int) bool {
	return h.Request.Within != "" && h.Request.Groups[group].Volume == ""
}

// EndOf returns when the window of a group ends: volumes stay when a lease ends in which their
// instances are.
func (h *Hold) EndOf(group int) api.Instant {
	switch r := &h.Request; {
	case r.Within == "" || h.isWithin(group):
		return h.End
	case r.Lifetime > 0 && r.Window.End == api.Forever:
		return h.Start + api.Instant(r.Lifetime.Milliseconds())
	default:
		return r.Window.End
	}
}

// Pushes reports whether preemptibles leave for what h holds of a group.
func (h *Hold) Pushes(group int) bool {
	return h.Request.Class == api.Firm && (h.Request.Reserves || h.Request.Preempt || h.isWithin(group))
}
