package state

import (
	"time"

	"berth/api"
)

// The state is a tower of books, each on top of the one that it embeds:
//
//	audit      audit.go      who made which change
//	events     events.go     what entries did, for those who watch
//	leases     leases*.go    leases that were made at this zone, and what is due
//	boots      boots*.go     reservations that were made at this zone; a boot owns holds
//	saga       saga*.go      holds for an owner until it decides, and used plans
//	work       work*.go      instances, server groups, members of rules
//	bindings   bindings.go   where new work of projects goes, and where it went
//	quotas     quotas*.go    limits of projects, and what they have over time
//	stock      stock*.go     hosts and other providers, aggregates, consumers, the host table
//	members    members*.go   nodes, tokens, flavors, links, keys, settings
//
// Each book has its type, its tables, its sections of a snapshot and its commands in the file
// with its name alone. It owns its tables: only it changes them. It reads the books below and
// calls their methods, and cannot reach those above; those take up its facts when the command
// is done (facts.go). What needs several books is in the other files, with State.

// entry is the bottom of the tower: what every book knows of the command that is applied.
type entry struct {
	index uint64
	now   api.Instant
	form  api.Form // the newest of all entries so far

	limits  *limits // of the command that is applied
	touched []Topic // by this command
	facts   []fact  // of this command, that no book above has taken up yet
	idle    bool    // this command has changed nothing that the audit log records
}

// Index returns the log index of the last command that was applied.
func (s *entry) Index() uint64 { return s.index }

// Now returns the zone's time: the latest time of any command. It never falls.
func (s *entry) Now() api.Instant { return s.now }

// Form returns the newest form of all entries so far. A node that does not read it cannot
// be in the zone.
func (s *entry) Form() api.Form { return s.form }

// LeaseLead returns how far ahead a lease of a parent may start.
func (s *entry) LeaseLead() time.Duration { return limitsAt(s.form).leaseLead }

// addFact leaves a fact for the books above.
func (s *entry) addFact(f fact) { s.facts = append(s.facts, f) }
