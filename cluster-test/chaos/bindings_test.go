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
	"berth/cluster-test/check"
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
	log  *ackLog
	kid  string
	dice *rand.Rand
}

func newBinders(f *fleet, log *ackLog) []*binder {
	return []*binder{
		{f.root, log, f.west.Name, rand.New(rand.NewPCG(f.Seed, 1<<32))},
		{f.west, log, f.edge.Name, rand.New(rand.NewPCG(f.Seed, 1<<33))},
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
	switch b.dice.IntN(5) {
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
		id := all.Items[b.dice.IntN(len(all.Items))].ID
		called := b.log.now()
		err = c.EndBinding(ctx, id)
		b.log.add(check.Ack{Kind: check.AckBindingEnd, Zone: b.z.Name, Binding: id}, called, 1, err)
		return err
	case 2:
		called := b.log.now()
		made, err := c.SetBinding(ctx, rest.BindingSpec{Project: "web", Zone: b.kid})
		b.log.add(check.Ack{Kind: check.AckBind, Zone: b.z.Name, Binding: made.ID}, called, 1, err)
		return err
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
	root, token := c.tr.f.root, c.tr.f.token
	var v rest.Volume
	to := api.InstanceID("")
	err := c.call(ctx, root, token, func(ctx context.Context, cl *client.Client) error {
		vs, err := cl.Volumes(ctx, client.VolumeQuery{}, client.ListOptions{Limit: volumePage})
		if err != nil || len(vs.Items) == 0 {
			return err
		}
		v = vs.Items[c.dice.IntN(len(vs.Items))]
		if c.dice.IntN(2) == 0 {
			return nil
		}
		s, err := cl.Servers(ctx, client.ServerQuery{Reservation: v.Reservation}, client.ListOptions{})
		if err == nil && len(s.Items) > 0 {
			to = s.Items[c.dice.IntN(len(s.Items))].ID
		}
		return err
	})
	if err != nil || v.ID == "" {
		return
	}
	k := check.Ack{Kind: check.AckDetach, Zone: root.Name, Instance: v.ID, Server: to}
	if to != "" {
		k.Kind = check.AckAttach
	}
	called, tries := c.tr.log.now(), 0
	err = c.call(ctx, root, token, func(ctx context.Context, cl *client.Client) error {
		tries++
		if to != "" {
			return cl.AttachVolume(ctx, v.ID, to)
		}
		return cl.DetachVolume(ctx, v.ID)
	})
	c.tr.log.add(k, called, tries, err)
	if err == nil {
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
