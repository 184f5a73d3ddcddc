package command

import "berth/api"

// HostsPut registers or updates hosts of one agent. A host that is known by
// name keeps its id; ID is used for a new one.
type HostsPut struct {
	Stamp
	Agent api.AgentID `cbor:"2,keyasint"`
	Hosts []HostEntry `cbor:"3,keyasint"`
	// Whole is set if Hosts are all hosts of the agent: others of its hosts are down until
	// it registers them again.
	Whole bool `cbor:"4,keyasint,omitempty"`
}

// HostEntry is one host of HostsPut.
type HostEntry struct {
	ID   api.HostID    `cbor:"1,keyasint"`
	Host api.AgentHost `cbor:"2,keyasint"`
}

// HostsState marks hosts up or down.
type HostsState struct {
	Stamp
	State api.HostState `cbor:"2,keyasint"`
	Hosts []api.HostID  `cbor:"3,keyasint"`
}

// HostsSilent says that the agents of hosts have been silent for so long that nothing with a
// fence runs there any more: the instances with a fence that are DELETING are gone. A host that
// is not down, or has been up since, is left out.
type HostsSilent struct {
	Stamp
	Hosts []SilentHost `cbor:"2,keyasint"`
}

// SilentHost is one host of HostsSilent.
type SilentHost struct {
	ID    api.HostID  `cbor:"1,keyasint"`
	Since api.Instant `cbor:"2,keyasint"` // when it went down
}

// HostSet changes the settings of a host that belong to its operator. Generation must be the
// current one unless it is zero. A nil field is left as it is.
type HostSet struct {
	Stamp
	ID         api.HostID `cbor:"2,keyasint"`
	Generation uint64     `cbor:"3,keyasint,omitempty"`
	Enabled    *bool      `cbor:"4,keyasint,omitempty"`
	Pool       *api.Pool  `cbor:"5,keyasint,omitempty"`
	// Maintenance is the reason why the host takes nothing new; "" ends maintenance and
	// any drain.
	Maintenance *string          `cbor:"6,keyasint,omitempty"`
	Drain       *api.DrainPolicy `cbor:"7,keyasint,omitempty"` // needs maintenance
	// Overrides are set one by one; an empty value removes one.
	Overrides map[string]string `cbor:"8,keyasint,omitempty"`
}

// PropertySet says whether lists of the attributes of hosts show one. ID is used for an
// attribute of which nothing was said before.
type PropertySet struct {
	Stamp
	ID      string `cbor:"2,keyasint"`
	Name    string `cbor:"3,keyasint"`
	Private bool   `cbor:"4,keyasint,omitempty"`
}

// Kind implements Command.
func (PropertySet) Kind() Kind { return KindPropertySet }

// InstanceMove moves an instance to another host of the zone. The claim on To is made at
// once, and the claim on From ends when the instance has stopped there. Evacuate does not
// wait for that: From is down, and the proposer knows that its agent has stopped the
// instance or is gone with it. Unstarted is for an evacuation of instances that no agent was given: these need not
// be allowed to be started elsewhere. With are other members of groups under affinity, on From as well:
// all of them move, or none.
type InstanceMove struct {
	Stamp
	ID       api.InstanceID   `cbor:"2,keyasint"`
	From     api.HostID       `cbor:"3,keyasint"` // where it must be now
	To       api.HostID       `cbor:"4,keyasint"`
	Evacuate bool             `cbor:"5,keyasint,omitempty"`
	With     []api.InstanceID `cbor:"6,keyasint,omitempty" form:"5"`

	Unstarted bool `cbor:"7,keyasint,omitempty" form:"5"`
}

// All returns the ids of all that move.
func (c InstanceMove) All() []api.InstanceID { return append([]api.InstanceID{c.ID}, c.With...) }

// HostDelete deletes a host without instances.
type HostDelete struct {
	Stamp
	ID         api.HostID `cbor:"2,keyasint"`
	Generation uint64     `cbor:"3,keyasint,omitempty"`
}

// HostWriteOff gives up what is on a host that is down and whose agent is gone for good: one
// instance, or all of it together with the host. Since is when the host went down: one that has been
// up since is left as it is.
type HostWriteOff struct {
	Stamp
	ID       api.HostID     `cbor:"2,keyasint"`
	Since    api.Instant    `cbor:"3,keyasint"`
	Instance api.InstanceID `cbor:"4,keyasint,omitempty"` // "" for the host and all that is on it
}

// Kind implements Command.
func (HostWriteOff) Kind() Kind { return KindHostWriteOff }

// InstanceReport applies an agent's report on its instances.
type InstanceReport struct {
	Stamp
	Agent api.AgentID          `cbor:"2,keyasint"`
	Items []api.InstanceReport `cbor:"3,keyasint"`
}

// Kind implements Command.
func (HostsPut) Kind() Kind { return KindHostsPut }

// Kind implements Command.
func (HostsState) Kind() Kind { return KindHostsState }

// Kind implements Command.
func (HostsSilent) Kind() Kind { return KindHostsSilent }

// Kind implements Command.
func (HostSet) Kind() Kind { return KindHostSet }

// Kind implements Command.
func (InstanceMove) Kind() Kind { return KindInstanceMove }

// Kind implements Command.
func (HostDelete) Kind() Kind { return KindHostDelete }

// Kind implements Command.
func (InstanceReport) Kind() Kind { return KindInstanceReport }
