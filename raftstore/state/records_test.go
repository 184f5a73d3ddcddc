package state

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/filled"
	"berth/quota"
	"berth/raftstore/command"
)

// TestRecordsHaveWhatTheyAreMadeOf: of what is filled in a command or a record, nothing is missing in what is made of it, but for
// what is named.
func TestRecordsHaveWhatTheyAreMadeOf(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormNewest
	has := func(name string, v any, without ...string) {
		t.Helper()
		assert.Equal(t, without, filled.Zero(v), name)
	}
	i := filled.Of[api.Instance]()
	i.Waits, i.Reserved, i.Overdue, i.Within = false, false, false, ""
	has("a claim", w.s.claimOf(&i), "Within")
	change := w.s.changeOf(&i)
	has("a change of an instance", change, "Eviction.For", "Eviction.Stays")
	h := filled.Of[Hold]()
	has("the answer to a hold", h.Answer())
	token := filled.Of[api.Token]()
	token.Roles = nil
	has("a caller", w.s.CallerOf(&token), "Groups")

	w.ok(command.PropertySet{Stamp: w.stamp(), ID: "7", Name: "price", Private: true})
	p, ok := w.s.HostProperty("price")
	require.True(t, ok)
	has("a property", p, "Updated")
	w.ok(command.ProviderCreate{Stamp: w.stamp(), ID: "root", Name: "a root"})
	w.ok(command.ProviderCreate{Stamp: w.stamp(), ID: "pool", Name: "a pool", Parent: "root"})
	pool, ok := w.s.providers.Get("pool")
	require.True(t, ok)
	assert.Equal(t, []any{api.ProviderID("pool"), "a pool", api.ProviderID("root"), w.now, w.now},
		[]any{pool.ID, pool.Name, pool.Parent, pool.Created, pool.Updated})
	w.host("h1", 4)
	host, ok := w.s.Provider("h1")
	require.True(t, ok)
	assert.NotEmpty(t, host.Name)
	assert.Equal(t, []any{true, true, true}, []any{host.CanHost, host.Created > 0, host.Updated > 0})
	assert.NotEmpty(t, host.Reported)

	s := filled.Of[command.SeriesCreate]()
	s.Stamp, s.Leases = w.stamp(), nil
	has("a series", w.ok(s).Series, "Waiting")
	has("the change of an authority", caChange(w), "Begun", "Used")

	for _, reserved := range []bool{false, true} {
		who := filled.Of[api.Instance]()
		who.Reserved, who.Group, who.Reservation = reserved, "group", "reservation"
		want := api.Eviction{For: "reservation", At: w.s.now, By: 9}
		if reserved {
			want = api.Eviction{For: "group", Lease: true, At: w.s.now, By: 9}
		}
		assert.Equal(t, &want, w.s.evictionFor(&who, 9))
	}
}

// caChange returns the change of an authority that a filled command begins.
func caChange(w *world) CAChange {
	c := filled.Of[command.CAAdd]()
	c.Stamp, c.Old, c.KEK = w.stamp(), api.FingerprintOf(w.s.CA), w.s.KEK
	w.ok(c)
	out := *w.s.Change
	assert.Equal(w.tb, w.s.Index(), out.Begun)
	out.Begun = 0
	return out
}

// TestAuditOfManyCommands: an actor is named for as many commands of the same entry as were counted, and for none after.
func TestAuditOfManyCommands(t *testing.T) {
	for _, count := range []int{1, 2, 3} {
		s := newWorld(t).s
		index := s.Index() + 1
		s.Apply(index, inForm(t, command.Audit{Count: count, Actor: api.AuditActor{Kind: api.ActorZone}}, api.FormFifth))
		for n := range 5 {
			s.Apply(index, inForm(t, command.TokenDelete{ID: api.TokenID(fmt.Sprint(n))}, api.FormFifth))
		}
		all, _ := s.Audit()
		assert.Len(t, all, count)
		s.Apply(index+1, inForm(t, command.Audit{Count: count, Actor: api.AuditActor{Kind: api.ActorZone}}, api.FormFifth))
		s.Apply(index+2, inForm(t, command.TokenDelete{ID: "late"}, api.FormFifth))
		s.Apply(index+2, inForm(t, command.TokenDelete{ID: "later"}, api.FormFifth))
		all, _ = s.Audit()
		assert.Len(t, all, count, "another entry is nobody's")
	}
}

