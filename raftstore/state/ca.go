package state

import (
	"maps"
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

// caUse lets the next authority issue, when all that it would refuse know it.
func (s *State) caUse(c command.CAUse) Result {
	if s.CAPhase() != api.CATrusted || c.New != api.FingerprintOf(s.Change.Cert) {
		return refuseWith(api.CodeConflict, "no such authority waits to be used; see: berth operator ca status")
	}
	if r := s.refuseWaits(c.Force); r.Err != nil {
		return r
	}
	s.useNext()
	return Result{}
}

// caDrop ends the trust in the old authority, when nobody needs it.
func (s *State) caDrop(c command.CADrop) Result {
	if s.CAPhase() != api.CAUsed || c.Old != api.FingerprintOf(s.Change.Cert) {
		return refuseWith(api.CodeConflict, "no such authority waits to be dropped; see: berth operator ca status")
	}
	if r := s.refuseWaits(c.Force); r.Err != nil {
		return r
	}
	s.dropOld()
	return Result{}
}

// refuseWaits refuses to go on while somebody would be refused then, unless that is forced.
func (s *State) refuseWaits(force bool) Result {
	waits := s.CAWaits()
	if force || len(waits) == 0 {
		return Result{}
	}
	return refuseWith(api.CodeConflict, "%d would be refused from then on, such as %s %q; see: berth operator ca status", len(waits), waits[0].Kind, waits[0].Name)
}

// CAWaits returns who would be refused if the change of the zone's authority went on now: who does not
// trust the next one, or, when that is in use, has no certificate of it. It is sorted by kind and name,
// and empty when nothing changes.
func (s *State) CAWaits() []api.CAWait {
	phase := s.CAPhase()
	if phase == api.CAStable {
		return nil
	}
	newest := s.NewestAuthority()
	has := func(trusts, issuer api.Fingerprint) bool {
		return phase == api.CATrusted && trusts == newest || phase == api.CAUsed && issuer == newest
	}
	var waits []api.CAWait
	add := func(kind api.CAWaitKind, name string) { waits = append(waits, api.CAWait{Kind: kind, Name: name}) }
	for _, n := range s.caNodes() {
		known, ok := s.Node(n)
		if !ok || !has(known.Trusts, known.Issuer) {
			add(api.CAWaitNode, string(n))
		}
	}
	for _, id := range s.caAgents() {
		a, ok := s.Agent(id)
		if !ok || !has(a.Trusts, a.Issuer) {
			add(api.CAWaitAgent, string(id))
		}
	}
	for _, l := range s.Links() {
		if !slices.Contains(l.Told, newest) {
			add(api.CAWaitLink, l.Name)
		}
	}
	for _, t := range s.joins.Values() {
		if phase == api.CATrusted && !t.Used && t.Kind != api.JoinLink && s.now < t.Expires && t.Trusts != newest {
			add(api.CAWaitToken, t.Name)
		}
	}
	return waits
}

// caNodes returns the nodes of the zone, and those that have joined and not yet started, by id.
func (s *State) caNodes() []api.NodeID {
	all := map[api.NodeID]bool{}
	for _, n := range s.Nodes() {
		all[n.ID] = true
	}
	for _, t := range s.joins.Values() {
		if t.Kind == api.JoinNode && t.Used {
			all[api.NodeID(t.Name)] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// caAgents returns the agents of the zone that are not revoked, by id: those that have joined, and
// those of hosts.
func (s *State) caAgents() []api.AgentID {
	all := map[api.AgentID]bool{}
	for _, a := range s.Agents() {
		all[a.ID] = true
	}
	for _, h := range s.AllHosts() {
		all[h.Agent] = true
	}
	for id := range all {
		if a, ok := s.Agent(id); ok && a.IsRevoked() {
			delete(all, id)
		}
	}
	return slices.Sorted(maps.Keys(all))
}
