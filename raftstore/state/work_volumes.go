package state

import (
	"slices"
	"strings"

	"berth/api"
	"berth/capacity"
	"berth/raftstore/command"
)

// A volume is an instance of storage: it has a claim and a host, and nothing runs. It is attached
// to at most one instance, on its own host or on one that draws from the shared pools that give
// all of it. Both records are in the zone that owns the hosts; zones above learn of Attached only.

// volumeAttach attaches a volume to an instance; a repeat changes nothing.
func (s *workBook) volumeAttach(c command.VolumeAttach) Result {
	vol, is := s.Volume(c.Volume)
	to, known := s.instances.Get(string(c.Instance))
	switch {
	case !is || vol.Host == "":
		return refuseWith(api.CodeNotFound, "no such volume on a host of this zone")
	case !known || !to.Live() || to.Reserved || to.Volume != "" || to.Tenant() != vol.Tenant() || to.Host == "":
		return refuseWith(api.CodeNotFound, "no such server on a host of this zone")
	case vol.Attached == to.ID:
		return Result{}
	case vol.Attached != "":
		return refuseWith(api.CodeConflict, "the volume is attached to server %s", string(vol.Attached))
	case vol.Status != api.StatusActive:
		return refuseWith(api.CodeConflict, "the volume is %s, and must be %s", vol.VolumeStatus(), api.VolumeAvailable)
	}
	return s.attachVolume(vol, to)
}

// attachVolume attaches a volume to an instance of its tenant on a host of this zone, if that
// can reach it.
func (s *workBook) attachVolume(vol, to *api.Instance) Result {
	switch {
	case to.Status == api.StatusDeleting:
		return refuseWith(api.CodeConflict, "the server is being deleted")
	case to.Target != "":
		return refuseWith(api.CodeConflict, "the server is on its way to another host")
	case len(to.Volumes) >= s.limits.attached:
		return refuseWith(api.CodeConflict, "the server has %d volumes; the limit is %d", len(to.Volumes), s.limits.attached)
	case !s.reachesVolume(to.Host, vol):
		return refuseWith(api.CodeConflict, "the volume is on another host than the server, and in no pool that both share")
	}
	v, i := *vol, *to
	v.ChangeExtras(func(x *api.InstanceExtras) { x.Attached = to.ID })
	i.ChangeExtras(func(x *api.InstanceExtras) {
		x.Volumes = slices.Sorted(slices.Values(append(slices.Clone(to.Volumes), vol.ID)))
	})
	s.putInstance(vol, &v)
	s.putInstance(to, &i)
	s.touchHost(i.Host, i.ID)
	return Result{}
}

// volumeDetach ends an attachment; a repeat changes nothing.
func (s *workBook) volumeDetach(c command.VolumeDetach) Result {
	vol, is := s.Volume(c.Volume)
	switch {
	case !is || vol.Host == "":
		return refuseWith(api.CodeNotFound, "no such volume on a host of this zone")
	case vol.Attached == "":
	case c.Instance != "" && c.Instance != vol.Attached:
		return refuseWith(api.CodeConflict, "the volume is attached to server %s", string(vol.Attached))
	default:
		v := *vol
		v.ChangeExtras(func(x *api.InstanceExtras) { x.Attached = "" })
		s.putInstance(vol, &v)
		s.removeVolume(vol.Attached, vol.ID)
	}
	return Result{}
}

// removeVolume removes a volume, whose record says so already, from the instance that it was
// attached to.
func (s *workBook) removeVolume(from, volume api.InstanceID) {
	old, ok := s.instances.Get(string(from))
	if !ok || !slices.Contains(old.Volumes, volume) {
		return
	}
	i := *old
	i.ChangeExtras(func(x *api.InstanceExtras) {
		x.Volumes = slices.DeleteFunc(slices.Clone(old.Volumes), func(id api.InstanceID) bool { return id == volume })
	})
	s.putInstance(old, &i)
	s.touchHost(i.Host, i.ID)
}

// touchServer records that a volume of an instance has changed: its agent is shown those that are
// there.
func (s *workBook) touchServer(id api.InstanceID) {
	if to, ok := s.instances.Get(string(id)); ok && to.Host != "" {
		s.touchHost(to.Host, to.ID)
	}
}

