package api

import "time"

// The agent protocol: an agent dials its zone's agent listener with mutual TLS
// and speaks CBOR over HTTP. It registers its hosts, then long-polls for the instances
// that should run and reports their states. Only the leader answers; any other node
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
	// Needs are the driver's requirements on a flavor; nil where UnreportedNeeds is right,
	// as from every agent of a build that does not report them.
	Needs *Needs `cbor:"7,keyasint,omitempty" form:"2"`
}

// Needs lists what a flavor must have for a driver to run it.
type Needs struct {
	Command bool `cbor:"1,keyasint,omitempty"`
	Image   bool `cbor:"2,keyasint,omitempty"` // no flavor has one yet
}

// UnreportedNeeds returns the needs of a driver whose agent does not report them. It is
// fixed: hosts in logs and snapshots of earlier builds rely on it. A new driver reports
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
	// Lost are hosts of this agent that were written off: it must end all that it still has of them.
	Lost []HostID `cbor:"4,keyasint,omitempty"`
}

// AgentRenew asks for a new certificate. The one of the connection identifies the agent.
type AgentRenew struct {
	CSR []byte `cbor:"1,keyasint"` // in DER, for the key of the new certificate
}

// AgentRenewed answers with the certificate, which ends later than that of the connection.
type AgentRenewed struct {
	Term        uint64 `cbor:"1,keyasint"`
	Certificate []byte `cbor:"2,keyasint"` // in DER
}

// AgentTrust reports which authorities of the zone an agent trusts, and asks for those that it should.
// The newest one is to be on its disk.
type AgentTrust struct {
	Trusts Fingerprint `cbor:"1,keyasint"` // the newest that it trusts
	Issuer Fingerprint `cbor:"2,keyasint"` // of its certificate
}

// AgentTrusted answers.
type AgentTrusted struct {
	Term        uint64      `cbor:"1,keyasint"`
	Authorities []Authority `cbor:"2,keyasint"` // that the agent should trust, the older one first
	Issuer      Fingerprint `cbor:"3,keyasint"` // that issues; a certificate of another one is to be renewed
}

// AgentWork polls for the lists of work. After is the highest generation seen, 0 for
// everything; the answer may be delayed by Wait until there is something newer.
type AgentWork struct {
	After uint64        `cbor:"1,keyasint"`
	Wait  time.Duration `cbor:"2,keyasint"`
	Form  Form          `cbor:"-"` // newest that the agent reads, from HeaderForm
}

// AgentWorkload has the list of instances that should run on each host in it.
// An agent obeys it only if Term is not below the highest term it has seen.
type AgentWorkload struct {
	Term       uint64         `cbor:"1,keyasint"`
	Generation uint64         `cbor:"2,keyasint"`
	Hosts      []HostWorkload `cbor:"3,keyasint"` // only hosts whose list is newer than After
	Addresses  []string       `cbor:"4,keyasint"` // agent listeners of the zone's nodes, to try next
	Terms      []WorkTerms    `cbor:"5,keyasint,omitempty" form:"5"`
	// Asks are questions for what instances have printed, OutputAsksMax at most; each is asked once.
	Asks []OutputAsk `cbor:"6,keyasint,omitempty" form:"5"`
}

// HostWorkload is the list of instances that should run on one host. All others
// must be stopped.
type HostWorkload struct {
	Host       HostID     `cbor:"1,keyasint"`
	Generation uint64     `cbor:"2,keyasint"`
	Instances  []Workload `cbor:"3,keyasint"`
	// Since is 0 for the whole list. Otherwise Instances has only those that are new or have
	// changed since this generation, and Gone those that are not listed any more, also those that
	// came and went since; all others are as they were. An agent applies that only to a list of this
	// generation or a later one; without one it asks for the whole list.
	Since uint64       `cbor:"4,keyasint,omitempty" form:"5"`
	Gone  []InstanceID `cbor:"5,keyasint,omitempty" form:"5"`
}

