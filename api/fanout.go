package api

import "cmp"

// FanoutMode says which children a request is sent to.
type FanoutMode string

// The modes.
const (
	FanoutLean FanoutMode = "lean" // the cheapest by their digests, and others when these are not enough: the default
	FanoutAll  FanoutMode = "all"  // all that their digests do not rule out
)

// Limits of FanoutRule.Slack.
const (
	FanoutSlack    = 2 // the default
	FanoutSlackMax = 64
)

// FanoutRule is what the operator of a zone says of which children are asked for slots.
type FanoutRule struct {
	Mode FanoutMode `cbor:"1,keyasint,omitempty"` // "" for FanoutLean
	// Slack is how many times what a request needs the asked children must have room for, by their
	// digests; 0 for FanoutSlack.
	Slack int `cbor:"2,keyasint,omitempty"`
}

// IsZero reports whether nothing is set.
func (r FanoutRule) IsZero() bool { return r.Mode == "" && r.Slack == 0 }

// Use returns the mode.
func (r *FanoutRule) Use() FanoutMode { return cmp.Or(r.Mode, FanoutLean) }

// SlackOf returns Slack or its default.
func (r *FanoutRule) SlackOf() int { return cmp.Or(r.Slack, FanoutSlack) }

// Validate returns an invalid-input error for the first field that no zone could follow.
func (r *FanoutRule) Validate() error {
	switch r.Mode {
	case "", FanoutLean, FanoutAll:
	default:
		return Errorf(CodeInvalid, "mode must be %s or %s, got %q", FanoutLean, FanoutAll, string(r.Mode))
	}
	if r.Slack < 0 || r.Slack > FanoutSlackMax {
		return Errorf(CodeInvalid, "slack must be 1 to %d, or 0 for the default of %d, got %d", FanoutSlackMax, FanoutSlack, r.Slack)
	}
	return nil
}
