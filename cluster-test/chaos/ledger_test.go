//go:build chaos

package chaos

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/cluster-test/check"
	"berth/internal/crash"
)

// totals is what a run did, over all campaigns. docs/ledger.md says what each count
// means, by these names.
type totals struct {
	mu sync.Mutex // guards what follows

	Writes       int `json:"writes"`        // acknowledged, and looked for afterwards
	Reads        int `json:"reads"`         // with an answer, linearizable; without those of hosts
	HostReads    int `json:"host_reads"`    // the same of hosts, which check little
	LocalReads   int `json:"local_reads"`   // with an answer, of a node's own view
	Refusals     int `json:"refusals"`      // writes that were provoked to be refused, and were
	Unknown      int `json:"unknown"`       // writes of which nobody was told what came of them
	UnknownReads int `json:"unknown_reads"` // without an answer: nothing is checked of them
	Outcomes     int `json:"outcomes"`      // reservations that came to be whole or gone after a cut
	Boots        int `json:"boots"`         // reservations whose boot was acknowledged; of Writes
	Probes       int `json:"probes"`        // acknowledged writes of probers; not of Writes

	Faults      map[string]int      `json:"faults"`      // events, by kind
	Hit         map[string]int      `json:"hit"`         // machines that they took away, by kind
	Overlapping int                 `json:"overlapping"` // events while another fault was there
	Lasting     []time.Duration     `json:"lasting"`     // stalls and vanished machines of long, in ns
	Sagas       int                 `json:"sagas_cut"`   // begun and not over on the disk of a process that ended at a point
	Points      map[crash.Point]int `json:"points"`      // processes that ended there
	Moved       int                 `json:"moved"`       // instances that came to another host

	GatewayBytes int64           `json:"gateway_bytes"` // that left children and were scanned
	Failover     []time.Duration `json:"failover"`      // from the kill of a leader to the next acknowledged claim, in ns
	HungDisk     []time.Duration `json:"hung_disk"`     // from the hang of a leader's disk to the next, in ns
	Available    time.Duration   `json:"available"`     // in which a zone had to acknowledge, of all zones, in ns
	Silent       time.Duration   `json:"silent"`        // the longest of it without an acknowledged write, in ns
}

var sums = totals{Faults: map[string]int{}, Hit: map[string]int{}, Points: map[crash.Point]int{}}

// fault counts one event of a kind, and the machines that it took away.
func (s *totals) fault(kind string, machines int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Faults[kind]++
	if machines > 0 {
		s.Hit[kind] += machines
	}
}

// overlapped counts events while another fault was there.
func (s *totals) overlapped(events int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Overlapping += events
}

// lasted counts a fault that lasted.
func (s *totals) lasted(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d >= lastingMin {
		s.Lasting = append(s.Lasting, d.Round(time.Second))
	}
}

// available counts the time in which one zone had to acknowledge, and its longest
// without.
func (s *totals) available(judged time.Duration, longest []time.Duration, probes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Available += judged
	s.Probes += probes
	s.Silent = slices.Max(append(longest, s.Silent))
}

// history counts the operations of a history, each by what it was and what came of
// it.
func (s *totals) history(ops []check.Op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	booted := map[api.ReservationID]bool{}
	for _, op := range ops {
		read := op.Kind == check.HostRead || op.Kind == check.BootRead || op.Kind == check.ProviderRead
		switch {
		case read && op.Outcome == check.Unknown:
			s.UnknownReads++
		case op.Local:
			s.LocalReads++
		case op.Kind == check.HostRead:
			s.HostReads++
		case read:
			s.Reads++
		case op.Outcome == check.Refused:
			s.Refusals++
		case op.Outcome == check.Unknown:
			s.Unknown++
		default:
			s.Writes++
			if op.Kind == check.BootAsk {
				booted[op.In.Reservation] = true
			}
		}
	}
	s.Boots += len(booted)
}

// booted counts acknowledged boots that were looked for afterwards.
func (s *totals) booted(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Writes += n
	s.Boots += n
}

// acks counts calls that boot or release.
func (s *totals) acks(all []check.Ack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range all {
		switch a.Outcome {
		case check.OK:
			s.Writes++
			if a.Kind == check.AckBoot {
				s.Boots++
			}
		case check.Refused:
			s.Refusals++
		case check.Unknown:
			s.Unknown++
		}
	}
}

