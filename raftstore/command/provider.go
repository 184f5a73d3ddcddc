package command

import "berth/api"

// ProviderCreate makes a provider other than a host.
type ProviderCreate struct {
	Stamp
	ID     api.ProviderID `cbor:"2,keyasint"`
	Name   string         `cbor:"3,keyasint"`
	Parent api.ProviderID `cbor:"4,keyasint,omitempty"`
}

// ProviderSet changes a provider, which may be a host. A nil field is left as it is, and
// others replace the whole value. For a host they are what operators add to the declaration
// of its agent, which cannot be removed.
//
// A new inventory raises the generation, new traits do if they differ, and new
// aggregates do with Bump; all of one command by one. A new name or parent does not.
type ProviderSet struct {
	Stamp
	ID         api.ProviderID                       `cbor:"2,keyasint"`
	Generation *uint64                              `cbor:"3,keyasint,omitempty"` // must be the current one
	Name       *string                              `cbor:"4,keyasint,omitempty"`
	Parent     *api.ProviderID                      `cbor:"5,keyasint,omitempty"` // "" makes it a root
	Inventory  *map[api.ResourceClass]api.Inventory `cbor:"6,keyasint,omitempty"`
	Traits     *[]string                            `cbor:"7,keyasint,omitempty"`
	Aggregates *[]string                            `cbor:"8,keyasint,omitempty"`
	Bump       bool                                 `cbor:"9,keyasint,omitempty"`
}

// whole returns c with an empty value for each field that is set to nil, which would be
// read as not set.
func (c ProviderSet) whole() ProviderSet {
	if c.Inventory != nil && *c.Inventory == nil {
		c.Inventory = &map[api.ResourceClass]api.Inventory{}
	}
	if c.Traits != nil && *c.Traits == nil {
		c.Traits = &[]string{}
	}
	if c.Aggregates != nil && *c.Aggregates == nil {
		c.Aggregates = &[]string{}
	}
	return c
}

// ProviderDelete deletes a provider without children and claims.
type ProviderDelete struct {
	Stamp
	ID api.ProviderID `cbor:"2,keyasint"`
}

// ConsumersPut replaces all allocations of some consumers, all of them or none. It raises
// the generation of each provider that a consumer uses, or has used if it is left with no
// allocations, once for all consumers. A provider that a consumer only leaves for others
// keeps its generation. With Reshape, inventories are replaced in the same step, and only
// the result of both must fit.
type ConsumersPut struct {
	Stamp
	Consumers []ConsumerEntry `cbor:"2,keyasint"` // each once
	Reshape   []Reshape       `cbor:"3,keyasint,omitempty"`
}

// ConsumerEntry is one consumer of ConsumersPut. A consumer without shares is deleted.
type ConsumerEntry struct {
	ID      api.ConsumerID `cbor:"1,keyasint"`
	Project api.ProjectID  `cbor:"2,keyasint"`
	User    api.UserID     `cbor:"3,keyasint"`
	Type    *string        `cbor:"4,keyasint,omitempty"` // nil leaves as is
	Shares  []api.Share    `cbor:"5,keyasint,omitempty"` // each provider once, none empty
	// Generation must be the current one. 0 means that the consumer must be new, and nil
	// that any generation will do.
	Generation *uint64 `cbor:"6,keyasint,omitempty"`
}

// Reshape is the new inventory of one provider, which must be at Generation.
type Reshape struct {
	ID         api.ProviderID                      `cbor:"1,keyasint"`
	Generation uint64                              `cbor:"2,keyasint"`
	Inventory  map[api.ResourceClass]api.Inventory `cbor:"3,keyasint,omitempty"`
}

// ConsumerDelete deletes a consumer and frees its allocations. Unlike ConsumersPut it keeps
// the generations of the providers.
type ConsumerDelete struct {
	Stamp
	ID api.ConsumerID `cbor:"2,keyasint"`
}

// ClassPut makes a custom resource class, or with Was renames one that is in no
// inventory.
type ClassPut struct {
	Stamp
	Name api.ResourceClass `cbor:"2,keyasint"`
	Was  api.ResourceClass `cbor:"3,keyasint,omitempty"`
}

// ClassDelete deletes a custom resource class that is in no inventory.
type ClassDelete struct {
	Stamp
	Name api.ResourceClass `cbor:"2,keyasint"`
}

// TraitPut makes a custom trait; one that exists stays as it is.
type TraitPut struct {
	Stamp
	Name string `cbor:"2,keyasint"`
}

// TraitDelete deletes a custom trait that no provider has.
type TraitDelete struct {
	Stamp
	Name string `cbor:"2,keyasint"`
}

// Kind implements Command.
func (ProviderCreate) Kind() Kind { return KindProviderCreate }

// Kind implements Command.
func (ProviderSet) Kind() Kind { return KindProviderSet }

// Kind implements Command.
func (ProviderDelete) Kind() Kind { return KindProviderDelete }

// Kind implements Command.
func (ConsumersPut) Kind() Kind { return KindConsumersPut }

// Kind implements Command.
func (ConsumerDelete) Kind() Kind { return KindConsumerDelete }

// Kind implements Command.
func (ClassPut) Kind() Kind { return KindClassPut }

// Kind implements Command.
func (ClassDelete) Kind() Kind { return KindClassDelete }

// Kind implements Command.
func (TraitPut) Kind() Kind { return KindTraitPut }

// Kind implements Command.
func (TraitDelete) Kind() Kind { return KindTraitDelete }
