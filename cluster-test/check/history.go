package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"berth/api"
	"berth/api/client"
)

// Kind is the kind of a client's operation.
type Kind string

// The kinds of operations.
const (
	HostSet     Kind = "host.set"     // enable or disable a host, with a generation or without
	HostRead    Kind = "host.read"    // a linearizable read of a host
	BootAsk     Kind = "boot.ask"     // boot, or repeat a boot
	BootRead    Kind = "boot.read"    // a linearizable read of a reservation
	BootRelease Kind = "boot.release" // release a whole reservation

	ProviderSet   Kind = "provider.set"   // replace the inventory of a provider, with a generation
	ProviderRead  Kind = "provider.read"  // a linearizable read of what is in use of it
	ProviderClaim Kind = "provider.claim" // claim for a new consumer
	ProviderSwap  Kind = "provider.swap"  // claim, or free with an amount below 0, at a generation of the provider
	ProviderFree  Kind = "provider.free"  // delete the allocations of a consumer

	LeaseCreate Kind = "lease.create" // create a lease of one reservation, or repeat that with its key
	LeaseUpdate Kind = "lease.update" // give a lease another end, or its reservation another amount
	LeaseDelete Kind = "lease.delete" // delete a lease
	LeaseRead   Kind = "lease.read"   // a linearizable read of a lease

	ZoneBackup  Kind = "zone.backup"  // save a backup of a zone, which Key names
	ZoneRestore Kind = "zone.restore" // restore the newest backup of a zone
)

// isRead reports whether an operation of this kind changes nothing.
func (k Kind) isRead() bool {
	return k == HostRead || k == BootRead || k == ProviderRead || k == LeaseRead
}

// Outcome is a client's knowledge of its call.
type Outcome string

// The outcomes.
const (
	OK      Outcome = "ok"
	Refused Outcome = "refused" // for certain: nothing was changed
	Unknown Outcome = "unknown" // no answer, or one that leaves it open
)

// Op is one call of one client. Times are nanoseconds of one monotonic clock.
//
// A HostRead, BootRead or LeaseRead has Local false only if it was linearizable: over HTTP a
// GET with ?read=linearizable, as client.Linearizable makes it; in the process of
// the node Store.Linearizable or zone.Latest. Every other GET is answered from the
// node's own view, whatever the node: it is recorded with Local true, Node, and as
// Index the header Berth-Index, which of a boot is also its own field "index".
// What is written to the log is linearizable as well: a HostSet with a generation
// that no host has is refused and tells the generation (its own message names
// it), a repeat of BootAsk tells the reservation id, and a DELETE answers with a
// boot of a view that holds the release.
//
// After an attempt of unknown outcome, the refusal of the next one proves nothing: a
// client that repeats calls by itself says so; see client.RefusedError.
type Op struct {
	Client  int     `json:"client"`
	Call    int64   `json:"call"`
	Return  int64   `json:"return,omitempty"` // not used when the outcome is unknown
	Kind    Kind    `json:"kind"`
	Zone    string  `json:"zone"`
	In      Input   `json:"in"`
	Out     Output  `json:"out"`
	Outcome Outcome `json:"outcome"`

	Local bool   `json:"local,omitempty"` // a read of a node's own view
	Node  string `json:"node,omitempty"`  // names one process: a node that was started again has another name
	Index uint64 `json:"index,omitempty"` // of a local read: the log index of its view
}

// Input is the request of a client. Host is for HostSet and HostRead, Provider and Lease for the
// kinds that begin with it; the others name a boot by Project and Reservation (of the
// caller's choice), or Key, or both. A ZoneBackup and a ZoneRestore name a backup by Key. A LeaseCreate has no Lease: its answer does. 0 as the Amount or End
// of a LeaseUpdate leaves what is there.
type Input struct {
	Provider    api.ProviderID    `json:"provider,omitempty"`
	Amount      int64             `json:"amount,omitempty"` // of a claim, a release, a lease, or in all
	Lease       api.LeaseID       `json:"lease,omitempty"`
	End         api.Instant       `json:"end,omitempty"` // of a lease; of whole minutes
	Host        api.HostID        `json:"host,omitempty"`
	Generation  uint64            `json:"generation,omitempty"` // 0 for any
	Enabled     bool              `json:"enabled,omitempty"`
	Project     api.ProjectID     `json:"project,omitempty"`
	Reservation api.ReservationID `json:"reservation,omitempty"`
	Key         string            `json:"key,omitempty"`    // Idempotency-Key
	Digest      string            `json:"digest,omitempty"` // distinguishes requests
}

