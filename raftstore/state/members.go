package state

import (
	"bytes"
	"crypto/subtle"
	"slices"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state/table"
)

// membersBook has the zone's own data: nodes, tokens, flavors, links, keys and settings.
type membersBook struct {
	entry

	Zone   api.ZoneID
	Name   string
	Config api.ZoneConfig
	CA     []byte          // DER, of the authority that issues
	CAKey  []byte          // DER, wrapped
	Change *CAChange       // of the authority, that is under way; nil for none. Never changed in place
	CADue  uint64          // the entry that removed a node which has the authority's key, 0 for none
	KEK    []byte          // the id of the key-encryption key that wraps the secrets; nil for the zone's first
	KEKDue uint64          // the entry that removed a node which has that key, 0 for none
	Epochs []command.Epoch // newest first; the first one seals

	Incarnation api.Incarnation // 0 for a zone that was never brought back from a backup

	nodes   table.Map[*api.Node]
	tokens  table.Map[*api.Token]
	joins   table.Map[*api.JoinToken]
	agents  table.Map[*api.Agent]
	roles   table.Map[*api.Role]
	flavors table.Map[*api.Flavor]
	links   table.Map[*api.Link]
}

func (s *membersBook) tables(into []table.Table) []table.Table {
	return append(into, table.Of(&s.nodes), table.Of(&s.tokens), table.Of(&s.joins), table.Of(&s.agents), table.Of(&s.roles), table.Of(&s.flavors), table.Of(&s.links))
}

func (s *membersBook) sections() []section {
	agents := sectionOf("agents", s.agents.Values, func(a *api.Agent) { s.agents.Set(string(a.ID), a) })
	roles := sectionOf("roles", s.roles.Values, func(r *api.Role) { s.roles.Set(string(r.Name), r) })
	agents.form, roles.form = api.FormFifth, api.FormFifth
	return []section{
		sectionOf("nodes", s.nodes.Values, func(n *api.Node) { s.nodes.Set(string(n.ID), n) }),
		sectionOf("tokens", s.tokens.Values, func(t *api.Token) { s.tokens.Set(string(t.ID), t) }),
		sectionOf("joins", s.joins.Values, func(t *api.JoinToken) { s.joins.Set(string(t.ID), t) }),
		agents,
		roles,
		sectionOf("flavors", s.flavors.Values, func(f *api.Flavor) { s.flavors.Set(string(f.ID), f) }),
		sectionOf("links", s.links.Values, func(l *api.Link) { s.links.Set(string(l.ID), l) }),
	}
}

// apply applies a command that is for this book.
func (s *membersBook) apply(c command.ForMembers) Result {
	switch c := c.(type) {
	case command.Init:
		return s.init(c)
	case command.NodePut:
		return s.nodePut(c)
	case command.NodeRemove:
		s.nodeRemove(c)
	case command.FormRaise:
		return s.formRaise(c)
	case command.SchedulerSet:
		return s.schedulerSet(c)
	case command.TokenPut:
		return s.tokenPut(c)
	case command.TokenDelete:
		return s.tokenDelete(c)
	case command.TokensUsed:
		return s.tokensUsed(c)
	case command.RoleSet:
		return s.roleSet(c)
	case command.RoleDelete:
		return s.roleDelete(c)
	case command.JoinPut:
		return s.joinPut(c)
	case command.JoinUse:
		return s.joinUse(c)
	case command.AgentRenew:
		return s.agentRenew(c)
	case command.AgentTrust:
		return s.agentTrust(c)
	case command.CAAdd:
		return s.caAdd(c)
	case command.LinkPin:
		return s.linkPin(c)
	case command.FlavorPut:
		return s.flavorPut(c)
	case command.FlavorDelete:
		return s.flavorDelete(c)
	case command.EpochAdd:
		return s.epochAdd(c)
	case command.LinkPut:
		return s.linkPut(c)
	case command.LinkSet:
		return s.linkSet(c)
	}
	return Result{}
}

