package identity

import (
	"encoding/base64"
	"net"
	"slices"
	"strconv"
	"strings"

	"berth/api"
	"berth/internal/codec"
)

// Limits of join tokens.
const (
	joinTextMaxBytes    = 8 << 10 // the whole text
	JoinAddressesMax    = 16      // addresses in one token
	JoinAddressMaxBytes = 261     // one address: a DNS name, a colon and a port
)

const joinPrefix = "berth-join-"

// JoinToken admits a node or agent to a zone, or links a zone to it. Its secret
// authenticates the newcomer to the zone, and the pin of the authority authenticates
// the zone to the newcomer.
type JoinToken struct {
	Kind      api.JoinKind
	Zone      api.ZoneID // the admitting zone
	Addresses []string   // 1 to JoinAddressesMax, host:port, to try in this order
	CA        Pin        // of the zone's authority
	Next      Pin        // of a second one, while the zone changes its authority; zero for none
	ID        api.TokenID
	secret    Secret // tokenSecretBytes bytes
}

// joinBody is a JoinToken on the wire.
type joinBody struct {
	Kind      api.JoinKind `cbor:"1,keyasint"`
	Zone      api.ZoneID   `cbor:"2,keyasint"`
	Addresses []string     `cbor:"3,keyasint"`
	CA        []byte       `cbor:"4,keyasint"`
	ID        api.TokenID  `cbor:"5,keyasint"`
	Secret    []byte       `cbor:"6,keyasint"`
	Next      []byte       `cbor:"7,keyasint,omitempty"`
}

// NewJoinToken makes a join token with a new id and secret. next is the zero Pin unless the
// zone changes its authority. It returns an invalid-input error unless kind, zone and
// addresses are valid for a JoinToken.
func NewJoinToken(kind api.JoinKind, zone api.ZoneID, addresses []string, ca, next Pin) (JoinToken, error) {
	t := JoinToken{
		Kind: kind, Zone: zone, Addresses: slices.Clone(addresses), CA: ca, Next: next,
		ID: newTokenID(), secret: newSecret(string(newTokenSecret())),
	}
	if err := t.validate(); err != nil {
		return JoinToken{}, err
	}
	return t, nil
}

// Pins returns the pins of the zone's authorities.
func (t JoinToken) Pins() []Pin {
	if t.Next == (Pin{}) {
		return []Pin{t.CA}
	}
	return []Pin{t.CA, t.Next}
}

// Hash returns the SHA-256 of the token's secret, which the zone stores and compares by
// CheckToken.
func (t JoinToken) Hash() []byte { return hashOf([]byte(t.secret.Reveal())) }

// Text returns the token as text to hand over, "berth-join-" and base64url of
// its deterministic CBOR. It returns an invalid-input error for a token that is
// not one of NewJoinToken or ParseJoinToken.
func (t JoinToken) Text() (Secret, error) {
	if err := t.validate(); err != nil {
		return Secret{}, err
	}
	b := joinBody{Kind: t.Kind, Zone: t.Zone, Addresses: t.Addresses, CA: t.CA[:], ID: t.ID, Secret: []byte(t.secret.Reveal())}
	if t.Next != (Pin{}) {
		b.Next = t.Next[:]
	}
	body, err := codec.Marshal(b)
	if err != nil {
		return Secret{}, err
	}
	return newSecret(joinPrefix + base64.RawURLEncoding.EncodeToString(body)), nil
}

// ParseJoinToken reads what Text returns. A token has one spelling; anything else
// is an invalid-input error that does not quote it.
func ParseJoinToken(text string) (JoinToken, error) {
	malformed := func(cause error) (JoinToken, error) {
		return JoinToken{}, api.Wrap(api.CodeInvalid, "identity.ParseJoinToken", "the join token is malformed; copy all of it", cause)
	}
	encoded, ok := strings.CutPrefix(text, joinPrefix)
	if !ok || len(text) > joinTextMaxBytes {
		return malformed(nil)
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return malformed(err)
	}
	var b joinBody
	if err = codec.Unmarshal(raw, &b); err != nil {
		return malformed(err)
	}
	if len(b.CA) != len(Pin{}) || len(b.Next) != 0 && len(b.Next) != len(Pin{}) {
		return malformed(nil)
	}
	t := JoinToken{Kind: b.Kind, Zone: b.Zone, Addresses: b.Addresses, CA: Pin(b.CA), ID: b.ID, secret: newSecret(string(b.Secret))}
	copy(t.Next[:], b.Next)
	again, err := t.Text()
	if err != nil {
		return malformed(err)
	}
	if again.Reveal() != text {
		return malformed(nil)
	}
	return t, nil
}

func (t JoinToken) validate() error {
	switch t.Kind {
	case api.JoinNode, api.JoinAgent, api.JoinLink:
	default:
		return api.Errorf(api.CodeInvalid, "the kind of a join token must be node, agent or link, got %.20q", string(t.Kind))
	}
	if !validZone(t.Zone) {
		return Subject{Zone: t.Zone}.Validate()
	}
	if len(t.Addresses) == 0 || len(t.Addresses) > JoinAddressesMax {
		return api.Errorf(api.CodeInvalid, "a join token needs 1 to %d addresses, got %d", JoinAddressesMax, len(t.Addresses))
	}
	for _, a := range t.Addresses {
		if !validAddress(a) {
			return api.Errorf(api.CodeInvalid, "address %.300q must be host:port", a)
		}
	}
	if _, ok := decodeHex(string(t.ID), tokenIDBytes); !ok || len(t.secret.Reveal()) != tokenSecretBytes {
		return api.Errorf(api.CodeInvalid, "a join token needs an id and a secret; make it with NewJoinToken")
	}
	return nil
}

// validAddress reports whether s is an IP address or DNS name and a port from 1
// to 65535, as one would dial it.
func validAddress(s string) bool {
	if len(s) > JoinAddressMaxBytes {
		return false
	}
	host, port, err := net.SplitHostPort(s)
	n, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return false
	}
	return ValidHost(host)
}
