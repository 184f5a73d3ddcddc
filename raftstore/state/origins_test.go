package state

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/quota"
	"berth/raftstore/command"
)

// side is one of two that use the same names: the zone itself, and its parent.
type side struct {
	origin api.LinkID // "" for the zone itself
	mark   string     // begins the ids of what it makes
}

var (
	ours   = side{"", "own-"}
	theirs = side{"up", "up-"}
)

// sameNames returns what one side does, with the names that the other side has as well: a project, a
// reservation, a server group, a lease, an idempotency key, a volume, a binding and holds.
func (d side) sameNames() []command.Command {
	now := at(start + 1000)
	window := api.Window{Start: now.At + minute, End: now.At + 10*minute}
	held := func(id string, r api.Request, slots ...command.Slot) command.Hold {
		return command.Hold{Stamp: now, ID: api.HoldID(id), Origin: d.origin, Attempt: 1, Expires: api.Forever, Request: r, Slots: slots}
	}
	slot := func(id string, group int) command.Slot {
		return command.Slot{Instance: spec(d.mark + id), Group: group, Host: "h1"}
	}
	decided := func(id, res string, is api.Decision) command.Command {
		if d.origin == "" {
			return bootDecide(now, res, is)
		}
		return command.HoldDecide{Stamp: now, ID: api.HoldID(id), Origin: d.origin, Decision: is}
	}
	ordered := func(r api.Request, key string, ids ...string) command.BootCreate {
		for i := range ids {
			ids[i] = d.mark + ids[i]
		}
		return command.BootCreate{Stamp: now, BootTerms: command.BootTerms{
			Key: key, Digest: []byte{1}, Name: "n", Request: r, Min: r.Count(), Instances: specs(ids...),
		}}
	}
	var out []command.Command
	own := func(cs ...command.Command) { // only the zone itself can make these
		if d.origin == "" {
			out = append(out, cs...)
		}
	}

	// An instance and a volume here, and an instance in a child to which the project is bound.
	r := request("r", 2)
	r.Rules = []api.Rule{{ID: "sg", Policy: api.SoftAntiAffinity, Groups: []int{0}}}
	r.Groups = append(r.Groups, api.Group{Count: 1, Name: "data", Volume: "standard", Resources: api.Resources{api.VCPU: 1}})
	own(command.GroupPut{Stamp: now, Group: api.ServerGroup{ID: "sg", Name: "sg", Project: "p", Policy: api.SoftAntiAffinity}}, ordered(r, "key", "a", "b", "v"))
	h := held("k", r, slot("a", 0), slot("v", 1))
	h.Parts = []command.Part{part("pod1", d.mark+"b")}
	h.Choices = []api.BindingChoice{{Key: general, Link: "pod1", ID: api.BindingID(d.mark + "bind"), Why: api.BindingFirst}}
	out = append(out, h,
		command.HoldParts{Stamp: now, ID: "k", Origin: d.origin, Answers: []command.PartAnswer{answer("pod1", d.mark+"b")}},
		decided("k", "r", api.DecisionCommit),
		command.PartAck{Stamp: now, ID: "k", Origin: d.origin, Link: "pod1", Decision: api.DecisionCommit},
		reports(now, "a1", "h1", api.StatusActive, d.mark+"a", d.mark+"v"),
		command.VolumeAttach{Stamp: now, Volume: api.InstanceID(d.mark + "v"), Instance: api.InstanceID(d.mark + "a")},
	)

	// Bindings that began by themselves.
	for _, n := range []string{"1", "2"} {
		out = append(out, command.BindingSet{Stamp: now, ID: api.BindingID(d.mark + n), Project: "p", Origin: d.origin, Key: cad, Link: api.LinkID("pod" + n)})
	}

	// A reservation of a lease, and what runs and waits within it.
	lease := request("l-o", 1)
	lease.Window, lease.Reserves = window, true
	lease.Groups[0].Name, lease.Groups[0].Min = "l-r", 1
	terms := ordered(lease, "", "s").BootTerms
	own(command.LeaseCreate{Stamp: now, Key: "key", Terms: leaseTerms("l", window, 1), Events: leaseEvents(window), Digest: []byte{1}, Order: &terms})
	slots := held("k-l", lease, slot("s", 0))
	slots.Commit = true
	out = append(out, slots)

	// One that is not decided, one that was given up, and one that has to end.
	open := request("open", 1)
	own(ordered(open, "", "o"))
	h = held("k-open", open, slot("o", 0))
	h.Parts = []command.Part{part("pod1", d.mark+"o2")}
	h.Plan = api.PlanID(d.mark + "plan") // the zone names its plans itself
	h.Request.Groups = []api.Group{{Count: 2, Flavor: "small", Resources: api.Resources{api.VCPU: 1}}}
	h.Choices = []api.BindingChoice{{Key: api.BindingKey{AZ: "az2"}, Link: "pod1", ID: api.BindingID(d.mark + "bind2"), Why: api.BindingFirst}}
	out = append(out, h)
	gone := request("gone", 1)
	own(ordered(gone, "", "g"))
	out = append(out, held("k-gone", gone, slot("g", 0)), decided("k-gone", "gone", api.DecisionAbort))
	ending := request("ending", 1)
	own(ordered(ending, "", "e"))
	out = append(out, held("k-ending", ending, slot("e", 0)), decided("k-ending", "ending", api.DecisionCommit),
		command.InstanceDelete{Stamp: now, ID: api.InstanceID(d.mark + "b")},
		command.InstanceDelete{Stamp: now, ID: api.InstanceID(d.mark + "e")}, reports(now, "a1", "h1", api.StatusDeleted, d.mark+"e"))
	if d.origin != "" {
		out = append(out, command.HoldDecide{Stamp: now, ID: "k-never", Origin: d.origin, Decision: api.DecisionAbort})
	}

	// What only the zone itself can name.
	own(
		command.QuotaSet{Stamp: now, Project: "p", Set: quota.Limits{quota.Instances: 100}},
		command.WebhookPut{Stamp: now, Webhook: webhookOf("p", "hook")},
	)
	return out
}