func (s *membersBook) init(c command.Init) Result {
	if s.Zone != "" {
		return refuseWith(api.CodeConflict, "the zone is initialised already")
	}
	s.Zone, s.Name, s.Config = c.Zone, c.Name, c.Config
	s.CA, s.CAKey = c.CA, c.CAKey
	s.Epochs = []command.Epoch{c.Epoch}
	if c.Admin.ID != "" {
		s.tokens.Set(string(c.Admin.ID), &c.Admin)
	}
	return Result{}
}

// setConfig replaces the configuration except for the scheduler's part; see schedulerSet.
func (s *membersBook) setConfig(c api.ZoneConfig) {
	c.Filters, c.Costs = s.Config.Filters, s.Config.Costs
	s.Config = c
}

func (s *membersBook) schedulerSet(c command.SchedulerSet) Result {
	if len(c.Scheduler.Filters) > s.limits.filters || len(c.Scheduler.Costs) > s.limits.filters {
		return refuseWith(api.CodeInvalid, "a zone has at most %d filters and as many costs", s.limits.filters)
	}
	s.Config.Filters, s.Config.Costs = c.Scheduler.Filters, c.Scheduler.Costs
	return Result{}
}

func (s *membersBook) nodePut(c command.NodePut) Result {
	n := c.Node
	if reads := max(n.Form, api.FormFirst); reads < s.Form() {
		return refuseWith(api.CodeConflict, "node %q reads forms up to %d, and the log of the zone has form %d: start the node with a newer release",
			string(n.ID), reads, s.Form())
	}
	old, ok := s.nodes.Get(string(n.ID))
	if !ok || old.AgentAddr != n.AgentAddr {
		s.touchTopic(Everything) // all agents are to learn it
	}
	if ok {
		n.Joined, n.Since = old.Joined, old.Since
		s.idle = *old == n // each leader records itself when it begins
	} else {
		n.Joined, n.Since = c.At, s.joinedSince(n.ID)
	}
	s.nodes.Set(string(n.ID), &n)
	return Result{}
}

// formRaise ends an upgrade: nodes that do not read the new form cannot come back.
func (s *membersBook) formRaise(c command.FormRaise) Result {
	if c.To < s.Form() {
		return refuseWith(api.CodeConflict, "the zone writes form %d already", s.Form())
	}
	for _, n := range s.nodes.Values() {
		if reads := max(n.Form, api.FormFirst); reads < c.To {
			return refuseWith(api.CodeConflict, "node %q reads forms up to %d: start it with the newer release first", string(n.ID), reads)
		}
	}
	s.form = c.To
	return Result{}
}

// nodeRemove forgets a node and the join tokens that admitted it. It has the key-encryption key, and so
// the key of the authority.
func (s *membersBook) nodeRemove(c command.NodeRemove) {
	_, knew := s.nodes.Delete(string(c.ID))
	if knew {
		s.touchTopic(Everything)
	}
	for _, k := range firstKeys(s.joins, s.joins.Len(), func(t *api.JoinToken) bool {
		return t.Kind == api.JoinNode && t.Name == string(c.ID)
	}) {
		t, _ := s.joins.Delete(k)
		knew = knew || t.Used
	}
	if knew && c.Form() >= api.FormFifth {
		s.KEKDue, s.CADue = s.index, s.index
	}
}

func (s *membersBook) epochAdd(c command.EpochAdd) Result {
	if slices.ContainsFunc(s.Epochs, func(e command.Epoch) bool { return bytes.Equal(e.ID, c.Epoch.ID) }) {
		return Result{} // a repeat
	}
	all := append([]command.Epoch{c.Epoch}, s.Epochs...)
	n := min(len(all), max(c.Keep, 1))
	for c.Sealed > 0 && n < len(all) && all[n-1].Created > c.Sealed { // all[n] sealed plans until then
		n++
	}
	if n > s.limits.epochs {
		return refuseWith(api.CodeOverloaded, "%d keys may still be needed for plans that have not expired, which is the limit; rotate again later", n-1)
	}
	s.Epochs = all[:n]
	return Result{}
}

