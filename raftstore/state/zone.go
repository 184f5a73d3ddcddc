package state

import (
	"bytes"
	"crypto/subtle"
	"slices"

	"berth/api"
	"berth/capacity"
	"berth/internal/mutant"
	"berth/raftstore/command"
)

func (s *State) init(c command.Init) Result {
	if s.Zone != "" {
		return refuse(api.CodeConflict, "the zone is initialised already")
	}
	s.Zone, s.Name, s.Config = c.Zone, c.Name, c.Config
	s.CA, s.CAKey = c.CA, c.CAKey
	s.Epochs = []command.Epoch{c.Epoch}
	if c.Admin.ID != "" {
		s.tokens.Set(string(c.Admin.ID), &c.Admin)
	}
	return Result{}
}

func (s *State) nodePut(c command.NodePut) {
	n := c.Node
	if old, ok := s.nodes.Get(string(n.ID)); ok {
		n.Joined = old.Joined
	} else {
		n.Joined = c.At
	}
	s.nodes.Set(string(n.ID), &n)
}

// nodeRemove forgets a node, and that it was ever admitted.
func (s *State) nodeRemove(c command.NodeRemove) {
	s.nodes.Delete(string(c.ID))
	for _, k := range firstKeys(&s.joins, s.joins.Len(), func(t *api.JoinToken) bool {
		return t.Kind == api.JoinNode && t.Name == string(c.ID)
	}) {
		s.joins.Delete(k)
	}
}

func (s *State) epochAdd(c command.EpochAdd) {
	if slices.ContainsFunc(s.Epochs, func(e command.Epoch) bool { return bytes.Equal(e.ID, c.Epoch.ID) }) {
		return // a repeat
	}
	kept := s.Epochs[:min(len(s.Epochs), max(c.Keep-1, 0))]
	s.Epochs = append([]command.Epoch{c.Epoch}, kept...)
}

func (s *State) tokenPut(c command.TokenPut) Result {
	if s.tokens.Len() >= api.TokensMax {
		return refuse(api.CodeOverloaded, "the zone has %d tokens, which is the limit", api.TokensMax)
	}
	s.tokens.Set(string(c.Token.ID), &c.Token)
	return Result{}
}

func (s *State) tokenDelete(c command.TokenDelete) Result {
	if _, ok := s.tokens.Delete(string(c.ID)); !ok {
		return refuse(api.CodeNotFound, "no token %q", string(c.ID))
	}
	return Result{}
}

func (s *State) joinPut(c command.JoinPut) Result {
	if t, ok := s.joins.Get(string(c.Token.ID)); ok {
		return Result{Join: t} // a repeat; the token may be used by now
	}
	if s.joins.Len() >= api.TokensMax {
		return refuse(api.CodeOverloaded, "the zone has %d join tokens, which is the limit", api.TokensMax)
	}
	s.joins.Set(string(c.Token.ID), &c.Token)
	return Result{Join: &c.Token}
}

// joinUse consumes a token. Every way to fail looks the same to the joiner.
func (s *State) joinUse(id api.TokenID, hash []byte, kind api.JoinKind) Result {
	t, ok := s.joins.Get(string(id))
	if !ok || t.Used || t.Kind != kind || s.now >= t.Expires || subtle.ConstantTimeCompare(t.Hash, hash) != 1 {
		return refuse(api.CodeUnauthenticated, "the join token is unknown, used or expired; ask for a new one")
	}
	used := *t
	used.Used = true
	s.joins.Set(string(id), &used)
	return Result{Join: &used}
}

