package rest

import (
	"encoding/hex"
	"fmt"
	"time"

	"berth/api"
)

// AuditRecord is one change by an operator, or an attempt, and its outcome.
type AuditRecord struct {
	Number  uint64        `json:"number"` // from 1, without gaps
	Index   uint64        `json:"index"`  // of the log entry
	At      api.Instant   `json:"at"`
	Actor   AuditActor    `json:"actor"`
	Request api.RequestID `json:"request_id,omitempty"`
	Call    string        `json:"call,omitempty"`   // method and path
	Change  string        `json:"change,omitempty"` // kind of the change in the log
	Target  string        `json:"target,omitempty"` // what it concerns, where call does not say it
	Outcome string        `json:"outcome"`          // done, or the code of the refusal
	Before  string        `json:"before"`           // sum of the record before this one, in hex; empty for the first
	Sum     string        `json:"sum"`              // SHA-256 of this record and of before, in hex
}

// AuditActor is who made a change.
type AuditActor struct {
	Kind    api.ActorKind `json:"kind"` // token, join, node, agent, link or zone
	ID      string        `json:"id,omitempty"`
	User    api.UserID    `json:"user,omitempty"`
	Project api.ProjectID `json:"project,omitempty"`
}

// outcomeDone is the outcome of what was not refused.
const outcomeDone = "done"

// AuditRecordOf returns the body of a record that follows one with the sum before.
func AuditRecordOf(r *api.AuditRecord, before []byte) AuditRecord {
	out := AuditRecord{
		Number: r.Number, Index: r.Index, At: r.At, Actor: AuditActor(r.Actor), Request: r.Request,
		Call: r.Call, Change: r.Change, Target: r.Target, Outcome: outcomeDone,
		Before: hex.EncodeToString(before), Sum: hex.EncodeToString(r.Sum),
	}
	if r.Outcome != "" {
		out.Outcome = string(r.Outcome)
	}
	return out
}

// Check returns an error unless the sum of r is that of its content, and, if last is not nil,
// r is the record after last.
func (r *AuditRecord) Check(last *AuditRecord) error {
	before, err := hex.DecodeString(r.Before)
	if err != nil {
		return fmt.Errorf("record %d: before is not hex", r.Number)
	}
	whole := api.AuditRecord{
		Number: r.Number, Index: r.Index, At: r.At, Actor: api.AuditActor(r.Actor), Request: r.Request,
		Call: r.Call, Change: r.Change, Target: r.Target,
	}
	if r.Outcome != outcomeDone {
		whole.Outcome = api.Code(r.Outcome)
	}
	switch {
	case hex.EncodeToString(whole.SumAfter(before)) != r.Sum:
		return fmt.Errorf("record %d of %s does not have its sum: it was changed", r.Number, r.At.Time().Format(time.RFC3339))
	case last != nil && (r.Number != last.Number+1 || r.Before != last.Sum):
		return fmt.Errorf("record %d does not follow record %d: some were taken out, put in or put in another order", r.Number, last.Number)
	}
	return nil
}
