package command

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"berth/api"
	"berth/internal/codec"
)

// Since api.FormFifth the bodies of the commands with long lists are packed: identities that
// follow from each other are one run, a host or a status that occurs often is written once, and
// ids are binary. They are read into the same commands as before. A list that cannot be packed is
// written as before.

// packedMax bounds the items of one packed list.
const packedMax = 100_000

// errPacked is wrapped by every error about a packed list that cannot be read.
var errPacked = errors.New("malformed packed list")

// packable is a command that has a packed body. What it has in common with the command before it
// in the entry, nil for none, may be left out.
type packable interface{ pack(after Command) any }

// packed is the packed body of a command.
type packed[C Command] interface {
	unpack(after Command) (C, error)
}

// The fields of commands, without their methods: what packs a command is none.
type (
	bootFields   BootCreate
	holdFields   Hold
	reportFields InstanceReport
)

// packedReader reads a command that is packed since api.FormFifth.
func packedReader[C Command, P packed[C]](b []byte, form api.Form, after Command) (Command, error) {
	if form < api.FormFifth {
		return reader[C](b, form, after)
	}
	var p P
	if err := codec.Unmarshal(b, &p); err != nil {
		return nil, err
	}
	c, err := p.unpack(after)
	if err != nil {
		return nil, err
	}
	if s, ok := any(&c).(interface{ setForm(form api.Form) }); ok {
		s.setForm(form)
	}
	return c, nil
}

// packedBoot is the body of BootCreate.
type packedBoot struct {
	bootFields
	Runs []specRun `cbor:"40,keyasint,omitempty"` // of Instances
}

func (c BootCreate) pack(Command) any {
	p := packedBoot{bootFields: bootFields(c)}
	if fitsPacked(len(c.Instances)) {
		p.Runs, p.Instances = packSpecs(c.Instances), nil
	}
	return p
}

func (p packedBoot) unpack(Command) (c BootCreate, err error) {
	c = BootCreate(p.bootFields)
	if len(p.Runs) > 0 {
		c.Instances, err = unpackSpecs(c.Instances, p.Runs)
	}
	return c, err
}

// packedHold is the body of Hold. The slots are packed if each has but an instance, a group and
// a host.
type packedHold struct {
	holdFields
	Request     *api.Request `cbor:"5,keyasint,omitempty"` // that of the hold; nil if OfBoot is set
	OfBoot      *ofBoot      `cbor:"46,keyasint,omitempty"`
	Runs        []specRun    `cbor:"40,keyasint,omitempty"` // the instances of Slots
	Groups      []int        `cbor:"41,keyasint,omitempty"` // a group and a number of slots, in turns; empty if all are of group 0
	Hosts       hostList     `cbor:"42,keyasint,omitzero"`
	At          []byte       `cbor:"43,keyasint,omitempty"` // hosts of Slots, see packNumbers
	SparesAt    [][]byte     `cbor:"44,keyasint,omitempty"` // of Spares, likewise
	PartsPacked []packedPart `cbor:"45,keyasint,omitempty"`
}

// packedPart is a Part.
type packedPart struct {
	Link api.LinkID  `cbor:"1,keyasint"`
	Runs [][]specRun `cbor:"2,keyasint"` // per group
}

// ofBoot is set for a hold that has what the boot before it in the entry has: its request, metadata
// and instances.
type ofBoot struct {
	Since   api.Instant `cbor:"1,keyasint,omitempty"` // of the request, like Attempt
	Attempt int         `cbor:"2,keyasint,omitempty"`
	Slots   int         `cbor:"3,keyasint,omitempty"` // number of slots, which are for the first instances; 0 if Runs has them
}

// followBoot leaves out what the hold has in common with a boot.
func (p *packedHold) followBoot(b *BootCreate) {
	r := p.holdFields.Request
	r.Since, r.Attempt = b.Request.Since, b.Request.Attempt
	if p.Origin != "" || !maps.Equal(p.Metadata, b.Metadata) || !reflect.DeepEqual(r, b.Request) {
		return
	}
	p.OfBoot = &ofBoot{Since: p.Request.Since, Attempt: p.Request.Attempt}
	p.Request, p.Metadata = nil, nil
}