// originWorld is a zone that has done nothing yet for itself or for its parent.
func originWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.form = api.FormNewest
	w.host("h1", 40)
	for _, l := range []string{"pod1", "pod2"} {
		w.link(l, api.LinkChild)
	}
	w.link("up", api.LinkParent)
	return w
}

// after returns a zone after some commands, all in one entry so that nothing tells their order.
func after(t *testing.T, cs ...command.Command) *State {
	t.Helper()
	w := originWorld(t)
	for _, c := range cs {
		require.NoError(t, w.s.Apply(w.index+1, w.reread(c)).Err, "%#v", c)
	}
	checkIndexes(t, w.s)
	return w.s
}

// entries are the entries of a table by key.
type entries map[string]any

// tablesByName returns the entries of each keyed table of a state.
func tablesByName(s *State) map[string]entries {
	out := map[string]entries{}
	addTables(reflect.ValueOf(s).Elem(), out)
	return out
}

// addTables adds the entries of the keyed tables among the fields of a book.
func addTables(book reflect.Value, out map[string]entries) {
	for i := range book.NumField() {
		field := book.Type().Field(i)
		if field.Anonymous { // the book below
			addTables(book.Field(i), out)
			continue
		}
		v := reflect.NewAt(field.Type, unsafe.Pointer(book.Field(i).UnsafeAddr())) // it may be read
		if v.Elem().Kind() == reflect.Interface {
			v = v.Elem()
		}
		keyed, ok := v.Interface().(interface{ Keys() []string })
		if !ok {
			continue // no table, or one that has an order and no keys
		}
		in := entries{}
		for i, k := range keyed.Keys() {
			in[k] = nil
			if values := v.MethodByName("Values"); values.IsValid() {
				in[k] = values.Call(nil)[0].Index(i).Interface()
			}
			if w, ok := in[k].(*api.Webhook); ok { // it begins behind all that was before
				copied := *w
				copied.Told = api.EventID{}
				in[k] = &copied
			}
		}
		out[field.Name] = in
	}
}

// since returns the entries that are not, or not the same, in an earlier state.
func (e entries) since(before entries) entries {
	out := entries{}
	for k, v := range e {
		if was, ok := before[k]; !ok || !reflect.DeepEqual(v, was) {
			out[k] = v
		}
	}
	return out
}

