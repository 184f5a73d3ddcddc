package raftstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"io"
	"math"
)

// This file reads a bolt file with plain reads. Bolt itself maps the file, trusts
// what it finds, panics in a goroutine of its own or faults on damage, and takes
// the older of its two roots when the newer one is damaged: so everything that it
// would trust is looked at before it opens the file.

const (
	boltMagic      = 0xED0CDAED
	boltVersion    = 2
	boltNoFreelist = math.MaxUint64 // the list of free pages is not written
	boltHeader     = 16             // bytes before the content of a page
	boltMeta       = 64             // bytes of a root
	boltElement    = 16             // bytes of one element of a page
	boltPageMin    = 1 << 10
	boltPageMax    = 1 << 16

	boltBranch = 0x01
	boltLeaf   = 0x02
	boltRoot   = 0x04
	boltBucket = 0x01 // flag of an element that is a bucket
)

var native = binary.NativeEndian

// boltFile is the newest state in a bolt file.
type boltFile struct {
	from     io.ReaderAt
	pageSize uint64
	pages    uint64 // high-water mark
	txid     uint64
	root     uint64
	seen     map[uint64]bool // pages that were reached
	buckets  map[string]boltBucketRef
}

// boltBucketRef is where a bucket begins: a page, or bytes if it is a small one.
type boltBucketRef struct {
	page   uint64
	inline []byte
}