// outcome counts a reservation that came to be whole or gone.
func (s *totals) outcome() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Outcomes++
}

// moved counts n instances that came to another host.
func (s *totals) moved(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Moved += n
}

// cut counts a process that ended at a point, with so many sagas under way.
func (s *totals) cut(at crash.Point, sagas int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Points[at]++
	s.Sagas += sagas
	s.Faults["kill at a named point"]++
}

// sagas returns how many were cut.
func (s *totals) sagas() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Sagas
}

// operations returns the number of all that was checked.
func (s *totals) operations() int {
	return s.Writes + s.Reads + s.HostReads + s.LocalReads + s.Refusals + s.Outcomes
}

// events returns the number of all faults.
func (s *totals) events() int {
	n := 0
	for _, k := range slices.Sorted(maps.Keys(s.Faults)) {
		n += s.Faults[k]
	}
	return n
}

// row is the line of the ledger.
func (s *totals) row() string {
	slices.Sort(s.Failover)
	median := time.Duration(0)
	if n := len(s.Failover); n > 0 {
		median = s.Failover[n/2]
	}
	return fmt.Sprintf("| %s | chaos x%g | %d | %d | %d + %d + %d | %d | %d, %d kinds | %d | %d of %d | %d | %d | %d MB | %.1f s | %.1f s |",
		time.Now().UTC().Format(time.DateOnly), *scaleFlag, s.Writes, s.Boots, s.Reads, s.HostReads, s.LocalReads, s.Refusals,
		s.events(), len(s.Faults), s.Overlapping, s.Faults["power cut"], s.Hit["power cut"], s.Faults["damaged file"], s.Sagas,
		s.GatewayBytes>>20, median.Seconds(), s.Silent.Seconds())
}

// TestLedgerCounts holds what is counted as what.
func TestLedgerCounts(t *testing.T) {
	t.Parallel()
	s := &totals{Faults: map[string]int{}, Hit: map[string]int{}}
	s.fault("power cut", 3)
	s.fault("power cut", 1)
	s.fault("pause link", 0)
	assert.Equal(t, 3, s.events(), "events, not machines")
	assert.Equal(t, 4, s.Hit["power cut"])
	op := func(k check.Kind, o check.Outcome, id api.ReservationID) check.Op {
		return check.Op{Kind: k, Outcome: o, In: check.Input{Reservation: id}}
	}
	local := op(check.BootRead, check.OK, "a")
	local.Local = true
	s.history([]check.Op{
		op(check.BootAsk, check.OK, "a"), op(check.BootAsk, check.OK, "a"), op(check.BootAsk, check.OK, "b"), op(check.BootAsk, check.Unknown, "c"),
		op(check.BootRelease, check.OK, "a"), op(check.HostSet, check.Refused, ""), op(check.ProviderClaim, check.OK, ""),
		op(check.HostRead, check.OK, ""), op(check.HostRead, check.Unknown, ""), op(check.BootRead, check.Refused, "x"),
		op(check.ProviderRead, check.OK, ""), local,
	})
	assert.Equal(t, 5, s.Writes)
	assert.Equal(t, 2, s.Boots, "a repeat is no other boot")
	assert.Equal(t, 1, s.Unknown)
	assert.Equal(t, 1, s.Refusals)
	assert.Equal(t, 2, s.Reads, "that there is none is an answer")
	assert.Equal(t, 1, s.HostReads)
	assert.Equal(t, 1, s.LocalReads)
	assert.Equal(t, 1, s.UnknownReads)
	assert.Equal(t, 10, s.operations(), "what nobody was told is not checked")
	s.acks([]check.Ack{{Kind: check.AckBoot, Outcome: check.OK}, {Kind: check.AckRelease, Outcome: check.OK}, {Kind: check.AckBoot, Outcome: check.Refused}})
	s.booted(4)
	s.outcome()
	assert.Equal(t, 11, s.Writes)
	assert.Equal(t, 7, s.Boots)
	assert.Equal(t, 2, s.Refusals)
	assert.Equal(t, 18, s.operations())
}
