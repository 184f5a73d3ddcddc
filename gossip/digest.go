package gossip

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"berth/api"
	"berth/internal/codec"
)

// Limits of digests.
const (
	digestMaxBytes    = 64 << 10 // of one encoded digest
	broadcastMaxBytes = 8 << 10  // of a broadcast digest; larger ones travel only by push/pull
	DigestsMax        = 2        // zones of one pool: those at the two ends of a link
	labelMaxBytes     = 255      // of one tag, trait or availability zone
	labelsMax         = 512      // tags of one digest, and traits, and availability zones
	wireVersion       = 1        // of messages, states and meta data
)

// Why a digest was ignored.
var (
	errMalformed = errors.New("gossip: malformed digest")
	errTooLarge  = errors.New("gossip: digest above its limit")
)

// carried is a digest in transit. Its age is the time since its zone last sent it, as
// the sender measured it. So a digest that its zone no longer repeats grows old
// everywhere, whoever passes it on.
type carried struct {
	AgeMS  uint64 `cbor:"1,keyasint"`
	Digest []byte `cbor:"2,keyasint"` // an encoded api.Digest
}

// trimDigest returns d within the limits that receivers check. It drops excess and
// unprintable labels, and everything but totals if the rest is still too large. Then d
// is partial: it rules nothing out.
func trimDigest(d api.Digest) api.Digest {
	for _, labels := range []*[]string{&d.Tags, &d.Traits, &d.AZs} {
		kept := slices.DeleteFunc(slices.Clone(*labels), func(s string) bool { return !isPrintable(s) })
		kept = kept[:min(len(kept), labelsMax)]
		d.Partial = d.Partial || len(kept) < len(*labels)
		*labels = kept
	}
	if raw, err := codec.Marshal(d); err == nil && len(raw) > digestMaxBytes {
		d.Tags, d.Traits, d.AZs, d.Sketches, d.Partial = nil, nil, nil, nil, true
	}
	d.Gateways = slices.DeleteFunc(slices.Clone(d.Gateways), func(s string) bool { return !api.ValidAddress(s) })
	d.Gateways = d.Gateways[:min(len(d.Gateways), api.GatewaysMax)]
	return d
}

// encodeDigest encodes d, and checks it as receivers will.
func encodeDigest(d api.Digest) ([]byte, error) {
	if err := checkDigest(d); err != nil {
		return nil, err
	}
	raw, err := codec.Marshal(d)
	if err == nil && len(raw) > digestMaxBytes {
		err = errTooLarge
	}
	return raw, err
}

// decodeDigest decodes and checks a digest from a peer.
func decodeDigest(raw []byte) (api.Digest, error) {
	if len(raw) > digestMaxBytes {
		return api.Digest{}, errTooLarge
	}
	var d api.Digest
	if err := codec.Unmarshal(raw, &d); err != nil {
		return api.Digest{}, errMalformed
	}
	return d, checkDigest(d)
}

// checkDigest returns errMalformed unless d is usable: names are printable and in
// bounds, amounts are not negative, gateways can be dialled.
func checkDigest(d api.Digest) error {
	ok := api.ValidName(string(d.Zone)) && isPrintable(d.Health) && d.At >= 0 && d.At < api.Forever &&
		len(d.Classes) <= api.ClassesMax && len(d.Sketches) <= api.FlavorsMax*sketchesPerFlavorMax &&
		max(len(d.Tags), len(d.Traits), len(d.AZs)) <= labelsMax
	ok = ok && (len(d.Gateways) == 0 || api.CheckGateways(d.Gateways) == nil)
	for _, s := range slices.Concat(d.Tags, d.Traits, d.AZs) {
		ok = ok && isPrintable(s)
	}
	for c, t := range d.Classes {
		ok = ok && c.Valid() && min(t.Total, t.Free, t.SlotMin, t.SlotMax) >= 0
	}
	for _, s := range d.Sketches {
		ok = ok && isPrintable(string(s.Flavor)) && s.Resources.Validate() == nil && s.StartIn >= 0 && s.Fits >= 0
	}
	if !ok {
		return errMalformed
	}
	return nil
}