// Output is the answer to a client.
type Output struct {
	Code        api.Code          `json:"code,omitempty"`       // of a refusal
	Generation  uint64            `json:"generation,omitempty"` // of a read, an update, or a stale_generation; 0: unknown
	Enabled     bool              `json:"enabled,omitempty"`
	Amount      int64             `json:"amount,omitempty"` // in use of a provider, or of a lease
	Lease       api.LeaseID       `json:"lease,omitempty"`
	End         api.Instant       `json:"end,omitempty"`    // of a lease
	Status      api.LeaseStatus   `json:"status,omitempty"` // of a lease
	Used        api.Resources     `json:"used,omitempty"`   // of a host read
	Reservation api.ReservationID `json:"reservation,omitempty"`
	State       api.BootState     `json:"state,omitempty"`
}

// isUndone reports whether the zone could not carry out the call at that time: nothing was
// changed, and nothing was learned.
func (op *Op) isUndone() bool { return op.Outcome == Refused && op.Out.Code == api.CodeUnavailable }

// OutcomeOf returns a client's knowledge after err. Codes that may also come from the way
// to the zone leave the outcome open: a call counts as refused with unavailable only if
// the zone itself has answered so.
func OutcomeOf(err error) Outcome {
	if r, refused := errors.AsType[*client.RefusedError](err); refused && r.Unsure {
		return Unknown
	}
	switch api.CodeOf(err) {
	case "":
		return OK
	case api.CodeInvalid, api.CodeUnauthenticated, api.CodeForbidden, api.CodeOverQuota, api.CodeNotFound, api.CodeMethod, api.CodeSlow, api.CodeConflict,
		api.CodeStale, api.CodeExists, api.CodeInUse, api.CodeHasChildren, api.CodeTooLarge, api.CodeMediaType, api.CodePlanRefused,
		api.CodeNoCapacity, api.CodeContended, api.CodePaused, api.CodeUnreached, api.CodeOverloaded:
		return Refused
	case api.CodeUnavailable:
		if client.Undone(err) {
			return Refused
		}
	case api.CodeTimeout, api.CodeInternal:
	}
	return Unknown
}

// Recorder records the operations of clients, and writes each as one line of JSON when it
// has ended. It may be used from several goroutines.
type Recorder struct {
	now func() int64

	mu   sync.Mutex // guards the fields below
	to   *json.Encoder
	ops  []Op
	open map[*Pending]bool
	err  error // of the first line that could not be written
}

// Pending is a call that has not returned.
type Pending struct {
	r  *Recorder
	op Op
}

// NewRecorder returns a recorder that reads the time, in nanoseconds that never
// fall, from now, and writes to w, which may be nil.
func NewRecorder(now func() int64, w io.Writer) *Recorder {
	r := &Recorder{now: now, open: map[*Pending]bool{}}
	if w != nil {
		r.to = json.NewEncoder(w)
	}
	return r
}

// Begin records that a client makes a call now. Call, Return, Out and Outcome of op
// are not used.
func (r *Recorder) Begin(op Op) *Pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	op.Call, op.Return, op.Out, op.Outcome = r.now(), 0, Output{}, Unknown
	p := &Pending{r, op}
	r.open[p] = true
	return p
}

// End records that the call returned now. A second End changes nothing.
func (p *Pending) End(outcome Outcome, out Output) {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.op.Return, p.op.Out, p.op.Outcome = p.r.now(), out, outcome
	p.r.endPending(p)
}

// Drop removes the call: it certainly did nothing and never will, and got no information.
func (p *Pending) Drop() {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	delete(p.r.open, p)
}

// EndLocal is End for a local read that was answered by node at a log index.
func (p *Pending) EndLocal(outcome Outcome, out Output, node string, index uint64) {
	p.r.mu.Lock()
	p.op.Local, p.op.Node, p.op.Index = true, node, index
	p.r.mu.Unlock()
	p.End(outcome, out)
}

func (r *Recorder) endPending(p *Pending) {
	if !r.open[p] {
		return
	}
	delete(r.open, p)
	r.ops = append(r.ops, p.op)
	if r.to != nil && r.err == nil {
		r.err = r.to.Encode(p.op)
	}
}

// Close ends every open call with an unknown outcome and returns all operations
// in order of their calls, and the error of the first line that could not be
// written.
func (r *Recorder) Close() ([]Op, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.open {
		r.endPending(p)
	}
	ops := slices.Clone(r.ops)
	sortOps(ops)
	if r.err != nil {
		return ops, fmt.Errorf("writing the history: %w", r.err)
	}
	return ops, nil
}

func sortOps(ops []Op) {
	slices.SortStableFunc(ops, func(a, b Op) int { return int(min(1, max(-1, a.Call-b.Call))) })
}
