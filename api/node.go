package api

// Node is one control-plane process of a zone. Addresses are host:port. Only GatewayAddr
// is ever shown to another zone.
type Node struct {
	ID          NodeID  `cbor:"1,keyasint"`
	NodeAddr    string  `cbor:"2,keyasint"` // Raft and requests between nodes
	APIAddr     string  `cbor:"3,keyasint"`
	GatewayAddr string  `cbor:"4,keyasint"`
	AgentAddr   string  `cbor:"5,keyasint"`
	Version     string  `cbor:"6,keyasint"`
	Joined      Instant `cbor:"7,keyasint"`           // zero while it is joining
	Voter       bool    `cbor:"-"`                    // filled on read
	Leader      bool    `cbor:"-"`                    // filled on read
	Alive       string  `cbor:"-"`                    // "alive", "suspect", "dead"; from the zone's own gossip
	Form        Form    `cbor:"8,keyasint,omitempty"` // newest form that it reads; 0 for FormFirst
}

// UserRole is the level of access of a bearer token.
type UserRole string

// The roles, from least to most.
const (
	RoleReader UserRole = "reader" // read the objects of the project
	RoleMember UserRole = "member" // and boot and delete
	RoleAdmin  UserRole = "admin"  // and operate the zone, across projects
)

// Token is the record of a bearer token. The secret is never stored, only its SHA-256,
// which is compared in constant time.
type Token struct {
	ID      TokenID    `cbor:"1,keyasint"`
	Hash    []byte     `cbor:"2,keyasint"`
	User    UserID     `cbor:"3,keyasint" log:"user_id"`
	Project ProjectID  `cbor:"4,keyasint" log:"project_id"`
	Roles   []UserRole `cbor:"5,keyasint"`
	Created Instant    `cbor:"6,keyasint"`
	Expires Instant    `cbor:"7,keyasint"` // Forever for none
}

// Caller is the authenticated caller of a request.
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

// JoinKind is the kind of member that a join token admits.
type JoinKind string

// The kinds of join token.
const (
	JoinNode  JoinKind = "node"
	JoinAgent JoinKind = "agent"
	JoinLink  JoinKind = "link"
)

// JoinToken is the record of a single-use admission.
type JoinToken struct {
	ID      TokenID  `cbor:"1,keyasint"`
	Hash    []byte   `cbor:"2,keyasint"`
	Kind    JoinKind `cbor:"3,keyasint"`
	Name    string   `cbor:"4,keyasint"` // node id, agent id or link name it admits
	Expires Instant  `cbor:"5,keyasint"`
	Used    bool     `cbor:"6,keyasint"`
	Offset  int64    `cbor:"7,keyasint,omitempty" log:"weight_offset"` // JoinLink only
	Scale   int64    `cbor:"8,keyasint,omitempty" log:"weight_scale"`
}
