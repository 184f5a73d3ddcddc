package table

import "slices"

// Log is a table of values in order of arrival. They are appended at the end and dropped at
// the beginning without copying the others. The zero value is empty. One goroutine may
// change it; its views may be read by any number.
type Log[V any] struct{ values []V }

// Init implements Table.
func (l *Log[V]) Init() { l.values = nil }

// SetView implements Table. The two share memory: of may go on to append behind the end of l,
// where l does not look.
func (l *Log[V]) SetView(of Table) {
	all := of.(*Log[V]).values //nolint:forcetypeassert // as it says
	l.values = all[:len(all):len(all)]
}

// SetCopy implements Table. The two share memory: an append to l moves it elsewhere.
func (l *Log[V]) SetCopy(view Table) { l.SetView(view) }

// Append adds a value at the end.
func (l *Log[V]) Append(v V) { l.values = append(l.values, v) }

// DropFirst drops the first n values. Their memory is freed when the log moves: when it has
// no room to append, or when fewer values stay than are dropped.
func (l *Log[V]) DropFirst(n int) {
	l.values = l.values[n:]
	if n > len(l.values) {
		l.values = slices.Clone(l.values)
	}
}

// Len returns the number of values.
func (l *Log[V]) Len() int { return len(l.values) }

// Values returns the values in order. They must not be changed.
func (l *Log[V]) Values() []V { return l.values }
