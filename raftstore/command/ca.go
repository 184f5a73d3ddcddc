package command

import "berth/api"

// CAAdd begins the change of the zone's certificate authority: the next one is trusted beside the one
// in use.
type CAAdd struct {
	Stamp
	Old   api.Fingerprint `cbor:"2,keyasint"`           // the one in use
	Cert  []byte          `cbor:"3,keyasint"`           // DER
	Key   []byte          `cbor:"4,keyasint"`           // DER, wrapped by the key-encryption key
	Vouch []byte          `cbor:"5,keyasint"`           // see identity.CA.Vouch
	KEK   []byte          `cbor:"6,keyasint,omitempty"` // the id of that key; see state.State.KEK
}

// CAUse lets the next authority issue in place of the old one, whose key is destroyed. The old one is
// still trusted. It is refused while anybody would be refused by it, unless it is forced.
type CAUse struct {
	Stamp
	New   api.Fingerprint `cbor:"2,keyasint"` // the one that is to issue
	Force bool            `cbor:"3,keyasint,omitempty"`
}

// CADrop ends the change: the old authority is trusted no more. It is refused while anybody has a
// certificate of it alone, unless it is forced.
type CADrop struct {
	Stamp
	Old   api.Fingerprint `cbor:"2,keyasint"` // the one that is dropped
	Force bool            `cbor:"3,keyasint,omitempty"`
}

// LinkPin records the authorities of a linked zone, or which of this zone's authorities it has pinned.
type LinkPin struct {
	Stamp
	ID   api.LinkID        `cbor:"2,keyasint"`
	Pins [][]byte          `cbor:"3,keyasint,omitempty"` // DER, the older one first; whoever proposes it has checked that the first one vouches for the second
	Told []api.Fingerprint `cbor:"4,keyasint,omitempty"` // the older one first
}

// AgentTrust records, while the zone changes its authority, which authorities an agent has.
type AgentTrust struct {
	Stamp
	ID     api.AgentID     `cbor:"2,keyasint"`
	Issued api.Instant     `cbor:"3,keyasint"` // the certificate that it has shown
	Trusts api.Fingerprint `cbor:"4,keyasint"`
	Issuer api.Fingerprint `cbor:"5,keyasint"`
}

// Kind implements Command.
func (CAAdd) Kind() Kind { return KindCAAdd }

// Kind implements Command.
func (CAUse) Kind() Kind { return KindCAUse }

// Kind implements Command.
func (CADrop) Kind() Kind { return KindCADrop }

// Kind implements Command.
func (LinkPin) Kind() Kind { return KindLinkPin }

// Kind implements Command.
func (AgentTrust) Kind() Kind { return KindAgentTrust }
