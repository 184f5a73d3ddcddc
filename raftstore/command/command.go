// Package command defines the entries of the replicated log. An entry is a kind byte, a form
// byte and a CBOR body with integer keys. The form is that of the zone when the entry was
// proposed: no entry is written in a form that a node of the zone does not read.
//
// The proposer fills in time, identifiers and randomness; the state machine has none of its
// own. Kinds are numbered by hand, appended and never reused. Golden bytes of each kind are
// in testdata, because a changed byte makes old logs unreadable. The package knows nothing
// of the effect of a command on the state.
package command

import (
	"fmt"

	"berth/api"
	"berth/internal/codec"
)

// Kind is the kind of command in an entry.
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
	KindLeaseCreate     Kind = 48
	KindLeaseSet        Kind = 49
	KindLeaseDelete     Kind = 50
	KindTick            Kind = 51
	KindWebhookPut      Kind = 52
	KindWebhookDelete   Kind = 53
	KindWebhookResume   Kind = 54
	KindWebhooksTold    Kind = 55
	KindPropertySet     Kind = 56
	KindQuotaSet        Kind = 57
	KindQuotaDelete     Kind = 58
	KindSeriesCreate    Kind = 59
	KindSeriesDelete    Kind = 60
	KindLeaseEndsTold   Kind = 61
	KindHostsSilent     Kind = 62
	KindRequeue         Kind = 63
	KindBindingSet      Kind = 64
	KindBindingEnd      Kind = 65
	KindVolumeAttach    Kind = 66
	KindVolumeDetach    Kind = 67
	KindAgentRevoke     Kind = 68
	KindAudit           Kind = 69
	KindKEKUse          Kind = 70
	KindTokensUsed      Kind = 71
	KindRoleSet         Kind = 72
	KindRoleDelete      Kind = 73
	KindLinkWriteOff    Kind = 74
	KindAgentRenew      Kind = 75
	KindCAAdd           Kind = 76
	KindCAUse           Kind = 77
	KindCADrop          Kind = 78
	KindLinkPin         Kind = 79
	KindAgentTrust      Kind = 80
	KindHostWriteOff    Kind = 81
	KindLinkRelink      Kind = 82
	KindLinkReconciled  Kind = 83
	KindFormRaise       Kind = 84
	KindInstancePower   Kind = 85
	KindLinkRestored    Kind = 86
)

// since has the form that introduced a kind, except for kinds of api.FormFirst.
var since = map[Kind]api.Form{
	KindLeaseCreate:    api.FormFourth,
	KindLeaseSet:       api.FormFourth,
	KindLeaseDelete:    api.FormFourth,
	KindTick:           api.FormFourth,
	KindWebhookPut:     api.FormFourth,
	KindWebhookDelete:  api.FormFourth,
	KindWebhookResume:  api.FormFourth,
	KindWebhooksTold:   api.FormFourth,
	KindPropertySet:    api.FormFourth,
	KindQuotaSet:       api.FormFourth,
	KindQuotaDelete:    api.FormFourth,
	KindSeriesCreate:   api.FormFourth,
	KindSeriesDelete:   api.FormFourth,
	KindLeaseEndsTold:  api.FormFourth,
	KindHostsSilent:    api.FormFourth,
	KindRequeue:        api.FormFifth,
	KindBindingSet:     api.FormFourth,
	KindBindingEnd:     api.FormFourth,
	KindVolumeAttach:   api.FormFourth,
	KindVolumeDetach:   api.FormFourth,
	KindAgentRevoke:    api.FormFifth,
	KindAudit:          api.FormFifth,
	KindKEKUse:         api.FormFifth,
	KindTokensUsed:     api.FormFifth,
	KindRoleSet:        api.FormFifth,
	KindRoleDelete:     api.FormFifth,
	KindLinkWriteOff:   api.FormFifth,
	KindAgentRenew:     api.FormFifth,
	KindCAAdd:          api.FormFifth,
	KindCAUse:          api.FormFifth,
	KindCADrop:         api.FormFifth,
	KindLinkPin:        api.FormFifth,
	KindAgentTrust:     api.FormFifth,
	KindHostWriteOff:   api.FormFifth,
	KindLinkRelink:     api.FormFifth,
	KindLinkReconciled: api.FormFifth,
	KindLinkRestored:   api.FormFifth,
	KindFormRaise:      api.FormFifth,
	KindInstancePower:  api.FormFifth,
}

// Command is one change to the state of a zone. The set is closed.
//
//sumtype:decl
type Command interface {
	// Kind names the command in the log.
	Kind() Kind
	// Time is when the proposer made it, by its own clock.
	Time() api.Instant
	// Form is the form of the entry that it was read from, or api.FormFirst if it was not
	// read from one. The limits of that form apply to it.
	Form() api.Form
	sealed()
}

// Stamp is the part that all commands share.
type Stamp struct {
	At   api.Instant `cbor:"1,keyasint"`
	form api.Form    // 0 for api.FormFirst
}

// Time returns At.
func (s Stamp) Time() api.Instant { return s.At }

func (Stamp) sealed() {}

// Form implements Command.
func (s Stamp) Form() api.Form { return max(s.form, api.FormFirst) }

// setForm records the form of the entry. The first form is stored as 0, so that a decoded
// command equals the one that was encoded.
func (s *Stamp) setForm(f api.Form) {
	if f > api.FormFirst {
		s.form = f
	}
}

// NeededForm returns the lowest form in which c can be written.
func NeededForm(c Command) api.Form {
	return max(api.FormFirst, since[c.Kind()], api.Form(codec.NeededForm(c)))
}

