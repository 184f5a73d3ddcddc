package command

import (
	"berth/api"
	"berth/internal/codec"
)

// Init is the first command of a zone.
type Init struct {
	Stamp
	Zone   api.ZoneID     `cbor:"2,keyasint"`
	Name   string         `cbor:"3,keyasint"`
	Config api.ZoneConfig `cbor:"4,keyasint"`
	Admin  api.Token      `cbor:"5,keyasint"`
	Epoch  Epoch          `cbor:"6,keyasint"`
	CA     []byte         `cbor:"7,keyasint"` // DER
	CAKey  []byte         `cbor:"8,keyasint"` // DER, wrapped by the key-encryption key
}

// Epoch is one key that plans are sealed with, wrapped by the key-encryption
// key of the zone's nodes.
type Epoch struct {
	ID      []byte      `cbor:"1,keyasint"` // 4 random bytes
	Wrapped []byte      `cbor:"2,keyasint"`
	Created api.Instant `cbor:"3,keyasint"`
}

// NodePut records a node of the zone and its addresses.
type NodePut struct {
	Stamp
	Node api.Node `cbor:"2,keyasint"`
}

// NodeRemove forgets a node.
type NodeRemove struct {
	Stamp
	ID api.NodeID `cbor:"2,keyasint"`
}

// FormRaise has the zone write a newer form from the next entry on. It is refused while a node has recorded that it does not
// read that form.
type FormRaise struct {
	Stamp
	To api.Form `cbor:"2,keyasint"`
}

// FormRaisedTo returns the form to which an encoded FormRaise raises that of the zone; api.FormFirst if it cannot be read.
func FormRaisedTo(b []byte) api.Form {
	var c FormRaise
	if err := codec.Unmarshal(b[2:], &c); err != nil {
		return api.FormFirst
	}
	return c.To
}

// ConfigSet replaces the zone's configuration.
type ConfigSet struct {
	Stamp
	Config api.ZoneConfig `cbor:"2,keyasint"`
}

// TokenPut adds a bearer token.
type TokenPut struct {
	Stamp
	Token api.Token `cbor:"2,keyasint"`
}

// TokenDelete revokes a bearer token.
type TokenDelete struct {
	Stamp
	ID api.TokenID `cbor:"2,keyasint"`
}

// TokensUsed records when tokens were last used; what is not newer than the record changes nothing,
// nor do tokens that there are no more.
type TokensUsed struct {
	Stamp
	Used []api.TokenUse `cbor:"2,keyasint"` // at most api.TokenUsesMax
}

// RoleSet makes or replaces a role. What its tokens may do changes with it.
type RoleSet struct {
	Stamp
	Role api.Role `cbor:"2,keyasint"` // Created and Updated are those of the entry
}

// RoleDelete deletes a role that no token has.
type RoleDelete struct {
	Stamp
	Name api.UserRole `cbor:"2,keyasint"`
}

// JoinPut adds a join token.
type JoinPut struct {
	Stamp
	Token api.JoinToken `cbor:"2,keyasint"`
}

// JoinUse consumes a join token of the given kind. Who has used it may repeat that.
type JoinUse struct {
	Stamp
	ID   api.TokenID  `cbor:"2,keyasint"`
	Hash []byte       `cbor:"3,keyasint"`
	Want api.JoinKind `cbor:"4,keyasint"`                    // the kind of token that is expected
	By   []byte       `cbor:"5,keyasint,omitempty" form:"5"` // SHA-256 of the public key of who joins
}

// AgentRevoke ends an agent: its certificates are refused, and its hosts are down and disabled.
type AgentRevoke struct {
	Stamp
	ID api.AgentID `cbor:"2,keyasint"`
}

// AgentRenew records that an agent gets a new certificate, whose time of issue is that of the
// entry. It is refused if the certificate that the agent has shown is one of those that were revoked.
type AgentRenew struct {
	Stamp
	ID     api.AgentID `cbor:"2,keyasint"`
	Issued api.Instant `cbor:"3,keyasint"` // the certificate that it has shown
}

// FlavorPut adds a flavor, or replaces it when Replace is set.
type FlavorPut struct {
	Stamp
	Flavor  api.Flavor `cbor:"2,keyasint"`
	Replace bool       `cbor:"3,keyasint,omitempty"`
}

// FlavorDelete removes a flavor; instances keep what they were made with.
type FlavorDelete struct {
	Stamp
	ID api.FlavorID `cbor:"2,keyasint"`
}

// EpochAdd adds a sealing key and makes it the active one. The Keep-1 newest of the others
// stay, and so do those that sealed until after Sealed, because their plans may not have
// expired. The rest are destroyed.
type EpochAdd struct {
	Stamp
	Epoch  Epoch       `cbor:"2,keyasint"`
	Keep   int         `cbor:"3,keyasint"`
	Sealed api.Instant `cbor:"4,keyasint,omitempty"` // 0: no key is kept for that
}

