package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"

	"berth/api"
	"berth/internal/budget"
)

// drainMaxBytes is how much of a body that is too large is read and thrown away.
const drainMaxBytes = 32 << 20

type limitKey struct{}

// WithLimit says how many bytes the body of a request may have.
func WithLimit(r *http.Request, limit int64) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), limitKey{}, limit))
}

// LimitOf returns how many bytes the body of a request may have: api.BodyMaxBytes unless WithLimit has said it.
func LimitOf(r *http.Request) int64 {
	if n, ok := r.Context().Value(limitKey{}).(int64); ok {
		return n
	}
	return api.BodyMaxBytes
}

// Keep returns a body that is read once and can be had several times.
func Keep(body io.ReadCloser) io.ReadCloser {
	if body == nil {
		return nil
	}
	return &kept{ReadCloser: body}
}

// kept is a body that remembers what was read of it. The call has one goroutine that reads it.
type kept struct {
	io.ReadCloser // the body itself
	read          bool
	b             []byte
	err           error
}

// Read implements io.Reader for nobody: a second reader would get nothing.
func (*kept) Read([]byte) (int, error) {
	return 0, errors.New("wire: a body that is kept is read by ReadJSON and ReadCBOR alone")
}

// readBody reads a body of at most limit bytes. The caller may not change it.
func readBody(r *http.Request, limit int64) ([]byte, error) {
	k, keeps := r.Body.(*kept)
	if !keeps {
		return readWhole(r, r.Body, limit)
	}
	if !k.read {
		k.b, k.err = readWhole(r, k.ReadCloser, limit)
		k.read = true
	}
	return k.b, k.err
}

// readWhole reads the body of a request, of at most limit bytes. What it holds is counted, before more is read, until the
// call is over.
func readWhole(r *http.Request, body io.Reader, limit int64) ([]byte, error) {
	b, err := budget.Of(r.Context()).ReadAll(body, r.ContentLength, limit)
	_, refused := errors.AsType[*api.Error](err)
	switch {
	case errors.Is(err, budget.ErrLong):
		return nil, tooLarge(body, limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, api.Wrap(api.CodeSlow, "wire.readBody", "the body did not arrive in time", err)
	case err != nil && !refused:
		return nil, api.Wrap(api.CodeInvalid, "wire.readBody", "the body could not be read", err)
	}
	return b, err
}

// Hurried is a body whose rest is of no use, so that nobody waits for it for long.
type Hurried interface{ Hurry() }

// tooLarge refuses a body. Some more of it is thrown away, so that the caller hears the answer and not a reset.
func tooLarge(body io.Reader, limit int64) error {
	if h, ok := body.(Hurried); ok {
		h.Hurry()
	}
	_, _ = io.CopyN(io.Discard, body, drainMaxBytes)
	return api.Errorf(api.CodeTooLarge, "the body may have at most %d bytes", limit)
}
