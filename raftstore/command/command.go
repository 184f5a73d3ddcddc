// Package command is the language of the replicated log: what a zone may agree
// on. An entry is a kind byte, a version byte and a CBOR body with integer keys.
//
// The proposer fills in time, identifiers and randomness; the state machine asks
// for none. Kinds are numbered by hand, appended and never reused: golden bytes
// in testdata hold each one, because a changed byte makes old logs unreadable.
// The package knows nothing of what a command does to the state.
package command

import (
	"fmt"

	"berth/api"
	"berth/internal/codec"
)

// Kind says which command an entry holds.
type Kind uint8

// The kinds. Append only.
const (
	KindInit            Kind = 1
	KindNodePut         Kind = 2
	KindNodeRemove      Kind = 3
	KindConfigSet       Kind = 4
	KindTokenPut        Kind = 5
	KindTokenDelete     Kind = 6
	KindJoinPut         Kind = 7
	KindJoinUse         Kind = 8
	KindFlavorPut       Kind = 9
	KindFlavorDelete    Kind = 10
	KindEpochAdd        Kind = 11
	KindLinkPut         Kind = 12
	KindLinkSet         Kind = 13
	KindLinkDelete      Kind = 14
	KindHostsPut        Kind = 15
	KindHostsState      Kind = 16
	KindHostSet         Kind = 17
	KindHostDelete      Kind = 18
	KindBootCreate      Kind = 19
	KindHold            Kind = 20
	KindHoldParts       Kind = 21
	KindHoldDecide      Kind = 22
	KindBootDecide      Kind = 23
	KindBootRelease     Kind = 24
	KindPartAck         Kind = 25
	KindInstanceDelete  Kind = 26
	KindInstanceReport  Kind = 27
	KindInstanceChanges Kind = 28
	KindInstanceTold    Kind = 29
	KindPrune           Kind = 30
	KindRestored        Kind = 31
	KindRestore         Kind = 32
	KindSchedulerSet    Kind = 33
	KindAggregatePut    Kind = 34
	KindAggregateDelete Kind = 35
	KindGroupPut        Kind = 36
	KindGroupDelete     Kind = 37
	KindInstanceMove    Kind = 38
	KindProviderCreate  Kind = 39
	KindProviderSet     Kind = 40
	KindProviderDelete  Kind = 41
	KindConsumersPut    Kind = 42
	KindConsumerDelete  Kind = 43
	KindClassPut        Kind = 44
	KindClassDelete     Kind = 45
	KindTraitPut        Kind = 46
	KindTraitDelete     Kind = 47
)

// version is the version of every body so far.
const version = 1

// Command is one thing that a zone may agree on. The set is closed.
//
//sumtype:decl
type Command interface {
	// Kind names the command in the log.
	Kind() Kind
	// Time is when the proposer made it, by its own clock.
	Time() api.Instant
	sealed()
}

// Stamp is the part that all commands share.
type Stamp struct {
	At api.Instant `cbor:"1,keyasint"`
}

// Time returns At.
func (s Stamp) Time() api.Instant { return s.At }

func (Stamp) sealed() {}

// Encode returns the bytes of one entry.
func Encode(c Command) ([]byte, error) {
	if p, ok := c.(ProviderSet); ok {
		c = p.whole()
	}
	body, err := codec.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encoding command kind %d: %w", c.Kind(), err)
	}
	return append([]byte{byte(c.Kind()), version}, body...), nil
}

// Decode reads what Encode wrote. An unknown kind or version, or a body that
// does not fit, is an error on which the node must stop: an entry is never
// skipped.
func Decode(b []byte) (Command, error) {
	if len(b) < 2 {
		return nil, fmt.Errorf("command of %d bytes is cut short", len(b))
	}
	read, known := readers[Kind(b[0])]
	if !known || b[1] != version {
		return nil, fmt.Errorf("command kind %d version %d is unknown; this node is older than the log", b[0], b[1])
	}
	c, err := read(b[2:])
	if err != nil {
		return nil, fmt.Errorf("command kind %d: %w", b[0], err)
	}
	return c, nil
}

func reader[T Command](b []byte) (Command, error) {
	var c T
	if err := codec.Unmarshal(b, &c); err != nil {
		return nil, err
	}
	return c, nil
}

var readers = map[Kind]func([]byte) (Command, error){
	KindInit:            reader[Init],
	KindNodePut:         reader[NodePut],
	KindNodeRemove:      reader[NodeRemove],
	KindConfigSet:       reader[ConfigSet],
	KindTokenPut:        reader[TokenPut],
	KindTokenDelete:     reader[TokenDelete],
	KindJoinPut:         reader[JoinPut],
	KindJoinUse:         reader[JoinUse],
	KindFlavorPut:       reader[FlavorPut],
	KindFlavorDelete:    reader[FlavorDelete],
	KindEpochAdd:        reader[EpochAdd],
	KindLinkPut:         reader[LinkPut],
	KindLinkSet:         reader[LinkSet],
	KindLinkDelete:      reader[LinkDelete],
	KindHostsPut:        reader[HostsPut],
	KindHostsState:      reader[HostsState],
	KindHostSet:         reader[HostSet],
	KindHostDelete:      reader[HostDelete],
	KindBootCreate:      reader[BootCreate],
	KindHold:            reader[Hold],
	KindHoldParts:       reader[HoldParts],
	KindHoldDecide:      reader[HoldDecide],
	KindBootDecide:      reader[BootDecide],
	KindBootRelease:     reader[BootRelease],
	KindPartAck:         reader[PartAck],
	KindInstanceDelete:  reader[InstanceDelete],
	KindInstanceReport:  reader[InstanceReport],
	KindInstanceChanges: reader[InstanceChanges],
	KindInstanceTold:    reader[InstanceTold],
	KindPrune:           reader[Prune],
	KindRestored:        reader[Restored],
	KindRestore:         reader[Restore],
	KindSchedulerSet:    reader[SchedulerSet],
	KindAggregatePut:    reader[AggregatePut],
	KindAggregateDelete: reader[AggregateDelete],
	KindGroupPut:        reader[GroupPut],
	KindGroupDelete:     reader[GroupDelete],
	KindInstanceMove:    reader[InstanceMove],
	KindProviderCreate:  reader[ProviderCreate],
	KindProviderSet:     reader[ProviderSet],
	KindProviderDelete:  reader[ProviderDelete],
	KindConsumersPut:    reader[ConsumersPut],
	KindConsumerDelete:  reader[ConsumerDelete],
	KindClassPut:        reader[ClassPut],
	KindClassDelete:     reader[ClassDelete],
	KindTraitPut:        reader[TraitPut],
	KindTraitDelete:     reader[TraitDelete],
}
