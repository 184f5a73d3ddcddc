package state

import (
	"fmt"
	"io"

	"berth/api"
	"berth/capacity"
	"berth/internal/codec"
	"berth/internal/mutant"
	"berth/raftstore/command"
)

// snapshotVersion is the version of the stream that Save writes.
const snapshotVersion = 1

// header opens a snapshot. The counts say how many records of each table
// follow, in this order, so that a stream that is cut short is noticed.
type header struct {
	Version   int             `cbor:"1,keyasint"`
	Index     uint64          `cbor:"2,keyasint"`
	Now       api.Instant     `cbor:"3,keyasint"`
	Zone      api.ZoneID      `cbor:"4,keyasint"`
	Name      string          `cbor:"5,keyasint"`
	Config    api.ZoneConfig  `cbor:"6,keyasint"`
	CA        []byte          `cbor:"7,keyasint"`
	CAKey     []byte          `cbor:"8,keyasint"`
	Epochs    []command.Epoch `cbor:"9,keyasint"`
	Nodes     int             `cbor:"10,keyasint"`
	Tokens    int             `cbor:"11,keyasint"`
	Joins     int             `cbor:"12,keyasint"`
	Flavors   int             `cbor:"13,keyasint"`
	Links     int             `cbor:"14,keyasint"`
	Hosts     int             `cbor:"15,keyasint"`
	Instances int             `cbor:"16,keyasint"`
	Boots     int             `cbor:"17,keyasint"`
	Holds     int             `cbor:"18,keyasint"`
	Plans     int             `cbor:"19,keyasint"`
	Unended   int             `cbor:"20,keyasint"`
	Upload    *upload         `cbor:"21,keyasint,omitempty"`

	Aggregates int `cbor:"22,keyasint,omitempty"`
	Groups     int `cbor:"23,keyasint,omitempty"`
	Classes    int `cbor:"24,keyasint,omitempty"`
	Traits     int `cbor:"25,keyasint,omitempty"`
	Providers  int `cbor:"26,keyasint,omitempty"`
	Consumers  int `cbor:"27,keyasint,omitempty"`
}

// planRecord is one row of the table of consumed plans.
type planRecord struct {
	Plan string  `cbor:"1,keyasint"`
	Use  planUse `cbor:"2,keyasint"`
}

// Save writes the whole state as a stream of items. Equal states give equal
// bytes. Indexes and the host table are not written: Load rebuilds them.
func (s *State) Save(w io.Writer) error {
	e := codec.NewEncoder(w)
	h := header{
		Version: snapshotVersion, Index: s.index, Now: s.now, Zone: s.Zone, Name: s.Name, Config: s.Config,
		CA: s.CA, CAKey: s.CAKey, Epochs: s.Epochs, Nodes: s.nodes.Len(), Tokens: s.tokens.Len(),
		Joins: s.joins.Len(), Flavors: s.flavors.Len(), Links: s.links.Len(), Hosts: s.hosts.Len(),
		Instances: s.instances.Len(), Boots: s.boots.Len(), Holds: s.holds.Len(), Plans: s.plans.Len(),
		Unended: s.unended.Len(), Upload: s.upload, Aggregates: s.aggregates.Len(), Groups: s.groups.Len(),
		Classes: s.classes.Len(), Traits: s.traits.Len(), Providers: s.providers.Len(), Consumers: s.consumers.Len(),
	}
	plans := make([]planRecord, 0, s.plans.Len())
	s.plans.Scan(func(k string, u planUse) bool {
		plans = append(plans, planRecord{Plan: k, Use: u})
		return true
	})
	if mutant.On(mutant.PlansForgotten) {
		plans, h.Plans = nil, 0
	}
	if err := e.Encode(h); err != nil {
		return err
	}
	hosts := s.hosts.Values()
	for i, old := range hosts {
		cp := *old
		cp.Generation = s.generation(cp.ID)
		hosts[i] = &cp
	}
	providers := s.providers.Values()
	for i, old := range providers {
		cp := *old
		cp.Generation = s.generation(cp.ID)
		providers[i] = &cp
	}
	for _, write := range []func() error{
		all(e, s.nodes.Values()), all(e, s.tokens.Values()), all(e, s.joins.Values()), all(e, s.flavors.Values()),
		all(e, s.links.Values()), all(e, s.aggregates.Values()), all(e, named(&s.classes)), all(e, named(&s.traits)),
		all(e, hosts), all(e, providers), all(e, s.consumers.Values()), all(e, s.instances.Values()),
		all(e, s.groups.Values()), all(e, s.boots.Values()), all(e, s.holds.Values()), all(e, plans), all(e, s.unended.Keys()),
		all(e, s.upload.arrived()),
	} {
		if err := write(); err != nil {
			return err
		}
	}
	return nil
}

func all[V any](e codec.Encoder, vs []V) func() error {
	return func() error {
		for _, v := range vs {
			if err := e.Encode(v); err != nil {
				return err
			}
		}
		return nil
	}
}

