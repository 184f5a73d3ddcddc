// Package promise names the promises of a zone, for reports of violations.
package promise

// Name names one promise.
type Name string

// The promises, and what else can be wrong with evidence of a run.
const (
	Capacity   Name = "I1 capacity"      // use above capacity at some instant of a window
	Shrink     Name = "I1b shrink"       // a claim on a host that is over-full
	Generation Name = "I2 generation"    // a generation did not rise by one, or a stale writer had its way
	Durable    Name = "I3 durability"    // something acknowledged is missing
	Agree      Name = "I4 agreement"     // nodes of one zone differ, or a restored state does
	Ghost      Name = "I5 no ghost"      // a refused change has happened
	Once       Name = "I6 at most once"  // an instance id was claimed or ran twice
	Exactly    Name = "I7 exactly once"  // a wanted instance does not run, or an unwanted one does
	Saga       Name = "I8 saga"          // a boot is neither whole nor gone
	Repeat     Name = "I9 idempotency"   // a repeat got a different answer
	Plan       Name = "I12 plan once"    // a plan was used twice
	PlanAge    Name = "I13 plan age"     // a plan was used after its expiry
	Read       Name = "I18 reads"        // a read shows an impossible state
	Fence      Name = "I19 fencing"      // an agent's term went down
	Time       Name = "I21 time"         // a zone's time fell
	Progress   Name = "I23 progress"     // an operation does not end
	Bound      Name = "I24 rules"        // members of a rule are on hosts that it forbids
	Move       Name = "I25 moves"        // an instance moves that must not, or is started before it has stopped
	Window     Name = "I26 window"       // room was taken for a parent at another time than now, or of another class than firm
	Lease      Name = "I27 leases"       // a lease has half of its room, or takes a step twice or out of order
	Within     Name = "I28 within"       // something is in the room of a lease that may not be there
	Quota      Name = "I29 quotas"       // a project has more than it may, at some instant
	Preempt    Name = "I30 preemptibles" // a preemptible stays in the room of others, or leaves without need
	Binding    Name = "I31 bindings"     // a project is bound to two zones for one key, or to one that nobody chose
	Volume     Name = "I32 volumes"      // a volume is attached to what may not have it, or goes while it is
	Share      Name = "I33 shares"       // a parent has more than its share, or is counted wrongly
	Authority  Name = "I34 authorities"  // an authority is trusted, used or dropped before or after it should be
	Power      Name = "I35 power"        // an instance is stopped or run again without an order of its owner, or not with one
	Model      Name = "model"            // the state differs from the model in a way that no other rule names
	Input      Name = "input"            // the evidence has a gap or cannot be read
	Undecided  Name = "undecided"        // a checker ran out of time
	Traffic    Name = "too little"       // the run proves too little
)
