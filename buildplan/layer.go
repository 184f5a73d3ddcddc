package buildplan

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"

	"berth/api"
	"berth/internal/codec"
)

// Layer is the part of a plan that one zone seals: everything that it needs to take up any
// prefix of it later, so that it need not remember the plan.
type Layer struct {
	Plan     api.PlanID   `cbor:"1,keyasint"` // taken up at most once
	Expires  api.Instant  `cbor:"2,keyasint"` // by the clock of the zone that sealed it
	Groups   []LayerGroup `cbor:"3,keyasint"` // 1 to api.GroupsMax
	Children []Child      `cbor:"4,keyasint,omitempty"`
	// Choices are the children that the plan chose for what is bound; a hold of it fixes them.
	Choices []api.BindingChoice `cbor:"5,keyasint,omitempty"`
}

// LayerGroup is the part of a layer for one group.
type LayerGroup struct {
	Slots      []Slot   `cbor:"1,keyasint,omitempty"` // own hosts, in order
	Alternates []Slot   `cbor:"2,keyasint,omitempty"` // own hosts, for slots that are refused; at most SpareMax
	Order      []uint16 `cbor:"3,keyasint,omitempty"` // source of each slot offered; see Merged
}

// Child is the sealed plan of one child for the same request.
type Child struct {
	Link api.LinkID `cbor:"1,keyasint"`
	Blob []byte     `cbor:"2,keyasint"` // 1 to api.BlobMaxBytes bytes, opaque
	Ask  Ask        `cbor:"3,keyasint,omitzero"`
}

// Ask is the difference between the request to a child and the request to this zone. It is
// sealed beside the child's blob, because the child's plan is bound to exactly that
// request.
type Ask struct {
	Counts []int `cbor:"1,keyasint,omitempty"` // of the groups; nil for the same
	Inside bool  `cbor:"2,keyasint,omitempty"` // the child is an allowed zone, and so is all below it
	Least  []int `cbor:"3,keyasint,omitempty"` // of the groups: what the child is to have room for first; nil for nothing

	// Met are, of the groups, the extra specs that the child meets as a whole: bit n for the n-th by
	// its key. Nil for none.
	Met []uint64 `cbor:"4,keyasint,omitempty"`

	// InAZ are the groups whose availability zone the child is as a whole: bit n for the n-th.
	InAZ uint32 `cbor:"5,keyasint,omitempty"`
}

// IsZero reports whether a is no difference.
func (a Ask) IsZero() bool {
	return a.Counts == nil && !a.Inside && a.Least == nil && a.Met == nil && a.InAZ == 0
}

// MeetTags notes that a child meets the extra specs of req that its affinity tags, as key=value, are.
func (a *Ask) MeetTags(req *api.Request, tags []string) {
	for i := range req.Groups {
		specs := req.Groups[i].ExtraSpecs
		for n, key := range slices.Sorted(maps.Keys(specs)) {
			if slices.Contains(tags, key+"="+specs[key]) {
				if a.Met == nil {
					a.Met = make([]uint64, len(req.Groups))
				}
				a.Met[i] |= 1 << n
			}
		}
	}
}

// MeetAZ notes that a child is an availability zone as a whole, "" for none, whatever its hosts call theirs.
func (a *Ask) MeetAZ(req *api.Request, az string) {
	for i := range req.Groups {
		if az != "" && req.Groups[i].AZ == az {
			a.InAZ |= 1 << i
		}
	}
}

// Request returns the request to the child for a request req to this zone. Names and
// addresses of hosts are of this zone and are not passed on. How zones share the slots is up
// to the first zone, except for a pack. The minima of req are for all zones together; a child
// has those in a.
func (a Ask) Request(req *api.Request) *api.Request {
	out := *req
	out.Groups = slices.Clone(req.Groups)
	for i := range out.Groups {
		g := &out.Groups[i]
		g.Hints.ForceHosts, g.Hints.IgnoreHosts, g.Hints.Near, g.Min = nil, nil, "", 0
		if i < len(a.Counts) {
			g.Count = a.Counts[i]
		}
		if i < len(a.Least) {
			g.Min = min(a.Least[i], g.Count)
		}
		if i < len(a.Met) {
			g.Met = meet(g, a.Met[i])
		}
		if a.InAZ&(1<<i) != 0 {
			g.AZ = ""
		}
	}
	out.Zones.MaxSkew, out.Zones.MinZones = 0, 0
	if a.Inside {
		out.Zones.Allowed = nil
	}
	return &out
}

// meet returns the keys of the extra specs of a group that are met: those that were, and those of bits.
func meet(g *api.Group, bits uint64) []string {
	met := slices.Clone(g.Met)
	for n, key := range slices.Sorted(maps.Keys(g.ExtraSpecs)) {
		if bits&(1<<n) != 0 {
			met = append(met, key)
		}
	}
	slices.Sort(met)
	return slices.Compact(met)
}

// Prefix returns how many slots of each source the first n slots of a group
// need: [Own] for this zone, [i+1] for Children[i]. It is nil for a group that
// the layer does not have.
func (l Layer) Prefix(group, n int) []int {
	if group < 0 || group >= len(l.Groups) {
		return nil
	}
	return prefixOf(l.Groups[group].Order, n, 1+len(l.Children))
}

