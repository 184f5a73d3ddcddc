package api

import (
	"slices"
	"strconv"
)

// Policy is the policy of a rule or a server group for the hosts of its members.
type Policy string

// The policies. The soft ones are preferences and never refuse a host.
const (
	Affinity         Policy = "affinity"      // all on one host
	AntiAffinity     Policy = "anti-affinity" // at most Max on one host
	SoftAffinity     Policy = "soft-affinity"
	SoftAntiAffinity Policy = "soft-anti-affinity"
)

// Valid reports whether p is one of the policies.
func (p Policy) Valid() bool {
	return p == Affinity || p == AntiAffinity || p == SoftAffinity || p == SoftAntiAffinity
}

// Validate returns an invalid-input error unless p is one of the policies, with at most
// most members on one host: 1 to CountMax for AntiAffinity, else 0.
func (p Policy) Validate(most int) error {
	switch {
	case !p.Valid():
		return Errorf(CodeInvalid, "policy must be %s, %s, %s or %s, got %q", Affinity, AntiAffinity, SoftAffinity, SoftAntiAffinity, string(p))
	case p != AntiAffinity && most != 0:
		return Errorf(CodeInvalid, "max_per_host is for %s alone", AntiAffinity)
	case p == AntiAffinity && (most < 1 || most > CountMax):
		return Errorf(CodeInvalid, "max_per_host must be 1 to %d, got %d", CountMax, most)
	}
	return nil
}

// Rule applies a policy to the hosts of all slots of some groups of a request and of all
// instances that were booted under the same rule before.
type Rule struct {
	ID     ServerGroupID `cbor:"1,keyasint,omitempty"` // a server group; "" for a rule of only this request
	Policy Policy        `cbor:"2,keyasint"`
	Max    int           `cbor:"3,keyasint,omitempty" log:"max_per_host"` // of AntiAffinity, 1 to CountMax; else 0
	Groups []int         `cbor:"4,keyasint"`                              // indices, ascending
	// Pairs has the slots of the groups share hosts one by one: on each host there are as many of one group as of
	// the other. Of Affinity and without a server group, for volumes and the instances that get them.
	Pairs bool `cbor:"5,keyasint,omitempty" form:"5"`
}

// RuleKey returns the name under which a zone counts the members of Rules[n]
// within the project: the server group, or the reservation and n.
func (r *Request) RuleKey(n int) string {
	if id := r.Rules[n].ID; id != "" {
		return string(id)
	}
	return string(r.Reservation) + "#" + strconv.Itoa(n)
}

// Lift returns the request with the rules of some server groups, which were deleted, refusing no host. They keep their numbers: RuleKey names
// other rules by theirs.
func (r Request) Lift(groups []ServerGroupID) Request {
	lifted := func(rule Rule) bool { return rule.ID != "" && slices.Contains(groups, rule.ID) }
	if !slices.ContainsFunc(r.Rules, lifted) {
		return r
	}
	r.Rules = slices.Clone(r.Rules)
	for n, rule := range r.Rules {
		if lifted(rule) {
			r.Rules[n] = Rule{Policy: AntiAffinity, Max: CountMax, Groups: rule.Groups}
		}
	}
	return r
}

// IsUnder reports whether the request has a rule of a server group.
func (r *Request) IsUnder(group ServerGroupID) bool {
	return group != "" && slices.ContainsFunc(r.Rules, func(rule Rule) bool { return rule.ID == group })
}

// RulesOf returns the indices of the rules that bind a group, ascending.
func (r *Request) RulesOf(group int) []int {
	var out []int
	for i := range r.Rules {
		if slices.Contains(r.Rules[i].Groups, group) {
			out = append(out, i)
		}
	}
	return out
}

// Together reports whether a rule of affinity keeps all of a group on one host.
func (r *Request) Together(group int) bool {
	return slices.ContainsFunc(r.RulesOf(group), func(n int) bool { return r.Rules[n].Policy == Affinity && !r.Rules[n].Pairs })
}

// HasPairs reports whether some groups share hosts pair by pair.
func (r *Request) HasPairs() bool {
	return slices.ContainsFunc(r.Rules, func(rule Rule) bool { return rule.Pairs })
}

func (r *Request) validateRules() error {
	if len(r.Rules) > RulesMax {
		return Errorf(CodeInvalid, "a request may have at most %d rules, got %d", RulesMax, len(r.Rules))
	}
	seen := map[ServerGroupID]bool{}
	for n, rule := range r.Rules {
		if err := rule.Policy.Validate(rule.Max); err != nil {
			return err
		}
		switch {
		case rule.ID != "" && !ValidName(string(rule.ID)):
			return CheckName("server group id", string(rule.ID))
		case rule.ID != "" && seen[rule.ID]:
			return Errorf(CodeInvalid, "server group %s is there twice", rule.ID)
		case len(rule.Groups) == 0:
			return Errorf(CodeInvalid, "a rule needs at least one group")
		}
		seen[rule.ID] = true
		for i, g := range rule.Groups {
			if g < 0 || g >= len(r.Groups) || i > 0 && g <= rule.Groups[i-1] {
				return Errorf(CodeInvalid, "a rule names groups 0 to %d in ascending order", len(r.Groups)-1)
			}
		}
		if rule.Pairs && !r.Attaches(n) {
			return Errorf(CodeInvalid, "only volumes and the instances that they are attached to are kept together in pairs")
		}
	}
	return nil
}
