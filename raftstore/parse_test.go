package raftstore

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPackedHeads reads values of every kind of head, and refuses what an entry of
// Raft does not have, at both ends of each range.
func TestPackedHeads(t *testing.T) {
	rest := bytes.Repeat([]byte{1}, 300)
	for head, want := range map[byte]struct {
		value  int // bytes
		number uint64
		ok     bool
	}{
		0x00: {0, 0, true}, 0x7f: {0, 0x7f, true},
		0x80: {}, 0x9f: {},
		0xa0: {0, 0, true}, 0xa1: {1, 0, true}, 0xbf: {31, 0, true},
		0xc0: {0, 0, true}, 0xc1: {}, 0xcb: {},
		0xcc: {0, 1, true}, 0xcd: {0, 0x101, true}, 0xce: {0, 0x1010101, true}, 0xcf: {0, 0x101010101010101, true},
		0xd0: {}, 0xd8: {}, 0xd9: {1, 0, true}, 0xda: {0x101, 0, true}, 0xdb: {}, 0xdc: {}, 0xff: {},
	} {
		value, number, _, ok := packed(append([]byte{head}, rest...))
		require.Equal(t, want.ok, ok, "head %#x", head)
		assert.Len(t, value, want.value, "head %#x", head)
		if ok && want.value == 0 {
			assert.Equal(t, want.number, number, "head %#x", head)
		}
	}
}

// TestEmptyPages: a bucket that is one page may be empty, and a page that stands below
// another one may not.
func TestEmptyPages(t *testing.T) {
	page := func(flags, count uint16) boltBucketRef {
		b := make([]byte, boltHeader)
		native.PutUint16(b[8:], flags)
		native.PutUint16(b[10:], count)
		return boltBucketRef{inline: b}
	}
	for _, c := range []struct {
		flags, count uint16
		want         []byte
		ok           bool
	}{
		{boltLeaf, 0, nil, true},
		{boltLeaf, 1, nil, true},
		{boltLeaf, 0, []byte("k"), false},
		{boltLeaf, 1, []byte("k"), true},
		{boltBranch, 0, nil, false},
		{boltBranch, 1, nil, false},
	} {
		_, err := (&boltFile{}).readNode(page(c.flags, c.count), c.want)
		assert.Equal(t, c.ok, err == nil, "%+v: %v", c, err)
	}
}

// TestOnlyDamageIsRefused: what else goes wrong as a node opens its files is told as it
// is, so that nobody throws the node away for it.
func TestOnlyDamageIsRefused(t *testing.T) {
	require.NoError(t, refuseDamage("n1", nil))
	assert.Equal(t, io.ErrClosedPipe, refuseDamage("n1", io.ErrClosedPipe))
	err := refuseDamage("n1", damagef("a page is gone"))
	require.ErrorIs(t, err, ErrDamaged)
	assert.ErrorContains(t, err, "berth operator remove n1")
}
