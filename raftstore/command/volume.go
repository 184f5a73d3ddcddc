package command

import "berth/api"

// VolumeAttach attaches a volume to an instance, in the zone that owns the hosts of both.
type VolumeAttach struct {
	Stamp
	Volume   api.InstanceID `cbor:"2,keyasint"`
	Instance api.InstanceID `cbor:"3,keyasint"`
}

// VolumeDetach ends the attachment of a volume. A volume that is not attached stays so.
type VolumeDetach struct {
	Stamp
	Volume   api.InstanceID `cbor:"2,keyasint"`
	Instance api.InstanceID `cbor:"3,keyasint,omitempty"` // that it must be attached to, if to any; "" for any
}

// Kind implements Command.
func (VolumeAttach) Kind() Kind { return KindVolumeAttach }

// Kind implements Command.
func (VolumeDetach) Kind() Kind { return KindVolumeDetach }