// TestAuditNamesWhatACommandConcerns.
func TestAuditNamesWhatACommandConcerns(t *testing.T) {
	cert := []byte("cert")
	for want, c := range map[string]command.Command{
		"n1":                                    command.NodePut{Node: api.Node{ID: "n1"}},
		"7":                                     command.FormRaise{To: 7},
		"n2":                                    command.NodeRemove{ID: "n2"},
		"t1":                                    command.TokenPut{Token: api.Token{ID: "t1"}},
		"deployer":                              command.RoleSet{Role: api.Role{Name: "deployer"}},
		"agent rack-1":                          command.JoinPut{Token: api.JoinToken{Kind: "agent", Name: "rack-1"}},
		"j1":                                    command.JoinUse{ID: "j1"},
		"small":                                 command.FlavorPut{Flavor: api.Flavor{ID: "small"}},
		"0a0b":                                  command.EpochAdd{Epoch: command.Epoch{ID: []byte{10, 11}}},
		"west zone-w":                           command.LinkPut{Link: api.Link{Name: "west", Zone: "zone-w"}},
		"l1":                                    command.LinkSet{ID: "l1"},
		"l2":                                    command.LinkPin{ID: "l2", Told: []api.Fingerprint{"x"}},
		"l3 " + string(api.FingerprintOf(cert)): command.LinkPin{ID: "l3", Pins: [][]byte{[]byte("old"), cert}},
		string(api.FingerprintOf(cert)):         command.CAAdd{Cert: cert},
		"new":                                   command.CAUse{New: "new"},
		"old":                                   command.CADrop{Old: "old"},
		"pool":                                  command.ProviderCreate{ID: "id", Name: "pool"},
		"CUSTOM_A":                              command.ClassPut{Name: "CUSTOM_A"},
		"rack1":                                 command.AggregatePut{Aggregate: api.Aggregate{Name: "rack1"}},
		"shop":                                  command.QuotaSet{Project: "shop"},
		"":                                      command.TokenDelete{ID: "x"},
	} {
		assert.Equal(t, want, auditTarget(c), "%T", c)
	}
	hosts := func(sizes ...int) *command.HostsPut {
		c := &command.HostsPut{}
		for n, size := range sizes {
			c.Hosts = append(c.Hosts, command.HostEntry{Host: api.AgentHost{Name: strings.Repeat(string(rune('a'+n)), size)}})
		}
		return c
	}
	const most = api.AuditCallMaxBytes
	assert.Equal(t, "aa bbb", hostsTarget(hosts(2, 3)))
	assert.Equal(t, most, len(hostsTarget(hosts(most-10, 9))))
	assert.Equal(t, strings.Repeat("a", most-10)+" and 2 more", hostsTarget(hosts(most-10, 10, 1)))
}

// TestWhatALendingCounts: a change of any of it is counted anew.
func TestWhatALendingCounts(t *testing.T) {
	base := filled.Of[api.Instance]()
	base.Window, base.Overdue, base.Resources = api.Window{End: 9}, false, api.Resources{api.VCPU: 1}
	assert.True(t, countsAsLent(&base, new(base)))
	for name, change := range map[string]func(i *api.Instance){
		"window": func(i *api.Instance) { i.ChangeTerms(func(t *api.InstanceTerms) { t.Window.End = 10 }) }, "overdue": func(i *api.Instance) { i.Overdue = true },
		"resources": func(i *api.Instance) {
			i.ChangeTerms(func(t *api.InstanceTerms) { t.Resources = api.Resources{api.VCPU: 2} })
		},
	} {
		i := base
		change(&i)
		assert.False(t, countsAsLent(&base, &i), name)
		assert.False(t, countsAsLent(&i, &base), name)
	}
}

