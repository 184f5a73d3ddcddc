package node

import (
	"net/http"
	"time"

	"berth/httpd/wire"
	"berth/internal/budget"
)

// Limits of readers: one that does not take a piece of an answer for as long as stallMax is
// cut off.
const (
	stallMax   = 30 * time.Second
	writePiece = 64 << 10 // bytes
)

// withPace gives answers a deadline for writes that moves with their progress, so that a
// reader that stops reading pins neither a connection nor an answer; and bodies a least speed. What
// a call holds is counted in its account, and given back when it is over.
func withPace(h http.Handler, begin accounts) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		account := begin(r)
		defer account.End()
		p := &paced{ResponseWriter: w, flow: http.NewResponseController(w), account: account, request: r, resets: r.ProtoMajor > 1}
		_ = p.flow.SetWriteDeadline(time.Time{}) // that of the last answer is over
		defer p.finish()
		if err := account.Take(budget.Calls, 1); err != nil {
			wire.Refuse(p, r, err)
			return
		}
		r = r.WithContext(budget.With(r.Context(), account))
		if r.Body != nil && r.Body != http.NoBody {
			p.body = &pacedBody{ReadCloser: r.Body, flow: p.flow, end: time.Now().Add(readTimeout)} //nolint:forbidigo // sockets know no other clock
			r.Body = p.body
		}
		p.request = r
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
	flow    *http.ResponseController // of ResponseWriter
	account *budget.Account
	request *http.Request
	body    *pacedBody // nil for none
	status  int        // of the header, which waits for the first write; 0 for none that waits
	begun   bool       // the header was written
	cut     bool       // the rest of the answer finds no room
	own     bool       // the handler sets its own deadlines
	resets  bool       // a deadline ends the answer even while nothing is written, as in HTTP/2
}

// WriteHeader implements http.ResponseWriter. The header waits for the first bytes of the answer, for which there may be no room.
func (p *paced) WriteHeader(status int) {
	switch {
	case p.begun || p.status != 0 || status < http.StatusOK:
		p.ResponseWriter.WriteHeader(status) // others come before the answer, and net/http tells of a second one
	default:
		p.status = status
	}
}

// begin writes the header.
func (p *paced) begin() {
	if p.status != 0 {
		p.ResponseWriter.WriteHeader(p.status)
	}
	p.status, p.begun = 0, true
}

// finish ends the call.
func (p *paced) finish() {
	if p.body != nil {
		p.body.finish()
	}
	p.begin()
	if !p.cut {
		_ = p.flow.SetWriteDeadline(stallsAt()) // for what is buffered
	}
}

// Write implements http.ResponseWriter.
func (p *paced) Write(b []byte) (n int, err error) {
	if p.own {
		p.begin()
		return p.ResponseWriter.Write(b)
	}
	if p.cut {
		return 0, errLateAnswer
	}
	size := min(int64(len(b)), answerMost)
	if err := p.account.Take(budget.Answers, size); err != nil {
		p.refuseRest(err)
		return 0, errLateAnswer
	}
	defer p.account.Give(budget.Answers, size)
	p.begin()
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

// refuseRest answers with a refusal in place of the answer or, if that has begun, cuts it short so that its reader notices.
func (p *paced) refuseRest(err error) {
	p.cut = true
	if p.begun {
		_ = p.flow.SetWriteDeadline(time.Unix(1, 0)) // every server of ours has deadlines
		return
	}
	for _, name := range []string{"Content-Length", "Content-Type", "Content-Encoding", "Cache-Control", "ETag", "Last-Modified"} { // of the answer
		p.Header().Del(name)
	}
	p.status, p.begun = 0, true
	wire.Refuse(p.ResponseWriter, p.request, err)
}

// FlushError implements what http.ResponseController looks for.
func (p *paced) FlushError() error {
	p.begin()
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

// SetReadDeadline implements what http.ResponseController looks for: the body may take until then.
func (p *paced) SetReadDeadline(t time.Time) error {
	if p.body != nil {
		p.body.end = t
	}
	return p.flow.SetReadDeadline(t)
}

// Unwrap lets http.ResponseController reach the connection.
func (p *paced) Unwrap() http.ResponseWriter { return p.ResponseWriter }
