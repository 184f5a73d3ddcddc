package api

import (
	_ "embed" // the list of standard traits
	"slices"
	"strings"
)

// ProviderID names a resource provider. Hosts are resource providers, so it is the
// same as a HostID; it is used where any provider is possible.
type ProviderID = HostID

// ConsumerID names a holder of allocations. Instances are consumers, so it is the same as
// an InstanceID; it is used where any consumer is possible.
type ConsumerID = InstanceID

// Provider is a resource provider, as shown to operators of its own zone: a host, or
// something without an agent from which hosts or others draw, such as a part of a host,
// a shared pool or a range of addresses. It never leaves the zone.
type Provider struct {
	ID         ProviderID                  `cbor:"1,keyasint" log:"uuid"`
	Name       string                      `cbor:"2,keyasint"` // unique among all providers of the zone; 1 to ProviderNameMax characters
	Parent     ProviderID                  `cbor:"3,keyasint,omitempty" log:"parent_provider_uuid"`
	Inventory  map[ResourceClass]Inventory `cbor:"4,keyasint,omitempty" log:"inventories"`
	Traits     []string                    `cbor:"5,keyasint,omitempty"` // sorted
	Aggregates []string                    `cbor:"6,keyasint,omitempty"` // UUIDs, sorted; none needs to exist
	Generation uint64                      `cbor:"7,keyasint"`           // increases by one with each change, from 0
	Created    Instant                     `cbor:"8,keyasint"`
	Updated    Instant                     `cbor:"9,keyasint"`
	Root       ProviderID                  `cbor:"-" log:"root_provider_uuid"` // of its tree, itself if it has no parent; filled on read
	Used       Resources                   `cbor:"-"`                          // at this instant; filled on read
	CanHost    bool                        `cbor:"-"`                          // it is a host; filled on read
	Reported   map[ResourceClass]Inventory `cbor:"-"`                          // by the agent of a host; filled on read
}

// Share is the amounts that one provider gives a consumer.
type Share struct {
	Provider  ProviderID `cbor:"1,keyasint" log:"resource_provider"`
	Resources Resources  `cbor:"2,keyasint"`
}

// Equal reports whether both are the same amounts of the same provider.
func (s Share) Equal(o Share) bool { return s.Provider == o.Provider && s.Resources.Equal(o.Resources) }

// Consumer is a holder of allocations with all its allocations at this instant: an
// instance, or a consumer of the placement API.
type Consumer struct {
	ID         ConsumerID `cbor:"1,keyasint" log:"consumer_uuid"`
	Project    ProjectID  `cbor:"2,keyasint" log:"project_id"`
	User       UserID     `cbor:"3,keyasint" log:"user_id"`
	Type       string     `cbor:"4,keyasint,omitempty" log:"consumer_type"` // "" if none was given
	Generation uint64     `cbor:"5,keyasint" log:"consumer_generation"`     // 1 for its first allocations, then one more per change
	Shares     []Share    `cbor:"6,keyasint" log:"allocations"`             // by provider, each once, none empty
	Created    Instant    `cbor:"7,keyasint"`
	Updated    Instant    `cbor:"8,keyasint"`
	Instance   bool       `cbor:"-"` // it is an instance: only the zone changes its allocations
}

// ConsumerInstance is the type of consumers that are instances.
const ConsumerInstance = "INSTANCE"

// TraitShares is the trait of a provider that shares its inventory with every tree of
// providers with a member in one of its aggregates.
const TraitShares = "MISC_SHARES_VIA_AGGREGATE"

//go:embed traits.txt
var traitsText string

var standardTraits = strings.Fields(traitsText)

// StandardTraits returns the traits that are the same everywhere, in order. All others
// start with CustomPrefix, or are reported by an agent.
func StandardTraits() []string { return slices.Clone(standardTraits) }

// StandardTrait reports whether a trait is one of StandardTraits.
func StandardTrait(name string) bool {
	_, found := slices.BinarySearch(standardTraits, name)
	return found
}

// StandardClasses returns the resource classes that are the same everywhere, in
// their customary order.
func StandardClasses() []ResourceClass { return slices.Clone(standardOrder) }

// ValidCustom reports whether s may name a custom trait or resource class: CustomPrefix
// and 1 or more characters of A-Z 0-9 _, at most CustomMaxBytes in all.
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
