package binding

import (
	"cmp"
	"slices"

	"berth/api"
)

// Weighers returns the names of all weighers, sorted.
func Weighers() []Weigher { return []Weigher{WeigherCreation, WeigherIdle, WeigherPrice} }

// RuleOf returns the rule that an operator has set, or an invalid-input error for one that no zone
// could follow.
func RuleOf(r *api.BindingRule) (Rule, error) {
	if err := r.Validate(); err != nil {
		return Rule{}, err
	}
	out := Rule{Multipliers: map[Weigher]int64{}, GeneralOnTagged: r.GeneralOnTagged}
	for _, w := range r.Weighers {
		name := Weigher(w.Name)
		if !slices.Contains(Weighers(), name) {
			return Rule{}, api.Errorf(api.CodeInvalid, "weighers: %q is none of %s, %s and %s", w.Name, WeigherCreation, WeigherIdle, WeigherPrice)
		}
		if _, twice := out.Multipliers[name]; twice {
			return Rule{}, api.Errorf(api.CodeInvalid, "weighers: %s is there twice", w.Name)
		}
		if w.Multiplier < -api.BindingMultiplierMax || w.Multiplier > api.BindingMultiplierMax {
			return Rule{}, api.Errorf(api.CodeInvalid, "weighers: the multiplier of %s must be %d to %d, got %d", w.Name, -api.BindingMultiplierMax, api.BindingMultiplierMax, w.Multiplier)
		}
		out.Multipliers[name] = w.Multiplier
	}
	if len(r.Weighers) == 0 {
		out.Multipliers[WeigherCreation] = 1
	}
	return out, nil
}

// ChildOf returns a child as a rule sees it. d is its digest, nil without a recent one; silent says
// that it has been silent for too long.
func ChildOf(r *api.BindingRule, l *api.Link, d *api.Digest, silent bool) Child {
	c := Child{
		Link: l.ID, Created: l.Created, Tags: l.Terms.Tags, Away: silent || l.State == api.LinkPaused,
		Maintenance: l.Terms.Maintenance, Headroom: l.Terms.Headroom, Price: l.Offset,
	}
	if c.Headroom == nil {
		c.Headroom = r.Headroom
	}
	if d != nil && !d.Partial {
		c.Usage, c.AZs = d.Classes, append([]string{}, d.AZs...) // it is known that there are none
		c.Away = c.Away || d.Paused
	}
	if l.Terms.AZ != "" {
		c.AZs = []string{l.Terms.AZ}
	}
	return c
}

// AZsOf returns the availability zones that work below a child may ask for: the one that its operator here says, which
// takes the place of what the child reports where projects are bound. d is its digest.
func AZsOf(r *api.BindingRule, l *api.Link, d *api.Digest) []string {
	switch {
	case l.Terms.AZ == "":
		return d.AZs
	case r.Use() != api.BindingOff:
		return []string{l.Terms.AZ}
	}
	out := append([]string{l.Terms.AZ}, d.AZs...)
	slices.Sort(out)
	return slices.Compact(out)
}

// KeyOf returns the key of work of a group: its tags are the pairs of its extra specs whose name some
// child carries as a tag.
func KeyOf(g *api.Group, children []*api.Link) api.BindingKey {
	k := api.BindingKey{AZ: g.AZ}
	for name, value := range g.ExtraSpecs { // in any order: sorted below
		tag := name + "="
		if slices.ContainsFunc(children, func(l *api.Link) bool {
			return slices.ContainsFunc(l.Terms.Tags, func(t string) bool { return len(t) > len(tag) && t[:len(tag)] == tag })
		}) {
			k.Tags = append(k.Tags, tag+value)
		}
	}
	slices.SortFunc(k.Tags, cmp.Compare[string])
	return k
}