func (s *State) flavorPut(c command.FlavorPut) Result {
	f := c.Flavor
	old, exists := s.flavors.Get(string(f.ID))
	switch {
	case exists && !c.Replace:
		return refuse(api.CodeConflict, "flavor %q exists", string(f.ID))
	case !exists && c.Replace:
		return refuse(api.CodeNotFound, "no flavor %q", string(f.ID))
	case !exists && s.flavors.Len() >= api.FlavorsMax:
		return refuse(api.CodeOverloaded, "the zone has %d flavors, which is the limit", api.FlavorsMax)
	case exists:
		f.Created = old.Created
	default:
		f.Created = c.At
	}
	s.flavors.Set(string(f.ID), &f)
	return Result{}
}

func (s *State) flavorDelete(c command.FlavorDelete) Result {
	if _, ok := s.flavors.Delete(string(c.ID)); !ok {
		return refuse(api.CodeNotFound, "no flavor %q", string(c.ID))
	}
	return Result{}
}

func (s *State) linkPut(c command.LinkPut) Result {
	l := c.Link
	if l.Zone == s.Zone {
		return refuse(api.CodeInvalid, "a zone cannot be linked to itself")
	}
	children := 0
	for _, o := range s.links.Values() {
		switch {
		case o.ID == l.ID:
			return refuse(api.CodeConflict, "link %s exists, as %q", string(l.ID), o.Name)
		case o.Zone == l.Zone:
			return refuse(api.CodeConflict, "zone %s is linked already, as %q", string(l.Zone), o.Name)
		case o.Name == l.Name:
			return refuse(api.CodeConflict, "a link named %q exists", l.Name)
		case o.Role == api.LinkParent && l.Role == api.LinkParent:
			return refuse(api.CodeConflict, "this zone has a parent already")
		case o.Role == api.LinkChild:
			children++
		}
	}
	if l.Role == api.LinkChild && children >= api.LinksMax {
		return refuse(api.CodeOverloaded, "this zone has %d children, which is the limit", api.LinksMax)
	}
	if c.Token != "" {
		if r := s.joinUse(c.Token, c.Hash, api.JoinLink); r.Err != nil {
			return r
		}
	}
	l.Created, l.Updated = c.At, c.At
	s.links.Set(string(l.ID), &l)
	return Result{Link: &l}
}

func (s *State) linkSet(c command.LinkSet) Result {
	old, ok := s.links.Get(string(c.ID))
	if !ok {
		return refuse(api.CodeNotFound, "no such zone")
	}
	l := *old
	if c.Name != nil && *c.Name != l.Name {
		if _, taken := s.LinkByName(*c.Name); taken {
			return refuse(api.CodeConflict, "a link named %q exists", *c.Name)
		}
		l.Name = *c.Name
	}
	assign(&l.Offset, c.Offset)
	assign(&l.Scale, c.Scale)
	assign(&l.State, c.State)
	if len(c.Endpoints) > 0 {
		l.Endpoints = c.Endpoints
	}
	l.Updated = c.At
	s.links.Set(string(l.ID), &l)
	return Result{Link: &l}
}

func (s *State) linkDelete(c command.LinkDelete) Result {
	l, ok := s.links.Get(string(c.ID))
	if !ok {
		return refuse(api.CodeNotFound, "no such zone")
	}
	for _, i := range s.instances.Values() {
		if i.Live() && (i.Link == c.ID || i.Origin == c.ID) {
			return refuse(api.CodeConflict, "instances still depend on zone %q; delete them first", l.Name)
		}
	}
	for _, h := range s.holds.Values() {
		if h.dependsOn(c.ID) {
			return refuse(api.CodeConflict, "reservations in flight still depend on zone %q; try again when they have ended", l.Name)
		}
	}
	s.links.Delete(string(c.ID))
	return Result{Link: l}
}

