package command

import (
	"encoding/binary"
	"fmt"

	"berth/api"
)

// packNumbers returns n numbers as steps from each to the next, the first from -1.
func packNumbers(n int, number func(i int) int) []byte {
	out, last := steps{bytes: make([]byte, 0, n)}, -1
	for i := range n {
		k := number(i)
		out.add(int64(k - last))
		last = k
	}
	return out.end()
}

// unpackHosts reads numbers of hosts that packNumbers wrote; nil for nil.
func unpackHosts(hosts []api.HostID, at []byte) ([]api.HostID, error) {
	if at == nil {
		return nil, nil
	}
	out, last := make([]api.HostID, 0, min(len(at), packedMax)), int64(-1)
	for len(at) > 0 {
		d, count, rest, ok := readStep(at, packedMax-len(out))
		if !ok {
			return nil, fmt.Errorf("%w: a number of a host is cut short", errPacked)
		}
		for range count {
			if last += d; last < 0 || last >= int64(len(hosts)) {
				return nil, fmt.Errorf("%w: no host %d", errPacked, last)
			}
			out = append(out, hosts[last])
		}
		at = rest
	}
	return out, nil
}

// packIDs returns the instances of reports as steps from each to the next, in the last half of the
// id. A zero goes before an id that is written as a whole. It is not ok unless all are UUIDs.
func packIDs(items []api.InstanceReport) (b []byte, ok bool) {
	var out steps
	var lastHigh, last uint64
	for i := range items {
		id, ok := parseUUID(string(items[i].Instance))
		if !ok {
			return nil, false
		}
		high, low := binary.BigEndian.Uint64(id[:]), binary.BigEndian.Uint64(id[idBytes/2:])
		if d := int64(low - last); i > 0 && high == lastHigh && -stepMax < d && d < stepMax { //nolint:gosec // it wraps
			out.add(d)
		} else {
			out.bytes = append(append(out.end(), 0), id[:]...)
		}
		lastHigh, last = high, low
	}
	return out.end(), true
}

// unpackIDs reads what packIDs wrote.
func unpackIDs(b []byte) ([]api.InstanceID, error) {
	var all []byte // the texts share one piece of memory
	var id [idBytes]byte
	for known := false; len(b) > 0; known = true {
		room := packedMax - len(all)/idChars
		if b[0] == 0 {
			if len(b) <= idBytes || room == 0 {
				return nil, fmt.Errorf("%w: an id is cut short", errPacked)
			}
			copy(id[:], b[1:])
			all, b = appendUUID(all, id[:]), b[1+idBytes:]
			continue
		}
		d, count, rest, ok := readStep(b, room)
		if !ok || !known {
			return nil, fmt.Errorf("%w: an id is cut short", errPacked)
		}
		for range count {
			low := binary.BigEndian.Uint64(id[idBytes/2:]) + uint64(d) //nolint:gosec // it wraps
			binary.BigEndian.PutUint64(id[idBytes/2:], low)
			all = appendUUID(all, id[:])
		}
		b = rest
	}
	text, out := api.InstanceID(all), make([]api.InstanceID, len(all)/idChars)
	for i := range out {
		out[i] = text[i*idChars : (i+1)*idChars]
	}
	return out, nil
}

// steps are differences between numbers that follow each other. Equal ones in a row are written
// once, with their count. No step begins with a byte of 0.
type steps struct {
	bytes []byte
	step  int64
	count uint64 // of the last step, which is not written yet
}

// stepMax is what a step stays below, up and down.
const stepMax = 1 << 32

func (s *steps) add(d int64) {
	if s.count > 0 && d != s.step {
		s.end()
	}
	s.step = d
	s.count++
}

// end writes the last step and returns the bytes.
func (s *steps) end() []byte {
	if s.count == 0 {
		return s.bytes
	}
	head := (uint64(s.step)<<1 ^ uint64(s.step>>63)) << 1 //nolint:gosec // its bits
	if s.count == 1 {
		s.bytes = binary.AppendUvarint(s.bytes, head+1)
	} else {
		s.bytes = binary.AppendUvarint(binary.AppendUvarint(s.bytes, head+2), s.count)
	}
	s.count = 0
	return s.bytes
}

// readStep reads a step that occurs at most so often, and how often it does.
func readStep(b []byte, most int) (d int64, count int, rest []byte, ok bool) {
	head, n := binary.Uvarint(b)
	if n <= 0 || head == 0 || head > stepMax*4 || most == 0 {
		return 0, 0, nil, false
	}
	head, b, count = head-1, b[n:], 1
	if head&1 == 1 {
		times, n := binary.Uvarint(b)
		if n <= 0 || times < 2 || times > uint64(most) { //nolint:gosec // not below 0
			return 0, 0, nil, false
		}
		b, count = b[n:], int(times) //nolint:gosec // at most most
	}
	head >>= 1
	return int64(head>>1) ^ -int64(head&1), count, b, true //nolint:gosec // below 2^33
}
