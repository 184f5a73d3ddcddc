package buildplan

import (
	"slices"

	"berth/api"
)

// Upper bounds, in bytes, of the encoded parts of a layer, and of what a blob adds to its
// contents.
const (
	layerBytes    = 256
	groupBytes    = 16 + SpareMax*slotBytes
	slotBytes     = 2*api.NameMaxBytes - 32 // a host, its generation and price, and its place in the order
	keptBytes     = api.NameMaxBytes + 4    // what a slot has more if it is kept
	childBytes    = 512                     // beside its blob
	envelopeBytes = 128
	blobMinBytes  = 1 << 10
)

// blobOf returns the maximum size of a blob with a plan of n bytes: padding adds at most a
// quarter.
func blobOf(n int) int { return max((n+envelopeBytes)*5/4, blobMinBytes) }

// BlobBound returns the maximum size, in bytes, of the plan of a zone that offers the given
// number of slots for the given number of groups, with at most the given number of levels of
// zones, including the zone itself. A trimmed layer has at most one child for each slot, so
// each slot adds at most a blob of one slot from below.
func BlobBound(slots, groups, levels int) int {
	bare := blobOf(layerBytes + groups*groupBytes)
	each := (slotBytes + keptBytes) * 5 / 4
	for range levels - 1 {
		if each < api.BlobMaxBytes {
			each = (slotBytes + keptBytes + childBytes + bare + each) * 5 / 4
		}
	}
	return min(bare+slots*each, api.BlobMaxBytes)
}

// Trim returns the layer without the parts that no slot needs: own hosts that are not in the
// order, and children without slots.
func (l Layer) Trim() Layer {
	at := make([]uint16, 1+len(l.Children)) // the new number of each source
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

// SizeMax returns an upper bound of the size of the encoded layer.
func (l Layer) SizeMax() int {
	n := layerBytes + len(l.Groups)*groupBytes
	for g := range l.Groups {
		n += max(len(l.Groups[g].Slots), len(l.Groups[g].Order)) * slotBytes
		for i := range l.Groups[g].Slots {
			if l.Groups[g].Slots[i].Keeps != "" {
				n += keptBytes
			}
		}
	}
	for _, c := range l.Children {
		n += childBytes + len(c.Blob)
	}
	return n
}