// takeBoot fills in what followBoot has left out.
func (p *packedHold) takeBoot(after Command) error {
	switch b, ok := after.(BootCreate); {
	case p.OfBoot == nil && p.Request == nil:
		return fmt.Errorf("%w: a hold without a request", errPacked)
	case p.OfBoot == nil:
		p.holdFields.Request = *p.Request
	case !ok || p.Request != nil || len(p.Metadata) > 0:
		return fmt.Errorf("%w: a hold of a boot that is not there, or of two", errPacked)
	default:
		p.holdFields.Request, p.Metadata = b.Request, b.Metadata
		p.holdFields.Request.Since, p.holdFields.Request.Attempt = p.OfBoot.Since, p.OfBoot.Attempt
	}
	return nil
}

func (c Hold) pack(after Command) any {
	p := packedHold{holdFields: holdFields(c), Request: &c.Request}
	b, ok := after.(BootCreate)
	if ok {
		p.followBoot(&b)
	}
	if !fitsPacked(c.Count()) || len(slices.Concat(c.Spares...)) > packedMax || slices.ContainsFunc(c.Slots, func(s Slot) bool {
		return s.Within != "" || s.Keeps != "" || s.Whole != nil || s.Until != 0
	}) {
		return p
	}
	hosts := newNumbering(&p.Hosts, c.Slots, c.Spares)
	if len(c.Slots) > 0 {
		p.packSlots(hosts, b.Instances)
	}
	if len(c.Spares) > 0 {
		p.Spares = nil
		for _, list := range c.Spares {
			var at []byte
			if list != nil {
				at = packNumbers(len(list), func(i int) int { return hosts[list[i]] })
			}
			p.SparesAt = append(p.SparesAt, at)
		}
	}
	if len(c.Parts) > 0 {
		p.packParts()
	}
	return p
}

// packSlots packs the slots of a hold. instances are those of its boot.
func (p *packedHold) packSlots(hosts map[api.HostID]int, instances []api.InstanceSpec) {
	slots := p.Slots
	specs := make([]api.InstanceSpec, len(slots))
	for i := range slots {
		specs[i] = slots[i].Instance
	}
	p.Slots = nil
	if p.OfBoot != nil && len(specs) <= len(instances) && slices.Equal(specs, instances[:len(specs)]) {
		p.OfBoot.Slots = len(specs)
	} else {
		p.Runs = packSpecs(specs)
	}
	p.At = packNumbers(len(slots), func(i int) int { return hosts[slots[i].Host] })
	if slices.ContainsFunc(slots, func(s Slot) bool { return s.Group != 0 }) {
		p.Groups = packRuns(len(slots), func(i int) int { return slots[i].Group })
	}
}

func (p *packedHold) packParts() {
	if slices.ContainsFunc(p.Parts, func(part Part) bool {
		return part.Instances == nil || slices.ContainsFunc(part.Instances, isNotNilEmpty)
	}) {
		return
	}
	for _, part := range p.Parts {
		packed := packedPart{Link: part.Link, Runs: make([][]specRun, len(part.Instances))}
		for g, specs := range part.Instances {
			packed.Runs[g] = packSpecs(specs)
		}
		p.PartsPacked = append(p.PartsPacked, packed)
	}
	p.Parts = nil
}

// isNotNilEmpty reports whether a list is empty and not nil: packed it would be nil.
func isNotNilEmpty(specs []api.InstanceSpec) bool { return specs != nil && len(specs) == 0 }

func (p packedHold) unpack(after Command) (Hold, error) {
	if err := p.takeBoot(after); err != nil {
		return Hold{}, err
	}
	c := Hold(p.holdFields)
	hosts, err := p.Hosts.list()
	if err != nil {
		return c, err
	}
	if len(p.Runs) > 0 || p.OfBoot != nil && p.OfBoot.Slots != 0 {
		if c.Slots, err = p.unpackSlots(hosts, after); err != nil {
			return c, err
		}
	}
	if len(p.SparesAt) > 0 && c.Spares != nil || len(p.PartsPacked) > 0 && c.Parts != nil {
		return c, fmt.Errorf("%w: it is there twice", errPacked)
	}
	if len(p.SparesAt) > 0 {
		if c.Spares, err = p.unpackSpares(hosts); err != nil {
			return c, err
		}
	}
	for _, packed := range p.PartsPacked {
		part, err := packed.unpackPart()
		if err != nil {
			return c, err
		}
		c.Parts = append(c.Parts, part)
	}
	return c, nil
}