// LinkPut enrols a parent or a child. Token, when set, is a link join token
// that is consumed by the same entry.
type LinkPut struct {
	Stamp
	Link  api.Link    `cbor:"2,keyasint"`
	Token api.TokenID `cbor:"3,keyasint,omitempty"`
	Hash  []byte      `cbor:"4,keyasint,omitempty"`
}

// LinkSet changes an operator's settings of a link, the endpoints of the other zone, or when
// it fell silent. A nil field is left as it is, so that two changes at once both count.
type LinkSet struct {
	Stamp
	ID        api.LinkID     `cbor:"2,keyasint"`
	Name      *string        `cbor:"3,keyasint,omitempty"`
	Offset    *int64         `cbor:"4,keyasint,omitempty"`
	Scale     *int64         `cbor:"5,keyasint,omitempty"`
	State     *api.LinkState `cbor:"6,keyasint,omitempty"`
	Endpoints []string       `cbor:"7,keyasint,omitempty"`
	Silent    *api.Instant   `cbor:"8,keyasint,omitempty" form:"2"` // when a child fell silent; 0 when it answers

	// Terms of a child, see api.LinkTerms. Tags and headroom that are empty, and not nil, are cleared.
	AZ          *string                     `cbor:"9,keyasint,omitempty" form:"4"`
	Tags        []string                    `cbor:"10,keyasint,omitzero" form:"4"`
	Maintenance *bool                       `cbor:"11,keyasint,omitempty" form:"4"`
	Headroom    map[api.ResourceClass]int64 `cbor:"12,keyasint,omitzero" form:"4"`

	// Share of a parent, see api.LinkShare.
	ShareHeld      *int `cbor:"13,keyasint,omitempty" form:"5"`
	ShareCommitted *int `cbor:"14,keyasint,omitempty" form:"5"`
}

// HasTerms reports whether terms of a child change.
func (c *LinkSet) HasTerms() bool {
	return c.AZ != nil || c.Tags != nil || c.Maintenance != nil || c.Headroom != nil
}

// HasShare reports whether the share of a parent changes.
func (c *LinkSet) HasShare() bool { return c.ShareHeld != nil || c.ShareCommitted != nil }

// LinkDelete deletes a link that nothing depends on.
type LinkDelete struct {
	Stamp
	ID api.LinkID `cbor:"2,keyasint"`
}

// LinkWriteOff gives up all that depends on a paused link whose other zone is gone for good, and
// deletes the link as soon as nothing depends on it any more. Of a child that is at once; what a
// parent has here has to end first.
type LinkWriteOff struct {
	Stamp
	ID      api.LinkID `cbor:"2,keyasint"`
	EndWork bool       `cbor:"3,keyasint,omitempty"` // end what a parent has here; without it such work refuses the command
}

// LinkRelink accepts the incarnation of a linked zone that was brought back from a backup. With a child, what both have is
// compared from then on; see LinkReconciled.
type LinkRelink struct {
	Stamp
	ID          api.LinkID      `cbor:"2,keyasint"`
	Incarnation api.Incarnation `cbor:"3,keyasint"`
	Endpoints   []string        `cbor:"4,keyasint,omitempty"` // of the zone now; none leaves them as they are
}

// LinkRestored notes that a child went back to a backup in its own life. What both have is compared from then on; see LinkReconciled.
type LinkRestored struct {
	Stamp
	ID       api.LinkID `cbor:"2,keyasint"`
	Restored uint64     `cbor:"3,keyasint"` // see api.Changes; refused unless it is above that of the link

	// Was is that of the link if the child's log has none so late, and Restored is earlier: what the child named then never was.
	Was uint64 `cbor:"4,keyasint,omitempty" form:"5"`
}

// ReconcileGoneMax is how many instances one LinkReconciled has.
const ReconcileGoneMax = 1000

// LinkReconciled ends instances here that a child does not know, after it or this zone was brought back from a backup. With
// Done, that was all.
type LinkReconciled struct {
	Stamp
	ID    api.LinkID       `cbor:"2,keyasint"`
	Since api.Instant      `cbor:"3,keyasint"`           // Reconcile of the link; refused if it is another one by now
	Gone  []api.InstanceID `cbor:"4,keyasint,omitempty"` // at most ReconcileGoneMax
	Done  bool             `cbor:"5,keyasint,omitempty"`
}

// SchedulerSet replaces the list of filters and the weights of costs.
type SchedulerSet struct {
	Stamp
	Scheduler api.Scheduler `cbor:"2,keyasint"`
}

// AggregatePut makes an aggregate, or with Replace replaces one as a whole.
type AggregatePut struct {
	Stamp
	Aggregate api.Aggregate `cbor:"2,keyasint"`
	Replace   bool          `cbor:"3,keyasint,omitempty"`
}

// AggregateDelete deletes an aggregate; its hosts stay.
type AggregateDelete struct {
	Stamp
	ID api.AggregateID `cbor:"2,keyasint"`
}

// GroupPut makes a server group.
type GroupPut struct {
	Stamp
	Group api.ServerGroup `cbor:"2,keyasint"`
}

