package api

// Paths of the agent listener.
const (
	PathAgentRegister = "/agent/register" // POST AgentRegister -> AgentRegistered
	PathAgentWork     = "/agent/work"     // POST AgentWork -> AgentWorkload
	PathAgentReport   = "/agent/report"   // POST AgentReport -> AgentAck
	PathAgentRenew    = "/agent/renew"    // POST AgentRenew -> AgentRenewed
	PathAgentTrust    = "/agent/trust"    // POST AgentTrust -> AgentTrusted
	PathAgentOutputs  = "/agent/outputs"  // POST AgentOutputs -> AgentAck
)

// Headers of Berth's own.
const (
	HeaderRequestID      = "X-Request-Id"
	HeaderIdempotencyKey = "Idempotency-Key"
	HeaderLastEventID    = "Last-Event-ID"     // of an event stream; see EventID
	HeaderCode           = "Berth-Code"        // Code of a refusal in the shape of another dialect
	HeaderIndex          = "Berth-Index"       // log index at which an answer was read
	HeaderDeadline       = "Berth-Deadline-Ms" // remaining budget of the caller
	HeaderDepth          = "Berth-Depth"       // links crossed so far
	HeaderForm           = "Berth-Form"        // newest Form that the sender reads, between zones and from and to agents
	HeaderHome           = "Berth-Home"        // of an agent: the folder from which it runs; and of its refusal because it runs from another one
	HeaderVersion        = "Berth-Version"     // of an agent: its release
	HeaderSkew           = "Berth-Skew"        // of an agent: by how much its clock is ahead of the zone's, and how wrong that may be; in milliseconds
	HeaderTime           = "Berth-Time"        // of an answer between zones and to agents: when the call had come, in milliseconds since 1970
	HeaderIncarnation    = "Berth-Incarnation" // of the sender, between zones, and
	HeaderMeant          = "Berth-Meant"       // that of the zone which the call is for, as its operator has confirmed it; see Incarnation
)

// MediaCBOR is the content type of bodies between zones and to agents.
const MediaCBOR = "application/cbor"

// ALPN protocol names. The protocol is fixed in the TLS handshake, together with
// the role that may speak it, before a byte of it is parsed.
const (
	ALPNRaft   = "berth-raft/1"   // node listener: Raft between the nodes of a zone
	ALPNGossip = "berth-gossip/1" // node listener: the zone's own pool; gateway: a link's pool
	ALPNEnrol  = "berth-enrol/1"  // gateway: the one call of a zone that is not linked yet
	ALPNHTTP   = "http/1.1"       // node listener and gateway
	ALPNJoin   = "berth-join/1"   // public API: offered by who joins the zone beside ALPNHTTP, which is spoken
)

// Read is the kind of read that a route makes.
type Read string

// The kinds of read.
const (
	// ReadLocal is answered from the replica of the node that receives the call.
	ReadLocal Read = "local"
	// ReadLinearizable includes everything acknowledged before the call: it is answered
	// from a state that a majority has confirmed.
	ReadLinearizable Read = "linearizable"
	// ReadLog is decided by an entry of the log. A refusal without an entry is confirmed
	// by a majority.
	ReadLog Read = "log"
)
