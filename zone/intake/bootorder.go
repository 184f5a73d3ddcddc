package intake

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth/api"
	"berth/internal/codec"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// traitSpec begins the key of a flavor's extra spec that names a trait. Its value
// is traitRequired or traitForbidden.
const traitSpec = "trait:"

// The values of an extra spec that begins with traitSpec.
const (
	traitRequired  = "required"
	traitForbidden = "forbidden"
)

// BootOrder is a boot as its caller wants it: what will be recorded of it, and what else
// makes it the same as another one. It is filled in two steps. First as asked, without
// what the names in it stand for, and without what two calls for the same may differ in;
// then it is digested. What is filled in after that is no part of the digest.
type BootOrder struct {
	command.BootTerms `cbor:"1,keyasint"`
	Blob              []byte   `cbor:"2,keyasint,omitempty"` // a plan to take up, or nil to select
	Joins             []string `cbor:"3,keyasint,omitempty"` // per group: what its hints call the server group that it joins, "" for none
	Preemptible       []string `cbor:"4,keyasint,omitempty"` // per group: "true" or "false" as its hint says, "" for no hint; none if no group has one
}

// digest fills in what tells a repeat of a boot from another one. An order as asked names
// flavors and server groups as its caller does, so that a repeat is known whatever has
// become of them.
func (o *BootOrder) digest() error {
	body, err := codec.Marshal(o)
	if err != nil {
		return api.Wrap(api.CodeInternal, "intake.Order", "", err)
	}
	sum := sha256.Sum256(body)
	o.Digest = sum[:]
	return nil
}

// Command returns the command that records a boot at an instant. It allots the ids of the
// instances, and that of the reservation if the caller has none.
func (o *BootOrder) Command(at command.Stamp) command.BootCreate {
	c := command.BootCreate{Stamp: at, BootTerms: o.BootTerms}
	for i := range c.Request.Groups {
		c.Min += c.Request.Groups[i].Min
	}
	c.Instances = instanceSpecs(c.Name, c.Request.Groups)
	if c.Request.Reservation == "" && !c.Fixed {
		c.Request.Reservation = api.NewReservationID()
	}
	return c
}

// isRepeat reports whether a boot was asked for before under its reservation id or
// key. Then the state machine has the answer, whatever has become of what it named.
func (o *BootOrder) isRepeat(v *state.State) bool {
	b, ok := v.BootFor(o.Request.Project, o.Request.Reservation, o.Key)
	return ok && string(b.Digest) == string(o.Digest)
}

// withFlavor returns a group with what its flavor asks for.
func withFlavor(g api.Group, f *api.Flavor) api.Group {
	g.Resources, g.ExtraSpecs, g.Traits = f.Resources, f.ExtraSpecs, joinTraits(g.Traits, f.ExtraSpecs)
	return g
}

// FillFlavor gives a reservation what a flavor asks for.
func FillFlavor(r *api.Reservation, f *api.Flavor) {
	g := withFlavor(api.Group{}, f)
	r.Flavor, r.Resources, r.ExtraSpecs, r.Traits = f.ID, g.Resources, g.ExtraSpecs, g.Traits
}

// joinTraits adds to what a caller asks what the extra specs of the flavor ask.
func joinTraits(t api.Traits, specs map[string]string) api.Traits {
	out := api.Traits{Required: slices.Clone(t.Required), Forbidden: slices.Clone(t.Forbidden)}
	for k, v := range specs {
		name, is := strings.CutPrefix(k, traitSpec)
		switch {
		case is && v == traitRequired:
			out.Required = append(out.Required, name)
		case is && v == traitForbidden:
			out.Forbidden = append(out.Forbidden, name)
		}
	}
	for _, list := range t.AnyOf {
		out.AnyOf = append(out.AnyOf, slices.Compact(slices.Sorted(slices.Values(list))))
	}
	slices.Sort(out.Required)
	slices.Sort(out.Forbidden)
	out.Required, out.Forbidden = slices.Compact(out.Required), slices.Compact(out.Forbidden)
	return out
}

// instanceSpecs allots the identities of the instances of a boot, group after group. With
// several groups each instance has the name of its group in its own.
func instanceSpecs(boot string, groups []api.Group) []api.InstanceSpec {
	if len(groups) == 1 {
		return allotSpecs(boot, groups[0].Count)
	}
	var out []api.InstanceSpec
	for i := range groups {
		g := &groups[i]
		name := boot + "-" + cmp.Or(g.Name, strconv.Itoa(i+1))
		for _, s := range allotSpecs(name, g.Count) {
			if g.Count == 1 {
				s.Name += "-1"
			}
			out = append(out, s)
		}
	}
	return out
}

// allotSpecs allots the identities of n instances that are called name. A single
// instance has the bare name.
func allotSpecs(name string, n int) []api.InstanceSpec {
	out := make([]api.InstanceSpec, n)
	for i, id := range api.NewInstanceIDs(n) {
		out[i] = api.InstanceSpec{ID: id, Name: name}
		if n > 1 {
			out[i].Name = fmt.Sprintf("%s-%d", name, i+1)
		}
	}
	return out
}
