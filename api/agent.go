package api

import "time"

// The agent protocol: an agent dials its zone's agent listener with mutual TLS
// and speaks CBOR over HTTP. It registers its hosts, then long-polls for what
// should run and reports what does. Only the leader answers; any other node
// answers 421 with AgentRedirect.

// AgentHost is one host as its agent describes it.
type AgentHost struct {
	Name      string                      `cbor:"1,keyasint"`
	Inventory map[ResourceClass]Inventory `cbor:"2,keyasint"`
	Traits    []string                    `cbor:"3,keyasint,omitempty"`
	Driver    string                      `cbor:"4,keyasint"`
	Pool      Pool                        `cbor:"5,keyasint"`
	// Attributes are facts that filters and costs read, such as price or
	// architecture; at most AttributesMax.
	Attributes map[string]string `cbor:"6,keyasint,omitempty"`
	// Needs is what the driver needs of a flavor; nil where UnreportedNeeds has it right,
	// as from every agent of a build before it was reported.
	Needs *Needs `cbor:"7,keyasint,omitempty" form:"2"`
}

// Needs says what a flavor must have so that a driver can run it.
type Needs struct {
	Command bool `cbor:"1,keyasint,omitempty"`
	Image   bool `cbor:"2,keyasint,omitempty"` // no flavor has one yet
}

// UnreportedNeeds returns what a driver needs of which no agent reports it. It is
// fixed: hosts in logs and snapshots of earlier builds mean this. A new driver reports
// its needs.
func UnreportedNeeds(driver string) Needs { return Needs{Command: driver == "process"} }

// AgentRegister registers hosts; a repeat updates them. Hosts are told apart by
// name within the zone. At most HostsPerAgentMax.
type AgentRegister struct {
	Hosts []AgentHost `cbor:"1,keyasint"`
}

// AgentRegistered answers with the host ids, in the order of the request.
type AgentRegistered struct {
	Term  uint64        `cbor:"1,keyasint"`
	Hosts []HostID      `cbor:"2,keyasint"`
	Beat  time.Duration `cbor:"3,keyasint"` // how often to poll or report at the least
}

// AgentWork asks what should run. After is the highest generation seen, 0 for
// everything; the answer may be delayed by Wait until there is something newer.
type AgentWork struct {
	After uint64        `cbor:"1,keyasint"`
	Wait  time.Duration `cbor:"2,keyasint"`
}

// AgentWorkload is the whole list of what should run on each host named in it.
// An agent obeys it only if Term is not below the highest term it has seen.
type AgentWorkload struct {
	Term       uint64         `cbor:"1,keyasint"`
	Generation uint64         `cbor:"2,keyasint"`
	Hosts      []HostWorkload `cbor:"3,keyasint"` // only hosts whose list is newer than After
	Addresses  []string       `cbor:"4,keyasint"` // agent listeners of the zone's nodes, to try next
}

// HostWorkload is the whole list of what should run on one host. What is not in
// it must be stopped.
type HostWorkload struct {
	Host       HostID     `cbor:"1,keyasint"`
	Generation uint64     `cbor:"2,keyasint"`
	Instances  []Workload `cbor:"3,keyasint"`
}

// Workload is one instance that should run. Stop asks for its end; the entry
// stays listed until the agent has reported it gone.
type Workload struct {
	Instance  InstanceID        `cbor:"1,keyasint"`
	Name      string            `cbor:"2,keyasint"`
	Flavor    FlavorID          `cbor:"3,keyasint"`
	Resources Resources         `cbor:"4,keyasint"`
	Command   []string          `cbor:"5,keyasint,omitempty"`
	Metadata  map[string]string `cbor:"6,keyasint,omitempty"`
	Stop      bool              `cbor:"7,keyasint,omitempty"`
	Project   ProjectID         `cbor:"8,keyasint,omitempty"`
	// Fence, when above 0, makes this an instance that may be started elsewhere when
	// its host is lost: the agent stops it when no answer of its zone has come for so
	// long, and it does not outlive the agent.
	Fence time.Duration `cbor:"9,keyasint,omitempty"`
	Stay  uint64        `cbor:"10,keyasint,omitempty"` // which of its stays on hosts this is; see InstanceReport
}

// AgentReport says what became of instances; also a heartbeat when it is empty.
// At most ReportsMax items.
type AgentReport struct {
	Items []InstanceReport `cbor:"1,keyasint"`
}

// InstanceReport is the state of one instance on one host. Status is ACTIVE,
// SHUTOFF, ERROR, or DELETED when it is gone and has left nothing behind.
type InstanceReport struct {
	Host     HostID     `cbor:"1,keyasint"`
	Instance InstanceID `cbor:"2,keyasint"`
	Status   Status     `cbor:"3,keyasint"`
	Fault    string     `cbor:"4,keyasint,omitempty"` // at most FaultMaxBytes; stays in the zone
	// Stay is the stay of the list that this answers. An instance may have gone from
	// the host and come back since: then this says nothing of it. 0 is of any.
	Stay uint64 `cbor:"5,keyasint,omitempty"`
}

// AgentAck answers a report.
type AgentAck struct {
	Term uint64 `cbor:"1,keyasint"`
}

// AgentRedirect is the body of a 421 answer: where the leader listens.
type AgentRedirect struct {
	Leader    string   `cbor:"1,keyasint"` // host:port, or "" when there is none
	Addresses []string `cbor:"2,keyasint"`
}

// FaultMaxBytes bounds the reason that an agent reports.
const FaultMaxBytes = 512