// VolumesOf returns the volumes that are attached to an instance on a host of this zone and are
// there, by id.
func (s *workBook) VolumesOf(i *api.Instance) []api.InstanceID {
	var out []api.InstanceID
	for _, id := range i.Volumes {
		if vol, ok := s.Volume(id); ok && vol.Status == api.StatusActive {
			out = append(out, id)
		}
	}
	return out
}

// detachAll ends the attachments of volumes to an instance that is gone.
func (s *workBook) detachAll(volumes []api.InstanceID) {
	for _, id := range volumes {
		if old, ok := s.instances.Get(string(id)); ok {
			v := *old
			v.ChangeExtras(func(x *api.InstanceExtras) { x.Attached = "" })
			s.putInstance(old, &v)
		}
	}
}

// reachesVolume reports whether instances on a host can use a volume: it is on that host, or
// nothing of it is on its own host and the other one draws from all that it is in.
func (s *workBook) reachesVolume(host api.HostID, vol *api.Instance) bool {
	if vol.Host == host {
		return true
	}
	hosts := s.Hosts()
	row, ok := hosts.Row(host)
	if !ok || len(vol.Shares) == 0 || len(capacity.OwnPart(s.claimOf(vol), vol.Shares).Resources) > 0 {
		return false
	}
	return !slices.ContainsFunc(vol.Shares, func(sh api.Share) bool {
		at, known := hosts.Row(sh.Provider)
		return !known || hosts.Root(at) != hosts.Root(row) && !slices.Contains(hosts.Sharers(row), int32(at))
	})
}

// ReachesVolumes reports whether a host reaches all volumes that are attached to an instance.
func (s *workBook) ReachesVolumes(host api.HostID, i *api.Instance) bool {
	return !slices.ContainsFunc(i.Volumes, func(id api.InstanceID) bool {
		vol, ok := s.instances.Get(string(id))
		return ok && !s.reachesVolume(host, vol)
	})
}

// Volume returns one live volume, on a host of this zone or below it.
func (s *workBook) Volume(id api.InstanceID) (*api.Instance, bool) {
	i, ok := s.instances.Get(string(id))
	return i, ok && i.Volume != "" && i.Live()
}

// attachBooted attaches the volumes on own hosts of a boot, or of a parent's, to the instances
// that their group names: each of these gets one, in the order of names.
func (s *workBook) attachBooted(t api.Tenant, r *api.Request) {
	for g := range r.Groups {
		group := &r.Groups[g]
		if group.AttachTo == "" {
			continue
		}
		volumes := s.inGroup(t, r.Reservation, group.Name)
		servers := s.inGroup(t, r.Reservation, group.AttachTo)
		served := map[api.InstanceID]bool{}
		for _, vol := range volumes {
			served[vol.Attached] = true
		}
		volumes = slices.DeleteFunc(volumes, func(i *api.Instance) bool { return i.Attached != "" })
		servers = slices.DeleteFunc(servers, func(i *api.Instance) bool { return served[i.ID] })
		if r.HasPairs() {
			s.attachPairs(volumes, servers)
			continue
		}
		for n := range min(len(volumes), len(servers)) {
			to, _ := s.instances.Get(string(servers[n].ID))
			s.attachVolume(volumes[n], to) // a rule of affinity keeps them on one host
		}
	}
}

// attachPairs attaches each volume to the first instance on its host that has none of them.
func (s *workBook) attachPairs(volumes, servers []*api.Instance) {
	for _, vol := range volumes {
		n := slices.IndexFunc(servers, func(i *api.Instance) bool { return i.Host == vol.Host })
		if n < 0 {
			continue // it has left since
		}
		to, _ := s.instances.Get(string(servers[n].ID))
		s.attachVolume(vol, to)
		servers = slices.Delete(servers, n, n+1)
	}
}

// inGroup returns what is on own hosts of a group of a reservation and is to stay, by name and id.
func (s *workBook) inGroup(t api.Tenant, r api.ReservationID, group string) []*api.Instance {
	out := s.inReservation(t, r)
	out = slices.DeleteFunc(out, func(i *api.Instance) bool {
		return i.Group != group || i.Host == "" || !i.Live() || i.Status == api.StatusDeleting
	})
	slices.SortStableFunc(out, func(a, b *api.Instance) int { return strings.Compare(a.Name, b.Name) })
	return out
}
