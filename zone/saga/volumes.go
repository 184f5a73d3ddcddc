package saga

import (
	"context"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// Attach attaches a volume to an instance of the same tenant, in the zone that owns both; a repeat
// is harmless. It fails with CodeNotFound if the tenant has no such volume or instance, and with
// CodeConflict if they are not where the volume can be reached, or it is attached already.
func (s *Saga) Attach(ctx context.Context, t api.Tenant, q *api.VolumeCall) error {
	return s.zone.Confirmed(ctx, func(ctx context.Context) error {
		v := s.zone.View()
		vol, err := volumeOf(v, t, q.Volume)
		if err != nil {
			return err
		}
		to, ok := v.Instance(q.Instance)
		if !ok || !to.Live() || to.Reserved || to.Volume != "" || to.Tenant() != t {
			return api.Errorf(api.CodeNotFound, "no such server")
		}
		switch {
		case vol.Host != "" && to.Host != "":
			_, err = s.zone.Propose(ctx, command.VolumeAttach{Stamp: s.zone.Stamp(), Volume: q.Volume, Instance: q.Instance})
			return err
		case vol.Host == to.Host && vol.Link == to.Link:
			return s.askBelow(ctx, vol, func(ctx context.Context, l *api.Link) error { return s.peers.Attach(ctx, l, q) })
		}
		return refuseApart(v, t, vol, to)
	})
}

// Detach ends the attachment of a volume of a tenant; a repeat is harmless. It fails with
// CodeNotFound if the tenant has no such volume, and with CodeConflict if the call names another
// instance than the one that the volume is attached to.
func (s *Saga) Detach(ctx context.Context, t api.Tenant, q *api.VolumeCall) error {
	return s.zone.Confirmed(ctx, func(ctx context.Context) error {
		vol, err := volumeOf(s.zone.View(), t, q.Volume)
		if err != nil {
			return err
		}
		if vol.Host == "" {
			return s.askBelow(ctx, vol, func(ctx context.Context, l *api.Link) error { return s.peers.Detach(ctx, l, q) })
		}
		_, err = s.zone.Propose(ctx, command.VolumeDetach{Stamp: s.zone.Stamp(), Volume: q.Volume, Instance: q.Instance})
		return err
	})
}

// refuseApart returns the refusal to attach a volume to an instance in another zone. It names their
// zones, and the binding that ties new work of the tenant to that of the volume; not to a parent,
// which knows neither.
func refuseApart(v *state.State, t api.Tenant, vol, to *api.Instance) error {
	if t.Origin != "" {
		return api.Errorf(api.CodeConflict, "the volume and the server are in two zones; what is attached must be in one zone")
	}
	bound := ""
	for _, b := range v.ActiveBindings(t) {
		if b.Link == vol.Link {
			bound = " (binding " + string(b.ID) + ")"
			break
		}
	}
	return api.Errorf(api.CodeConflict, "the volume is in zone %s%s and the server in zone %s; what is attached must be in one zone", zoneOf(v, vol), bound, zoneOf(v, to))
}

func volumeOf(v *state.State, t api.Tenant, id api.InstanceID) (*api.Instance, error) {
	vol, ok := v.Volume(id)
	if !ok || vol.Tenant() != t {
		return nil, api.Errorf(api.CodeNotFound, "no such volume")
	}
	return vol, nil
}

// askBelow makes a call to the child that a volume is in.
func (s *Saga) askBelow(ctx context.Context, vol *api.Instance, call func(ctx context.Context, l *api.Link) error) error {
	l, ok := s.zone.View().Link(vol.Link)
	if !ok {
		return api.Errorf(api.CodeInternal, "the link to the zone of a volume is gone")
	}
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	return call(ctx, l)
}

// zoneOf returns the name of the direct child that an instance is in, or of this zone.
func zoneOf(v *state.State, i *api.Instance) string {
	if l, ok := v.Link(i.Link); ok {
		return l.Name
	}
	return v.Name
}

// AttachAbroad is Attach for a parent, whose project is that of the volume.
func (s *Saga) AttachAbroad(ctx context.Context, parent *api.Link, q *api.VolumeCall) error {
	return s.zone.Confirmed(ctx, func(ctx context.Context) error { return s.Attach(ctx, s.tenantAbroad(parent, q.Volume), q) })
}

// DetachAbroad is Detach for a parent.
func (s *Saga) DetachAbroad(ctx context.Context, parent *api.Link, q *api.VolumeCall) error {
	return s.zone.Confirmed(ctx, func(ctx context.Context) error { return s.Detach(ctx, s.tenantAbroad(parent, q.Volume), q) })
}

// tenantAbroad returns the tenant of a parent's instance or volume; one without a project if this view has no such thing. It is
// part of what must be confirmed.
func (s *Saga) tenantAbroad(parent *api.Link, id api.InstanceID) api.Tenant {
	t := api.Tenant{Origin: parent.ID}
	if i, ok := s.zone.View().Instance(id); ok && i.Origin == parent.ID {
		t.Project = i.Project
	}
	return t
}
