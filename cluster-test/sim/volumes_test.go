package sim

import (
	"context"
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"

	"berth/agent/driver"
	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/raftstore/state"
)

// actOnVolumes lets a client do something with volumes that the seed chooses.
func (w *world) actOnVolumes(step int) {
	z := w.zones[w.dice.IntN(len(w.zones))]
	if w.dice.IntN(2) == 0 {
		z = w.root()
	}
	if z.lost {
		return
	}
	p, pick, size := w.nodeOf(z), w.dice.Uint64(), 1+w.dice.Int64N(40)
	switch w.dice.IntN(6) {
	case 0:
		z.call("volume", p, func(ctx context.Context, c *client.Client) error {
			_, err := c.CreateVolume(ctx, rest.VolumeCreate{Name: fmt.Sprint("v", step), VolumeSpec: rest.VolumeSpec{Size: size}}, "")
			return err
		})
	case 1:
		z.boot(p, w.nodeOf(z), withVolumes(order(fmt.Sprint("with", step), 0, 0), 1+w.dice.IntN(2), size))
	case 2, 3:
		z.call("attach", p, func(ctx context.Context, c *client.Client) error {
			v, err := pickVolume(ctx, c, pick, api.VolumeAvailable)
			if err != nil || v == nil {
				return err
			}
			s, err := c.Servers(ctx, client.ServerQuery{Status: api.StatusActive, Zone: v.Zone}, client.ListOptions{})
			if err != nil || len(s.Items) == 0 {
				return err
			}
			return c.AttachVolume(ctx, v.ID, s.Items[pick%uint64(len(s.Items))].ID)
		})
	case 4:
		z.call("detach", p, func(ctx context.Context, c *client.Client) error {
			v, err := pickVolume(ctx, c, pick, api.VolumeInUse)
			if err != nil || v == nil {
				return err
			}
			return c.DetachVolume(ctx, v.ID)
		})
	default:
		z.call("delete volume", p, func(ctx context.Context, c *client.Client) error {
			v, err := pickVolume(ctx, c, pick, "")
			if err != nil || v == nil {
				return err
			}
			if err = c.DeleteVolume(ctx, v.ID); err == nil {
				z.note(func(t *told) { t.deleted = append(t.deleted, v.ID) })
			}
			return err
		})
	}
}

// withVolumes makes an order one of n servers, each with a volume.
func withVolumes(o rest.ServerCreate, n int, size int64) rest.ServerCreate {
	o.FlavorRef, o.MinCount, o.MaxCount = "", nil, nil
	o.Groups = []rest.GroupCreate{
		{Name: "web", FlavorRef: string(fixed), MaxCount: &n},
		{Name: "data", MaxCount: &n, Volume: &rest.GroupVolume{VolumeSpec: rest.VolumeSpec{Size: size}, AttachTo: "web"}},
	}
	return o
}

// pickVolume returns one of the volumes with a status, "" for any; nil if there is none.
func pickVolume(ctx context.Context, c *client.Client, pick uint64, is api.VolumeStatus) (*rest.Volume, error) {
	all, err := c.Volumes(ctx, client.VolumeQuery{Status: is}, client.ListOptions{})
	if err != nil || len(all.Items) == 0 {
		return nil, err
	}
	return &all.Items[pick%uint64(len(all.Items))], nil
}

// volumesOf returns the volumes that a zone knows.
func volumesOf(v *state.State) []*api.Instance {
	return v.InstancesPage(state.InstanceQuery{Volumes: true, Page: state.Page{Limit: api.CountMax}})
}

// checkVolumes holds that zones agree on what volumes are attached to, that the records of a volume
// and a server do, and that drivers have done what is recorded.
func (z *zone) checkVolumes() {
	w, v := z.w, z.view()
	for _, vol := range volumesOf(v) {
		if below := vol.Link; below != "" && vol.Live() && !z.at(below).lost {
			if there, ok := z.at(below).view().Instance(vol.ID); ok && there.Attached != vol.Attached {
				w.fail("zone %s: volume %s is attached to %q, and below it is to %q", z.name, vol.ID, vol.Attached, there.Attached)
			}
		}
		if to, ok := v.Instance(vol.Attached); vol.Attached != "" && vol.Host != "" && (!ok || !slices.Contains(to.Volumes, vol.ID)) {
			w.fail("zone %s: volume %s is attached to %s, which does not know it", z.name, vol.ID, vol.Attached)
		}
	}
	has := map[api.InstanceID]driver.State{}
	for _, c := range z.crews {
		states, err := c.fake.List(w.ctx)
		require.NoError(w.t, err)
		for _, s := range states {
			has[s.Instance] = s
		}
	}
	for _, i := range all(v) {
		if s, ok := has[i.ID]; ok && i.Host != "" && i.Status == api.StatusActive && !slices.Equal(slices.Sorted(slices.Values(i.Volumes)), s.Volumes) {
			w.fail("zone %s: instance %s can use the volumes %v, and should %v", z.name, i.ID, s.Volumes, i.Volumes)
		}
	}
}