// sketchesPerFlavorMax bounds the start times per flavor in a digest's sketches.
const sketchesPerFlavorMax = 16

func isPrintable(s string) bool {
	return s != "" && len(s) <= labelMaxBytes && !strings.ContainsFunc(s, unicode.IsControl)
}

// Heard is a digest and the time its zone sent it, by this node's clock and the ages
// along the way.
type Heard struct {
	Digest api.Digest
	At     time.Time
}

// held is a Heard with its encoding, so that it is passed on unchanged.
type held struct {
	Heard
	raw []byte
}

// table keeps the newest digest of each zone. It has no lock and no clock.
type table struct {
	zones []api.ZoneID // whose digests are kept; empty: any, up to DigestsMax
	ttl   time.Duration
	held  map[api.ZoneID]held
}

// verdict is the result of offering a digest to a table.
type verdict int

const (
	verdictNewer   verdict = iota // kept
	verdictKnown                  // the one already kept, or older
	verdictForeign                // of a zone outside this pool
	verdictExpired                // older than the table's ttl
)

// offerDigest keeps h if it is newer than the held digest: by a higher sequence, or by
// the same sequence and a later time of its zone's clock. A copy of the held digest can
// show that its zone has repeated it. An expired digest is always replaced, so that a
// zone restored from a backup, with a lower sequence, is heard again.
func (t *table) offerDigest(h held, now time.Time) verdict {
	zone := h.Digest.Zone
	old, known := t.held[zone]
	switch {
	case len(t.zones) > 0 && !slices.Contains(t.zones, zone):
		return verdictForeign
	case !known && len(t.held) >= DigestsMax:
		return verdictForeign
	case now.Sub(h.At) > t.ttl:
		return verdictExpired
	}
	if known && now.Sub(old.At) <= t.ttl && !isNewer(h.Digest, old.Digest) {
		if !isNewer(old.Digest, h.Digest) && h.At.After(old.At) {
			old.At = h.At
			t.held[zone] = old
		}
		return verdictKnown
	}
	t.held[zone] = h
	return verdictNewer
}

// isNewer reports whether their zone sent a after b.
func isNewer(a, b api.Digest) bool {
	return a.Sequence > b.Sequence || a.Sequence == b.Sequence && a.At > b.At
}

// carriedDigests returns the digests that may be passed on, in the order of zones.
func (t *table) carriedDigests(now time.Time) []carried {
	var list []carried
	for _, zone := range slices.Sorted(maps.Keys(t.held)) {
		h := t.held[zone]
		if age := now.Sub(h.At); age <= t.ttl {
			list = append(list, carried{AgeMS: uint64(max(0, age.Milliseconds())), Digest: h.raw}) // not negative
		}
	}
	return list
}

// openDigest decodes a digest from a peer; now is its arrival.
func (c carried) openDigest(ttl time.Duration, now time.Time) (held, error) {
	d, err := decodeDigest(c.Digest)
	if err != nil {
		return held{}, err
	}
	age := ttl + time.Millisecond // beyond ttl, the exact age does not matter
	if c.AgeMS <= uint64(max(0, ttl.Milliseconds())) {
		age = time.Duration(c.AgeMS) * time.Millisecond // at most ttl
	}
	return held{Heard: Heard{Digest: d, At: now.Add(-age)}, raw: c.Digest}, nil
}

// encodeState and decodeState carry the digests of a push/pull, encodeMessage
// and decodeMessage one that is broadcast: a byte of version and CBOR.
func encodeState(list []carried) ([]byte, error)  { return encodeVersioned(list) }
func encodeMessage(one carried) ([]byte, error)   { return encodeVersioned(one) }
func decodeState(b []byte) (l []carried, e error) { return decodeVersioned[[]carried](b) }
func decodeMessage(b []byte) (carried, error)     { return decodeVersioned[carried](b) }

func encodeVersioned(v any) ([]byte, error) {
	body, err := codec.Marshal(v)
	return append([]byte{wireVersion}, body...), err
}

func decodeVersioned[T any](b []byte) (v T, err error) {
	if len(b) == 0 || b[0] != wireVersion || codec.Unmarshal(b[1:], &v) != nil {
		return v, errMalformed
	}
	return v, nil
}
