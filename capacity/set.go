package capacity

import (
	"iter"
	"math/bits"
	"slices"
)

const wordBits = 64

// Set is a set of rows, as a bitset. The zero Set is empty and has room for no
// row. Sets that are combined must come from one view (or from NewSet with its
// Rows): the operations work word by word over the shorter of the two.
type Set struct{ words []uint64 }

// NewSet returns an empty set with room for rows 0 to rows-1.
func NewSet(rows int) Set { return Set{make([]uint64, (rows+wordBits-1)/wordBits)} }

// Has reports whether row is in s; false for a row that s has no room for.
func (s Set) Has(row int) bool {
	w := row / wordBits
	return row >= 0 && w < len(s.words) && s.words[w]>>(row%wordBits)&1 == 1
}

// Add puts row into s. A row that s has no room for is ignored.
func (s Set) Add(row int) {
	if w := row / wordBits; row >= 0 && w < len(s.words) {
		s.words[w] |= 1 << (row % wordBits)
	}
}

// Remove removes row from s.
func (s Set) Remove(row int) {
	if w := row / wordBits; row >= 0 && w < len(s.words) {
		s.words[w] &^= 1 << (row % wordBits)
	}
}

// Len returns the number of rows in s.
func (s Set) Len() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// And removes from s the rows that are not in o.
func (s Set) And(o Set) {
	n := min(len(s.words), len(o.words))
	for i, w := range o.words[:n] {
		s.words[i] &= w
	}
	clear(s.words[n:])
}

// AndNot removes the rows in o from s.
func (s Set) AndNot(o Set) {
	for i, w := range o.words[:min(len(s.words), len(o.words))] {
		s.words[i] &^= w
	}
}

// Or adds the rows in o to s, as far as s has room.
func (s Set) Or(o Set) {
	for i, w := range o.words[:min(len(s.words), len(o.words))] {
		s.words[i] |= w
	}
}

// Meets reports whether s and o have a row in common.
func (s Set) Meets(o Set) bool {
	for i, w := range o.words[:min(len(s.words), len(o.words))] {
		if s.words[i]&w != 0 {
			return true
		}
	}
	return false
}

// Empty reports whether no row is in s.
func (s Set) Empty() bool {
	for _, w := range s.words {
		if w != 0 {
			return false
		}
	}
	return true
}

// Keep removes from s every row for which keep is false.
func (s Set) Keep(keep func(row int) bool) {
	for i, w := range s.words {
		left := w
		for ; w != 0; w &= w - 1 {
			if bit := bits.TrailingZeros64(w); !keep(i*wordBits + bit) {
				left &^= 1 << bit
			}
		}
		s.words[i] = left
	}
}

// wordsOf returns the words of chunk n, as far as s has room.
func (s Set) wordsOf(n int) []uint64 {
	const each = chunkHosts / wordBits
	words := s.words[min(n*each, len(s.words)):]
	return words[:min(len(words), each)]
}

// Words returns the number of words that s has room for.
func (s Set) Words() int { return len(s.words) }

// Word returns word n: a bit for each of its WordRows rows, the lowest first.
func (s Set) Word(n int) uint64 { return s.words[n] }

// Part returns words from to to-1 as a set that shares them with s: its row 0 is the first of them.
func (s Set) Part(from, to int) Set { return Set{s.words[from:to:to]} }

// Copy makes words from to to-1 of s those of o.
func (s Set) Copy(o Set, from, to int) { copy(s.words[from:to], o.words[from:to]) }

// Clone returns a copy that shares nothing with s.
func (s Set) Clone() Set { return Set{slices.Clone(s.words)} }

// All yields the rows in s in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s.words {
			for ; w != 0; w &= w - 1 {
				if !yield(i*wordBits + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}
