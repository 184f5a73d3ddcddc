package api

import (
	"net/netip"
	"slices"
)

// Traits are the traits that the host of a slot must or must not have.
type Traits struct {
	Required  []string   `cbor:"1,keyasint,omitempty"` // all of them; sorted
	Forbidden []string   `cbor:"2,keyasint,omitempty"` // none of them; sorted
	AnyOf     [][]string `cbor:"3,keyasint,omitempty"` // at least one of each list; each sorted
}

// IsZero reports whether t is empty.
func (t Traits) IsZero() bool { return len(t.Required)+len(t.Forbidden)+len(t.AnyOf) == 0 }

// Image has the properties of an image that matter for placement.
type Image struct {
	Ref        string            `cbor:"1,keyasint,omitempty"`
	Properties map[string]string `cbor:"2,keyasint,omitempty"` // such as architecture, hypervisor_type
}

// IsZero reports whether the image is unspecified.
func (i Image) IsZero() bool { return i.Ref == "" && len(i.Properties) == 0 }

// Hints are a caller's conditions on single hosts. All of them must be met.
type Hints struct {
	SameHost      []InstanceID `cbor:"1,keyasint,omitempty"` // on the host of one of these, which are of the same project
	DifferentHost []InstanceID `cbor:"2,keyasint,omitempty"` // not on the host of any of these
	Query         string       `cbor:"3,keyasint,omitempty"` // JSON text; see package filters/query
	Near          string       `cbor:"4,keyasint,omitempty"` // network of the host's address, in CIDR form; never sent to another zone
	ForceHosts    []string     `cbor:"5,keyasint,omitempty"` // names of hosts of this zone; never sent to another
	IgnoreHosts   []string     `cbor:"6,keyasint,omitempty"` // names of hosts of this zone; never sent to another
}

// IsZero reports whether h is empty.
func (h Hints) IsZero() bool {
	return h.Query == "" && h.Near == "" && len(h.SameHost)+len(h.DifferentHost)+len(h.ForceHosts)+len(h.IgnoreHosts) == 0
}

// Local reports whether h has names or addresses of hosts. These are only for users of
// the hosts' own zone and are never sent to another: by trial, the answers would reveal
// the names and addresses of hosts there.
func (h Hints) Local() bool { return h.Near != "" || len(h.ForceHosts)+len(h.IgnoreHosts) > 0 }

// validate checks the hints of a group that may name at most forced hosts that it must be on.
func (h Hints) validate(forced int) error {
	for _, l := range []struct {
		name    string
		n, most int
	}{
		{"same_host", len(h.SameHost), HintHostsMax},
		{"different_host", len(h.DifferentHost), HintHostsMax},
		{"force_hosts", len(h.ForceHosts), forced},
		{"ignore_hosts", len(h.IgnoreHosts), HintHostsMax},
	} {
		if l.n > l.most {
			return Errorf(CodeInvalid, "%s may have at most %d entries, got %d", l.name, l.most, l.n)
		}
	}
	for _, id := range slices.Concat(h.SameHost, h.DifferentHost) {
		if !ValidName(string(id)) {
			return CheckName("instance id in a hint", string(id))
		}
	}
	for _, name := range slices.Concat(h.ForceHosts, h.IgnoreHosts) {
		if !ValidName(name) {
			return CheckName("host name in a hint", name)
		}
	}
	if len(h.Query) > QueryMaxBytes {
		return Errorf(CodeInvalid, "query may have at most %d bytes, got %d", QueryMaxBytes, len(h.Query))
	}
	if h.Near == "" {
		return nil
	}
	if _, err := netip.ParsePrefix(h.Near); err != nil {
		return Errorf(CodeInvalid, "near must be a network such as 192.0.2.0/24, got %q", h.Near)
	}
	return nil
}