// usedBy says of each keyed table who fills it in sameNames. A new table is filled there, or is one for what no
// project names.
var usedBy = map[string][]string{
	"zone and parent": {
		"active", "begins", "bindings", "byHost", "byRes", "byTenant", "choosing", "draws", "endedHolds",
		"endedInstances", "ends", "expiringPlans", "held", "holds", "hosts", "instances", "leased",
		"members", "past", "plans", "reserved", "tenants", "unended", "work",
	},
	"parent": {"changes", "lentTo", "prepared", "tombstones"},
	"zone": { // it makes no such thing for a parent
		"boots", "byProject", "due", "groups", "keys", "leaseKeys", "leaseOf", "leases", "open", "quotas",
		"reservedBy", "undecided", "usage", "webhooks",
	},
	"": { // what administrators and agents name, or ids that the zone has given
		"agents", "aggregates", "byName", "byOwner", "bySeries", "byTarget", "children", "classes",
		"closings", "consumers", "endedBoots", "endedLeases", "flavors", "inAggregate", "joins", "keeping",
		"leaseEnds", "lending", "lent", "links", "nodes", "promised", "properties", "providers", "queue",
		"roles", "series", "seriesKeys", "sharedWith", "tokens", "traits", "untold", "waiting", "within",
	},
}

// sharedTables have entries for both: their keys are hosts and agents.
var sharedTables = []string{"hosts", "work"}

// TestNamesOfAParentAreItsOwn: whatever a parent names like something of the zone itself is found, changed,
// counted and listed apart in every table, in whichever order the two come.
func TestNamesOfAParentAreItsOwn(t *testing.T) {
	a, b := ours.sameNames(), theirs.sameNames()
	base, own, up := tablesByName(after(t)), tablesByName(after(t, a...)), tablesByName(after(t, b...))
	got := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(base)) {
		var who []string
		if len(own[name].since(base[name])) > 0 {
			who = append(who, "zone")
		}
		if len(up[name].since(base[name])) > 0 {
			who = append(who, "parent")
		}
		by := strings.Join(who, " and ")
		got[by] = append(got[by], name)
	}
	assert.Equal(t, usedBy, got, "each keyed table is in usedBy")
	for order, all := range map[string][]command.Command{
		"the zone first": slices.Concat(a, b), "the parent first": slices.Concat(b, a), "in turns": inTurns(a, b), "in other turns": inTurns(b, a),
	} {
		s := after(t, all...)
		for name, is := range tablesByName(s) {
			if slices.Contains(sharedTables, name) {
				continue
			}
			want := maps.Clone(base[name])
			for k, v := range own[name].since(base[name]) {
				want[k] = v
			}
			for k, v := range up[name].since(base[name]) {
				_, both := own[name].since(base[name])[k]
				assert.False(t, both, "both have %q of %s", k, name)
				want[k] = v
			}
			assert.Equal(t, want, is, "%s, %s", name, order)
		}
	}
}

// inTurns merges two lists.
func inTurns(a, b []command.Command) (out []command.Command) {
	for i := range max(len(a), len(b)) {
		out = append(out, a[min(i, len(a)):min(i+1, len(a))]...)
		out = append(out, b[min(i, len(b)):min(i+1, len(b))]...)
	}
	return out
}

// seen is what each side is told of what it has: by the names that both use.
func (d side) seen(s *State) map[string]any {
	tenant := api.Tenant{Origin: d.origin, Project: "p"}
	pageOf := func(is []*api.Instance) (out []api.InstanceID) {
		for _, i := range is {
			out = append(out, i.ID)
		}
		return out
	}
	out := map[string]any{
		"bindings": s.ActiveBindings(tenant), "past bindings": s.PastBindings(tenant), "tenancy": maps.Collect(s.Tenancy(tenant)),
		"slots": pageOf(s.SlotsOf(d.origin, "l-r")), "free slots": pageOf(s.FreeSlots(d.origin, "l-r", "p")),
	}
	for _, id := range []api.HoldID{"k", "k-l", "k-open", "k-gone", "k-ending", "k-never"} {
		h, ok := s.Hold(d.origin, id)
		out["hold "+string(id)] = []any{h, ok}
	}

	hosts, links := s.Members(tenant, "sg")
	out["members"] = []any{hosts, links}
	chosen, own := s.ChosenLinks(tenant.Origin, &api.Request{Project: tenant.Project}, api.BindingKey{AZ: "az2"})
	out["chosen"] = []any{chosen, own}
	for _, mark := range []string{ours.mark, theirs.mark} {
		id := api.InstanceID(mark + "a")
		host, here := s.HostOf(tenant, id)
		link, near, known := s.PlaceOf(tenant, id)
		out["place of "+string(id)] = []any{host, here, link, near, known}
	}
	if d.origin != "" {
		out["changes"] = s.Changes(d.origin, 0, 100)
		return out
	}
	for _, volumes := range []bool{false, true} {
		for _, res := range []api.ReservationID{"", "r", "open", "ending"} {
			q := InstanceQuery{Project: "p", Reservation: res, Volumes: volumes, Deleted: true, Page: Page{Limit: 100}}
			out[fmt.Sprint("page of ", res, volumes)] = pageOf(s.InstancesPage(q))
		}
	}
	for _, key := range []string{"", "key"} {
		b, ok := s.BootFor("p", "r", key)
		out["boot for "+key] = []any{b, ok}
	}
	l, ok := s.LeaseWithKey("p", "key")
	g, named := s.ServerGroupByName("p", "sg")
	maps.Copy(out, map[string]any{
		"of r": pageOf(s.OfReservation("p", "r")), "boots": s.BootsPage("p", Page{Limit: 100}), "leases": s.LeasesFor("p"), "lease": []any{l, ok},
		"group": []any{g, named}, "groups": s.ServerGroups("p", Page{Limit: 100}), "quota": s.Usage("p"), "usages": s.Usages("p", nil),
	})
	return out
}