// GroupDelete deletes a server group. No instance can join it; its members stay where they
// are, and its rule binds them no more. Zones below are told of it with the decisions on their
// holds.
type GroupDelete struct {
	Stamp
	Project api.ProjectID     `cbor:"2,keyasint"`
	ID      api.ServerGroupID `cbor:"3,keyasint"`
}

// Kind implements Command.
func (SchedulerSet) Kind() Kind { return KindSchedulerSet }

// Kind implements Command.
func (AggregatePut) Kind() Kind { return KindAggregatePut }

// Kind implements Command.
func (AggregateDelete) Kind() Kind { return KindAggregateDelete }

// Kind implements Command.
func (GroupPut) Kind() Kind { return KindGroupPut }

// Kind implements Command.
func (GroupDelete) Kind() Kind { return KindGroupDelete }

// Prune deletes records that ended before a time: deleted instances, finished boots and
// holds, expired plans and tokens, and an abandoned backup.
type Prune struct {
	Stamp
	Before api.Instant `cbor:"2,keyasint"`
	Limit  int         `cbor:"3,keyasint"` // at most this many of each table
	// BeforeAbroad is Before for instances and holds of a parent.
	BeforeAbroad api.Instant `cbor:"4,keyasint"`
	// BeforeDead is Before and BeforeAbroad, if later, for aborts of holds that never
	// arrived.
	BeforeDead api.Instant `cbor:"5,keyasint,omitempty"`
}

// Restored marks everything as changed for those who follow this zone by log index, which
// are agents and the parent. Logs of earlier builds have it after a restore; it is no longer
// proposed.
type Restored struct {
	Stamp
}

// Limits of a backup.
const (
	// BackupMaxBytes is the maximum size of the state in a backup. Each node keeps it in
	// memory while the backup arrives.
	BackupMaxBytes = 1 << 30
	// BackupPartMaxBytes is the maximum size of one part.
	BackupPartMaxBytes = 256 << 10
)

// Restore is one part of the state in a backup. The parts come in order. The last one
// replaces the whole state and marks everything as changed for those who follow this zone by
// log index. A part at offset 0 abandons an unfinished backup.
type Restore struct {
	Stamp
	Sum    []byte `cbor:"2,keyasint"` // SHA-256 of all parts together
	Size   int64  `cbor:"3,keyasint"` // length of all parts together
	Offset int64  `cbor:"4,keyasint"` // where Data begins
	Data   []byte `cbor:"5,keyasint"`
}

// Last reports whether no part follows this one.
func (c Restore) Last() bool { return c.Offset+int64(len(c.Data)) >= c.Size }

// Kind implements Command.
func (Restore) Kind() Kind { return KindRestore }

// Kind implements Command.
func (Restored) Kind() Kind { return KindRestored }

// Kind implements Command.
func (Init) Kind() Kind { return KindInit }

// Kind implements Command.
func (NodePut) Kind() Kind { return KindNodePut }

// Kind implements Command.
func (NodeRemove) Kind() Kind { return KindNodeRemove }

// Kind implements Command.
func (FormRaise) Kind() Kind { return KindFormRaise }

// Kind implements Command.
func (ConfigSet) Kind() Kind { return KindConfigSet }

// Kind implements Command.
func (TokenPut) Kind() Kind { return KindTokenPut }

// Kind implements Command.
func (TokenDelete) Kind() Kind { return KindTokenDelete }

// Kind implements Command.
func (RoleSet) Kind() Kind { return KindRoleSet }

// Kind implements Command.
func (RoleDelete) Kind() Kind { return KindRoleDelete }

// Kind implements Command.
func (TokensUsed) Kind() Kind { return KindTokensUsed }

// Kind implements Command.
func (JoinPut) Kind() Kind { return KindJoinPut }

// Kind implements Command.
func (JoinUse) Kind() Kind { return KindJoinUse }

// Kind implements Command.
func (AgentRevoke) Kind() Kind { return KindAgentRevoke }

// Kind implements Command.
func (AgentRenew) Kind() Kind { return KindAgentRenew }

// Kind implements Command.
func (FlavorPut) Kind() Kind { return KindFlavorPut }

// Kind implements Command.
func (FlavorDelete) Kind() Kind { return KindFlavorDelete }

// Kind implements Command.
func (EpochAdd) Kind() Kind { return KindEpochAdd }

// Kind implements Command.
func (LinkPut) Kind() Kind { return KindLinkPut }

// Kind implements Command.
func (LinkSet) Kind() Kind { return KindLinkSet }

// Kind implements Command.
func (LinkDelete) Kind() Kind { return KindLinkDelete }

// Kind implements Command.
func (LinkRelink) Kind() Kind { return KindLinkRelink }

// Kind implements Command.
func (LinkReconciled) Kind() Kind { return KindLinkReconciled }

// Kind implements Command.
func (LinkRestored) Kind() Kind { return KindLinkRestored }

// Kind implements Command.
func (LinkWriteOff) Kind() Kind { return KindLinkWriteOff }

// Kind implements Command.
func (Prune) Kind() Kind { return KindPrune }
