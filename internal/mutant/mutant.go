// Package mutant names deliberate faults, so that a test can show that the suite
// finds each of them. A fault stands in the code as
//
//	if mutant.On(mutant.GenerationUnchecked) { ... }
//
// and is not in the binary unless it is built with the tag "mutants": On is then a
// constant. With the tag, the environment variable BERTH_MUTANT names the one
// fault that is on. The package must never do what a fault does: that stands where
// the fault is.
package mutant

// Name names one fault.
type Name string

// The faults. What they do is said by Faults.
const (
	FsyncOff            Name = "fsync-off"
	ChecksumSkipped     Name = "checksum-skipped"
	AckBeforeApply      Name = "ack-before-apply"
	WatchdogOff         Name = "watchdog-off"
	ViewShared          Name = "view-shared"
	MapOrder            Name = "map-order"
	ClockInApply        Name = "clock-in-apply"
	PlansForgotten      Name = "plans-forgotten"
	GenerationUnchecked Name = "generation-unchecked"
	GenerationKept      Name = "generation-kept"
	CapacityUnchecked   Name = "capacity-unchecked"
	OriginIgnored       Name = "origin-ignored"
	TenantsMixed        Name = "tenants-mixed"
	RuleUnchecked       Name = "rule-unchecked"
	GroupMinUnchecked   Name = "group-min-unchecked"
	MoveDouble          Name = "move-double"
	EvacuatedEarly      Name = "evacuated-early"
	RepeatUnchecked     Name = "repeat-unchecked"
	FreedEarly          Name = "freed-early"
	ClaimUnchecked      Name = "claim-unchecked"
	ConsumerUnchecked   Name = "consumer-unchecked"
	PoolUncounted       Name = "pool-uncounted"
	SharesKept          Name = "shares-kept"
	ReshapeHalf         Name = "reshape-half"
	HoldExpires         Name = "hold-expires"
	OlderIgnored        Name = "older-ignored"
	LateCommitAcked     Name = "late-commit-acked"
	UnknownIsNothing    Name = "unknown-is-nothing"
	ChildDecides        Name = "child-decides"
	PauseIgnored        Name = "pause-ignored"
	DecisionUnlogged    Name = "decision-unlogged"
	SagaNotResumed      Name = "saga-not-resumed"
	TermIgnored         Name = "term-ignored"
	FenceIgnored        Name = "fence-ignored"
	PlanReused          Name = "plan-reused"
	BlobExpiryUnchecked Name = "blob-expiry-unchecked"
	PlanLoserTakes      Name = "plan-loser-takes"
	BlobUnbound         Name = "blob-unbound"
	BlobUnpadded        Name = "blob-unpadded"
	CommitmentUnchecked Name = "commitment-unchecked"
	HostInError         Name = "host-in-error"
	HostInDigest        Name = "host-in-digest"
	TenantUnchecked     Name = "tenant-unchecked"
	RoleUnchecked       Name = "role-unchecked"
	PinUnchecked        Name = "pin-unchecked"
	BodyUnbounded       Name = "body-unbounded"
	TextReplaced        Name = "text-replaced"
	JoinLogged          Name = "join-logged"
	ReadUnverified      Name = "read-unverified"
	FreshLocal          Name = "fresh-local"
	DecisionLocal       Name = "decision-local"
	EndLocal            Name = "end-local"
	RefusalLocal        Name = "refusal-local"
	KeyDropped          Name = "key-dropped"
	LeaderLostUntold    Name = "leader-lost-untold"
	CurrentSkipped      Name = "current-skipped"
	ListedWhileLeft     Name = "listed-while-left"
	LeftThoughHeard     Name = "left-though-heard"
	StayIgnored         Name = "stay-ignored"
	GatewayKept         Name = "gateway-kept"
	AddressesKept       Name = "addresses-kept"
	WindowAbroad        Name = "window-abroad"
	ChangesUnchecked    Name = "changes-unchecked"
	GossipAge           Name = "gossip-age"
	ReachUntold         Name = "reach-untold"
	SilenceUntold       Name = "silence-untold"
)

// Fault is one fault, in words.
type Fault struct {
	Name Name
	Does string // in a few words
}

