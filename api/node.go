package api

import "bytes"

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

	Expires Instant     `cbor:"9,keyasint,omitempty" form:"5"`  // the first of its certificates; 0 if unknown
	Trusts  Fingerprint `cbor:"10,keyasint,omitempty" form:"5"` // the newest authority of the zone that it has on its disk
	Issuer  Fingerprint `cbor:"11,keyasint,omitempty" form:"5"` // the authority of its certificates
	// Since is when the join token was used that has admitted it: certificates from before are those of an earlier node with its id.
	// 0 if unknown.
	Since Instant `cbor:"12,keyasint,omitempty" form:"5"`
}

// UserRole is the level of access of a bearer token: one of those below, or the name of a Role.
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

	Used    Instant `cbor:"8,keyasint,omitempty" form:"5"` // its last use, at most TokenUseEvery and some minutes behind; 0 for none
	Service string  `cbor:"9,keyasint,omitempty" form:"5"` // the name of a service that it is for, and then of no user
}

// TokenUse is that a bearer token was used.
type TokenUse struct {
	ID TokenID `cbor:"1,keyasint"`
	At Instant `cbor:"2,keyasint"` // the latest call with it
}

// Caller is the authenticated caller of a request.
type Caller struct {
	User    UserID
	Project ProjectID
	Role    UserRole    // the highest built-in one of the token's roles; "" for none
	Groups  RouteGroups // what its other roles allow, in its project or of the whole zone
	Service string      // of a token of no user
}

// Owns reports whether a token is one of the caller's own.
func (c Caller) Owns(t *Token) bool {
	return c.User == t.User && c.Project == t.Project && c.Service == t.Service
}

// Allows reports whether the caller's built-in role is at least want.
func (c Caller) Allows(want UserRole) bool {
	rank := map[UserRole]int{RoleReader: 1, RoleMember: 2, RoleAdmin: 3}
	return rank[c.Role] >= rank[want]
}

// May reports whether the caller may make calls that need a built-in role, or a role that allows a
// group. No group is in no role.
func (c Caller) May(want UserRole, g RouteGroup) bool {
	return c.Role != "" && c.Allows(want) || c.Groups.Has(g)
}

// MayGive reports whether the caller may give others what a role allows: nobody gives more than he has.
func (c Caller) MayGive(r *Role) bool {
	return c.Allows(RoleAdmin) || GroupsOf(r.Allow).Within(c.Groups)
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

	Terms  *AgentTerms `cbor:"9,keyasint,omitempty" form:"5"`  // JoinAgent only; nil for the zero terms
	Trusts Fingerprint `cbor:"10,keyasint,omitempty" form:"5"` // the newest authority of the zone that its text pins; "" for the one that was in use
	Joined Instant     `cbor:"11,keyasint,omitempty" form:"5"` // when it was used; 0 in a zone of an earlier form
	By     []byte      `cbor:"12,keyasint,omitempty" form:"5"` // SHA-256 of the public key of who has used it: only its owner may repeat the call
}

// UsedBy reports whether the owner of a key, of which by is the SHA-256, has used the token.
func (t *JoinToken) UsedBy(by []byte) bool { return t.Used && len(by) > 0 && bytes.Equal(t.By, by) }

// AgentTerms bound what an agent may register. The zero value leaves it to the limits of the zone.
type AgentTerms struct {
	HostPrefix string `cbor:"1,keyasint,omitempty"` // of the names of its hosts; "" for any
	HostsMax   int    `cbor:"2,keyasint,omitempty"` // 0 for the limit of the zone
	Disabled   bool   `cbor:"3,keyasint,omitempty"` // its new hosts wait until an operator enables them
	// HostCapacity is the most that one of its hosts may offer of each class in it, after what is
	// reserved and by its ratio, each 1 to AmountMax; other classes are left to the limits of the zone.
	HostCapacity Resources `cbor:"4,keyasint,omitempty"`
}

// IsZero reports whether the terms leave all to the limits of the zone.
func (t AgentTerms) IsZero() bool {
	return t.HostPrefix == "" && t.HostsMax == 0 && !t.Disabled && len(t.HostCapacity) == 0
}

// ExceededBy returns the first class, by name, of which a host with an inventory would offer more
// than the terms allow, and reports whether there is one.
func (t AgentTerms) ExceededBy(inv map[ResourceClass]Inventory) (ResourceClass, bool) {
	for _, c := range t.HostCapacity.Classes() {
		if inv[c].Capacity() > t.HostCapacity[c] {
			return c, true
		}
	}
	return "", false
}

// Agent is what the zone keeps of an agent that joined by a token, or was revoked.
type Agent struct {
	ID      AgentID    `cbor:"1,keyasint"`
	Joined  Instant    `cbor:"2,keyasint"`           // the last time; its certificate is as old, if it was not renewed. That of its revocation if unknown
	Revoked Instant    `cbor:"3,keyasint,omitempty"` // certificates up to then are refused; 0 for never
	Terms   AgentTerms `cbor:"4,keyasint"`
	Renewed Instant    `cbor:"5,keyasint,omitempty"` // the last time since it joined; its certificate is as old. 0 for never

	// Trusts and Issuer are as those of a node; it reports them while the zone changes its authority.
	Trusts Fingerprint `cbor:"6,keyasint,omitempty"`
	Issuer Fingerprint `cbor:"7,keyasint,omitempty"`

	// Lost are the newest LostHostsMax of its hosts that were written off. It ends what it still has of them.
	Lost []HostID `cbor:"8,keyasint,omitempty"`
}

// Issued returns when the newest certificate of the agent was issued.
func (a *Agent) Issued() Instant { return max(a.Joined, a.Renewed) }

// Refuses reports whether a certificate of the agent that was issued at an instant is revoked.
func (a *Agent) Refuses(issued Instant) bool { return a.Revoked != 0 && issued <= a.Revoked }

// IsRevoked reports whether the agent was revoked and has not joined again since.
func (a *Agent) IsRevoked() bool { return a.Revoked >= a.Joined }