// CheckForm returns CodeUnavailable for a command that needs a newer form than the one that the zone
// writes.
func CheckForm(c Command, form api.Form) error {
	if form >= api.FormNewest { // nothing needs more, and looking at each field of long lists is slow
		return nil
	}
	if need := NeededForm(c); need > form {
		return api.Errorf(api.CodeUnavailable,
			"this needs form %d, and the zone writes form %d: start all nodes with the newer release, then finish the upgrade (berth operator upgrade)", need, form)
	}
	return nil
}

// Encode returns the bytes of one entry of a form. It returns CodeUnavailable as CheckForm does.
func Encode(c Command, form api.Form) ([]byte, error) { return EncodeAfter(nil, c, form) }

// EncodeAfter returns the bytes of a command that follows another one of its proposal in an entry.
// What they have in common may be left out of them: only DecodeAfter reads them.
func EncodeAfter(after, c Command, form api.Form) ([]byte, error) {
	if err := CheckForm(c, form); err != nil {
		return nil, err
	}
	if p, ok := c.(ProviderSet); ok {
		c = p.whole()
	}
	var body any = c
	if p, ok := c.(packable); ok && form >= api.FormFifth {
		body = p.pack(after)
	}
	b, err := codec.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding command kind %d: %w", c.Kind(), err)
	}
	return append([]byte{byte(c.Kind()), byte(form)}, b...), nil
}

// Decode reads what Encode wrote, in forms up to newest. The node must stop on an error, be
// it an unknown form or kind or a malformed body: an entry is never skipped.
func Decode(b []byte, newest api.Form) (Command, error) { return DecodeAfter(nil, b, newest) }

// DecodeAfter reads what EncodeAfter wrote, behind the command before it in the entry; nil for none.
// Both share memory: neither may be changed.
func DecodeAfter(after Command, b []byte, newest api.Form) (Command, error) {
	if len(b) < 2 {
		return nil, fmt.Errorf("command of %d bytes is cut short", len(b))
	}
	kind, form := Kind(b[0]), api.Form(b[1])
	read, known := readers[kind]
	if !known || form < api.FormFirst || form > newest {
		return nil, fmt.Errorf("command kind %d of form %d is unknown; this node reads forms up to %d and is older than the log", kind, form, newest)
	}
	c, err := read(b[2:], form, after)
	if err == nil && form < api.FormNewest && NeededForm(c) > form {
		err = fmt.Errorf("it has what came with form %d", NeededForm(c))
	}
	if err != nil {
		return nil, fmt.Errorf("command kind %d of form %d: %w", kind, form, err)
	}
	return c, nil
}

func reader[T Command](b []byte, form api.Form, _ Command) (Command, error) {
	var c T
	if err := codec.Unmarshal(b, &c); err != nil {
		return nil, err
	}
	if s, ok := any(&c).(interface{ setForm(form api.Form) }); ok {
		s.setForm(form)
	}
	return c, nil
}

var readers = map[Kind]func(b []byte, form api.Form, after Command) (Command, error){
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
	KindBootCreate:      packedReader[BootCreate, packedBoot],
	KindHold:            packedReader[Hold, packedHold],
	KindHoldParts:       reader[HoldParts],
	KindHoldDecide:      reader[HoldDecide],
	KindBootDecide:      reader[BootDecide],
	KindBootRelease:     reader[BootRelease],
	KindPartAck:         reader[PartAck],
	KindInstanceDelete:  reader[InstanceDelete],
	KindInstanceReport:  packedReader[InstanceReport, packedReport],
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
	KindLeaseCreate:     reader[LeaseCreate],
	KindLeaseSet:        reader[LeaseSet],
	KindLeaseDelete:     reader[LeaseDelete],
	KindTick:            reader[Tick],
	KindWebhookPut:      reader[WebhookPut],
	KindWebhookDelete:   reader[WebhookDelete],
	KindWebhookResume:   reader[WebhookResume],
	KindWebhooksTold:    reader[WebhooksTold],
	KindPropertySet:     reader[PropertySet],
	KindQuotaSet:        reader[QuotaSet],
	KindQuotaDelete:     reader[QuotaDelete],
	KindSeriesCreate:    reader[SeriesCreate],
	KindSeriesDelete:    reader[SeriesDelete],
	KindLeaseEndsTold:   reader[LeaseEndsTold],
	KindHostsSilent:     reader[HostsSilent],
	KindRequeue:         reader[Requeue],
	KindBindingSet:      reader[BindingSet],
	KindBindingEnd:      reader[BindingEnd],
	KindVolumeAttach:    reader[VolumeAttach],
	KindVolumeDetach:    reader[VolumeDetach],
	KindAgentRevoke:     reader[AgentRevoke],
	KindAudit:           reader[Audit],
	KindKEKUse:          reader[KEKUse],
	KindTokensUsed:      reader[TokensUsed],
	KindRoleSet:         reader[RoleSet],
	KindRoleDelete:      reader[RoleDelete],
	KindLinkWriteOff:    reader[LinkWriteOff],
	KindLinkRelink:      reader[LinkRelink],
	KindLinkReconciled:  reader[LinkReconciled],
	KindLinkRestored:    reader[LinkRestored],
	KindFormRaise:       reader[FormRaise],
	KindInstancePower:   reader[InstancePower],
	KindAgentRenew:      reader[AgentRenew],
	KindCAAdd:           reader[CAAdd],
	KindCAUse:           reader[CAUse],
	KindCADrop:          reader[CADrop],
	KindLinkPin:         reader[LinkPin],
	KindAgentTrust:      reader[AgentTrust],
	KindHostWriteOff:    reader[HostWriteOff],
}
