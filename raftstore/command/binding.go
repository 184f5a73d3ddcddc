package command

import "berth/api"

// BindingSet binds a project to a child zone for a key, and ends the binding before.
type BindingSet struct {
	Stamp
	ID      api.BindingID  `cbor:"2,keyasint"` // of the binding that begins
	Project api.ProjectID  `cbor:"3,keyasint"`
	Origin  api.LinkID     `cbor:"4,keyasint,omitempty"` // the parent whose project it is
	Key     api.BindingKey `cbor:"5,keyasint,omitzero"`
	Link    api.LinkID     `cbor:"6,keyasint"`
	Seen    api.BindingID  `cbor:"7,keyasint,omitempty"` // the binding that is to end; "" for whichever is active
	User    api.UserID     `cbor:"8,keyasint,omitempty"`
}

// BindingEnd ends an active binding: the next request of its project chooses anew.
type BindingEnd struct {
	Stamp
	ID api.BindingID `cbor:"2,keyasint"`
}

// Kind returns KindBindingSet.
func (BindingSet) Kind() Kind { return KindBindingSet }

// Kind returns KindBindingEnd.
func (BindingEnd) Kind() Kind { return KindBindingEnd }