// TestARefillIsTheNextOne: the number of one that was made before is refused, though nothing else has changed.
func TestARefillIsTheNextOne(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFifth
	w.host("h1", 4)
	preemptible(w, "r1", 1, "h1", "a", "b")
	evict(w, "a", "b")
	leave(w, "h1", "a", "b")
	terms := w.ok(again(w, "r1", "x", "y")).Boot.BootTerms
	c := holdFor(w, terms, "h1", 2)
	c.Slots = c.Slots[1:]
	w.ok(c)
	w.ok(decideRefill(w, "r1", api.DecisionCommit))
	for refill, ok := range map[int]bool{1: false, 3: false} {
		q := again(w, "r1", "z")
		q.Refill = refill
		assert.Equal(t, ok, w.do(q).Err == nil, "%d", refill)
	}
	w.ok(again(w, "r1", "z"))
}

// TestQuotasOfLeasesBeforeTheyAreMade: a change counts what it adds, and a new lease all of it; the first start that quotas allow is
// found.
func TestQuotasOfLeasesBeforeTheyAreMade(t *testing.T) {
	w := leaseWorld(t)
	in := func(from, to api.Instant) api.Window {
		return api.Window{Start: start + from*minute, End: start + to*minute}
	}
	first := w.leaseOf("a", in(10, 20), 2)
	at, ok := w.s.FirstQuotaStart(&first.Terms, start+100*minute)
	assert.Equal(t, []any{first.Terms.Window.Start, true}, []any{at, ok}, "without limits")
	w.limit("p", quota.Limits{quota.Leases: 1})
	require.NoError(t, w.s.CheckLeaseQuota(nil, &first.Terms))
	w.ok(first)
	longer := first.Terms
	longer.Window = in(10, 30)
	require.NoError(t, w.s.CheckLeaseQuota(&first.Terms, &longer))
	assert.Equal(t, api.CodeOverQuota, api.CodeOf(w.s.CheckLeaseQuota(nil, &longer)))
	at, ok = w.s.FirstQuotaStart(&first.Terms, start+100*minute)
	assert.Equal(t, []any{first.Terms.Window.End, true}, []any{at, ok}, "after the lease that there is")
	_, ok = w.s.FirstQuotaStart(&first.Terms, start+15*minute)
	assert.False(t, ok, "the horizon is before that")
}

// TestWhyAChildHeldLess in the words for an owner.
func TestWhyAChildHeldLess(t *testing.T) {
	seen := map[string]bool{}
	for _, why := range []api.Code{api.CodePlanRefused, api.CodePaused, api.CodeTimeout, api.CodeContended, api.CodeOverQuota, api.CodeNoCapacity, ""} {
		seen[refusedBecause(why)] = true
	}
	assert.Len(t, seen, 6)
	assert.Equal(t, "the link takes no new work", refusedBecause(api.CodePaused))
	assert.Equal(t, refusedBecause(""), refusedBecause(api.CodeNoCapacity))
}

// TestCounts: what metrics read of a state.
func TestCounts(t *testing.T) {
	w := leaseWorld(t)
	in := api.Window{Start: start + 10*minute, End: start + 20*minute}
	w.ok(w.leaseOf("a", in, 1))
	w.makeLease("b", "h1", in, "s1")
	assert.Equal(t, map[api.LeaseStatus]int{api.LeaseCreating: 1, api.LeasePending: 1}, w.s.CountLeases())
	records := w.s.Records()
	assert.Equal(t, []int{2, 2}, []int{records["hosts"], records["leases"]})
	assert.NotContains(t, records, "webhooks", "there are none")
	assert.Equal(t, map[api.AgentID]bool{"a1": true}, w.s.AgentIDs())
	assert.True(t, w.s.HasHosts("a1"))
	assert.False(t, w.s.HasHosts("a2"))
	assert.Zero(t, w.s.Restored())
	assert.True(t, w.s.Knows("s1"))
	assert.False(t, w.s.Knows("s2"))
	assert.Positive(t, w.s.SizeBytes())
	assert.Nil(t, w.s.FindBoot(func(*Boot) bool { return false }))
	b := w.s.FindBoot(func(b *Boot) bool { return true })
	require.NotNil(t, b)
}
