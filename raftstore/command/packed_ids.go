package command

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"berth/api"
)

// specRun are Count instances. The first has ID and Name, and each that follows has the next id,
// and the next number at the end of its name.
type specRun struct {
	ID    api.InstanceID `cbor:"1,keyasint"`
	Name  string         `cbor:"2,keyasint"`
	Count int            `cbor:"3,keyasint"`
}

// Sizes of ids, in characters and bytes.
const (
	idChars    = 36 // of a UUID
	idTail     = 4  // hexadecimal digits at its end that count up within a run
	idBytes    = 16
	digitsMax  = 9 // of a number at the end of a name
	hexBase    = 16
	hexMaxBits = 16 // of idTail digits
)

// packSpecs returns identities as runs.
func packSpecs(specs []api.InstanceSpec) []specRun {
	var out []specRun
	var base, prefix string // of the last run; what follows them counts up
	var id, number uint64   // that would follow next
	grows := false          // the last run can grow
	for _, s := range specs {
		sBase, sID, ok := splitID(string(s.ID))
		sPrefix, sNumber, numbered := splitName(s.Name)
		ok = ok && numbered
		if ok && grows && sBase == base && sPrefix == prefix && sID == id && sNumber == number {
			out[len(out)-1].Count++
		} else {
			out = append(out, specRun{s.ID, s.Name, 1})
		}
		base, prefix, id, number, grows = sBase, sPrefix, sID+1, sNumber+1, ok
	}
	return out
}

// unpackSpecs reads what packSpecs wrote. The texts of a run share one piece of memory.
func unpackSpecs(other []api.InstanceSpec, runs []specRun) ([]api.InstanceSpec, error) {
	n := 0
	for _, r := range runs {
		if r.Count < 1 || r.Count > packedMax-n {
			return nil, fmt.Errorf("%w: a run of %d", errPacked, r.Count)
		}
		n += r.Count
	}
	if other != nil {
		return nil, fmt.Errorf("%w: it is there twice", errPacked)
	}
	out := make([]api.InstanceSpec, 0, n)
	for _, r := range runs {
		if r.Count == 1 {
			out = append(out, api.InstanceSpec{ID: r.ID, Name: r.Name})
			continue
		}
		var err error
		if out, err = r.appendTo(out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// appendTo adds the identities of a run to a list.
func (r *specRun) appendTo(out []api.InstanceSpec) ([]api.InstanceSpec, error) {
	base, id, ok := splitID(string(r.ID))
	prefix, number, numbered := splitName(r.Name)
	count := uint64(r.Count) //nolint:gosec // above 0
	if !ok || !numbered || id+count > 1<<hexMaxBits {
		return nil, fmt.Errorf("%w: nothing follows instance %s", errPacked, r.ID)
	}
	var ids, names strings.Builder
	ids.Grow(r.Count * idChars)
	names.Grow(r.Count * (len(prefix) + len(strconv.FormatUint(number+count, 10))))
	first, begin := len(out), 0
	for k := range count {
		ids.WriteString(base)
		tail := strconv.FormatUint(1<<hexMaxBits|(id+k), hexBase)
		ids.WriteString(tail[1:])
		names.WriteString(prefix)
		names.WriteString(strconv.FormatUint(number+k, 10))
		out = append(out, api.InstanceSpec{Name: names.String()[begin:]})
		begin = names.Len()
	}
	all := ids.String()
	for k := range r.Count {
		out[first+k].ID = api.InstanceID(all[k*idChars : (k+1)*idChars])
	}
	return out, nil
}

// splitID returns an id of the length of a UUID without the digits that count up in a run, and
// these as a number.
func splitID(id string) (base string, n uint64, ok bool) {
	if len(id) != idChars {
		return "", 0, false
	}
	base = id[:idChars-idTail]
	for _, c := range []byte(id[idChars-idTail:]) {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | uint64(c-'0')
		case c >= 'a' && c <= 'f':
			n = n<<4 | uint64(c-'a'+10)
		default:
			return "", 0, false
		}
	}
	return base, n, true
}

// splitName returns a name without the number at its end, and the number. It is not ok if the
// name has none, or one with leading zeros or too many digits.
func splitName(name string) (prefix string, n uint64, ok bool) {
	i := len(name)
	for i > 0 && name[i-1] >= '0' && name[i-1] <= '9' {
		i--
	}
	digits := name[i:]
	if digits == "" || len(digits) > digitsMax || digits[0] == '0' {
		return "", 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return name[:i], n, err == nil
}

// hostList has every host of a command once, and so gives each a number.
type hostList struct {
	UUIDs  []byte       `cbor:"1,keyasint,omitempty"` // idBytes each
	Others []api.HostID `cbor:"2,keyasint,omitempty"` // ids that are no UUIDs
}

// IsZero reports whether the list is empty.
func (l hostList) IsZero() bool { return len(l.UUIDs)+len(l.Others) == 0 }

// newNumbering lists the hosts of slots, spares and reports in l and returns their numbers.
func newNumbering(l *hostList, slots []Slot, spares [][]api.HostID, items ...api.InstanceReport) map[api.HostID]int {
	numbers := map[api.HostID]int{}
	add := func(id api.HostID) {
		if _, known := numbers[id]; known {
			return
		}
		if b, ok := parseUUID(string(id)); ok {
			numbers[id] = len(l.UUIDs) / idBytes
			l.UUIDs = append(l.UUIDs, b[:]...)
			return
		}
		numbers[id] = -1 - len(l.Others)
		l.Others = append(l.Others, id)
	}
	for i := range slots {
		add(slots[i].Host)
	}
	for _, list := range spares {
		for _, id := range list {
			add(id)
		}
	}
	for i := range items {
		add(items[i].Host)
	}
	for i, id := range l.Others {
		numbers[id] = len(l.UUIDs)/idBytes + i
	}
	return numbers
}

// list returns the hosts by number.
func (l hostList) list() ([]api.HostID, error) {
	if len(l.UUIDs)%idBytes != 0 || len(l.UUIDs) > packedMax*idBytes {
		return nil, fmt.Errorf("%w: hosts of %d bytes", errPacked, len(l.UUIDs))
	}
	out := make([]api.HostID, 0, len(l.UUIDs)/idBytes+len(l.Others))
	var text [idChars]byte
	for b := l.UUIDs; len(b) > 0; b = b[idBytes:] {
		out = append(out, api.HostID(appendUUID(text[:0], b[:idBytes])))
	}
	return append(out, l.Others...), nil
}

// parseUUID reads a UUID in its canonical text form.
func parseUUID(s string) (b [idBytes]byte, ok bool) {
	if len(s) != idChars || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return b, false
	}
	n := 0
	for i := 0; i < idChars; i++ {
		if s[i] == '-' && (i == 8 || i == 13 || i == 18 || i == 23) {
			continue
		}
		hi, lo := hexDigit(s[i]), hexDigit(s[i+1])
		if hi|lo > 0xf {
			return b, false
		}
		b[n] = hi<<4 | lo
		n++
		i++
	}
	return b, true
}

// hexDigit returns the value of a lower-case hexadecimal digit; above 15 for another character.
func hexDigit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

// appendUUID appends the canonical text form of a UUID.
func appendUUID(out, b []byte) []byte {
	for i, part := range [][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:idBytes]} {
		if i > 0 {
			out = append(out, '-')
		}
		out = hex.AppendEncode(out, part)
	}
	return out
}
