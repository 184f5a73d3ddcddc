// Package crash names the points at which a test may end a process. Each is on one side
// of a step that a promise depends on: before or after an entry is logged, a call is
// made, or a file is renamed.
//
// In production a Hook is nil and a point costs one comparison. The package does not end
// processes; the Hook does.
package crash

// Point is the name of one point, "who.step".
type Point string

// The points of a boot at the zone where it was made.
const (
	BootLogging     Point = "boot.logging"     // before the boot is recorded
	BootLogged      Point = "boot.logged"      // and after, before the caller gets an answer
	SelectPlanning  Point = "select.planning"  // before hosts are filtered and children are asked
	SelectPlanned   Point = "select.planned"   // all answers are in, nothing is held yet
	SelectSealed    Point = "select.sealed"    // in a child: its answer is ready but not sent
	HoldLogging     Point = "hold.logging"     // before the slots are taken
	HoldLogged      Point = "hold.logged"      // own slots are taken, no child was asked
	HoldAsking      Point = "hold.asking"      // before one child is asked
	HoldAsked       Point = "hold.asked"       // it has answered, and that is not recorded
	PartsLogging    Point = "parts.logging"    // before the answers of children are recorded
	PartsLogged     Point = "parts.logged"     // and after
	HoldAnswering   Point = "hold.answering"   // in a child: it holds, but has not answered
	DecisionLogging Point = "decision.logging" // before the outcome is recorded
	DecisionLogged  Point = "decision.logged"  // and after, before anybody is told
	DecisionTelling Point = "decision.telling" // before one child is told
	DecisionTold    Point = "decision.told"    // it has answered, and that is not recorded
	VerdictLogging  Point = "verdict.logging"  // in a child: it has the decision, but has not recorded it
	VerdictLogged   Point = "verdict.logged"   // and after, before it answers
	AckLogging      Point = "ack.logging"      // before a child's acknowledgement is recorded
	AckLogged       Point = "ack.logged"       // and after
	QuestionAsking  Point = "question.asking"  // before a child asks for the decision of a hold
	QuestionLogging Point = "question.logging" // it knows, and has not recorded it
	AttemptAborting Point = "attempt.aborting" // before a new leader ends what an old one began
	AttemptAborted  Point = "attempt.aborted"  // and after
)

// The points of releases, of instances, and of reports of children about them.
const (
	ReleaseLogging Point = "release.logging" // before the release of a reservation is recorded
	ReleaseLogged  Point = "release.logged"  // and after, before anybody is told
	DeleteLogging  Point = "delete.logging"  // before the end of one instance is recorded
	DeleteLogged   Point = "delete.logged"   // and after
	MoveLogging    Point = "move.logging"    // before an instance is taken to another host
	MoveLogged     Point = "move.logged"     // and after: it has room there, but has not been stopped here
	EndTelling     Point = "end.telling"     // before a child is told to end one instance
	EndTold        Point = "end.told"        // it has answered, and that is not recorded
	ReportLogging  Point = "report.logging"  // before the report of an agent is recorded
	ReportLogged   Point = "report.logged"   // and after, before the agent gets an answer
	FollowLogging  Point = "follow.logging"  // before a child's report on instances is recorded
	FollowLogged   Point = "follow.logged"   // and after
)

// The points of deliveries to webhooks.
const (
	WebhookSending Point = "webhook.sending" // before an event is sent
	WebhookSent    Point = "webhook.sent"    // the other side has answered, and that is not recorded
	WebhookLogging Point = "webhook.logging" // before it is recorded how far deliveries are
	WebhookLogged  Point = "webhook.logged"  // and after
)

// The points of leases. Their room is held and decided at the points of boots.
const (
	LeaseLogging  Point = "lease.logging"  // before a lease is recorded, with the order for its room
	LeaseLogged   Point = "lease.logged"   // and after, before the caller gets an answer
	ChangeLogging Point = "change.logging" // before an update of a lease is recorded
	ChangeLogged  Point = "change.logged"  // and after
	EndLogging    Point = "end.logging"    // before the end of a lease that its owner wants is recorded
	EndLogged     Point = "end.logged"     // and after
	TickLogging   Point = "tick.logging"   // before time is moved on because something of a lease is due
	TickLogged    Point = "tick.logged"    // and after: it has happened
)

