package command

// KEKUse makes another key-encryption key the one in use: every secret of the state is replaced by
// the same one wrapped by it. It is refused unless it has all of them, as one may have been added
// since it was made.
type KEKUse struct {
	Stamp
	ID      []byte   `cbor:"2,keyasint"`           // of the key; see seal.KEKID
	Due     uint64   `cbor:"3,keyasint,omitempty"` // the removal that the key was made after; see state.State.KEKDue
	Secrets []Rewrap `cbor:"4,keyasint"`
}

// Rewrap is one secret, wrapped by the key-encryption key that was in use and by the new one.
type Rewrap struct {
	Old []byte `cbor:"1,keyasint"`
	New []byte `cbor:"2,keyasint"`
}

// Kind implements Command.
func (KEKUse) Kind() Kind { return KindKEKUse }
