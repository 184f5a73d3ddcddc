package budget

import (
	"errors"
	"io"
)

// ErrLong is the error of ReadAll for what is longer than its limit.
var ErrLong = errors.New("it is longer than its limit")

// ReadAll reads the whole of a body, of at most limit bytes. Each piece is counted before it is read, and held until the call is
// over. length is how many bytes the body says that it has, negative if it does not say it. The error is that of r, of Take, or
// ErrLong, when a byte beyond the limit was read.
func (a *Account) ReadAll(r io.Reader, length, limit int64) (b []byte, err error) {
	if length > limit {
		return nil, ErrLong
	}
	most := limit
	if length >= 0 {
		most = length
	}
	most++ // the end of a body is seen behind it
	for {
		if len(b) == cap(b) {
			if int64(len(b)) == most { // it is longer than it said
				most = limit + 1
			}
			size := min(max(2*int64(cap(b)), 512), most)
			if err := a.takeBody(int64(cap(b)), size); err != nil {
				return nil, err
			}
			b = append(make([]byte, 0, size), b...)
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case int64(len(b)) > limit:
			return nil, ErrLong
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return nil, err
		}
	}
}

// takeBody counts that a body needs size bytes in place of had.
func (a *Account) takeBody(had, size int64) error {
	small := min(size, SmallBody) - min(had, SmallBody)
	if err := a.Take(Bodies, small); err != nil {
		return err
	}
	return a.Take(LargeBodies, size-had-small)
}
