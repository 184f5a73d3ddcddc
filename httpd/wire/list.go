package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"

	"berth/api"
)

// listPiece is how much of a list is encoded before it is sent, in bytes.
const listPiece = 32 << 10

// List is an answer that is one page of a list.
type List[S, T any] struct {
	Key   string
	Items []S
	Next  string         // marker of the next page; "" for none
	View  func(S) T      // what the answer shows of an item
	ID    func(S) string // the marker of the page after an item; nil if the list has one page

	max int // for tests: another limit than api.ListMaxBytes
}

// Write writes the list. Items are viewed and encoded one after the other, so that a slow
// reader pins a piece of the answer only. A page ends before an item that would make the
// answer longer than api.ListMaxBytes, but not before its first.
func (l List[S, T]) Write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	var buf, item bytes.Buffer
	e := json.NewEncoder(&item)
	e.SetEscapeHTML(false)
	key, _ := json.Marshal(l.Key) // a string can always be encoded
	next, sent := l.Next, 0
	buf.WriteString("{")
	buf.Write(key)
	buf.WriteString(":[")
	for n, s := range l.Items {
		item.Reset()
		if e.Encode(l.View(s)) != nil {
			return // a bug: the answer is cut short, and the caller notices
		}
		if n > 0 && l.ID != nil && sent+buf.Len()+item.Len() > cmp.Or(l.max, api.ListMaxBytes) {
			next = l.ID(l.Items[n-1])
			break
		}
		if n > 0 {
			buf.WriteByte(',')
		}
		buf.Write(bytes.TrimSuffix(item.Bytes(), []byte("\n")))
		if buf.Len() < listPiece {
			continue
		}
		if _, err := w.Write(buf.Bytes()); err != nil {
			return // the caller is gone
		}
		sent += buf.Len()
		buf.Reset()
	}
	buf.WriteString("]")
	if next != "" {
		marker, _ := json.Marshal(next) // a string can always be encoded
		buf.WriteString(`,"next_marker":`)
		buf.Write(marker)
	}
	buf.WriteString("}\n")
	_, _ = w.Write(buf.Bytes()) // fails only if the caller is gone
}
