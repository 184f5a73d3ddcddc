package command

import "berth/api"

// Audit says who proposes the commands that follow it in the entry, for the audit log. With
// Count 0 it is a record of its own, of a change that is no command.
type Audit struct {
	Stamp
	Actor   api.AuditActor `cbor:"2,keyasint"`
	Request api.RequestID  `cbor:"3,keyasint,omitempty"`
	Call    string         `cbor:"4,keyasint,omitempty"` // at most api.AuditCallMaxBytes
	Target  string         `cbor:"5,keyasint,omitempty"`
	Count   int            `cbor:"6,keyasint,omitempty"` // how many commands follow
}

// Kind implements Command.
func (Audit) Kind() Kind { return KindAudit }