// Validate returns an error for the first limit that l breaks, or for an order with an
// unknown source or own slot.
func (l Layer) Validate() error {
	switch {
	case l.Plan == "" || len(l.Plan) > api.NameMaxBytes:
		return fmt.Errorf("plan id of %d bytes", len(l.Plan))
	case l.Expires <= 0:
		return fmt.Errorf("expiry %d", l.Expires)
	case len(l.Groups) == 0 || len(l.Groups) > api.GroupsMax:
		return fmt.Errorf("%d groups", len(l.Groups))
	case len(l.Children) > api.LinksMax:
		return fmt.Errorf("%d children", len(l.Children))
	}
	links := map[api.LinkID]bool{}
	for i, c := range l.Children {
		switch {
		case c.Link == "" || len(c.Link) > api.NameMaxBytes:
			return fmt.Errorf("child %d: link id of %d bytes", i, len(c.Link))
		case links[c.Link]:
			return fmt.Errorf("child %d: link is there twice", i)
		case len(c.Blob) == 0 || len(c.Blob) > api.BlobMaxBytes:
			return fmt.Errorf("child %d: blob of %d bytes", i, len(c.Blob))
		case max(len(c.Ask.Counts), len(c.Ask.Least), len(c.Ask.Met)) > api.GroupsMax:
			return fmt.Errorf("child %d: counts of %d groups", i, max(len(c.Ask.Counts), len(c.Ask.Least), len(c.Ask.Met)))
		}
		links[c.Link] = true
	}
	if err := validateChoices(l.Choices); err != nil {
		return err
	}
	total := 0
	for i := range l.Groups {
		if err := l.Groups[i].validate(1 + len(l.Children)); err != nil {
			return fmt.Errorf("group %d: %w", i, err)
		}
		total += max(len(l.Groups[i].Order), len(l.Groups[i].Slots))
	}
	if total > api.CountMax {
		return fmt.Errorf("%d slots in all", total)
	}
	return nil
}

func validateChoices(all []api.BindingChoice) error {
	if len(all) > api.GroupsMax {
		return fmt.Errorf("%d choices of children", len(all))
	}
	for i := range all {
		c := &all[i]
		if err := c.Key.Validate(); err != nil {
			return fmt.Errorf("choice %d: %w", i, err)
		}
		if n := max(len(c.Link), len(c.Seen), len(c.ID), len(c.Why)); n > api.NameMaxBytes {
			return fmt.Errorf("choice %d: id of %d bytes", i, n)
		}
	}
	return nil
}

func (g *LayerGroup) validate(sources int) error {
	switch {
	case len(g.Slots) > api.CountMax || len(g.Order) > api.CountMax:
		return fmt.Errorf("%d slots in an order of %d", len(g.Slots), len(g.Order))
	case len(g.Alternates) > SpareMax:
		return fmt.Errorf("%d alternates", len(g.Alternates))
	}
	own := 0
	for i, s := range g.Order {
		if int(s) >= sources {
			return fmt.Errorf("slot %d of the order is of source %d of %d", i, s, sources)
		}
		if s == Own {
			own++
		}
	}
	if own > len(g.Slots) {
		return fmt.Errorf("the order takes %d own slots of %d", own, len(g.Slots))
	}
	for _, list := range [][]Slot{g.Slots, g.Alternates} {
		for i := range list {
			if n := len(list[i].Host); n == 0 || n > api.NameMaxBytes {
				return fmt.Errorf("slot %d: host id of %d bytes", i, n)
			}
			if n := len(list[i].Keeps); n > api.NameMaxBytes {
				return fmt.Errorf("slot %d: id of what it keeps has %d bytes", i, n)
			}
		}
	}
	return nil
}

var errTooLarge = errors.New("more bytes than a blob may have")

// Encode returns the deterministic encoding of l. It fails with too_large if
// that is above api.BlobMaxBytes, and with internal if l is not valid.
func (l Layer) Encode() ([]byte, error) {
	const op = "buildplan.Layer.Encode"
	if err := l.Validate(); err != nil {
		return nil, api.Wrap(api.CodeInternal, op, "the plan is not valid", err)
	}
	b, err := codec.Marshal(l)
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, op, "the plan cannot be encoded", err)
	}
	if len(b) > api.BlobMaxBytes {
		return nil, api.Wrap(api.CodeTooLarge, op, "the plan is too large; ask for fewer instances or zones", errTooLarge)
	}
	return b, nil
}

// DecodeLayer reads and validates what Encode wrote. Every error is
// plan_refused with one sentence; its cause is for the audit log of this zone.
func DecodeLayer(b []byte) (Layer, error) {
	var l Layer
	err := errTooLarge
	if len(b) <= api.BlobMaxBytes {
		err = codec.Unmarshal(b, &l)
	}
	if err == nil {
		err = l.Validate()
	}
	if err != nil {
		return Layer{}, api.Wrap(api.CodePlanRefused, "buildplan.DecodeLayer", "the plan cannot be used", err)
	}
	return l, nil
}

// Digest returns the SHA-256 of the canonical encoding of req without Since and Attempt. A sealed plan
// is bound to it. Equal requests have equal digests, and a request keeps its digest when it
// is passed on.
func Digest(req *api.Request) [32]byte {
	bound := *req
	bound.Since, bound.Attempt = 0, 0
	b, err := codec.Marshal(bound)
	if err != nil {
		panic("buildplan: Digest: " + err.Error()) // numbers, text and maps always encode; a bug
	}
	return sha256.Sum256(b)
}