// TestNobodySeesTheOtherOfAName: what each side is told by a name is the same with the other and without.
func TestNobodySeesTheOtherOfAName(t *testing.T) {
	a, b := ours.sameNames(), theirs.sameNames()
	both := after(t, inTurns(a, b)...)
	for name, c := range map[string]struct {
		side  side
		alone *State
	}{"the zone": {ours, after(t, a...)}, "the parent": {theirs, after(t, b...)}} {
		is := c.side.seen(both)
		for what, want := range c.side.seen(c.alone) {
			assert.Equal(t, want, is[what], "%s: %s", name, what)
		}
	}
}

// TestIDsOfTheOtherAreNoWayIn: the ids of instances are of one name space, and with one of the other side a side
// gets and changes nothing.
func TestIDsOfTheOtherAreNoWayIn(t *testing.T) {
	now := at(start + 1000)
	for _, c := range []struct{ mine, other side }{{ours, theirs}, {theirs, ours}} {
		named := func(res string, r api.Request, sl command.Slot) command.Hold {
			r.Reservation = api.ReservationID(res)
			sl.Host = "h1"
			return command.Hold{Stamp: now, ID: api.HoldID("k-" + res), Origin: c.mine.origin, Attempt: 1, Expires: api.Forever, Request: r, Slots: []command.Slot{sl}}
		}
		of := func(id string) api.InstanceID { return api.InstanceID(c.other.mark + id) }
		within := request("", 1)
		within.Within = "l-r"
		replaces := request("", 1)
		replaces.Reserves, replaces.Replaces, replaces.Groups[0].Name = true, "l-o", "l-r"
		replaces.Window = api.Window{Start: now.At + minute, End: now.At + 20*minute}
		for what, hold := range map[string]command.Hold{
			"an instance with its id": named("x1", request("", 1), command.Slot{Instance: api.InstanceSpec{ID: of("a"), Name: "x"}}),
			"room within its slot":    named("x2", within, command.Slot{Instance: spec("new"), Within: of("s")}),
			"its slot, longer":        named("x3", replaces, command.Slot{Instance: spec("new"), Keeps: of("s")}),
		} {
			s := after(t, inTurns(ours.sameNames(), theirs.sameNames())...)
			if c.mine.origin == "" {
				terms := command.BootTerms{Digest: []byte{1}, Request: hold.Request, Min: 1, Instances: specs("new")}
				require.NoError(t, s.Apply(s.Index()+1, command.BootCreate{Stamp: now, BootTerms: terms}).Err)
			}
			before := c.other.seen(s)
			got := s.Apply(s.Index()+1, hold)
			if got.Err == nil && len(got.Hold.Refused) == 0 { // it has room of its own instead
				assert.Empty(t, got.Hold.Slots[0].Keeps+got.Hold.Slots[0].Within, "%s%s", c.mine.mark, what)
			}
			assert.Equal(t, before, c.other.seen(s), "%s%s", c.mine.mark, what)
		}
		s := after(t, inTurns(ours.sameNames(), theirs.sameNames())...)
		for _, at := range [][2]api.InstanceID{{of("v"), api.InstanceID(c.mine.mark + "a")}, {api.InstanceID(c.mine.mark + "v"), of("a")}} {
			assert.Error(t, s.Apply(s.Index()+1, command.VolumeAttach{Stamp: now, Volume: at[0], Instance: at[1]}).Err, "%s to %s", at[0], at[1])
		}
	}
}