// Faults returns all faults: of the log and of applying it, of the books, of the
// steps of a boot, of sealed plans, and of doors. The slice is the caller's own.
func Faults() []Fault {
	return []Fault{
		{FsyncOff, "the log is not made durable before it is acknowledged"},
		{ChecksumSkipped, "damaged entries of the log are taken for good"},
		{AckBeforeApply, "a proposal is answered before it is committed"},
		{WatchdogOff, "a hung disk does not end the process"},
		{ViewShared, "readers and snapshots share what entries change"},
		{MapOrder, "applying an entry follows the order of a map"},
		{ClockInApply, "applying an entry reads the clock"},
		{PlansForgotten, "a snapshot does not hold which plans were used"},
		{GenerationUnchecked, "a stale writer of a host is not refused"},
		{GenerationKept, "a host's generation does not rise when room is given back"},
		{CapacityUnchecked, "a hold is not checked again when it is made"},
		{OriginIgnored, "a parent's projects are taken for those of the zone when it plans"},
		{TenantsMixed, "a parent's projects are counted as those of the zone"},
		{RuleUnchecked, "the rules of a request are not checked when it takes hosts"},
		{GroupMinUnchecked, "a boot is decided although a group of it is too small"},
		{MoveDouble, "an instance that moves is started before it has stopped"},
		{EvacuatedEarly, "what was on a lost host is started elsewhere before its agent must have ended it"},
		{RepeatUnchecked, "a key that was used for another request gets its answer"},
		{FreedEarly, "room is given back before the instance is gone"},
		{ClaimUnchecked, "a claim of a consumer is not compared with the room that is left"},
		{ConsumerUnchecked, "a stale writer of a consumer's allocations is not refused"},
		{PoolUncounted, "a slot draws from a pool as if nobody had before"},
		{SharesKept, "pools go on giving to instances that have ended"},
		{ReshapeHalf, "a reshape whose allocations do not fit sets its inventories"},
		{HoldExpires, "a child gives up by itself what it holds for its parent"},
		{OlderIgnored, "a boot keeps what it holds while it waits for one that came before it"},
		{LateCommitAcked, "a child's late word that it committed counts as its ack of the abort"},
		{UnknownIsNothing, "a child that has not answered when the asker gives up is taken to hold nothing"},
		{ChildDecides, "a child may decide alone although own slots may still be refused"},
		{PauseIgnored, "a plan takes slots behind a link that is paused"},
		{DecisionUnlogged, "children are told before the decision is logged"},
		{SagaNotResumed, "a new leader leaves boots of the old one alone"},
		{TermIgnored, "an agent obeys a leader of the past"},
		{FenceIgnored, "an agent lets run what has a fence when the zone is silent"},
		{PlanReused, "a plan is good more than once"},
		{BlobExpiryUnchecked, "a blob is good for ever"},
		{PlanLoserTakes, "who comes too late with a plan takes it from the first"},
		{BlobUnbound, "a blob is good for any project"},
		{BlobUnpadded, "the length of a blob tells what is in it"},
		{CommitmentUnchecked, "a blob may open under more than one key"},
		{HostInError, "a refusal names a host to a parent"},
		{HostInDigest, "a digest names a host"},
		{TenantUnchecked, "a caller sees instances of other projects"},
		{RoleUnchecked, "any certificate of a zone is good for any listener of it"},
		{PinUnchecked, "a link takes any authority for its peer's"},
		{BodyUnbounded, "a body of any size is read"},
		{TextReplaced, "bytes that are not UTF-8 are replaced in silence"},
		{JoinLogged, "a join with an unknown token is logged before it is refused"},
		{ReadUnverified, "a linearizable read does not ask a majority"},
		{FreshLocal, "a read that must be fresh is answered from the replica"},
		{DecisionLocal, "a child is told of a hold what a node knew when it led"},
		{EndLocal, "a parent is told that an instance is gone by a node that led once"},
		{RefusalLocal, "a user is refused by what a node knew when it led"},
		{KeyDropped, "a follower drops the idempotency key of what it passes on"},
		{LeaderLostUntold, "a call that a lost leader may have done is told as one that changed nothing"},
		{CurrentSkipped, "a node that has just started answers from its past"},
		{ListedWhileLeft, "an agent that is back gets its list while its host may still be evacuated"},
		{LeftThoughHeard, "an evacuation goes on although the agent was heard meanwhile"},
		{StayIgnored, "what an agent says late of an instance's stay before is taken for this one"},
		{GatewayKept, "a call waits for one gateway of a zone as long as it may, however long that is silent"},
		{AddressesKept, "a link keeps the gateways that it was made with"},
		{WindowAbroad, "a parent may hold room for any window and class"},
		{ChangesUnchecked, "what a child says of instances is logged unread"},
		{GossipAge, "digests of children that are silent are folded in as fresh"},
		{ReachUntold, "a parent is not told that a host went down"},
		{SilenceUntold, "a parent is not told that a zone below is silent"},
	}
}
