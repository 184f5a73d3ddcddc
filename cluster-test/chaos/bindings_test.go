//go:build chaos

package chaos

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cluster-test/lab"
)

// Sizes of what is done to bindings and with volumes.
const (
	binderRest     = time.Second     // between two acts of an operator
	maintenanceMax = 2 * time.Second // of a child
	volumeGB       = 1
	volumePage     = 50
	bindingsMin    = 10 // that begin, of all zones
	attachedMin    = 50 // answered calls that attach a volume or detach one
)

// binder is the operator of a zone who changes what projects are bound to, and by what rule.
type binder struct {
	z    *lab.Zone
	kid  string
	dice *rand.Rand
}

func newBinders(f *fleet) []*binder {
	return []*binder{
		{f.root, f.west.Name, rand.New(rand.NewPCG(f.Seed, 1<<32))},
		{f.west, f.edge.Name, rand.New(rand.NewPCG(f.Seed, 1<<33))},
	}
}

// run acts until ctx ends. Any call may fail while things break.
func (b *binder) run(ctx context.Context) {
	for ctx.Err() == nil {
		_ = b.z.Do(ctx, b.z.Token, b.act)
		lab.Pass(ctx, binderRest)
	}
}

func (b *binder) act(ctx context.Context, c *client.Client) error {
	switch b.dice.IntN(4) {
	case 0:
		on := true
		if _, err := c.UpdateZone(ctx, b.kid, rest.ZoneSpec{Maintenance: &on}); err != nil {
			return err
		}
		lab.Pass(ctx, time.Duration(b.dice.Int64N(int64(maintenanceMax))))
		on = false
		_, err := c.UpdateZone(ctx, b.kid, rest.ZoneSpec{Maintenance: &on})
		return err
	case 1:
		all, err := c.Bindings(ctx, client.BindingQuery{}, client.ListOptions{})
		if err != nil || len(all.Items) == 0 {
			return err
		}
		return c.EndBinding(ctx, all.Items[b.dice.IntN(len(all.Items))].ID)
	default:
		conf, err := c.Config(ctx)
		if err != nil {
			return err
		}
		conf.Bindings.Mode = []api.BindingMode{api.BindingOff, api.BindingPrefer, api.BindingStrict}[b.dice.IntN(3)]
		_, err = c.SetConfig(ctx, conf)
		return err
	}
}

// withVolumes begins the names of boots whose instances have a volume each.
const withVolumes = "volumes"

// orderVolumes orders instances with a volume each.
func orderVolumes(id api.ReservationID, count int) rest.ServerCreate {
	return rest.ServerCreate{Name: string(id), Reservation: string(id), Groups: []rest.GroupCreate{
		{Name: "web", FlavorRef: "unit", MaxCount: &count},
		{Name: "data", MaxCount: &count, Volume: &rest.GroupVolume{VolumeSpec: rest.VolumeSpec{Size: volumeGB}, AttachTo: "web"}},
	}}
}

// useVolume attaches a volume of the project to a server in its zone, or detaches it, whatever it
// was a moment ago.
func (c *caller) useVolume(ctx context.Context) {
	asked := false
	err := c.call(ctx, c.tr.f.root, c.tr.f.token, func(ctx context.Context, cl *client.Client) error {
		vs, err := cl.Volumes(ctx, client.VolumeQuery{}, client.ListOptions{Limit: volumePage})
		if err != nil || len(vs.Items) == 0 {
			return err
		}
		v := vs.Items[c.dice.IntN(len(vs.Items))]
		if c.dice.IntN(2) == 0 {
			asked = true
			return cl.DetachVolume(ctx, v.ID)
		}
		s, err := cl.Servers(ctx, client.ServerQuery{Reservation: v.Reservation}, client.ListOptions{})
		if err != nil || len(s.Items) == 0 {
			return err
		}
		asked = true
		return cl.AttachVolume(ctx, v.ID, s.Items[c.dice.IntN(len(s.Items))].ID)
	})
	if err == nil && asked {
		c.tr.attached.Add(1)
	}
}

// judgeBindings holds that projects were bound and volumes attached while things broke, and that no
// zone ended with two active bindings of one key. The logs are judged by the model.
func judgeBindings(t *testing.T, tr *traffic, e evidence) {
	t.Helper()
	why := map[api.BindingReason]int{}
	for zone, s := range e.states {
		active := map[string]bool{}
		for _, b := range s.Bindings() {
			why[b.Why]++
			k := string(b.Origin) + " " + string(b.Project) + " " + b.Key.String()
			assert.False(t, b.Active() && active[k], "zone %s: two active bindings of %s", zone, k)
			active[k] = active[k] || b.Active()
		}
	}
	began := 0
	for _, n := range why {
		began += n
	}
	t.Logf("bindings: %v, volumes attached or detached: %d", why, tr.attached.Load())
	assert.GreaterOrEqual(t, began, scaled(bindingsMin), "bindings that began")
	assert.GreaterOrEqual(t, int(tr.attached.Load()), scaled(attachedMin), "attachments that were answered")
}