// The points of telling the external service of leases that one has ended.
const (
	LeaseEndTelling Point = "lease.end.telling" // before it is told
	LeaseEndTold    Point = "lease.end.told"    // it has answered, and that is not recorded
	LeaseEndLogging Point = "lease.end.logging" // before it is recorded
	LeaseEndLogged  Point = "lease.end.logged"  // and after
)

// The points of booting preempted instances again. The new boot goes the way of all boots.
const (
	RequeueLogging Point = "requeue.logging" // room is found, or none, and that is not recorded
	RequeueLogged  Point = "requeue.logged"  // and after: the new boot is recorded, or the try
)

// The points of the disk.
const (
	LogWriting      Point = "log.writing"      // before entries are written
	LogWritten      Point = "log.written"      // and after: durable, but not acknowledged
	VoteWriting     Point = "vote.writing"     // before a term or a vote is written
	VoteWritten     Point = "vote.written"     // and after
	TruncateWriting Point = "truncate.writing" // before entries are removed from the log
	TruncateWritten Point = "truncate.written" // and after
	SnapshotWriting Point = "snapshot.writing" // before the state is written
	SnapshotWritten Point = "snapshot.written" // it is written under a temporary name
	SnapshotKept    Point = "snapshot.kept"    // it has its name; the old ones are still there
	RestoreLoading  Point = "restore.loading"  // before a state is read from a snapshot or a backup
	RestoreLoaded   Point = "restore.loaded"   // and after, before it is used
)

// The points of an agent.
const (
	AgentStarting  Point = "agent.starting"  // before an instance is started
	AgentStarted   Point = "agent.started"   // it runs, but is not reported
	AgentStopping  Point = "agent.stopping"  // before an instance is stopped
	AgentStopped   Point = "agent.stopped"   // nothing is left of it, but this is not reported
	AgentReporting Point = "agent.reporting" // before a report is sent
	AgentReported  Point = "agent.reported"  // the zone has acknowledged, but that is not recorded
)

// The points of the removal of a node.
const (
	RemovalLogging Point = "removal.logging" // it is no member any more, but on record
	RemovalLogged  Point = "removal.logged"  // and its record is deleted
)

// Points returns every point of a node but those of removals, webhooks, leases and preempted instances, in the
// order of a boot's life, and then those of the disk.
func Points() []Point {
	return []Point{
		BootLogging, BootLogged, SelectPlanning, SelectPlanned, SelectSealed, HoldLogging, HoldLogged, HoldAsking, HoldAsked,
		PartsLogging, PartsLogged, HoldAnswering, DecisionLogging, DecisionLogged, DecisionTelling, DecisionTold,
		VerdictLogging, VerdictLogged, AckLogging, AckLogged, QuestionAsking, QuestionLogging, AttemptAborting, AttemptAborted,
		ReleaseLogging, ReleaseLogged, DeleteLogging, DeleteLogged, MoveLogging, MoveLogged, EndTelling, EndTold, ReportLogging, ReportLogged,
		FollowLogging, FollowLogged,
		LogWriting, LogWritten, VoteWriting, VoteWritten, TruncateWriting, TruncateWritten,
		SnapshotWriting, SnapshotWritten, SnapshotKept, RestoreLoading, RestoreLoaded,
	}
}

// WebhookPoints returns every point of deliveries to webhooks, on a leader.
func WebhookPoints() []Point {
	return []Point{WebhookSending, WebhookSent, WebhookLogging, WebhookLogged}
}

// LeasePoints returns every point of leases.
func LeasePoints() []Point {
	return []Point{LeaseLogging, LeaseLogged, ChangeLogging, ChangeLogged, EndLogging, EndLogged, TickLogging, TickLogged}
}

// RequeuePoints returns every point of booting preempted instances again, on a leader.
func RequeuePoints() []Point { return []Point{RequeueLogging, RequeueLogged} }

// LeaseEndPoints returns every point of telling the ends of leases, on a leader.
func LeaseEndPoints() []Point {
	return []Point{LeaseEndTelling, LeaseEndTold, LeaseEndLogging, LeaseEndLogged}
}

// AgentPoints returns every point of an agent.
func AgentPoints() []Point {
	return []Point{AgentStarting, AgentStarted, AgentStopping, AgentStopped, AgentReporting, AgentReported}
}

// Hook is called with each point that is reached, from the goroutine that reached
// it; it need not return. It must be safe for concurrent use. Nil does nothing.
type Hook func(Point)

// At calls the hook for a point.
func (h Hook) At(p Point) {
	if h != nil {
		h(p)
	}
}
