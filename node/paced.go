package node

import (
	"net/http"
	"time"
)

// Limits of readers: one that does not take a piece of an answer for as long as stallMax is
// cut off.
const (
	stallMax   = 30 * time.Second
	writePiece = 64 << 10 // bytes
)

// withPace gives answers a deadline for writes that moves with their progress, so that a
// reader that stops reading pins neither a connection nor an answer.
func withPace(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := &paced{ResponseWriter: w, flow: http.NewResponseController(w), resets: r.ProtoMajor > 1}
		_ = p.flow.SetWriteDeadline(time.Time{}) // that of the last answer is over
		defer func() {
			_ = p.flow.SetWriteDeadline(stallsAt()) // for what is buffered
		}()
		h.ServeHTTP(p, r)
	})
}

// stallsAt returns the deadline of a write that begins now.
func stallsAt() time.Time {
	return time.Now().Add(stallMax) //nolint:forbidigo // sockets know no other clock
}

// paced is an answer with a deadline that moves with its progress.
type paced struct {
	http.ResponseWriter
	flow   *http.ResponseController // of ResponseWriter
	own    bool                     // the handler sets its own deadlines
	resets bool                     // a deadline ends the answer even while nothing is written, as in HTTP/2
}

// Write implements http.ResponseWriter.
func (p *paced) Write(b []byte) (n int, err error) {
	if p.own {
		return p.ResponseWriter.Write(b)
	}
	for {
		piece := b[n:min(n+writePiece, len(b))]
		_ = p.flow.SetWriteDeadline(stallsAt()) // every server of ours has deadlines
		wrote, err := p.ResponseWriter.Write(piece)
		if n += wrote; err != nil || n == len(b) {
			p.rest()
			return n, err
		}
	}
}

// FlushError implements what http.ResponseController looks for.
func (p *paced) FlushError() error {
	if p.own {
		return p.flow.Flush()
	}
	_ = p.flow.SetWriteDeadline(stallsAt())
	defer p.rest()
	return p.flow.Flush()
}

// rest ends the deadline of a write, where it would end more than that.
func (p *paced) rest() {
	if p.resets {
		_ = p.flow.SetWriteDeadline(time.Time{})
	}
}

// SetWriteDeadline implements what http.ResponseController looks for: a handler that sets a
// deadline has its own pace from then on.
func (p *paced) SetWriteDeadline(t time.Time) error {
	p.own = true
	return p.flow.SetWriteDeadline(t)
}

// Unwrap lets http.ResponseController reach the connection.
func (p *paced) Unwrap() http.ResponseWriter { return p.ResponseWriter }
