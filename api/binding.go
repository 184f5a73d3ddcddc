package api

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of bindings.
const (
	BindingTagsMax     = 8       // affinity tags of one zone, and of one binding
	BindingsActiveMax  = 100_000 // of one zone
	BindingsProjectMax = 100     // that one project has at one time, each for another key
	BindingsPastMax    = 1_000   // that are kept of one project

	BindingHeadroomMax   = 32   // classes with a headroom of one zone
	BindingWeighersMax   = 8    // weighers of a rule
	BindingMultiplierMax = 1000 // of a weigher; the least is its negative, and reverses the preference

	BindingLostAfter    = 5 * time.Minute // default of BindingRule.LostAfter
	BindingLostAfterMax = 24 * time.Hour
	BindingUsageAge     = 30 * time.Second // default of BindingRule.UsageAge
	BindingUsageAgeMax  = time.Hour
)

// BindingMode says how a zone uses bindings.
type BindingMode string

// The modes.
const (
	BindingOff    BindingMode = "off"    // not at all: the default
	BindingPrefer BindingMode = "prefer" // the bound child is asked first, others for what is missing
	BindingStrict BindingMode = "strict" // all that has one key goes to one child
)

// BindingWeigher is a preference among children, and how much it counts.
type BindingWeigher struct {
	Name       string `cbor:"1,keyasint"` // see package binding
	Multiplier int64  `cbor:"2,keyasint"` // in [-BindingMultiplierMax, BindingMultiplierMax]
}

// BindingRule is what the operator of a zone says of bindings.
type BindingRule struct {
	Mode     BindingMode             `cbor:"1,keyasint,omitempty"` // "" for BindingOff
	Weighers []BindingWeigher        `cbor:"2,keyasint,omitempty"` // none for the order of creation
	Headroom map[ResourceClass]int64 `cbor:"3,keyasint,omitempty"` // percent, of children whose terms have none
	// LostAfter is the silence after which a child is left; 0 for the default. UsageAge is how old a
	// digest may be and still say how full a child is; 0 for the default.
	LostAfter       time.Duration `cbor:"4,keyasint,omitempty"`
	UsageAge        time.Duration `cbor:"5,keyasint,omitempty"`
	GeneralOnTagged bool          `cbor:"6,keyasint,omitempty"` // work that asks for no tag may go to children that have some
}

// IsZero reports whether nothing is set.
func (r BindingRule) IsZero() bool {
	return r.Mode == "" && len(r.Weighers)+len(r.Headroom) == 0 && r.LostAfter == 0 && r.UsageAge == 0 && !r.GeneralOnTagged
}

// Use returns the mode.
func (r *BindingRule) Use() BindingMode {
	if r.Mode == "" {
		return BindingOff
	}
	return r.Mode
}

// LostAfterAll returns LostAfter or its default.
func (r *BindingRule) LostAfterAll() time.Duration { return cmp.Or(r.LostAfter, BindingLostAfter) }

// UsageAgeMost returns UsageAge or its default.
func (r *BindingRule) UsageAgeMost() time.Duration { return cmp.Or(r.UsageAge, BindingUsageAge) }

// Validate returns an invalid-input error for the first field that no zone could follow, except names
// of weighers, which package binding knows.
func (r *BindingRule) Validate() error {
	switch r.Mode {
	case "", BindingOff, BindingPrefer, BindingStrict:
	default:
		return Errorf(CodeInvalid, "mode must be %s, %s or %s, got %q", BindingOff, BindingPrefer, BindingStrict, string(r.Mode))
	}
	if len(r.Weighers) > BindingWeighersMax {
		return Errorf(CodeInvalid, "there may be at most %d weighers, got %d", BindingWeighersMax, len(r.Weighers))
	}
	for _, d := range []struct {
		name      string
		got, most time.Duration
	}{{"lost_after", r.LostAfter, BindingLostAfterMax}, {"usage_age", r.UsageAge, BindingUsageAgeMax}} {
		if d.got < 0 || d.got > d.most || d.got%time.Millisecond != 0 {
			return Errorf(CodeInvalid, "%s must be 1ms to %s, in whole milliseconds, or 0s for the default", d.name, d.most)
		}
	}
	return ValidateHeadroom(r.Headroom)
}

// ValidateHeadroom returns an invalid-input error for percents that cannot be.
func ValidateHeadroom(h map[ResourceClass]int64) error {
	if len(h) > BindingHeadroomMax {
		return Errorf(CodeInvalid, "there may be a headroom of at most %d classes, got %d", BindingHeadroomMax, len(h))
	}
	for _, class := range slices.Sorted(maps.Keys(h)) {
		if !class.Valid() {
			return Errorf(CodeInvalid, "headroom: %q is not a resource class", string(class))
		}
		if h[class] < 0 || h[class] > 100 {
			return Errorf(CodeInvalid, "headroom of %s must be 0 to 100 percent, got %d", string(class), h[class])
		}
	}
	return nil
}

