package command

import "berth/api"

// InstancePower stops, starts or restarts an instance on a host of this zone. Run is the run that the
// order is given to: if another one was ordered since, it changes nothing.
type InstancePower struct {
	Stamp
	ID    api.InstanceID `cbor:"2,keyasint"`
	Order api.PowerOrder `cbor:"3,keyasint"`
	Run   uint64         `cbor:"4,keyasint"`
}

// Kind implements Command.
func (InstancePower) Kind() Kind { return KindInstancePower }