// readBolt checks the two roots of a bolt file and finds its buckets. Both roots
// must be good: one is written at a time, within a sector, so a power cut damages
// neither.
func readBolt(from io.ReaderAt, size int64) (*boltFile, error) {
	var head [boltHeader + boltMeta]byte
	if _, err := from.ReadAt(head[:], 0); err != nil {
		return nil, readingFile(err)
	}
	pageSize := uint64(native.Uint32(head[boltHeader+8:]))
	if pageSize < boltPageMin || pageSize > boltPageMax || pageSize&(pageSize-1) != 0 {
		return nil, damagef("root 0 has a page size of %d", pageSize)
	}
	b := &boltFile{from: from, pageSize: pageSize, seen: map[uint64]bool{}, buckets: map[string]boltBucketRef{}}
	var txids [2]uint64
	for i := range uint64(2) {
		if _, err := from.ReadAt(head[:], int64(i*pageSize)); err != nil {
			return nil, readingFile(err)
		}
		if err := b.readMeta(i, head[:]); err != nil {
			return nil, err
		}
		txids[i] = native.Uint64(head[boltHeader+48:])
	}
	if d := txids[0] - txids[1]; d != 1 && d != math.MaxUint64 {
		return nil, damagef("its roots are of transactions %d and %d", txids[0], txids[1])
	}
	if b.pages > uint64(size)/pageSize {
		return nil, damagef("it has %d bytes and should have %d", size, b.pages*pageSize)
	}
	prev := []byte(nil)
	err := b.walkTree(boltBucketRef{page: b.root}, nil, &prev, func(flags uint32, key, value []byte) error {
		if flags != boltBucket || len(value) < boltElement {
			return damagef("%q is no bucket", key)
		}
		ref := boltBucketRef{page: native.Uint64(value)}
		if ref.page == 0 {
			ref.inline = bytes.Clone(value[boltElement:])
		}
		b.buckets[string(key)] = ref
		return nil
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// readingFile is for the errors of plain reads: what ends too early is damaged.
func readingFile(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damagef("it is cut short")
	}
	return err
}

// readMeta checks root i and keeps what it says if it is the newest so far.
func (b *boltFile) readMeta(i uint64, page []byte) error {
	m := page[boltHeader:]
	sum := fnv.New64a()
	sum.Write(m[:56]) // a hash never fails
	txid := native.Uint64(m[48:])
	switch {
	case native.Uint32(m) != boltMagic, native.Uint32(m[4:]) != boltVersion:
		return damagef("root %d does not begin like one", i)
	case native.Uint64(m[56:]) != sum.Sum64():
		return damagef("the checksum of root %d does not match", i)
	case native.Uint64(page) != i, native.Uint16(page[8:]) != boltRoot, txid%2 != i, uint64(native.Uint32(m[8:])) != b.pageSize:
		return damagef("root %d is not where it belongs", i)
	}
	if i == 0 || txid > b.txid {
		b.txid, b.root, b.pages = txid, native.Uint64(m[16:]), native.Uint64(m[40:])
		if native.Uint64(m[32:]) != boltNoFreelist {
			return damagef("root %d names a list of free pages", i)
		}
	}
	return nil
}

// walkBucket calls f with every key of a bucket, in ascending order.
func (b *boltFile) walkBucket(bucket string, f func(key, value []byte) error) error {
	ref, ok := b.buckets[bucket]
	if !ok {
		return damagef("it has no bucket %q", bucket)
	}
	prev := []byte(nil)
	return b.walkTree(ref, nil, &prev, func(flags uint32, key, value []byte) error {
		if flags != 0 {
			return damagef("key %x has the flags %#x", key, flags)
		}
		return f(key, value)
	})
}

// walkTree visits the leaves below ref. Their keys must rise, and the first one must
// be the key under which the page is known, if it is known under one.
func (b *boltFile) walkTree(ref boltBucketRef, want []byte, prev *[]byte, f func(flags uint32, key, value []byte) error) error {
	page, err := b.readNode(ref, want)
	if err != nil {
		return err
	}
	count, leaf := int(native.Uint16(page[10:])), native.Uint16(page[8:]) == boltLeaf
	for i := range count {
		e, err := readElement(page, i, leaf)
		switch {
		case err != nil:
			return damagef("page %d: element %d is out of bounds", ref.page, i)
		case i == 0 && want != nil && !bytes.Equal(e.key, want):
			return damagef("page %d begins with key %x instead of %x", ref.page, e.key, want)
		case !leaf:
			err = b.walkTree(boltBucketRef{page: e.child}, e.key, prev, f)
		case *prev != nil && bytes.Compare(*prev, e.key) >= 0:
			return damagef("page %d: key %x is behind %x", ref.page, e.key, *prev)
		default:
			*prev = e.key
			err = f(e.flags, e.key, e.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readNode returns the bytes of a branch or a leaf.
func (b *boltFile) readNode(ref boltBucketRef, want []byte) (page []byte, err error) {
	if page = ref.inline; page == nil {
		page, err = b.readPage(ref.page)
	}
	if err != nil {
		return nil, err
	}
	if len(page) < boltHeader {
		return nil, damagef("a small bucket is cut short")
	}
	flags, count := native.Uint16(page[8:]), native.Uint16(page[10:])
	switch {
	case flags == boltLeaf && (count > 0 || want == nil): // only a whole bucket may be empty
	case flags == boltBranch && count > 0 && ref.inline == nil:
	default:
		return nil, damagef("page %d is neither branch nor leaf", ref.page)
	}
	return page, nil
}

// readPage reads one page with all that overflows from it.
func (b *boltFile) readPage(id uint64) ([]byte, error) {
	if id < 2 || id >= b.pages {
		return nil, damagef("page %d is out of bounds", id)
	}
	var head [boltHeader]byte
	if _, err := b.from.ReadAt(head[:], int64(id*b.pageSize)); err != nil {
		return nil, readingFile(err)
	}
	more := uint64(native.Uint32(head[12:]))
	if native.Uint64(head[:]) != id || more >= b.pages-id {
		return nil, damagef("page %d does not begin like one", id)
	}
	for i := id; i <= id+more; i++ {
		if b.seen[i] {
			return nil, damagef("page %d is used twice", i)
		}
		b.seen[i] = true
	}
	page := make([]byte, (more+1)*b.pageSize)
	if _, err := b.from.ReadAt(page, int64(id*b.pageSize)); err != nil {
		return nil, readingFile(err)
	}
	return page, nil
}

// boltItem is one element of a page: a key with a value, or with a page below it.
type boltItem struct {
	flags      uint32
	key, value []byte
	child      uint64
}

func readElement(page []byte, i int, leaf bool) (boltItem, error) {
	at := uint64(boltHeader + i*boltElement)
	if at+boltElement > uint64(len(page)) {
		return boltItem{}, ErrDamaged
	}
	e := page[at : at+boltElement]
	var it boltItem
	var pos, keyLen, valueLen uint64
	if leaf {
		it.flags = native.Uint32(e)
		pos, keyLen, valueLen = uint64(native.Uint32(e[4:])), uint64(native.Uint32(e[8:])), uint64(native.Uint32(e[12:]))
	} else {
		pos, keyLen, it.child = uint64(native.Uint32(e)), uint64(native.Uint32(e[4:])), native.Uint64(e[8:])
	}
	begin := at + pos
	if keyLen == 0 || begin+keyLen+valueLen > uint64(len(page)) {
		return boltItem{}, ErrDamaged
	}
	it.key, it.value = page[begin:begin+keyLen], page[begin+keyLen:begin+keyLen+valueLen]
	return it, nil
}