// Load reads what Save wrote into a fresh state. A stream that is cut short,
// malformed or of another version is an error.
func Load(r io.Reader) (*State, error) {
	d := codec.NewDecoder(r)
	var h header
	if err := d.Decode(&h); err != nil {
		return nil, fmt.Errorf("reading the snapshot's header: %w", err)
	}
	if h.Version != snapshotVersion {
		return nil, fmt.Errorf("snapshot version %d is unknown; this node is older than the snapshot", h.Version)
	}
	s := &State{
		index: h.Index, now: h.Now, Zone: h.Zone, Name: h.Name, Config: h.Config,
		CA: h.CA, CAKey: h.CAKey, Epochs: h.Epochs, upload: h.Upload, hostTable: capacity.NewTable(),
	}
	s.hostTable.Advance(h.Now)
	for _, read := range []func() error{
		each(d, h.Nodes, func(n *api.Node) { s.nodes.Set(string(n.ID), n) }),
		each(d, h.Tokens, func(t *api.Token) { s.tokens.Set(string(t.ID), t) }),
		each(d, h.Joins, func(t *api.JoinToken) { s.joins.Set(string(t.ID), t) }),
		each(d, h.Flavors, func(f *api.Flavor) { s.flavors.Set(string(f.ID), f) }),
		each(d, h.Links, func(l *api.Link) { s.links.Set(string(l.ID), l) }),
		each(d, h.Aggregates, s.loadAggregate),
		each(d, h.Classes, func(n *Named) { s.classes.Set(n.Name, n.Created) }),
		each(d, h.Traits, func(n *Named) { s.traits.Set(n.Name, n.Created) }),
		each(d, h.Hosts, s.loadHost),
		each(d, h.Providers, func(p *api.Provider) { s.storeProvider(nil, p) }),
		each(d, h.Consumers, s.loadConsumer),
		each(d, h.Instances, s.loadInstance),
		each(d, h.Groups, func(g *api.ServerGroup) { s.groups.Set(key(g.Project, g.ID), g) }),
		each(d, h.Boots, s.loadBoot),
		each(d, h.Holds, s.loadHold),
		each(d, h.Plans, func(p *planRecord) { s.putPlan(p.Plan, p.Use) }),
		each(d, h.Unended, func(id *string) { s.unended.Insert(*id) }),
		each(d, s.upload.count(), func(part *[]byte) { s.upload.add(*part) }),
	} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	s.indexEnded()
	s.hosts.Scan(func(_ string, h *Host) bool { // claims were added anew: set the generations last
		s.hostTable.SetGeneration(h.ID, h.Generation)
		return true
	})
	s.providers.Scan(func(_ string, p *api.Provider) bool {
		s.hostTable.SetGeneration(p.ID, p.Generation)
		return true
	})
	return s, nil
}

func each[V any](d codec.Decoder, n int, store func(*V)) func() error {
	return func() error {
		for range n {
			var v V
			if err := d.Decode(&v); err != nil {
				return fmt.Errorf("reading a snapshot's %T: %w", v, err)
			}
			store(&v)
		}
		return nil
	}
}

func (s *State) loadHost(h *Host) {
	s.hosts.Set(string(h.ID), h)
	s.work.Insert(workKey(h))
	s.byName.Set(h.Name, h.ID)
	s.learn(h.Inventory, h.Traits, h.Created) // a snapshot of an earlier build has no such list
	s.hostTable.Put(s.specOf(h))
}

func (s *State) loadInstance(i *api.Instance) {
	s.instances.Set(string(i.ID), i)
	s.indexEndedInstance(nil, i)
	s.byTenant.Insert(key(tenantKey(i.Tenant()), i.ID))
	s.byRes.Insert(resKey(i.Tenant(), i.Reservation) + string(i.ID))
	if i.Origin != "" {
		s.changes.Insert(changeKey(i.Origin, i.ModIndex, i.ID))
	}
	s.reindex(nil, i)
	if i.Target != "" {
		s.draw(i.Target, claimOf(i), i.TargetShares, i.Kept()...)
	}
	if i.Host != "" && i.Live() {
		s.byHost.Insert(key(i.Host, i.ID))
		s.draw(i.Host, claimOf(i), i.Shares)
	}
}

func (s *State) loadBoot(b *Boot) {
	s.boots.Set(b.ID(), b)
	if b.Key != "" {
		s.keys.Set(key(b.Request.Project, b.Key), b.Request.Reservation)
	}
	if b.Decision == api.DecisionPending {
		s.undecided.Insert(b.ID())
	}
}

func (s *State) loadHold(h *Hold) {
	s.holds.Set(h.Key(), h)
	if h.neverCame() {
		tally(&s.tombstones, string(h.Origin), +1)
	}
	if h.Decision != api.DecisionPending {
		if !h.settled() {
			s.untold.Insert(h.Key())
		}
		return
	}
	s.indexHeld(h)
	if h.Origin != "" {
		s.prepared.Insert(h.Key())
	}
	for n, sl := range h.Slots {
		s.draw(sl.Host, h.claim(sl), h.sharesOf(n))
		s.countSlot(h, sl, +1)
	}
	for _, p := range h.Parts {
		for _, i := range p.Instances {
			s.countPart(h, p.Link, i, +1)
		}
	}
}