// BindingKey says which new work of a project a binding is for: an availability zone and the
// affinity tags of its flavors, both possibly none.
type BindingKey struct {
	AZ   string   `cbor:"1,keyasint,omitempty" log:"availability_zone"`
	Tags []string `cbor:"2,keyasint,omitempty"` // key=value, sorted, without repeats
}

// String spells the key; two keys are equal if their texts are.
func (k BindingKey) String() string { return k.AZ + "\x00" + strings.Join(k.Tags, "\x00") }

// Validate returns an invalid-input error for a key that cannot be.
func (k BindingKey) Validate() error {
	if k.AZ != "" && !ValidName(k.AZ) {
		return CheckName("availability zone", k.AZ)
	}
	return ValidateTags(k.Tags)
}

// ValidateTags returns an invalid-input error for affinity tags that are not sorted pairs. A key may
// have a scope, as those of extra specs have: affinity:disk. A value is any text of 1 to NameMaxBytes bytes without
// control characters, and without spaces at its ends.
func ValidateTags(tags []string) error {
	if len(tags) > BindingTagsMax {
		return Errorf(CodeInvalid, "there may be at most %d affinity tags, got %d", BindingTagsMax, len(tags))
	}
	for _, t := range tags {
		key, value, pair := strings.Cut(t, "=")
		switch {
		case !pair || key == "" || value == "":
			return Errorf(CodeInvalid, "an affinity tag must be key=value, got %q", t)
		case !ValidName(strings.ReplaceAll(key, ":", "-")):
			return CheckName("the key of an affinity tag", key)
		case len(value) > NameMaxBytes || !utf8.ValidString(value) || strings.TrimSpace(value) != value || strings.ContainsFunc(value, unicode.IsControl):
			return Errorf(CodeInvalid, "the value of an affinity tag must be 1 to %d bytes, without control characters and spaces at its ends, got %q", NameMaxBytes, t)
		}
	}
	if !slices.IsSorted(tags) || len(slices.Compact(slices.Clone(tags))) < len(tags) {
		return Errorf(CodeInvalid, "affinity tags must be sorted and different")
	}
	return nil
}

// BindingReason says why a binding began, or ended.
type BindingReason string

// The reasons. A binding that begins because another one had to end has the reason of that end.
const (
	BindingFirst       BindingReason = "first" // the project had none for the key
	BindingNoRoom      BindingReason = "no_room"
	BindingHeadroom    BindingReason = "headroom"
	BindingMaintenance BindingReason = "maintenance"
	BindingAway        BindingReason = "away"  // the zone was paused or silent for too long
	BindingUnfit       BindingReason = "unfit" // the zone no longer has the tags or the availability zone
	BindingUnlinked    BindingReason = "unlinked"
	BindingOperator    BindingReason = "operator" // somebody set, moved or ended it
)

// Binding ties new work of a project to a child zone for a period. What runs stays where it is.
type Binding struct {
	ID          BindingID     `cbor:"1,keyasint"`
	Project     ProjectID     `cbor:"2,keyasint" log:"project_id"`
	Origin      LinkID        `cbor:"3,keyasint,omitempty"` // the parent whose project it is; "" for this zone's own
	Key         BindingKey    `cbor:"4,keyasint"`
	Link        LinkID        `cbor:"5,keyasint"` // the child
	Zone        string        `cbor:"6,keyasint"` // its name when the binding began
	Start       Instant       `cbor:"7,keyasint"`
	End         Instant       `cbor:"8,keyasint"` // Forever while it is active
	Why         BindingReason `cbor:"9,keyasint"`
	Ended       BindingReason `cbor:"10,keyasint,omitempty"`                      // "" while it is active
	Reservation ReservationID `cbor:"11,keyasint,omitempty" log:"reservation_id"` // whose commit began it; "" for an operator
	User        UserID        `cbor:"12,keyasint,omitempty" log:"user_id"`        // who asked for that
}

// Active reports whether the binding is in use.
func (b *Binding) Active() bool { return b.End == Forever }

// BindingChoice is the child that a plan chose for a key, and what it knew.
type BindingChoice struct {
	Key  BindingKey    `cbor:"1,keyasint"`
	Seen BindingID     `cbor:"2,keyasint,omitempty"` // the active binding that the plan saw; "" for none
	Link LinkID        `cbor:"3,keyasint"`
	Why  BindingReason `cbor:"4,keyasint,omitempty"` // "" if it is the child that is bound already
	ID   BindingID     `cbor:"5,keyasint,omitempty"` // of the binding that begins; "" with an empty Why
}

// Clashes reports whether one hold cannot make both choices.
func (c *BindingChoice) Clashes(o BindingChoice) bool {
	return c.ID != "" && c.ID == o.ID || c.Key.String() == o.Key.String()
}
