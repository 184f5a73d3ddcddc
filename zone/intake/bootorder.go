package intake

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/api"
	"berth/internal/codec"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// TraitSpec begins the key of a flavor's extra spec that names a trait. Its value
// is TraitRequired or TraitForbidden.
const TraitSpec = "trait:"

// The values of an extra spec that begins with TraitSpec.
const (
	TraitRequired  = "required"
	TraitForbidden = "forbidden"
)

// BootOrder is a boot as its caller wants it, checked and resolved.
type BootOrder struct {
	Caller   api.Caller
	Key      string // Idempotency-Key, "" for none
	Name     string
	Groups   []OrderGroup // 1 to GroupsMax
	Rules    []api.Rule
	Zones    api.ZoneRule
	Lifetime time.Duration     // of the instances, 0 for no end
	Timeout  time.Duration     // for the decision, 0 for no other than the zone's own
	Wanted   api.ReservationID // the caller's own, or ""
	Metadata map[string]string
	Blob     []byte        // a plan to take up, or nil to select
	Call     api.RequestID // the call that asks; no part of what makes two boots the same
}

// OrderGroup is one kind of instances of a boot.
type OrderGroup struct {
	Name     string // "" for the only group of a boot that names none
	Flavor   *api.Flavor
	Min, Max int
	Image    api.Image
	Traits   api.Traits // as asked; Request joins those of the flavor's extra specs
	AZ       string
	Hints    api.Hints
	Joins    string // what the caller calls the server group that Rules has for it, "" for none
}

// asked is what makes two boots the same request. It tells flavors and server
// groups by what they were called, so that a repeat is known whatever has become
// of them.
type asked struct {
	Name     string            `cbor:"1,keyasint"`
	Groups   []askedGroup      `cbor:"2,keyasint"`
	Rules    []api.Rule        `cbor:"3,keyasint,omitempty"`
	Zones    api.ZoneRule      `cbor:"4,keyasint,omitzero"`
	Wanted   api.ReservationID `cbor:"5,keyasint"`
	Metadata map[string]string `cbor:"6,keyasint,omitempty"`
	Blob     []byte            `cbor:"7,keyasint,omitempty"`
	Lifetime time.Duration     `cbor:"8,keyasint,omitempty"`
	Timeout  time.Duration     `cbor:"9,keyasint,omitempty"`
}

type askedGroup struct {
	Name   string       `cbor:"1,keyasint,omitempty"`
	Flavor api.FlavorID `cbor:"2,keyasint"`
	Min    int          `cbor:"3,keyasint"`
	Max    int          `cbor:"4,keyasint"`
	Image  api.Image    `cbor:"5,keyasint,omitzero"`
	Traits api.Traits   `cbor:"6,keyasint,omitzero"`
	AZ     string       `cbor:"7,keyasint,omitempty"`
	Hints  api.Hints    `cbor:"8,keyasint,omitzero"`
	Joins  string       `cbor:"9,keyasint,omitempty"`
}

// requestDigest returns what tells a repeat of a boot from another one.
func (o *BootOrder) requestDigest() ([]byte, error) {
	a := asked{
		Name: o.Name, Zones: o.Zones, Wanted: o.Wanted, Metadata: o.Metadata, Blob: o.Blob,
		Lifetime: o.Lifetime, Timeout: o.Timeout,
	}
	for i := range o.Groups {
		g := &o.Groups[i]
		a.Groups = append(a.Groups, askedGroup{g.Name, g.Flavor.ID, g.Min, g.Max, g.Image, g.Traits, g.AZ, g.Hints, g.Joins})
	}
	for _, r := range o.Rules {
		if r.ID == "" {
			a.Rules = append(a.Rules, r)
		}
	}
	body, err := codec.Marshal(a)
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "intake.Order", "", err)
	}
	sum := sha256.Sum256(body)
	return sum[:], nil
}

// Command returns the command that records a boot at an instant. It allots the ids of the
// instances, and that of the reservation if the caller has none.
func (o *BootOrder) Command(at command.Stamp) (command.BootCreate, error) {
	digest, err := o.requestDigest()
	if err != nil {
		return command.BootCreate{}, err
	}
	c := command.BootCreate{
		Stamp: at, Key: o.Key, Digest: digest, Name: o.Name, Request: o.Request(), Min: o.leastInstances(),
		Instances: o.instanceSpecs(), Metadata: o.Metadata, Fixed: o.Blob != nil, Call: o.Call, Timeout: o.Timeout,
	}
	if c.Request.Reservation == "" && !c.Fixed {
		c.Request.Reservation = api.NewReservationID()
	}
	return c, nil
}

// isRepeat reports whether a boot was asked for before under its reservation id or
// key. Then the state machine has the answer, whatever has become of what it named.
func (o *BootOrder) isRepeat(v *state.State) bool {
	d, err := o.requestDigest()
	b, ok := v.BootFor(o.Caller.Project, o.Wanted, o.Key)
	return err == nil && ok && string(b.Digest) == string(d)
}

// Request returns the canonical request of a boot: what its plan is bound to.
// Its window starts when it is held, so that a plan that was selected a moment
// ago still is the plan of the same request.
func (o *BootOrder) Request() api.Request {
	r := api.Request{
		Reservation: o.Wanted, Project: o.Caller.Project, User: o.Caller.User,
		Window: api.Window{Start: 0, End: api.Forever}, Class: api.Firm,
		Rules: o.Rules, Zones: o.Zones, Lifetime: o.Lifetime,
	}
	for i := range o.Groups {
		g := &o.Groups[i]
		r.Groups = append(r.Groups, api.Group{
			Count: g.Max, Min: g.Min, Name: g.Name, Flavor: g.Flavor.ID, Resources: g.Flavor.Resources,
			ExtraSpecs: g.Flavor.ExtraSpecs, Traits: joinTraits(g.Traits, g.Flavor.ExtraSpecs),
			Image: g.Image, Hints: g.Hints, AZ: g.AZ,
		})
	}
	return r
}

// joinTraits adds to what a caller asks what the extra specs of the flavor ask.
func joinTraits(t api.Traits, specs map[string]string) api.Traits {
	out := api.Traits{Required: slices.Clone(t.Required), Forbidden: slices.Clone(t.Forbidden)}
	for k, v := range specs {
		name, is := strings.CutPrefix(k, TraitSpec)
		switch {
		case is && v == TraitRequired:
			out.Required = append(out.Required, name)
		case is && v == TraitForbidden:
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

// leastInstances returns how many instances of all groups together a boot needs.
func (o *BootOrder) leastInstances() int {
	n := 0
	for i := range o.Groups {
		n += o.Groups[i].Min
	}
	return n
}

// instanceSpecs allots the identities of the instances of a boot, group after group. With
// several groups each instance has the name of its group in its own.
func (o *BootOrder) instanceSpecs() []api.InstanceSpec {
	if len(o.Groups) == 1 {
		return allotSpecs(o.Name, o.Groups[0].Max)
	}
	var out []api.InstanceSpec
	for i := range o.Groups {
		g := &o.Groups[i]
		name := o.Name + "-" + cmp.Or(g.Name, strconv.Itoa(i+1))
		for _, s := range allotSpecs(name, g.Max) {
			if g.Max == 1 {
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
	for i := range out {
		out[i] = api.InstanceSpec{ID: api.InstanceID(api.NewUUID()), Name: name}
		if n > 1 {
			out[i].Name = fmt.Sprintf("%s-%d", name, i+1)
		}
	}
	return out
}
