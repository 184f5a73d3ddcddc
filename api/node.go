package api

// Node is one control-plane process of a zone, as its zone knows it. Addresses
// are host:port. Only GatewayAddr is ever shown to another zone.
type Node struct {
	ID          NodeID  `json:"id" cbor:"1,keyasint"`
	NodeAddr    string  `json:"node_addr" cbor:"2,keyasint"` // Raft and requests between nodes
	APIAddr     string  `json:"api_addr" cbor:"3,keyasint"`
	GatewayAddr string  `json:"gateway_addr" cbor:"4,keyasint"`
	AgentAddr   string  `json:"agent_addr" cbor:"5,keyasint"`
	Version     string  `json:"version" cbor:"6,keyasint"`
	Joined      Instant `json:"joined,omitzero" cbor:"7,keyasint"` // zero while it is joining
	Voter       bool    `json:"voter" cbor:"-"`                    // filled on read
	Leader      bool    `json:"leader" cbor:"-"`                   // filled on read
	Alive       string  `json:"alive,omitempty" cbor:"-"`          // "alive", "suspect", "dead"; from the zone's own gossip
	Form        Form    `json:"-" cbor:"8,keyasint,omitempty"`     // the newest that it reads; 0 for FormFirst
}

// UserRole is what a bearer token allows.
type UserRole string

// The roles, from least to most.
const (
	RoleReader UserRole = "reader" // read what the project has
	RoleMember UserRole = "member" // and boot and delete
	RoleAdmin  UserRole = "admin"  // and operate the zone, across projects
)

// Token is a bearer token as the zone keeps it. The secret is never stored: only
// its SHA-256 is, compared in constant time.
type Token struct {
	ID      TokenID    `json:"id" cbor:"1,keyasint"`
	Hash    []byte     `json:"-" cbor:"2,keyasint"`
	User    UserID     `json:"user_id" cbor:"3,keyasint"`
	Project ProjectID  `json:"project_id" cbor:"4,keyasint"`
	Roles   []UserRole `json:"roles" cbor:"5,keyasint"`
	Created Instant    `json:"created" cbor:"6,keyasint"`
	Expires Instant    `json:"expires" cbor:"7,keyasint"` // Forever for none
}

// Caller is who makes a call, after authentication.
type Caller struct {
	User    UserID
	Project ProjectID
	Role    UserRole // the highest of the token's roles
}

// Allows reports whether the caller's role is at least want.
func (c Caller) Allows(want UserRole) bool {
	rank := map[UserRole]int{RoleReader: 1, RoleMember: 2, RoleAdmin: 3}
	return rank[c.Role] >= rank[want]
}

// JoinKind is what a join token admits.
type JoinKind string

// The kinds of join token.
const (
	JoinNode  JoinKind = "node"
	JoinAgent JoinKind = "agent"
	JoinLink  JoinKind = "link"
)

// JoinToken is a single-use admission, as the zone keeps it.
type JoinToken struct {
	ID      TokenID  `json:"id" cbor:"1,keyasint"`
	Hash    []byte   `json:"-" cbor:"2,keyasint"`
	Kind    JoinKind `json:"kind" cbor:"3,keyasint"`
	Name    string   `json:"name" cbor:"4,keyasint"` // node id, agent id or link name it admits
	Expires Instant  `json:"expires" cbor:"5,keyasint"`
	Used    bool     `json:"used" cbor:"6,keyasint"`
	Offset  int64    `json:"weight_offset,omitempty" cbor:"7,keyasint,omitempty"` // JoinLink only
	Scale   int64    `json:"weight_scale,omitempty" cbor:"8,keyasint,omitempty"`
}
