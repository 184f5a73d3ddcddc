package state

import (
	"encoding/hex"
	"fmt"
	"strings"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state/table"
)

// auditBook has who changed what in the zone, as a chain of sums.
type auditBook struct {
	eventsBook

	audit table.Log[*api.AuditRecord]
	chain *auditChain // never changed in place; nil before the first record was dropped

	auditing *auditing // who proposed the next commands of this entry; nil for nobody
}

// auditChain is where the records that are kept begin.
type auditChain struct {
	Number uint64 `cbor:"1,keyasint"` // of the last record that was dropped
	Sum    []byte `cbor:"2,keyasint"`
}

// auditing is an audit command whose commands have not all been applied.
type auditing struct {
	by    command.Audit
	index uint64
	left  int
}

func (s *auditBook) tables(into []table.Table) []table.Table {
	return append(s.eventsBook.tables(into), &s.audit)
}

func (s *auditBook) sections() []section {
	chain := sectionOf("audit chain", s.chainRecord, func(c *auditChain) { s.chain = c })
	records := sectionOf("audit", s.audit.Values, func(r *api.AuditRecord) { s.audit.Append(r) })
	chain.form, records.form = api.FormFifth, api.FormFifth
	return append(s.eventsBook.sections(), chain, records)
}

func (s *auditBook) chainRecord() []*auditChain {
	if s.chain == nil {
		return nil
	}
	return []*auditChain{s.chain}
}

// apply applies a command that is for this book.
func (s *auditBook) apply(c command.ForAudit) Result {
	if c, ok := c.(command.Audit); ok {
		s.auditing = nil
		if c.Count > 0 {
			s.auditing = &auditing{by: c, index: s.index, left: c.Count}
			return Result{}
		}
		s.keepAudit(api.AuditRecord{Actor: c.Actor, Request: c.Request, Call: c.Call, Target: c.Target})
	}
	return Result{}
}

// auditOutcome records the outcome of a command, if somebody was named for it.
func (s *auditBook) auditOutcome(c command.Command, failed error) {
	a := s.auditing
	if _, begins := c.(command.ForAudit); begins || a == nil { // of nobody
		return
	}
	if s.auditing = nil; a.index != s.index {
		return
	}
	if a.left > 1 {
		s.auditing = &auditing{a.by, a.index, a.left - 1}
	}
	if failed == nil && s.idle || !s.hasAuditRoom(a.by.Actor) {
		return
	}
	r := api.AuditRecord{
		Actor: a.by.Actor, Request: a.by.Request, Call: a.by.Call,
		Change: strings.TrimPrefix(fmt.Sprintf("%T", c), "command."), Target: auditTarget(c),
	}
	if failed != nil {
		r.Outcome = api.CodeOf(failed)
	}
	s.keepAudit(r)
}

// hasAuditRoom reports whether an actor may have one more record: an agent and a linked zone have
// at most some of those that are kept, so that they cannot push out all others.
func (s *auditBook) hasAuditRoom(by api.AuditActor) bool {
	if by.Kind != api.ActorAgent && by.Kind != api.ActorLink {
		return true
	}
	n := 0
	for _, r := range s.audit.Values() {
		if r.Actor == by {
			n++
		}
	}
	return n < s.limits.auditParty
}

// keepAudit appends a record, and drops the oldest beyond the limit.
func (s *auditBook) keepAudit(r api.AuditRecord) {
	if s.limits.audit == 0 {
		return
	}
	last := s.lastAudit()
	r.Number, r.Index, r.At = last.Number+1, s.index, s.now
	r.Sum = r.SumAfter(last.Sum)
	s.audit.Append(&r)
	if n := s.audit.Len() - s.limits.audit; n > 0 {
		dropped := s.audit.Values()[n-1]
		s.chain = &auditChain{dropped.Number, dropped.Sum}
		s.audit.DropFirst(n)
	}
}

// lastAudit returns number and sum of the newest record.
func (s *auditBook) lastAudit() auditChain {
	if all := s.audit.Values(); len(all) > 0 {
		newest := all[len(all)-1]
		return auditChain{newest.Number, newest.Sum}
	}
	if s.chain != nil {
		return *s.chain
	}
	return auditChain{}
}

// continueAudit takes over the records of another state of the same zone, which are newer.
func (s *auditBook) continueAudit(from *auditBook) {
	if from.lastAudit().Number > s.lastAudit().Number {
		s.audit, s.chain = from.audit, from.chain
	}
}

// Audit returns the records of the audit log that are kept, oldest first, and the sum of the
// record before them, nil if there was none.
func (s *auditBook) Audit() (records []*api.AuditRecord, before []byte) {
	if s.chain != nil {
		before = s.chain.Sum
	}
	return s.audit.Values(), before
}

// auditTarget returns what a command concerns, where the path of its call does not say it.
func auditTarget(c command.Command) string {
	switch c := c.(type) { //nolint:gochecksumtype // the path of the call names what the others concern
	case command.NodePut:
		return string(c.Node.ID)
	case command.FormRaise:
		return c.To.String()
	case command.NodeRemove:
		return string(c.ID)
	case command.TokenPut:
		return string(c.Token.ID)
	case command.RoleSet:
		return string(c.Role.Name)
	case command.JoinPut:
		return string(c.Token.Kind) + " " + c.Token.Name
	case command.JoinUse:
		return string(c.ID)
	case command.FlavorPut:
		return string(c.Flavor.ID)
	case command.EpochAdd:
		return hex.EncodeToString(c.Epoch.ID)
	case command.LinkPut:
		return c.Link.Name + " " + string(c.Link.Zone)
	case command.LinkSet:
		return string(c.ID)
	case command.LinkPin:
		return linkPinTarget(&c)
	case command.CAAdd:
		return string(api.FingerprintOf(c.Cert))
	case command.CAUse:
		return string(c.New)
	case command.CADrop:
		return string(c.Old)
	case command.HostsPut:
		return hostsTarget(&c)
	case command.ProviderCreate:
		return c.Name
	case command.ClassPut:
		return string(c.Name)
	case command.AggregatePut:
		return c.Aggregate.Name
	case command.QuotaSet:
		return string(c.Project)
	}
	return ""
}

// linkPinTarget names a link, and the newest authority that it has.
func linkPinTarget(c *command.LinkPin) string {
	if len(c.Pins) == 0 {
		return string(c.ID)
	}
	return string(c.ID) + " " + string(api.FingerprintOf(c.Pins[len(c.Pins)-1]))
}

// hostsTarget names as many of the hosts that an agent has registered as fit into a record.
func hostsTarget(c *command.HostsPut) string {
	var b strings.Builder
	for i, e := range c.Hosts {
		if b.Len()+len(e.Host.Name)+1 > api.AuditCallMaxBytes {
			fmt.Fprintf(&b, " and %d more", len(c.Hosts)-i)
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(e.Host.Name)
	}
	return b.String()
}
