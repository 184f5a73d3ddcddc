package quota

import (
	"maps"
	"slices"
	"strings"

	"berth/api"
)

// Item is something that is counted for a project: leases, whole hosts, slots, instances, or
// an amount of one resource class in one of the latter; and what the zone keeps for it.
type Item string

// The items that are numbers. At any instant a project has at most so many of each.
const (
	Leases       Item = "leases"       // leases whose window contains the instant
	Hosts        Item = "hosts"        // whole hosts reserved
	Reserved     Item = "reserved"     // slots reserved for instances
	Instances    Item = "instances"    // firm instances that are not in a reservation
	Preemptibles Item = "preemptibles" // preemptible instances
	Volumes      Item = "volumes"      // volumes

	Boots        Item = "boots"         // requests that are not decided, those of leases included
	Records      Item = "records"       // requests that the zone keeps, decided, ended or not
	Data         Item = "data"          // bytes of texts of those: see DataOf
	ServerGroups Item = "server_groups" // server groups
)

// Defaults of a zone that sets none. They keep one project from filling the memory of every node.
const (
	BootsDefault        = 1_000
	RecordsDefault      = 100_000
	DataDefault         = 64 << 20
	ServerGroupsDefault = 1_000
)

// Defaults returns the limits of a project for which neither it nor its zone has any.
func Defaults() Limits {
	return Limits{Boots: BootsDefault, Records: RecordsDefault, Data: DataDefault, ServerGroups: ServerGroupsDefault}
}

// DataOf returns what a request counts as Data: its metadata, which its instances share, and the
// identities of these.
func DataOf(metadata map[string]string, instances []api.InstanceSpec) int64 {
	n := 0
	for k, v := range metadata {
		n += len(k) + len(v)
	}
	for i := range instances {
		n += len(instances[i].ID) + len(instances[i].Name)
	}
	return int64(n)
}

// Families returns the items that are numbers.
func Families() []Item {
	return []Item{Leases, Hosts, Reserved, Instances, Preemptibles, Volumes, Boots, Records, Data, ServerGroups}
}

// Of returns the item that is an amount of a resource class in Reserved, Instances,
// Preemptibles or Volumes, such as reserved.VCPU.
func (i Item) Of(class api.ResourceClass) Item { return i + "." + Item(class) }

// Valid reports whether i is an item.
func (i Item) Valid() bool {
	family, class, amount := strings.Cut(string(i), ".")
	switch Item(family) {
	case Leases, Hosts, Boots, Records, Data, ServerGroups:
		return !amount
	case Reserved, Instances, Preemptibles, Volumes:
		return !amount || api.ResourceClass(class).Valid()
	}
	return false
}

// Amounts are how much of each item something counts. An absent item is 0.
type Amounts map[Item]int64

// Count returns the amounts of n things of a family, each with some resources: n of the family
// itself and n times each resource.
func Count(family Item, n int, each api.Resources) Amounts {
	out := Amounts{family: int64(n)}
	for class, amount := range each {
		out[family.Of(class)] = min(int64(n)*amount, LimitMax)
	}
	return out
}

// Plus returns the sum of two amounts.
func (a Amounts) Plus(b Amounts) Amounts {
	out := maps.Clone(a)
	if out == nil {
		out = Amounts{}
	}
	for i, n := range b {
		out[i] += n
	}
	return out
}

// Limits are how much of each item a project may have at any instant. An absent item, or one
// below 0, is not limited.
type Limits map[Item]int64

// Unlimited is the limit of an item that has none. Unlike an absent one it hides a default.
const Unlimited = -1

// Limits of limits.
const (
	ItemsMax = 64      // items in the limits of one project
	LimitMax = 1 << 53 // of one item
)

// Validate returns an invalid-input error for an unknown item or a limit out of range.
func (l Limits) Validate() error {
	if len(l) > ItemsMax {
		return api.Errorf(api.CodeInvalid, "at most %d limits are allowed, got %d", ItemsMax, len(l))
	}
	for _, i := range slices.Sorted(maps.Keys(l)) {
		switch n := l[i]; {
		case !i.Valid():
			return api.Errorf(api.CodeInvalid, "there is no quota %q: it is %s, %s, %s, %s, %s, %s, or one of %s, %s, %s and %s, which may have a resource class, such as %s",
				string(i), Leases, Hosts, Boots, Records, Data, ServerGroups, Reserved, Instances, Preemptibles, Volumes, Reserved.Of(api.VCPU))
		case n < Unlimited || n > LimitMax:
			return api.Errorf(api.CodeInvalid, "quota %s must be 0 to %d, or %d for none, got %d", i, int64(LimitMax), Unlimited, n)
		}
	}
	return nil
}

// Over returns l with the defaults of a zone for the items that it does not have.
func (l Limits) Over(defaults Limits) Limits {
	out := maps.Clone(defaults)
	if out == nil {
		out = Limits{}
	}
	maps.Copy(out, l)
	return out
}

// of returns the limit of an item, and whether there is one.
func (l Limits) of(i Item) (most int64, limited bool) {
	most, limited = l[i]
	return most, limited && most >= 0
}
