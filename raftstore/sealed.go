package raftstore

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"time"

	"github.com/hashicorp/raft"

	"berth/api"
	"berth/internal/codec"
)

// What is written to the log is sealed: an entry of Raft becomes one whose Data is
//
//	data, extensions, length of the extensions (4), AppendedAt (8), CRC32C (4)
//
// with little-endian numbers. The sum covers index, term, type and all before it,
// so an entry is as good as its sum, whatever lies under it. The outer Extensions
// and AppendedAt stay empty.

const sealBytes = 4 + 8 + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealSum is the sum of an entry whose Data is sealed; body is that without the sum.
func sealSum(l *raft.Log, body []byte) uint32 {
	var head [17]byte
	binary.LittleEndian.PutUint64(head[:], l.Index)
	binary.LittleEndian.PutUint64(head[8:], l.Term)
	head[16] = byte(l.Type)
	return crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, body)
}

// sealEntry returns the entry that is written for l.
func sealEntry(l *raft.Log) *raft.Log {
	at := int64(0)
	if !l.AppendedAt.IsZero() {
		at = l.AppendedAt.UnixNano()
	}
	b := make([]byte, 0, len(l.Data)+len(l.Extensions)+sealBytes)
	b = append(append(b, l.Data...), l.Extensions...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(l.Extensions)))
	b = binary.LittleEndian.AppendUint64(b, uint64(at))
	b = binary.LittleEndian.AppendUint32(b, sealSum(l, b))
	return &raft.Log{Index: l.Index, Term: l.Term, Type: l.Type, Data: b}
}

// openEntry returns the entry that was sealed in l, which should be at index, and
// its sum.
func openEntry(index uint64, l *raft.Log) (raft.Log, uint32, error) {
	n := len(l.Data) - sealBytes
	if n < 0 {
		return raft.Log{}, 0, damagef("the entry at index %d is cut short", index)
	}
	end := len(l.Data) - 4
	sum := binary.LittleEndian.Uint32(l.Data[end:])
	if l.Index != index || sum != sealSum(l, l.Data[:end]) {
		return raft.Log{}, 0, damagef("the checksum of the entry at index %d does not match", index)
	}
	more := int(binary.LittleEndian.Uint32(l.Data[n:]))
	if more > n {
		return raft.Log{}, 0, damagef("the extensions of the entry at index %d are cut short", index)
	}
	out := raft.Log{Index: l.Index, Term: l.Term, Type: l.Type, Data: l.Data[: n-more : n-more]}
	if more > 0 {
		out.Extensions = l.Data[n-more : n : n]
	}
	if at := int64(binary.LittleEndian.Uint64(l.Data[n+4:])); at != 0 {
		out.AppendedAt = time.Unix(0, at).UTC()
	}
	return out, sum, nil
}

// ledgerIndex is where the ledger lies among the entries: behind all of them, in
// the transaction of each.
const (
	ledgerIndex = math.MaxUint64
	ledgerType  = raft.LogType(math.MaxUint8)
)

// ledger says which entries there should be, so that a lost one is missed. The log
// is empty when Last is First less one; the next entry then is at First, or right
// behind the snapshot.
type ledger struct {
	Node  api.NodeID `cbor:"1,keyasint"`
	First uint64     `cbor:"2,keyasint"`
	Last  uint64     `cbor:"3,keyasint"`
	Snap  uint64     `cbor:"4,keyasint"` // a snapshot up to here or further was kept

	// Entries that are being deleted, and may be there or not; none when both are 0.
	DeadFrom uint64 `cbor:"5,keyasint"`
	DeadTo   uint64 `cbor:"6,keyasint"`
}

func (b ledger) isEmpty() bool { return b.Last < b.First }

func (b ledger) hasEntry(index uint64) bool { return b.First <= index && index <= b.Last }

func (b ledger) isDead(index uint64) bool {
	return b.DeadFrom != 0 && b.DeadFrom <= index && index <= b.DeadTo
}

// encodePage returns the entry that holds the ledger.
func (b ledger) encodePage() (*raft.Log, error) {
	body, err := codec.Marshal(b)
	if err != nil {
		return nil, err
	}
	return sealEntry(&raft.Log{Index: ledgerIndex, Type: ledgerType, Data: body}), nil
}