func (p *packedHold) unpackSpares(hosts []api.HostID) ([][]api.HostID, error) {
	var out [][]api.HostID
	spares := 0
	for _, at := range p.SparesAt {
		list, err := unpackHosts(hosts, at)
		if err != nil {
			return nil, err
		}
		out = append(out, list)
		if spares += len(list); spares > packedMax {
			return nil, fmt.Errorf("%w: more than %d alternates", errPacked, packedMax)
		}
	}
	return out, nil
}

func (p *packedPart) unpackPart() (Part, error) {
	part := Part{Link: p.Link, Instances: make([][]api.InstanceSpec, len(p.Runs))}
	for g, runs := range p.Runs {
		if len(runs) == 0 {
			continue
		}
		specs, err := unpackSpecs(nil, runs)
		if err != nil {
			return part, err
		}
		part.Instances[g] = specs
	}
	return part, nil
}

func (p *packedHold) unpackSlots(hosts []api.HostID, after Command) ([]Slot, error) {
	if p.Slots != nil {
		return nil, fmt.Errorf("%w: it is there twice", errPacked)
	}
	specs, err := p.unpackInstances(after)
	if err != nil {
		return nil, err
	}
	at, err := unpackHosts(hosts, p.At)
	if err != nil {
		return nil, err
	}
	groups := make([]int, len(specs))
	if len(p.Groups) > 0 {
		if groups, err = unpackRuns(p.Groups, len(specs)); err != nil {
			return nil, err
		}
	}
	if len(at) != len(specs) {
		return nil, fmt.Errorf("%w: %d instances on %d hosts", errPacked, len(specs), len(at))
	}
	slots := make([]Slot, len(specs))
	for i := range slots {
		slots[i] = Slot{Instance: specs[i], Group: groups[i], Host: at[i]}
	}
	return slots, nil
}

// unpackInstances reads the instances of the slots.
func (p *packedHold) unpackInstances(after Command) ([]api.InstanceSpec, error) {
	if p.OfBoot == nil || p.OfBoot.Slots == 0 {
		return unpackSpecs(nil, p.Runs)
	}
	b, n := after.(BootCreate), p.OfBoot.Slots //nolint:forcetypeassert // takeBoot has seen it
	if len(p.Runs) > 0 || n < 0 || n > len(b.Instances) || n > packedMax {
		return nil, fmt.Errorf("%w: %d slots of a boot of %d", errPacked, n, len(b.Instances))
	}
	return b.Instances[:n], nil
}

// packedReport is the body of InstanceReport. The items are packed if none tells of a restart.
type packedReport struct {
	reportFields
	Hosts    hostList     `cbor:"40,keyasint,omitzero"`  // if an item has no stay
	Sums     []byte       `cbor:"47,keyasint,omitempty"` // else: hostSum of every host, sumBytes each
	At       []byte       `cbor:"41,keyasint,omitempty"` // hosts of Items, see packNumbers
	IDs      []byte       `cbor:"42,keyasint,omitempty"` // instances of Items, see packIDs
	Names    []api.Status `cbor:"43,keyasint,omitempty"` // every status once
	Statuses []int        `cbor:"44,keyasint,omitempty"` // the number of a status in Names and a number of items, in turns
	Stays    []uint64     `cbor:"45,keyasint,omitempty"` // a stay and a number of items, in turns
	Faults   []faultOf    `cbor:"46,keyasint,omitempty"` // by item
}

// faultOf is the fault of one item.
type faultOf struct {
	Item  int    `cbor:"1,keyasint"`
	Fault string `cbor:"2,keyasint"`
}

