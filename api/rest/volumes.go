package rest

import "berth/api"

// VolumeBody is the body of a call that makes a volume.
type VolumeBody struct {
	Volume VolumeCreate `json:"volume"`
}

// VolumeCreate describes a volume. Its scheduler hints may name a server that it is to be
// attached to, as same_host.
type VolumeCreate struct {
	Name     string            `json:"name"`
	Metadata map[string]string `json:"metadata,omitempty"`
	VolumeSpec
	GroupWish
	Zones     *ZoneRule `json:"zones,omitempty"`
	ReturnRes bool      `json:"return_reservation_id,omitempty"` // return only the reservation id, at once
}

// AttachBody is the body of a call that attaches a volume.
type AttachBody struct {
	Server api.InstanceID `json:"server_id"`
}

// Volume is one volume.
type Volume struct {
	ID          api.InstanceID    `json:"id"`
	Name        string            `json:"name"`
	Reservation api.ReservationID `json:"reservation_id"` // of the boot that made it
	Project     api.ProjectID     `json:"project_id"`
	User        api.UserID        `json:"user_id"`
	Size        int64             `json:"size"` // in GiB
	Type        string            `json:"type"`
	Class       api.ResourceClass `json:"storage_class"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	Status      api.VolumeStatus  `json:"status"`
	Fault       string            `json:"fault,omitempty"`
	Attached    api.InstanceID    `json:"attached_to,omitempty"` // id of the server; absent if there is none
	Created     api.Instant       `json:"created"`
	Updated     api.Instant       `json:"updated"`
	Group       string            `json:"group,omitempty"`  // only for a boot of several groups
	Zone        string            `json:"zone"`             // direct child that leads to it, or this zone
	Host        string            `json:"host,omitempty"`   // name of its host; only for admins of the owning zone
	Origin      string            `json:"origin,omitempty"` // name of the parent zone that it was made for; absent for this zone's own
	Reach
}

// VolumeCreated is the answer to a call that makes a volume.
type VolumeCreated struct {
	Reservation api.ReservationID `json:"reservation_id"`
	Volume      *Volume           `json:"volume,omitempty"` // absent if only the reservation id was requested
}

// VolumeOf returns the body of a volume, without its zone, host and origin.
func VolumeOf(i *api.Instance) Volume {
	size, class := i.SizeGB()
	return Volume{
		ID: i.ID, Name: i.Name, Reservation: i.Reservation, Project: i.Project, User: i.User, Size: size, Type: i.Volume, Class: class,
		Metadata: i.Metadata, Status: i.VolumeStatus(), Fault: i.Fault, Attached: i.Attached, Created: i.Created, Updated: i.Updated, Group: i.Group,
	}
}