func (s *membersBook) tokenPut(c command.TokenPut) Result {
	if s.tokens.Len() >= s.limits.tokens {
		return refuseWith(api.CodeOverloaded, "the zone has %d tokens, which is the limit", s.limits.tokens)
	}
	if r := s.checkRoles(c.Token.Roles); r.Err != nil {
		return r
	}
	s.tokens.Set(string(c.Token.ID), &c.Token)
	return Result{}
}

func (s *membersBook) tokenDelete(c command.TokenDelete) Result {
	if _, ok := s.tokens.Delete(string(c.ID)); !ok {
		return refuseWith(api.CodeNotFound, "no token %q", string(c.ID))
	}
	return Result{}
}

// tokensUsed records the last use of tokens. A clock that is ahead does not take it past the zone's time.
func (s *membersBook) tokensUsed(c command.TokensUsed) Result {
	if len(c.Used) > s.limits.tokenUses {
		return refuseWith(api.CodeInvalid, "one record may have at most %d tokens, got %d", s.limits.tokenUses, len(c.Used))
	}
	for _, u := range c.Used {
		at := min(u.At, s.now)
		if old, ok := s.tokens.Get(string(u.ID)); ok && at > old.Used {
			t := *old
			t.Used = at
			s.tokens.Set(string(u.ID), &t)
		}
	}
	return Result{}
}

func (s *membersBook) joinPut(c command.JoinPut) Result {
	if t, ok := s.joins.Get(string(c.Token.ID)); ok {
		return Result{Join: t} // a repeat; the token may be used by now
	}
	if t := c.Token.Terms; t != nil && (c.Token.Kind != api.JoinAgent || t.HostsMax < 0 || len(t.HostPrefix) > api.NameMaxBytes || t.HostCapacity.Validate() != nil) {
		return refuseWith(api.CodeInvalid, "only the token of an agent has a prefix, at most %d bytes, a limit of hosts, at least 0, and one of what a host offers", api.NameMaxBytes)
	}
	if s.joins.Len() >= s.limits.tokens {
		return refuseWith(api.CodeOverloaded, "the zone has %d join tokens, which is the limit", s.limits.tokens)
	}
	s.joins.Set(string(c.Token.ID), &c.Token)
	return Result{Join: &c.Token}
}

// joinUse consumes a token. Every failure looks the same to the joiner. A repeat with the same key changes nothing: the
// answer to the first call was lost.
func (s *membersBook) joinUse(c command.JoinUse) Result {
	t, ok := s.joins.Get(string(c.ID))
	if !ok || t.Used && !t.UsedBy(c.By) || t.Kind != c.Want || s.now >= t.Expires || subtle.ConstantTimeCompare(t.Hash, c.Hash) != 1 {
		return refuseWith(api.CodeUnauthenticated, "the join token is unknown, used or expired; ask for a new one")
	}
	if t.Used {
		return Result{Join: t}
	}
	if r := s.agentJoins(t); r.Err != nil {
		return r
	}
	used := *t
	used.Used = true
	if c.Form() >= api.FormFifth {
		used.Joined, used.By = s.now, c.By
	}
	s.joins.Set(string(c.ID), &used)
	return Result{Join: &used}
}

func (s *membersBook) flavorPut(c command.FlavorPut) Result {
	f := c.Flavor
	old, exists := s.flavors.Get(string(f.ID))
	switch {
	case exists && !c.Replace:
		return refuseWith(api.CodeConflict, "flavor %q exists", string(f.ID))
	case !exists && c.Replace:
		return refuseWith(api.CodeNotFound, "no flavor %q", string(f.ID))
	case !exists && s.flavors.Len() >= s.limits.flavors:
		return refuseWith(api.CodeOverloaded, "the zone has %d flavors, which is the limit", s.limits.flavors)
	case exists:
		f.Created = old.Created
	default:
		f.Created = c.At
	}
	s.flavors.Set(string(f.ID), &f)
	return Result{}
}