// WorkTerms are what the instances of one group of a boot have in common; see Workload.
type WorkTerms struct {
	Flavor    FlavorID          `cbor:"1,keyasint"`
	Resources Resources         `cbor:"2,keyasint"`
	Command   []string          `cbor:"3,keyasint,omitempty"`
	Metadata  map[string]string `cbor:"4,keyasint,omitempty"`
	Project   ProjectID         `cbor:"5,keyasint,omitempty"`
	Fence     time.Duration     `cbor:"6,keyasint,omitempty"`
	Volume    string            `cbor:"7,keyasint,omitempty"`
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
	// Fence, when above 0, makes this an instance that may be started elsewhere if its
	// host is lost: the agent kills it if no answer of its zone has come for this time,
	// and it does not outlive the agent.
	Fence time.Duration `cbor:"9,keyasint,omitempty"`
	Stay  uint64        `cbor:"10,keyasint,omitempty"` // number of its stay on a host; see InstanceReport
	// Notice is set, with Stop, for a preemptible instance whose room is needed.
	Notice *PreemptNotice `cbor:"11,keyasint,omitempty" form:"4"`
	Volume string         `cbor:"12,keyasint,omitempty" form:"4"` // type of a volume, in which nothing runs; "" for an instance
	// Volumes are the volumes that the instance may use, by id; at most AttachedMax.
	Volumes []InstanceID `cbor:"13,keyasint,omitempty" form:"4"`
	// Terms, when above 0, is the place in AgentWorkload.Terms, from 1, of what is not set here:
	// all fields of WorkTerms.
	Terms int `cbor:"14,keyasint,omitempty" form:"5"`
	// Halt is set for an instance whose owner has stopped it: it ends, is SHUTOFF, and all that it has is kept.
	Halt bool `cbor:"15,keyasint,omitempty" form:"5"`
	// Runs counts the runs that its owner has ordered. What was started with a smaller count, and runs or has
	// ended, is ended and started again, once.
	Runs uint64 `cbor:"16,keyasint,omitempty" form:"5"`
}

// FillTerms sets the fields of WorkTerms in all instances of an answer that names terms. The
// instances share them. It returns an invalid-input error for terms that the answer does not have.
func (w *AgentWorkload) FillTerms() error {
	for h := range w.Hosts {
		for n := range w.Hosts[h].Instances {
			i := &w.Hosts[h].Instances[n]
			switch {
			case i.Terms == 0:
				continue
			case i.Terms < 0 || i.Terms > len(w.Terms):
				return Errorf(CodeInvalid, "instance %s has terms %d of %d", string(i.Instance), i.Terms, len(w.Terms))
			}
			t := &w.Terms[i.Terms-1]
			i.Flavor, i.Resources, i.Command, i.Metadata = t.Flavor, t.Resources, t.Command, t.Metadata
			i.Project, i.Fence, i.Volume, i.Terms = t.Project, t.Fence, t.Volume, 0
		}
	}
	w.Terms = nil
	return nil
}

// AgentReport reports the states of instances; an empty one is a heartbeat.
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
	// Stay is the stay of the list that this answers. If the instance has left the host
	// and come back since, the report is ignored. 0 stands for any stay.
	Stay uint64 `cbor:"5,keyasint,omitempty"`
	// Restarted is when this agent last started the instance anew that it, or one before it, had to kill
	// unasked; 0 for never. The zone counts each instant once. Reason says why it was killed.
	Restarted Instant       `cbor:"6,keyasint,omitempty" form:"5"`
	Reason    RestartReason `cbor:"7,keyasint,omitempty" form:"5"`
}

// RestartReason is why an agent killed an instance that it started anew since.
type RestartReason string

// The reasons of restarts.
const (
	RestartFenced RestartReason = "zone_silent"     // no node of the zone answered for as long as its fence allows
	RestartAgent  RestartReason = "agent_restarted" // its agent ended, and it must not outlive that
)

// AgentAck answers a report.
type AgentAck struct {
	Term uint64 `cbor:"1,keyasint"`
	// Trust differs from that of the last AgentTrust whenever there is something new to ask for.
	Trust Fingerprint `cbor:"2,keyasint,omitempty" form:"5"`
}

// AgentRedirect is the body of a 421 answer: the address of the leader.
type AgentRedirect struct {
	Leader    string   `cbor:"1,keyasint"` // host:port, or "" when there is none
	Addresses []string `cbor:"2,keyasint"`
}

// FaultMaxBytes bounds the reason that an agent reports.
const FaultMaxBytes = 512
