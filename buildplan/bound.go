package buildplan

import (
	"slices"

	"berth/api"
)

// The most that the parts of a layer take when it is encoded, and a blob beside what is
// sealed in it, in bytes.
const (
	layerBytes    = 256
	groupBytes    = 16 + SpareMax*slotBytes
	slotBytes     = 2*api.NameMaxBytes - 32 // a host, its generation and price, and its place in the order
	childBytes    = 512                     // beside its blob
	envelopeBytes = 128
	blobMinBytes  = 1 << 10
)

// blobOf returns the most that a blob of a plan of n bytes takes: it is padded by at most
// a quarter.
func blobOf(n int) int { return max((n+envelopeBytes)*5/4, blobMinBytes) }

// BlobBound returns the most bytes that the plan of a zone can take that offers so many
// slots, for so many groups, with at most so many levels of zones in it, itself the first.
// A trimmed layer has a child for a slot at the most, so a blob grows by what a blob of
// one slot takes below it.
func BlobBound(slots, groups, levels int) int {
	bare := blobOf(layerBytes + groups*groupBytes)
	each := slotBytes * 5 / 4
	for range levels - 1 {
		if each < api.BlobMaxBytes {
			each = (slotBytes + childBytes + bare + each) * 5 / 4
		}
	}
	return min(bare+slots*each, api.BlobMaxBytes)
}

// Trim returns the layer without what none of its slots needs: own hosts that are not in
// the order, and children that give nothing.
func (l Layer) Trim() Layer {
	at := make([]uint16, 1+len(l.Children)) // where each source is afterwards
	var used []Child
	for g := range l.Groups {
		for _, src := range l.Groups[g].Order {
			at[src] = 1
		}
	}
	for i, c := range l.Children {
		if at[1+i] > 0 {
			used = append(used, c)
			at[1+i] = uint16(len(used)) //nolint:gosec // at most LinksMax
		}
	}
	at[Own] = Own
	l.Children, l.Groups = used, slices.Clone(l.Groups)
	for g := range l.Groups {
		lg, own := &l.Groups[g], 0
		lg.Order = slices.Clone(lg.Order)
		for i, src := range lg.Order {
			if src == Own {
				own++
			}
			lg.Order[i] = at[src]
		}
		lg.Slots = lg.Slots[:own]
	}
	return l
}

// SizeMax returns the most bytes that Encode makes of the layer.
func (l Layer) SizeMax() int {
	n := layerBytes + len(l.Groups)*groupBytes
	for g := range l.Groups {
		n += max(len(l.Groups[g].Slots), len(l.Groups[g].Order)) * slotBytes
	}
	for _, c := range l.Children {
		n += childBytes + len(c.Blob)
	}
	return n
}
