package identity

import (
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"strings"

	"berth/api"
)

// Role is the role of a certificate's holder.
type Role string

// The roles.
const (
	RoleNode    Role = "node"    // speaks to the other nodes of its zone
	RoleGateway Role = "gateway" // speaks for its zone to linked zones
	RoleAgent   Role = "agent"   // speaks for hosts to the nodes of its zone
	RoleAPI     Role = "api"     // serves the public API; never a peer
)

// Valid reports whether r is one of the roles.
func (r Role) Valid() bool {
	switch r {
	case RoleNode, RoleGateway, RoleAgent, RoleAPI:
		return true
	}
	return false
}

// ZoneMaxBytes bounds a zone id in a certificate, where it is a host name.
const ZoneMaxBytes = 63

// Subject is the identity in a certificate.
type Subject struct {
	Zone api.ZoneID // 1 to ZoneMaxBytes characters of a-z 0-9 -, the first not -
	Role Role
	ID   string // of the node or agent: a name by api.ValidName
}

const scheme = "berth://"

// String returns the URI berth://<zone id>/<role>/<id>.
func (s Subject) String() string {
	return scheme + string(s.Zone) + "/" + string(s.Role) + "/" + s.ID
}

// Validate returns an invalid-input error unless s can be named in a certificate.
func (s Subject) Validate() error {
	if !validZone(s.Zone) {
		return api.Errorf(api.CodeInvalid, "zone id %q must be 1 to %d characters of a-z 0-9 - and not start with -", string(s.Zone), ZoneMaxBytes)
	}
	if !s.Role.Valid() {
		return api.Errorf(api.CodeInvalid, "role %q must be node, gateway, agent or api", string(s.Role))
	}
	return api.CheckName("id in a certificate", s.ID)
}

func validZone(z api.ZoneID) bool {
	if z == "" || len(z) > ZoneMaxBytes || z[0] == '-' {
		return false
	}
	for i := range len(z) {
		if c := z[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// parseSubject reads exactly what String returns: the URI of a subject has one
// spelling.
func parseSubject(uri string) (Subject, error) {
	rest, ok := strings.CutPrefix(uri, scheme)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 {
		return Subject{}, fmt.Errorf("%.200q is not of the form %s<zone id>/<role>/<id>", uri, scheme)
	}
	s := Subject{Zone: api.ZoneID(parts[0]), Role: Role(parts[1]), ID: parts[2]}
	if err := s.Validate(); err != nil {
		return Subject{}, err
	}
	return s, nil
}

// Types of general names (RFC 5280, part 4.2.1.6).
const (
	nameDNS = 2
	nameURI = 6
	nameIP  = 7
)

// subjectOf returns the subject of a leaf certificate. The certificate must have an
// empty distinguished name and exactly one alternative name, the subject's URI. Only
// for RoleAPI may there also be DNS names and IP addresses. subjectOf checks only
// names; the handshake checks signatures.
func subjectOf(cert *x509.Certificate) (Subject, error) {
	if cert == nil || cert.IsCA {
		return Subject{}, errors.New("not a leaf certificate")
	}
	if len(cert.Subject.Names) != 0 || len(cert.RawSubject) > len(emptyName) {
		return Subject{}, errors.New("the certificate has a distinguished name; its only name must be a URI")
	}
	names, err := alternativeNames(cert)
	if err != nil {
		return Subject{}, err
	}
	if len(names[nameURI]) != 1 {
		return Subject{}, fmt.Errorf("the certificate has %d URIs; it must have one", len(names[nameURI]))
	}
	s, err := parseSubject(names[nameURI][0])
	if err != nil {
		return Subject{}, fmt.Errorf("reading the certificate's URI: %w", err)
	}
	for tag := range names {
		if tag != nameURI && (s.Role != RoleAPI || tag != nameDNS && tag != nameIP) {
			return Subject{}, errors.New("the certificate has a name beside its URI")
		}
	}
	return s, nil
}

// emptyName is the encoding of a distinguished name without parts.
var emptyName = []byte{0x30, 0x00}

var oidAlternativeNames = asn1.ObjectIdentifier{2, 5, 29, 17}

// alternativeNames returns the subject alternative names of cert by type. It
// reads them itself because crypto/x509 leaves out the types it does not know.
func alternativeNames(cert *x509.Certificate) (map[int][]string, error) {
	out := map[int][]string{}
	for _, ext := range cert.Extensions {
		if !ext.Id.Equal(oidAlternativeNames) {
			continue
		}
		var names []asn1.RawValue
		rest, err := asn1.Unmarshal(ext.Value, &names)
		if err != nil || len(rest) != 0 {
			return nil, errors.New("the certificate's alternative names are malformed")
		}
		for _, n := range names {
			if n.Class != asn1.ClassContextSpecific {
				return nil, errors.New("the certificate's alternative names are malformed")
			}
			out[n.Tag] = append(out[n.Tag], string(n.Bytes))
		}
	}
	return out, nil
}
