package model

import (
	"fmt"
	"slices"

	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

// BindingOf returns the active binding of a project for a key, nil for none.
func (m *Model) BindingOf(origin api.LinkID, p api.ProjectID, k api.BindingKey) *api.Binding {
	for _, b := range m.Bindings {
		if b.Active() && b.Origin == origin && b.Project == p && b.Key.String() == k.String() {
			return b
		}
	}
	return nil
}

// wish returns the child that another undecided hold than that of c has chosen for a key of its project. From
// api.FormFifth on it must have something there, and be no attempt that c makes obsolete.
func (m *Model) wish(c command.Hold, k api.BindingKey) (api.LinkID, bool) {
	for id, h := range m.Holds {
		if h.Decision != api.DecisionPending || id.Origin != c.Origin || h.Request.Project != c.Request.Project {
			continue
		}
		obsolete := h.Request.Reservation == c.Request.Reservation && h.Attempt < c.Request.Attempt
		for _, ch := range h.Choices {
			counts := m.form < api.FormFifth || !obsolete && h.hasAt(ch.Link)
			if counts && ch.Key.String() == k.String() {
				return ch.Link, true // all of them chose the same
			}
		}
	}
	return "", false
}

// hasAt reports whether a child has something of the hold, or is being asked for it.
func (h *Hold) hasAt(link api.LinkID) bool {
	return slices.ContainsFunc(h.Parts, func(p *Part) bool { return p.Link == link && len(p.IDs) > 0 })
}

// mayChoose returns why the choices of a hold cannot stand.
func (m *Model) mayChoose(c command.Hold) *Refusal {
	p := c.Request.Project
	for i, ch := range c.Choices {
		if r := m.mayBe(ch, c.Choices[:i]); r != nil {
			return r
		}
		if link, undecided := m.wish(c, ch.Key); undecided {
			if link != ch.Link {
				return &Refusal{promise.Binding, fmt.Sprintf("another request of the project has chosen %s", link)}
			}
			continue
		}
		switch b := m.BindingOf(c.Origin, p, ch.Key); {
		case b == nil && ch.Why == "", b != nil && b.Link != ch.Link && (ch.Why == "" || b.ID != ch.Seen):
			return &Refusal{promise.Binding, "the project is bound to another zone"}
		case b == nil && m.countBound(c.Origin, p) >= api.BindingsProjectMax:
			return &Refusal{promise.Model, "the project has too many bindings"}
		}
	}
	return nil
}

// mayBe returns why a choice after others cannot be, whatever the project is bound to.
func (m *Model) mayBe(ch api.BindingChoice, before []api.BindingChoice) *Refusal {
	for _, o := range before {
		if ch.ID != "" && o.ID == ch.ID || o.Key.String() == ch.Key.String() {
			return &Refusal{promise.Model, "it chooses twice"}
		}
	}
	if ch.Why != "" && !m.isFree(ch.ID) {
		return &Refusal{promise.Model, "the id of a binding is taken"}
	}
	if l := m.Links[ch.Link]; l == nil || l.Role != api.LinkChild || ch.Key.Validate() != nil {
		return &Refusal{promise.Model, "it binds to what is no child"}
	}
	return nil
}

func (m *Model) isFree(id api.BindingID) bool {
	return id != "" && !slices.ContainsFunc(m.Bindings, func(b *api.Binding) bool { return b.ID == id })
}

func (m *Model) countBound(origin api.LinkID, p api.ProjectID) (n int) {
	for _, b := range m.Bindings {
		if b.Active() && b.Origin == origin && b.Project == p {
			n++
		}
	}
	return n
}

// bindFor makes bindings of the choices of a hold that was committed, where it has something there.
func (m *Model) bindFor(h *Hold) {
	for _, c := range h.Choices {
		b := m.BindingOf(h.ID.Origin, h.Request.Project, c.Key)
		if !h.hasAt(c.Link) || c.Why == "" || !m.isFree(c.ID) || b != nil && (b.Link == c.Link || b.ID != c.Seen) {
			continue
		}
		m.bind(b, &api.Binding{
			ID: c.ID, Project: h.Request.Project, Origin: h.ID.Origin, Key: c.Key, Link: c.Link, Why: c.Why,
			Reservation: h.Request.Reservation, User: h.Request.User,
		})
	}
}

// bind begins a binding in place of another one, nil for none.
func (m *Model) bind(old, b *api.Binding) {
	if old != nil {
		m.unbind(old, b.Why)
	}
	b.Start, b.End = m.Now, api.Forever
	m.Bindings, m.Rebound = append(m.Bindings, b), true
}

// unbind ends a binding. Of what a project had, the oldest is forgotten beyond the limit.
func (m *Model) unbind(b *api.Binding, why api.BindingReason) {
	b.End, b.Ended, m.Rebound = m.Now, why, true
	var past []*api.Binding
	for _, o := range m.Bindings {
		if !o.Active() && o.Origin == b.Origin && o.Project == b.Project {
			past = append(past, o)
		}
	}
	if len(past) <= api.BindingsPastMax {
		return
	}
	slices.SortFunc(past, comparePast)
	m.Bindings = slices.DeleteFunc(m.Bindings, func(o *api.Binding) bool { return o == past[0] })
}

// comparePast orders by the end, then by id.
func comparePast(a, b *api.Binding) int {
	if a.End != b.End {
		return int(a.End - b.End)
	}
	if a.ID < b.ID {
		return -1
	}
	return 1
}

func (m *Model) bindingSet(c command.BindingSet) *Refusal {
	if l := m.Links[c.Link]; l == nil || l.Role != api.LinkChild {
		return &Refusal{promise.Model, "it binds to what is no child"}
	}
	if c.Key.Validate() != nil {
		return &Refusal{promise.Model, "there is no such key"}
	}
	old := m.BindingOf(c.Origin, c.Project, c.Key)
	switch {
	case c.Seen != "" && (old == nil || old.ID != c.Seen):
		return &Refusal{promise.Binding, "another binding is active"}
	case old != nil && old.Link == c.Link:
		return nil
	case !m.isFree(c.ID):
		return &Refusal{promise.Model, "the id of a binding is taken"}
	case old == nil && m.countBound(c.Origin, c.Project) >= api.BindingsProjectMax:
		return &Refusal{promise.Model, "the project has too many bindings"}
	}
	m.bind(old, &api.Binding{ID: c.ID, Project: c.Project, Origin: c.Origin, Key: c.Key, Link: c.Link, Why: api.BindingOperator, User: c.User})
	return nil
}

func (m *Model) bindingEnd(c command.BindingEnd) *Refusal {
	i := slices.IndexFunc(m.Bindings, func(b *api.Binding) bool { return b.ID == c.ID })
	if i < 0 {
		return &Refusal{promise.Model, "there is no such binding"}
	}
	if m.Bindings[i].Active() {
		m.unbind(m.Bindings[i], api.BindingOperator)
	}
	return nil
}

// unbindFrom ends what is bound to a child, or for a parent, whose link is deleted.
func (m *Model) unbindFrom(link api.LinkID) {
	for _, b := range slices.Clone(m.Bindings) {
		if b.Active() && (b.Link == link || b.Origin == link) {
			m.unbind(b, api.BindingUnlinked)
		}
	}
}