// readLedger returns the ledger of node in the entry at ledgerIndex.
func readLedger(node api.NodeID, l *raft.Log) (ledger, error) {
	var b ledger
	in, _, err := openEntry(ledgerIndex, l)
	if err != nil || in.Type != ledgerType {
		return b, damagef("the checksum of its ledger does not match")
	}
	if err := codec.Unmarshal(in.Data, &b); err != nil {
		return b, damagef("its ledger: %v", err)
	}
	if b.Node != node {
		return b, damagef("it is the log of node %s", b.Node)
	}
	if b.First == 0 || b.Last == math.MaxUint64 || b.Last+1 < b.First || b.DeadFrom > b.DeadTo {
		return b, damagef("its ledger says %d to %d", b.First, b.Last)
	}
	return b, nil
}

// votes are the keys of Raft's stable store, which holds terms and votes. They are
// one record, so that none of them can be lost alone.
type votes struct {
	Node   api.NodeID        `cbor:"1,keyasint"`
	Values map[string][]byte `cbor:"2,keyasint,omitempty"`
}

// votesKey is where the record lies.
var votesKey = []byte("votes")

func (v votes) encodeVotes() ([]byte, error) {
	b, err := codec.Marshal(v)
	if err != nil {
		return nil, err
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), nil
}

func readVotes(node api.NodeID, b []byte) (votes, error) {
	var v votes
	n := len(b) - 4
	if n < 0 || crc32.Checksum(b[:n], castagnoli) != binary.LittleEndian.Uint32(b[n:]) {
		return v, damagef("the checksum of its term and vote does not match")
	}
	if err := codec.Unmarshal(b[:n], &v); err != nil {
		return v, damagef("its term and vote: %v", err)
	}
	if v.Node != node {
		return v, damagef("it holds the votes of node %s", v.Node)
	}
	if v.Values == nil {
		v.Values = map[string][]byte{}
	}
	return v, nil
}

// readPacked reads the MessagePack of a raft.Log as raft-boltdb writes it: a map
// whose values are numbers, bytes or nil. It believes no length.
func readPacked(b []byte) (*raft.Log, error) {
	l := &raft.Log{}
	if len(b) == 0 || b[0] != 0x86 {
		return nil, damagef("it is no map of six")
	}
	b = b[1:]
	for range 6 {
		key, _, rest, ok := packed(b)
		if !ok {
			return nil, damagef("a key is cut short")
		}
		value, number, rest, ok := packed(rest)
		if !ok {
			return nil, damagef("a value is cut short")
		}
		b = rest
		switch string(key) {
		case "Index":
			l.Index = number
		case "Term":
			l.Term = number
		case "Type":
			l.Type = raft.LogType(number)
		case "Data":
			l.Data = value
		case "AppendedAt", "Extensions": // the sealed ones count
		default:
			return nil, damagef("it has a field %q", key)
		}
	}
	if len(b) != 0 {
		return nil, damagef("%d bytes are left over", len(b))
	}
	return l, nil
}

// packed reads one value: bytes, a number, or nil.
func packed(b []byte) (value []byte, number uint64, rest []byte, ok bool) {
	if len(b) == 0 {
		return nil, 0, nil, false
	}
	wide := func(size int) (uint64, bool) {
		if len(b) < 1+size {
			return 0, false
		}
		var word [8]byte
		copy(word[8-size:], b[1:1+size])
		return binary.BigEndian.Uint64(word[:]), true
	}
	head, size := b[0], 0
	switch {
	case head < 0x80:
		return nil, uint64(head), b[1:], true
	case head == 0xc0:
		return nil, 0, b[1:], true
	case head >= 0xcc && head <= 0xcf:
		size = 1 << (head - 0xcc)
		number, ok = wide(size)
		if !ok {
			return nil, 0, nil, false
		}
		return nil, number, b[1+size:], true
	case head >= 0xa0 && head < 0xc0:
		number, ok = uint64(head&0x1f), true
	case head >= 0xd9 && head <= 0xdb:
		size = 1 << (head - 0xd9)
		number, ok = wide(size)
	}
	if !ok || number > uint64(len(b)-1-size) {
		return nil, 0, nil, false
	}
	from, to := 1+size, 1+size+int(number)
	return b[from:to:to], 0, b[to:], true
}
