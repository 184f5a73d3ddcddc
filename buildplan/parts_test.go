package buildplan_test

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"berth/api"
	"berth/capacity"
)

// How random zones have providers that are no hosts, and what the slow scheduler
// makes of them. All of it is told in the order of ids.

func (z *zone) drawClaims(t *rapid.T, id api.ProviderID) {
	for range one(t, 0, 0, 1, 3) {
		z.claims[id] = append(z.claims[id], api.Claim{
			Consumer:  api.InstanceID(fmt.Sprint(id, "#", len(z.claims[id]))),
			Resources: drawResources(t, 4), Window: drawWindow(t), Class: drawClass.Draw(t, "class"),
		})
	}
}

// drawParts adds nodes and devices below hosts, shared pools, and odd things
// between. Some hosts then lack classes of their own, in some zones all the same
// one, and some share.
func (z *zone) drawParts(t *rapid.T) {
	bare := rarely(t, 3)
	for i := range z.specs {
		if bare {
			delete(z.specs[i].Inventory, oracleClasses[2])
			z.specs[i].Aggregates = []string{one(t, "g1", "g1", "g2")}
		}
		for _, class := range oracleClasses {
			if rarely(t, 3) {
				delete(z.specs[i].Inventory, class)
			}
		}
		if rarely(t, 12) {
			z.specs[i].Traits = append(z.specs[i].Traits, api.TraitShares)
		}
	}
	for i := range one(t, 1, 3, 6, 12) {
		s := capacity.Spec{
			ID: api.ProviderID(fmt.Sprintf("%s%d", one(t, "a-", "p", "same-prefix-p"), i)), Name: fmt.Sprint("p", i), Passive: true,
			Gap:       time.Duration(rapid.IntRange(0, 2).Draw(t, "gap")) * time.Millisecond,
			Inventory: map[api.ResourceClass]api.Inventory{},
			Traits:    some(t, "CUSTOM_A", "CUSTOM_B"),
		}
		classes := oracleClasses
		switch one(t, "node", "device", "pool", "odd") {
		case "node":
			s.Parent, classes = z.anyone(t), oracleClasses[:2]
		case "device":
			s.Parent, classes = z.anyone(t), nil
			s.Inventory["PGPU"] = api.Inventory{Total: rapid.Int64Range(1, 3).Draw(t, "devices")}
		case "pool":
			s.Traits, s.Aggregates, classes = append(s.Traits, api.TraitShares), some(t, "g1", "g2"), oracleClasses[2:]
		case "odd":
			s.Parent, s.Aggregates = one(t, "", "nobody", z.anyone(t)), some(t, "g1", "g2")
			s.Traits = append(s.Traits, some(t, api.TraitShares)...)
		}
		for _, class := range classes {
			if !rarely(t, 4) {
				s.Inventory[class] = api.Inventory{
					Total: rapid.Int64Range(0, 12).Draw(t, "total"), StepSize: one[int64](t, 0, 0, 0, 2), MinUnit: one[int64](t, 0, 0, 0, 2),
				}
			}
		}
		z.parts = append(z.parts, s)
		z.drawClaims(t, s.ID)
	}
}

// anyone draws a provider that is there already, more often a host.
func (z *zone) anyone(t *rapid.T) api.ProviderID {
	list := z.specs
	if len(list) == 0 || len(z.parts) > 0 && rarely(t, 3) {
		list = z.parts
	}
	if len(list) == 0 {
		return "nobody"
	}
	return list[rapid.IntRange(0, len(list)-1).Draw(t, "parent")].ID
}

// tree returns a provider and all below it: each before its children.
func (z *slowZone) tree(s *capacity.Spec) []*capacity.Spec {
	out := []*capacity.Spec{s}
	for _, part := range z.parts {
		if part.Parent == s.ID {
			out = append(out, z.tree(part)...)
		}
	}
	return out
}

// reach returns everything that a slot on a host may take from: its tree, and what
// shares with a provider of the tree.
func (z *slowZone) reach(s *capacity.Spec) []*capacity.Spec {
	tree := z.tree(s)
	out := slices.Clone(tree)
	for _, part := range z.parts {
		near := func(member *capacity.Spec) bool {
			return slices.ContainsFunc(member.Aggregates, func(a string) bool { return slices.Contains(part.Aggregates, a) })
		}
		if slices.Contains(part.Traits, api.TraitShares) && !slices.Contains(tree, part) && slices.ContainsFunc(tree, near) {
			out = append(out, part)
		}
	}
	return out
}

// shares says who would give one slot what, nil if it does not fit: all of a class
// comes from one provider. The host goes first, then what is below it, each time
// who can give most of what is still wanted, then who shares.
func (z *slowZone) shares(table *capacity.Table, s *capacity.Spec, r api.Resources) map[api.ProviderID]api.Resources {
	out, left := map[api.ProviderID]api.Resources{}, r.Classes()
	gives := func(part *capacity.Spec, class api.ResourceClass) bool {
		return table.Fits(part.ID, z.claim(api.Resources{class: r[class]})) == nil
	}
	most := func(part *capacity.Spec) (n int) {
		for _, class := range left {
			if gives(part, class) {
				n++
			}
		}
		return n
	}
	take := func(part *capacity.Spec) {
		left = slices.DeleteFunc(left, func(class api.ResourceClass) bool {
			if !gives(part, class) {
				return false
			}
			if out[part.ID] == nil {
				out[part.ID] = api.Resources{}
			}
			out[part.ID][class] = r[class]
			return true
		})
	}
	tree := z.tree(s)
	take(s)
	for range tree[1:] { // MaxFunc returns the first of equals
		take(slices.MaxFunc(tree[1:], func(a, b *capacity.Spec) int { return cmp.Compare(most(a), most(b)) }))
	}
	for _, part := range z.reach(s)[len(tree):] {
		take(part)
	}
	if len(left) > 0 {
		return nil
	}
	return out
}

// capacity sums what a host reaches of a class.
func (z *slowZone) capacity(s *capacity.Spec, class api.ResourceClass) (sum int64) {
	for _, part := range z.reach(s) {
		v := part.Inventory[class]
		sum += v.Capacity()
	}
	return sum
}

// free sums what a host could take of a class before the request.
func (z *slowZone) free(s *capacity.Spec, class api.ResourceClass) (sum int64) {
	v := z.base.View()
	for _, part := range z.reach(s) {
		row, _ := v.Row(part.ID)
		sum += max(v.FreeOver(row, class, z.window, z.req.ClaimClass()), 0)
	}
	return sum
}