func (s *membersBook) flavorDelete(c command.FlavorDelete) Result {
	if _, ok := s.flavors.Delete(string(c.ID)); !ok {
		return refuseWith(api.CodeNotFound, "no flavor %q", string(c.ID))
	}
	return Result{}
}

// Nodes returns the zone's nodes by id.
func (s *membersBook) Nodes() []*api.Node { return s.nodes.Values() }

// Node returns one node.
func (s *membersBook) Node(id api.NodeID) (*api.Node, bool) { return s.nodes.Get(string(id)) }

// Token returns one bearer token.
func (s *membersBook) Token(id api.TokenID) (*api.Token, bool) { return s.tokens.Get(string(id)) }

// Tokens returns all bearer tokens by id.
func (s *membersBook) Tokens() []*api.Token { return s.tokens.Values() }

// Admitted reports whether a node has joined with a token that is still kept, and has not
// been removed since.
func (s *membersBook) Admitted(id api.NodeID) bool {
	return s.hasJoined(id, func(*api.JoinToken) bool { return true })
}

// AdmittedWith is Admitted for the owner of a key, of which by is the SHA-256: who has joined has that key until it is a member. A
// token that was used in a zone of an earlier form does not say whose it was.
func (s *membersBook) AdmittedWith(id api.NodeID, by []byte) bool {
	return s.hasJoined(id, func(t *api.JoinToken) bool { return len(t.By) == 0 || t.UsedBy(by) })
}

func (s *membersBook) hasJoined(id api.NodeID, is func(*api.JoinToken) bool) bool {
	found := false
	s.joins.Scan(func(_ string, t *api.JoinToken) bool {
		found = t.Used && t.Kind == api.JoinNode && t.Name == string(id) && is(t)
		return !found
	})
	return found
}

// MemberSince returns the time before which a node with this id was another one, 0 if there is none that is known.
func (s *membersBook) MemberSince(id api.NodeID) api.Instant {
	if n, ok := s.Node(id); ok {
		return n.Since
	}
	return s.joinedSince(id)
}

// joinedSince returns when the last token was used that has admitted a node, of those that are kept.
func (s *membersBook) joinedSince(id api.NodeID) (at api.Instant) {
	s.joins.Scan(func(_ string, t *api.JoinToken) bool {
		if t.Used && t.Kind == api.JoinNode && t.Name == string(id) {
			at = max(at, t.Joined)
		}
		return true
	})
	return at
}

// Join returns one join token.
func (s *membersBook) Join(id api.TokenID) (*api.JoinToken, bool) { return s.joins.Get(string(id)) }

// Flavor returns one flavor.
func (s *membersBook) Flavor(id api.FlavorID) (*api.Flavor, bool) { return s.flavors.Get(string(id)) }

// Flavors returns all flavors by id.
func (s *membersBook) Flavors() []*api.Flavor { return s.flavors.Values() }

// pruneTokens deletes expired tokens and join tokens, and agents whose certificate has expired.
// It scans these tables, which have at most limits.tokens or limits.agents rows each.
func (s *membersBook) pruneTokens(c command.Prune) {
	for _, k := range firstKeys(s.joins, c.Limit, func(t *api.JoinToken) bool { return t.Expires < c.Before }) {
		s.joins.Delete(k)
	}
	for _, k := range firstKeys(s.tokens, c.Limit, func(t *api.Token) bool { return t.Expires < c.Before }) {
		s.tokens.Delete(k)
	}
	for _, k := range firstKeys(s.agents, c.Limit, func(a *api.Agent) bool { return max(a.Issued(), a.Revoked).Add(s.limits.agentAge) < c.Before }) {
		s.agents.Delete(k)
	}
}
