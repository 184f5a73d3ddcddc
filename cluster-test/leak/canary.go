package leak

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"berth/raftstore/state"
)

// canaryMinBytes is the length of the shortest canary. Shorter ones turn up by
// chance in sealed plans, which look like random bytes.
const canaryMinBytes = 6

// Canary is one thing that must not leave a zone.
type Canary struct {
	Kind  string // description for people, such as "host name"
	Text  string // looked for in every encoding, in letters of either case
	Bytes []byte // in place of Text: looked for in every encoding, exactly
	Wire  bool   // with Bytes: looked for as they are and in no encoding; a form that only a machine writes
}

// String returns the kind and the canary.
func (c Canary) String() string {
	if c.Text != "" {
		return fmt.Sprintf("%s %q", c.Kind, c.Text)
	}
	return fmt.Sprintf("%s %x", c.Kind, c.Bytes)
}

// Encoding is the form in which a canary was found. The output of a step has the step as a
// prefix, such as "inflated/hex".
type Encoding string

// The encodings, and the steps.
const (
	encodingRaw     Encoding = "raw"
	encodingFolded  Encoding = "folded" // in other letters, upper for lower
	encodingHex     Encoding = "hex"
	encodingBase64  Encoding = "base64"
	encodingUTF16LE Encoding = "utf-16le"
	encodingUTF16BE Encoding = "utf-16be"

	encodingEscaped   Encoding = "escaped"   // percent signs or backslashes undone
	encodingUnchunked Encoding = "unchunked" // chunks of a body put together
	encodingInflated  Encoding = "inflated"  // gzip, zlib or deflate undone
)

// pattern is one form of one canary.
type pattern struct {
	canary int
	enc    Encoding
	want   []byte // in lower case if fold
	fold   bool
	exact  []byte // with fold: what is not called encodingFolded
}

// patternsOf returns every form of the canary with a number.
func (c Canary) patternsOf(n int) []pattern {
	if c.Text == "" {
		out := []pattern{{canary: n, enc: encodingRaw, want: c.Bytes}}
		if !c.Wire {
			out = append(out, encodedForms(n, c.Bytes)...)
		}
		return out
	}
	out := []pattern{{canary: n, enc: encodingRaw, want: []byte(strings.ToLower(c.Text)), fold: true, exact: []byte(c.Text)}}
	for i, enc := range []Encoding{encodingUTF16LE, encodingUTF16BE} {
		var b []byte
		for _, u := range utf16.Encode([]rune(strings.ToLower(c.Text))) {
			pair := []byte{byte(u), byte(u >> 8)}
			b = append(b, pair[i], pair[1-i])
		}
		out = append(out, pattern{canary: n, enc: enc, want: b, fold: true})
	}
	for _, s := range distinctOf(c.Text, strings.ToLower(c.Text), strings.ToUpper(c.Text)) {
		out = append(out, encodedForms(n, []byte(s))...)
	}
	return out
}

func distinctOf(in ...string) []string {
	slices.Sort(in)
	return slices.Compact(in)
}

// encodedForms returns the forms of b in hexadecimal and in base64.
func encodedForms(n int, b []byte) []pattern {
	out := []pattern{{canary: n, enc: encodingHex, want: []byte(hex.EncodeToString(b)), fold: true}}
	for at := range 3 {
		std, url := innerBase64(base64.RawStdEncoding, b, at), innerBase64(base64.RawURLEncoding, b, at)
		out = append(out, pattern{canary: n, enc: encodingBase64, want: std})
		if string(url) != string(std) {
			out = append(out, pattern{canary: n, enc: encodingBase64, want: url})
		}
	}
	return out
}

// innerBase64 returns the characters of the base64 of some text that b alone decides
// when b stands in it after at bytes, at modulo 3.
func innerBase64(e *base64.Encoding, b []byte, at int) []byte {
	all := e.EncodeToString(append(make([]byte, at), b...))
	first := (8*at + 5) / 6
	last := 8 * (at + len(b)) / 6
	return []byte(all[first:last])
}

// idCanaries returns the canaries of an identifier: its text and, if it is a UUID, its
// bytes, which are also what it is without dashes.
func idCanaries(kind, id string) []Canary {
	out := []Canary{{Kind: kind, Text: id}}
	if b, err := hex.DecodeString(strings.ReplaceAll(id, "-", "")); err == nil && len(b) == 16 {
		out = append(out, Canary{Kind: kind, Bytes: b})
	}
	return out
}

// keyPieceBytes is the length of the pieces of a key to search for: a part of a key is a
// leak as well.
const keyPieceBytes = 16

// Key returns the canaries of a secret: its pieces, or the whole if it is shorter
// than one.
func Key(kind string, secret []byte) []Canary {
	if len(secret) < keyPieceBytes {
		return []Canary{{Kind: kind, Bytes: secret}}
	}
	var out []Canary
	for piece := range slices.Chunk(secret, keyPieceBytes) {
		if len(piece) == keyPieceBytes {
			out = append(out, Canary{Kind: kind, Bytes: piece})
		}
	}
	return out
}

