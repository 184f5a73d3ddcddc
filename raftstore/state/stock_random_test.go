package state

import (
	"maps"
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

var (
	someProviders  = []string{"p1", "p2", "p3", "p4"}
	someDrawers    = []string{"h1", "h2", "h3", "p1", "p2", "p3", "p4"}
	someConsumers  = []string{"c1", "c1", "c2", "c2", "c3", "c4", "i-00001"}
	someClasses    = []api.ResourceClass{api.VCPU, api.VCPU, api.DiskGB, api.DiskGB, "CUSTOM_X"}
	someAggregates = []string{uuid(1), uuid(2), uuid(3)}
)

// firstProviders returns what random histories begin with: hosts, a pool that two of
// them share, and a disk below the third.
func firstProviders(w *world) []command.Command {
	var out []command.Command
	for _, h := range someHosts {
		out = append(out, hostPut(w.stamp(), "a1", h, 4))
	}
	return append(out,
		command.ClassPut{Stamp: w.stamp(), Name: "CUSTOM_X"}, command.TraitPut{Stamp: w.stamp(), Name: "CUSTOM_T"},
		w.aggregate(aggregate(uuid(1), "", "h1", "h2"), false),
		providerCreate(w.stamp(), "p1", ""), w.have("p1", inventory{api.DiskGB: {Total: 6}}),
		w.traits("p1", api.TraitShares), w.aggregates("p1", uuid(1)),
		providerCreate(w.stamp(), "p2", "h3"), w.have("p2", inventory{api.DiskGB: {Total: 4, MinUnit: 1, MaxUnit: 4, StepSize: 2}}),
	)
}

// firstBoot returns a boot of two instances that draw disk from the pool, and may move.
func firstBoot(w *world) []command.Command {
	r := request("r4", 2)
	g := r.Groups[0]
	g.Resources = api.Resources{api.VCPU: 1, api.DiskGB: 2}
	g.ExtraSpecs = map[string]string{api.SpecEvacuate: "true"}
	r.Groups = []api.Group{g, g}
	b, h := create(w.stamp(), "r4", 2, 1), hold(w.stamp(), "r4k0", "r4", slots("h1", "i-00028", "i-00029"))
	b.Request, b.Instances, h.Request, h.Commit = r, nil, r, true
	return []command.Command{b, h}
}

// placement draws what the placement API is asked for.
func (d dice) placement(at command.Stamp) command.Command {
	id := api.ProviderID(one(d, someDrawers))
	switch d.n(21) {
	case 0, 1:
		c := providerCreate(at, one(d, someProviders), one(d, append(someDrawers, "", "")))
		if d.chance(4) {
			c.Name = one(d, []string{"name-p1", "h1", "other"})
		}
		return c
	case 2:
		if !d.chance(3) {
			id = api.ProviderID(d.provider())
		}
		if d.chance(5) {
			id = "nobody" // seldom enough is a provider drawn that is not there
		}
		return command.ProviderDelete{Stamp: at, ID: id}
	case 3, 4, 5, 6:
		return d.providerSet(at, api.ProviderID(d.provider()))
	case 7, 13:
		return command.ConsumerDelete{Stamp: at, ID: api.ConsumerID(one(d, append(someConsumers, "i-00028", "i-00029")))}
	case 8, 11, 12:
		return d.name(at)
	case 9, 10:
		return d.reshape(at)
	}
	c := command.ConsumersPut{Stamp: at}
	for range 1 + d.n(2) {
		c.Consumers = append(c.Consumers, d.entry())
	}
	return c
}

// provider draws a provider, most often one that there is.
func (d dice) provider() string {
	if all := d.w.s.Providers(); len(all) > 0 && !d.chance(12) {
		return string(one(d, all).ID)
	}
	return one(d, someDrawers)
}

// class draws a class, most often one that a provider has.
func (d dice) class(id string) api.ResourceClass {
	if p, ok := d.w.s.Provider(api.ProviderID(id)); ok && !d.chance(12) {
		if all := slices.Sorted(maps.Keys(p.Inventory)); len(all) > 0 {
			return one(d, all)
		}
	}
	return one(d, someClasses)
}

// generation returns that of a provider, 0 for nobody.
func (d dice) generation(id api.ProviderID) uint64 {
	if p, ok := d.w.s.Provider(id); ok {
		return p.Generation
	}
	return 0
}

func (d dice) entry() command.ConsumerEntry {
	e := nothing(one(d, someConsumers))
	from := map[string]bool{}
	for range d.n(3) {
		if id := d.provider(); !from[id] {
			e = and(e, id, d.class(id), int64(1+d.n(2)))
			from[id] = !d.chance(20)
		}
	}
	if d.chance(6) {
		e.Project = "p2"
	}
	if d.chance(3) {
		e.Type = new(one(d, []string{"", "VOLUME"}))
	}
	if d.chance(3) {
		var g uint64
		if c, ok := d.w.s.Consumer(e.ID); ok && !c.Instance && !d.chance(4) {
			g = c.Generation
		}
		e = generation(e, g)
	}
	return e
}

func (d dice) name(at command.Stamp) command.Command {
	switch d.n(4) {
	case 3:
		return command.PropertySet{Stamp: at, ID: uuid(d.n(9)), Name: one(d, []string{"gpu", "rack", ""}), Private: d.chance(2)}
	case 0:
		return command.ClassDelete{Stamp: at, Name: "CUSTOM_X"}
	case 1:
		return command.TraitPut{Stamp: at, Name: "CUSTOM_T"}
	case 2:
		return command.TraitDelete{Stamp: at, Name: "CUSTOM_T"}
	}
	return command.ClassPut{Stamp: at, Name: "CUSTOM_X"}
}

// inventory draws a whole inventory of a provider, most often with what its agent says.
func (d dice) inventory(id api.ProviderID) inventory {
	out := inventory{}
	if p, ok := d.w.s.Provider(id); ok && p.CanHost && !d.chance(6) {
		maps.Copy(out, p.Inventory)
	}
	for range d.n(3) {
		v := api.Inventory{Total: int64(1 + d.n(7))}
		if d.chance(3) {
			v.Reserved = v.Total / 2
			v.AllocationRatio = 15_000
		}
		if d.chance(4) {
			v.StepSize, v.MinUnit = 2, int64(1+d.n(1))
		}
		out[one(d, someClasses)] = v
	}
	return out
}

func (d dice) providerSet(at command.Stamp, id api.ProviderID) command.ProviderSet {
	c := command.ProviderSet{Stamp: at, ID: id, Bump: !d.chance(4)}
	if d.chance(2) {
		g := d.generation(id) + uint64(d.n(4)/4)
		c.Generation = &g
	}
	if d.chance(2) {
		c.Inventory = new(d.inventory(id))
	}
	if d.chance(3) {
		c.Traits = new(one(d, [][]string{nil, {api.TraitShares}, {api.TraitShares}, {"CUSTOM_T"}, {api.TraitShares, "CUSTOM_T"}}))
	}
	if d.chance(3) {
		var list []string
		if p, ok := d.w.s.Provider(id); ok {
			list = slices.Clone(p.Aggregates)
		}
		for range d.n(2) {
			list = append(list, one(d, someAggregates))
		}
		c.Aggregates = &list
	}
	if d.chance(4) {
		c.Parent = new(api.ProviderID(one(d, append(someDrawers, "", ""))))
	}
	if d.chance(6) {
		c.Name = new(one(d, []string{"name-" + string(id), "name-p2", "h2", "other"}))
	}
	return c
}

// reshape draws a move of a class from one provider to another, with who claims it.
func (d dice) reshape(at command.Stamp) command.ConsumersPut {
	from, to := api.ProviderID(d.provider()), api.ProviderID(d.provider())
	class := d.class(string(from))
	c := command.ConsumersPut{Stamp: at}
	less, more := d.inventory(from), d.inventory(to)
	if p, ok := d.w.s.Provider(from); ok {
		less = maps.Clone(p.Inventory)
		delete(less, class)
	}
	if p, ok := d.w.s.Provider(to); ok {
		maps.Copy(more, p.Inventory)
		more[class] = api.Inventory{Total: int64(1 + d.n(12))}
	}
	c.Reshape = []command.Reshape{{ID: from, Generation: d.generation(from), Inventory: less}}
	if from != to {
		c.Reshape = append(c.Reshape, command.Reshape{ID: to, Generation: d.generation(to), Inventory: more})
	}
	for _, a := range d.w.s.AllocationsOn(from) {
		old, ok := d.w.s.Consumer(a.Consumer)
		if !ok || old.Instance || d.chance(8) {
			continue
		}
		e := command.ConsumerEntry{ID: old.ID, Project: old.Project, User: old.User}
		sums := map[api.ProviderID]api.Resources{}
		for _, sh := range old.Shares {
			for k, n := range sh.Resources {
				at := sh.Provider
				if at == from && k == class {
					at = to
				}
				if sums[at] == nil {
					sums[at] = api.Resources{}
				}
				sums[at][k] += n
			}
		}
		for _, id := range slices.Sorted(maps.Keys(sums)) {
			e.Shares = append(e.Shares, api.Share{Provider: id, Resources: sums[id]})
		}
		c.Consumers = append(c.Consumers, e)
	}
	return c
}
