package api

import (
	_ "embed" // the list of standard traits
	"slices"
	"strings"
)

// ProviderID names a resource provider. Hosts are resource providers, so it is the
// same as a HostID; it is used where any provider may stand.
type ProviderID = HostID

// ConsumerID names who holds allocations. Instances are consumers, so it is the
// same as an InstanceID; it is used where any consumer may stand.
type ConsumerID = InstanceID

// Provider is a resource provider as its own zone's operator sees it: a host, or
// something without an agent that hosts or others draw from, such as a part of a
// host, a shared pool or a range of addresses. It never leaves the zone.
type Provider struct {
	ID         ProviderID                  `json:"uuid" cbor:"1,keyasint"`
	Name       string                      `json:"name" cbor:"2,keyasint"` // unique among all providers of the zone; 1 to ProviderNameMax characters
	Parent     ProviderID                  `json:"parent_provider_uuid,omitempty" cbor:"3,keyasint,omitempty"`
	Inventory  map[ResourceClass]Inventory `json:"inventories" cbor:"4,keyasint,omitempty"`
	Traits     []string                    `json:"traits" cbor:"5,keyasint,omitempty"`     // sorted
	Aggregates []string                    `json:"aggregates" cbor:"6,keyasint,omitempty"` // UUIDs, sorted; none needs to exist
	Generation uint64                      `json:"generation" cbor:"7,keyasint"`           // rises by one per change, from 0
	Created    Instant                     `json:"created" cbor:"8,keyasint"`
	Updated    Instant                     `json:"updated" cbor:"9,keyasint"`
	Root       ProviderID                  `json:"root_provider_uuid" cbor:"-"` // of its tree, itself if it has no parent; filled on read
	Used       Resources                   `json:"used" cbor:"-"`               // at this instant; filled on read
	CanHost    bool                        `json:"can_host" cbor:"-"`           // it is a host; filled on read
}

// Share is what one provider gives a consumer.
type Share struct {
	Provider  ProviderID `json:"resource_provider" cbor:"1,keyasint"`
	Resources Resources  `json:"resources" cbor:"2,keyasint"`
}

// Equal reports whether both are the same amounts of the same provider.
func (s Share) Equal(o Share) bool { return s.Provider == o.Provider && s.Resources.Equal(o.Resources) }

// Consumer is who holds allocations at this instant, with all of them: somebody who
// claimed them through the placement API, or an instance.
type Consumer struct {
	ID         ConsumerID `json:"consumer_uuid" cbor:"1,keyasint"`
	Project    ProjectID  `json:"project_id" cbor:"2,keyasint"`
	User       UserID     `json:"user_id" cbor:"3,keyasint"`
	Type       string     `json:"consumer_type,omitempty" cbor:"4,keyasint,omitempty"` // "" if nobody said
	Generation uint64     `json:"consumer_generation" cbor:"5,keyasint"`               // 1 for its first allocations, then one more per change
	Shares     []Share    `json:"allocations" cbor:"6,keyasint"`                       // by provider, each once, none empty
	Created    Instant    `json:"created" cbor:"7,keyasint"`
	Updated    Instant    `json:"updated" cbor:"8,keyasint"`
	Instance   bool       `json:"instance,omitempty" cbor:"-"` // it is an instance: the zone alone changes its allocations
}

// ConsumerInstance is the type of consumers that are instances.
const ConsumerInstance = "INSTANCE"

// TraitShares is the trait of a provider that gives what it has to every tree of
// providers with a member in one of its aggregates.
const TraitShares = "MISC_SHARES_VIA_AGGREGATE"

//go:embed traits.txt
var traitsText string

var standardTraits = strings.Fields(traitsText)

// StandardTraits returns the traits that are the same everywhere, in order. All
// others begin with CustomPrefix, or are what an agent says.
func StandardTraits() []string { return slices.Clone(standardTraits) }

// StandardTrait reports whether a trait is one of StandardTraits.
func StandardTrait(name string) bool {
	_, found := slices.BinarySearch(standardTraits, name)
	return found
}

// StandardClasses returns the resource classes that are the same everywhere, in
// their customary order.
func StandardClasses() []ResourceClass { return slices.Clone(standardOrder) }

// ValidCustom reports whether s may name a trait or resource class of somebody's
// own: CustomPrefix and 1 or more characters of A-Z 0-9 _, at most CustomMaxBytes
// in all.
func ValidCustom(s string) bool {
	return len(s) > len(CustomPrefix) && len(s) <= CustomMaxBytes && strings.HasPrefix(s, CustomPrefix) && ValidTrait(s)
}

// ValidUUID reports whether s is a UUID in its canonical form: 32 digits of 0-9
// a-f in five groups.
func ValidUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		c, dash := s[i], i == 8 || i == 13 || i == 18 || i == 23
		if dash != (c == '-') || !dash && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
