package state

import (
	"iter"
	"strings"

	"berth/api"
)

// A member of a rule is an instance that is not DELETED, or a slot of an undecided hold. Its
// place is its host in this zone, or the link to the child that has it or was asked for it.
// An instance that moves is a member on both of its hosts.

// place is a host of this zone, or a link to a child.
type place string

func hostPlace(id api.HostID) place { return place("h" + string(id)) }
func linkPlace(id api.LinkID) place { return place("l" + string(id)) }

func (p place) host() (api.HostID, bool) { return api.HostID(p[1:]), p[0] == 'h' }

func tenantKey(t api.Tenant) string {
	return joinKey(t.Origin, t.Project)
}

func memberKey(t api.Tenant, rule string, at place) string {
	return joinKey(joinKey(tenantKey(t), rule), at)
}

// countMembers adds n to the members of some rules at a place, and to those of the tenant.
func (s *workBook) countMembers(t api.Tenant, rules []string, at place, n int) {
	for _, rule := range rules {
		addTally(s.members, memberKey(t, rule, at), n)
	}
	if id, own := at.host(); own {
		addTally(s.tenants, joinKey(tenantKey(t), id), n)
	}
}

func (s *workBook) countInstance(i *api.Instance, n int) {
	if !i.Live() {
		return
	}
	if i.Host == "" {
		s.countMembers(i.Tenant(), i.Rules, linkPlace(i.Link), n)
		return
	}
	s.countMembers(i.Tenant(), i.Rules, hostPlace(i.Host), n)
	if i.Target != "" {
		s.countMembers(i.Tenant(), i.Rules, hostPlace(i.Target), n)
	}
}

// eachPlace visits the places where a rule has members, in order, with their number.
func (s *workBook) eachPlace(t api.Tenant, rule string, visit func(at place, n int)) {
	prefix := memberKey(t, rule, "")
	eachRecordUnder(s.members, prefix, func(k string, n int) {
		if n -= s.gone[k]; n > 0 {
			visit(place(k[len(prefix):]), n)
		}
	})
}

// Members returns the number of members of a rule of a tenant on each own host and in each
// child. rule is a key of api.Request.RuleKey.
func (s *workBook) Members(t api.Tenant, rule string) (hosts map[api.HostID]int, elsewhere map[api.LinkID]int) {
	hosts, elsewhere = map[api.HostID]int{}, map[api.LinkID]int{}
	s.eachPlace(t, rule, func(at place, n int) {
		if id, own := at.host(); own {
			hosts[id] = n
		} else {
			elsewhere[api.LinkID(at[1:])] = n
		}
	})
	return hosts, elsewhere
}

// Tenancy yields the own hosts on which a tenant has instances or held slots, by id, with
// their number.
func (s *workBook) Tenancy(t api.Tenant) iter.Seq2[api.HostID, int] {
	return func(yield func(api.HostID, int) bool) {
		prefix := tenantKey(t) + "\x00"
		s.tenants.Ascend(prefix, func(k string, n int) bool {
			n -= s.gone[k]
			return strings.HasPrefix(k, prefix) && (n <= 0 || yield(api.HostID(k[len(prefix):]), n))
		})
	}
}

// HostOf returns the own host of a live instance of a tenant, or false if the instance is in
// another zone, of another tenant, or unknown.
func (s *workBook) HostOf(t api.Tenant, id api.InstanceID) (api.HostID, bool) {
	i, ok := s.instances.Get(string(id))
	if !ok || i.Tenant() != t || i.Host == "" || !i.Live() {
		return "", false
	}
	return i.Host, true
}

// PlaceOf returns where a live instance of a tenant is: here, or in the child at the other
// end of link. known is false for an instance of another tenant too.
func (s *workBook) PlaceOf(t api.Tenant, id api.InstanceID) (link api.LinkID, here, known bool) {
	i, ok := s.instances.Get(string(id))
	if !ok || i.Tenant() != t || !i.Live() {
		return "", false, false
	}
	return i.Link, i.Host != "", true
}
