package sim

import (
	"context"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// affinityTag is a tag that a child of the root may carry; no flavor asks for it.
const affinityTag = "affinity:disk=fast"

// actOnBindings has the operator of the root change what projects are bound to, and by what rule.
func (w *world) actOnBindings() {
	z := w.root()
	p := z.leader()
	if p == nil || z.lost {
		return
	}
	n := p.running()
	if n == nil {
		return
	}
	v := n.Store().View()
	what, c := w.drawBinding(v, n.Zone().Stamp())
	if c == nil {
		return
	}
	w.ops.Go(func() {
		ctx, cancel := context.WithTimeout(w.ctx, callTimeout)
		defer cancel()
		_, err := n.Zone().Propose(ctx, c)
		w.tally.op(what, err)
	})
}

// drawBinding draws what the operator does, nil for nothing.
func (w *world) drawBinding(v *state.State, at command.Stamp) (string, command.Command) {
	children := v.Children()
	child := children[w.dice.IntN(len(children))]
	switch w.dice.IntN(6) {
	case 0, 1:
		c := v.Config
		c.Bindings.Mode = []api.BindingMode{api.BindingOff, api.BindingPrefer, api.BindingStrict}[w.dice.IntN(3)]
		c.Bindings.GeneralOnTagged = w.dice.IntN(2) == 0
		return "binding rule", command.ConfigSet{Stamp: at, Config: c}
	case 2, 3:
		set := command.LinkSet{Stamp: at, ID: child.ID, Maintenance: new(w.dice.IntN(3) == 0), Tags: []string{}}
		if w.dice.IntN(4) == 0 {
			set.Tags = []string{affinityTag}
		}
		return "child terms", set
	case 4:
		return "binding set", command.BindingSet{Stamp: at, ID: api.BindingID(api.NewUUID()), Project: project, Link: child.ID, User: "ops"}
	}
	for _, b := range v.ActiveBindings(api.Tenant{Project: project}) {
		return "binding end", command.BindingEnd{Stamp: at, ID: b.ID}
	}
	return "", nil
}

// freeBindings counts the bindings of the root, and lets new work of the root go to every child again.
func (w *world) freeBindings() {
	w.t.Helper()
	v := w.root().view()
	for _, b := range v.Bindings() {
		w.tally.op("bound "+string(b.Why), nil)
	}
	c := v.Config
	c.Bindings = api.BindingRule{}
	w.root().propose(func(at command.Stamp) command.Command { return command.ConfigSet{Stamp: at, Config: c} })
	for _, l := range v.Children() {
		w.root().propose(func(at command.Stamp) command.Command {
			return command.LinkSet{Stamp: at, ID: l.ID, Maintenance: new(false), Tags: []string{}}
		})
	}
}