// assign stores *from in *to unless from is nil.
func assign[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func (s *State) hostsPut(c command.HostsPut) Result {
	ids := make([]api.HostID, 0, len(c.Hosts))
	for _, e := range c.Hosts {
		if id, known := s.byName.Get(e.Host.Name); known {
			if h, _ := s.hosts.Get(string(id)); h.Agent != c.Agent {
				return refuse(api.CodeConflict, "host %q belongs to another agent", e.Host.Name)
			}
		}
	}
	for _, e := range c.Hosts {
		ids = append(ids, s.hostPut(c, e))
	}
	return Result{Hosts: ids}
}

func (s *State) hostPut(c command.HostsPut, e command.HostEntry) api.HostID {
	h := Host{Host: api.Host{ID: e.ID, Name: e.Host.Name, Enabled: true, Created: c.At}, Work: s.index}
	if id, known := s.byName.Get(e.Host.Name); known {
		old, _ := s.hosts.Get(string(id))
		h = *old
	} else {
		h.Pool = e.Host.Pool
		s.byName.Set(h.Name, h.ID)
	}
	h.Agent, h.Driver, h.State, h.Updated = c.Agent, e.Host.Driver, api.HostUp, c.At
	h.Inventory, h.Traits = e.Host.Inventory, e.Host.Traits
	s.storeHost(&h)
	return h.ID
}

// storeHost keeps the record and the host table in step, one generation on.
func (s *State) storeHost(h *Host) {
	s.hostTable.Put(specOf(h))
	s.bump(h.ID)
	s.hosts.Set(string(h.ID), h)
}

// DriverProcess is the driver that runs only flavors with a command.
const DriverProcess = "process"

func specOf(h *Host) capacity.Spec {
	return capacity.Spec{
		ID: h.ID, Inventory: h.Inventory, Traits: h.Traits, Pool: h.Pool,
		Up: h.State == api.HostUp, Enabled: h.Enabled, NeedsCommand: h.Driver == DriverProcess,
	}
}

func (s *State) hostsState(c command.HostsState) Result {
	for _, id := range c.Hosts {
		if old, ok := s.hosts.Get(string(id)); ok && old.State != c.State {
			h := *old
			h.State, h.Updated = c.State, c.At
			s.storeHost(&h)
		}
	}
	return Result{}
}

func (s *State) hostSet(c command.HostSet) Result {
	old, r := s.hostAt(c.ID, c.Generation)
	if old == nil {
		return r
	}
	h := *old
	assign(&h.Enabled, c.Enabled)
	assign(&h.Pool, c.Pool)
	if h.Enabled == old.Enabled && h.Pool == old.Pool {
		return Result{} // nothing changes, so the generation does not
	}
	h.Updated = c.At
	s.storeHost(&h)
	return Result{}
}

func (s *State) hostDelete(c command.HostDelete) Result {
	h, r := s.hostAt(c.ID, c.Generation)
	if h == nil {
		return r
	}
	if s.hostBusy(c.ID) {
		return refuse(api.CodeConflict, "instances or holds are still on the host; delete them first")
	}
	s.hosts.Delete(string(c.ID))
	s.byName.Delete(h.Name)
	s.hostTable.Remove(c.ID)
	return Result{}
}

// hostAt returns the host if generation is 0 or current, else nil and why.
func (s *State) hostAt(id api.HostID, generation uint64) (*Host, Result) {
	h, ok := s.hosts.Get(string(id))
	if !ok {
		return nil, refuse(api.CodeNotFound, "no such host")
	}
	if current := s.hostTable.Generation(id); generation != 0 && generation != current && !mutant.On(mutant.GenerationUnchecked) {
		return nil, refuse(api.CodeStale, "the host is at generation %d, not %d; read it again", current, generation)
	}
	return h, Result{}
}

func (s *State) hostBusy(id api.HostID) bool {
	busy := false
	prefix := string(id) + "\x00"
	s.byHost.Ascend(prefix, func(k string) bool {
		busy = len(k) > len(prefix) && k[:len(prefix)] == prefix
		return false
	})
	if busy {
		return true
	}
	for _, hk := range s.held.Values() {
		if h, ok := s.holds.Get(hk); ok && h.onHost(id) {
			return true
		}
	}
	return false
}