// addressCanaries returns the canaries of inner listeners, host:port each with an IP
// address for host: the pair in text and bytes, and the IP address by itself
// unless it is that of one of the public ones, which other zones know.
func addressCanaries(kind string, inner, public []string) ([]Canary, error) {
	known := map[netip.Addr]bool{}
	for _, s := range public {
		a, err := netip.ParseAddrPort(s)
		if err != nil {
			return nil, fmt.Errorf("reading a public address: %w", err)
		}
		known[a.Addr().Unmap()] = true
	}
	var out []Canary
	for _, s := range inner {
		a, err := netip.ParseAddrPort(s)
		if err != nil {
			return nil, fmt.Errorf("reading an inner address: %w", err)
		}
		ip := a.Addr().Unmap()
		out = append(out, Canary{Kind: kind, Text: netip.AddrPortFrom(ip, a.Port()).String()})
		out = append(out, withPort(kind, ip.AsSlice(), a.Port())...)
		if !known[ip] {
			known[ip] = true // once is enough
			out = append(out, addressForms(kind, ip)...)
		}
	}
	return out, nil
}

// withPort returns an address and a port as bytes, in either order of bytes.
func withPort(kind string, ip []byte, port uint16) []Canary {
	hi, lo := byte(port>>8), byte(port)
	return []Canary{
		{Kind: kind, Bytes: append(slices.Clone(ip), hi, lo)},
		{Kind: kind, Bytes: append(slices.Clone(ip), lo, hi)},
	}
}

// smallKeys is how many integer keys of CBOR take one byte.
const smallKeys = 24

// addressForms returns the forms of an IP address. Four bytes are too few to look for,
// so they are looked for as CBOR, gossip and certificates write them: after a key
// and a length.
func addressForms(kind string, ip netip.Addr) []Canary {
	wide := ip.As16()
	out := []Canary{{Kind: kind, Bytes: wide[:]}}
	if text := ip.String(); len(text) >= canaryMinBytes {
		out = append(out, Canary{Kind: kind, Text: text})
	}
	if !ip.Is4() {
		return out
	}
	b := ip.AsSlice()
	n := uint64(b[0])<<24 | uint64(b[1])<<16 | uint64(b[2])<<8 | uint64(b[3])
	if text := strconv.FormatUint(n, 10); len(text) >= canaryMinBytes {
		out = append(out, Canary{Kind: kind, Text: text})
	}
	out = append(out, Canary{Kind: kind, Text: hex.EncodeToString(b)})
	heads := [][]byte{[]byte("Addr\xa4"), []byte("Addr\xc4\x04"), {0x87, 4}} // MessagePack, old and new; a name in a certificate
	for k := range smallKeys {
		heads = append(heads, []byte{byte(k), 0x44})
	}
	for _, h := range heads {
		out = append(out, Canary{Kind: kind, Bytes: append(h, b...), Wire: true})
	}
	return out
}

// nameCanaries returns what callers of a zone call their leases and series of leases.
func nameCanaries(v *state.State) (out []Canary) {
	for _, l := range v.Leases("") {
		if len(l.Terms.Name) >= canaryMinBytes {
			out = append(out, Canary{Kind: "name of a lease", Text: l.Terms.Name})
		}
	}
	for _, r := range v.AllSeries("") {
		if len(r.Name) >= canaryMinBytes {
			out = append(out, Canary{Kind: "name of a series", Text: r.Name})
		}
	}
	return out
}

// bindingCanaries returns what an operator says of children, and the bindings to them.
func bindingCanaries(v *state.State) (out []Canary) {
	for _, l := range v.Children() {
		for _, t := range l.Terms.Tags {
			if len(t) >= canaryMinBytes {
				out = append(out, Canary{Kind: "affinity tag", Text: t})
			}
		}
	}
	for _, b := range v.Bindings() {
		out = append(out, idCanaries("binding id", string(b.ID))...)
	}
	return out
}

// OfState returns the canaries of a zone's replicated state: its hosts and other
// providers, who claims of them, agents, nodes and their inner addresses, what its
// drivers said of instances that failed, the names of its leases, affinity tags of its
// children and bindings to them; of names, tags and faults those that are not too short
// to look for. Keys and addresses that are not in the state are the caller's to add.
func OfState(v *state.State) ([]Canary, error) {
	var out []Canary
	agents := map[string]bool{}
	for _, h := range v.AllHosts() {
		out = append(out, Canary{Kind: "host name", Text: h.Name})
		out = append(out, idCanaries("host id", string(h.ID))...)
		agents[string(h.Agent)] = true
		for _, i := range v.OnHost(h.ID) {
			if len(i.Fault) >= canaryMinBytes {
				out = append(out, Canary{Kind: "fault", Text: i.Fault})
			}
		}
	}
	for _, p := range v.Providers() {
		if p.CanHost {
			continue
		}
		out = append(out, idCanaries("provider id", string(p.ID))...)
		if len(p.Name) >= canaryMinBytes {
			out = append(out, Canary{Kind: "provider name", Text: p.Name})
		}
	}
	for _, c := range v.Consumers() {
		out = append(out, idCanaries("consumer id", string(c.ID))...)
	}
	for a := range agents {
		out = append(out, idCanaries("agent id", a)...)
	}
	out = append(out, nameCanaries(v)...)
	out = append(out, bindingCanaries(v)...)
	var inner, public []string
	for _, n := range v.Nodes() {
		out = append(out, idCanaries("node id", string(n.ID))...)
		inner = append(inner, n.NodeAddr, n.AgentAddr, n.APIAddr)
		public = append(public, n.GatewayAddr)
	}
	addrs, err := addressCanaries("address", inner, public)
	return append(out, addrs...), err
}