func (c InstanceReport) pack(Command) any {
	p := packedReport{reportFields: reportFields(c)}
	ids, ok := packIDs(c.Items)
	if !ok || !fitsPacked(len(c.Items)) || slices.ContainsFunc(c.Items, func(r api.InstanceReport) bool {
		return r.Restarted != 0 || r.Reason != ""
	}) {
		return p
	}
	p.IDs, p.Items = ids, nil
	if slices.ContainsFunc(c.Items, func(r api.InstanceReport) bool { return r.Stay == 0 }) {
		hosts := newNumbering(&p.Hosts, nil, nil, c.Items...)
		p.At = packNumbers(len(c.Items), func(i int) int { return hosts[c.Items[i].Host] })
	} else {
		p.Sums, p.At = packSums(c.Items)
	}
	p.Statuses = packRuns(len(c.Items), func(i int) int {
		n := slices.Index(p.Names, c.Items[i].Status)
		if n < 0 {
			n = len(p.Names)
			p.Names = append(p.Names, c.Items[i].Status)
		}
		return n
	})
	p.Stays = packRuns(len(c.Items), func(i int) uint64 { return c.Items[i].Stay })
	for i, item := range c.Items {
		if item.Fault != "" {
			p.Faults = append(p.Faults, faultOf{i, item.Fault})
		}
	}
	return p
}

func (p packedReport) unpack(Command) (InstanceReport, error) {
	c := InstanceReport(p.reportFields)
	if len(p.IDs) == 0 {
		return c, nil
	}
	if c.Items != nil {
		return c, fmt.Errorf("%w: it is there twice", errPacked)
	}
	ids, err := unpackIDs(p.IDs)
	if err != nil {
		return c, err
	}
	hosts, err := p.hosts()
	if err != nil {
		return c, err
	}
	at, err := unpackHosts(hosts, p.At)
	if err != nil {
		return c, err
	}
	statuses, err := unpackRuns(p.Statuses, len(ids))
	if err != nil {
		return c, err
	}
	stays, err := unpackRuns(p.Stays, len(ids))
	if err != nil {
		return c, err
	}
	if len(at) != len(ids) {
		return c, fmt.Errorf("%w: %d instances on %d hosts", errPacked, len(ids), len(at))
	}
	c.Items = make([]api.InstanceReport, len(ids))
	for i := range ids {
		if statuses[i] < 0 || statuses[i] >= len(p.Names) {
			return c, fmt.Errorf("%w: no status %d", errPacked, statuses[i])
		}
		c.Items[i] = api.InstanceReport{Host: at[i], Instance: ids[i], Status: p.Names[statuses[i]], Stay: stays[i]}
	}
	for _, f := range p.Faults {
		if f.Item < 0 || f.Item >= len(ids) {
			return c, fmt.Errorf("%w: no item %d", errPacked, f.Item)
		}
		c.Items[f.Item].Fault = f.Fault
	}
	return c, nil
}

// hosts returns the hosts by number.
func (p *packedReport) hosts() ([]api.HostID, error) {
	if len(p.Sums) == 0 {
		return p.Hosts.list()
	}
	if !p.Hosts.IsZero() {
		return nil, fmt.Errorf("%w: it is there twice", errPacked)
	}
	return unpackSums(p.Sums)
}

// fitsPacked reports whether a list of n items can be packed.
func fitsPacked(n int) bool { return n > 0 && n <= packedMax }

// packRuns returns n values as runs: a value and how often it is repeated, in turns.
func packRuns[T int | uint64](n int, value func(i int) T) []T {
	var out []T
	for i := range n {
		if v := value(i); i > 0 && out[len(out)-2] == v {
			out[len(out)-1]++
		} else {
			out = append(out, v, 1)
		}
	}
	return out
}

// unpackRuns reads n values of packRuns.
func unpackRuns[T int | uint64](runs []T, n int) ([]T, error) {
	out := make([]T, 0, n)
	for ; len(runs) >= 2; runs = runs[2:] {
		if runs[1] < 1 || uint64(runs[1]) > uint64(n-len(out)) { //nolint:gosec // not below 1
			return nil, fmt.Errorf("%w: a run of %d", errPacked, runs[1])
		}
		out = append(out, slices.Repeat([]T{runs[0]}, int(runs[1]))...) //nolint:gosec // at most n
	}
	if len(runs) != 0 || len(out) != n {
		return nil, fmt.Errorf("%w: runs of %d values, not %d", errPacked, len(out), n)
	}
	return out, nil
}
