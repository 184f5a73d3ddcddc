package leak

// byteStream takes the plaintext of one direction of one connection. It finds what
// stands in the bytes as they are at once; what a body hides, when that body or
// the stream ends. It is for one goroutine at a time.
type byteStream struct {
	s    *Scanner
	lane *lane
	http *splitter
}

// openStream returns a stream by a name, which hits then bear.
func (s *Scanner) openStream(name string) *byteStream {
	return &byteStream{s: s, lane: s.newLane(name, "", inflateDepth), http: newSplitter(&bodies{s: s, stream: name})}
}

// write looks at the bytes that follow those before.
func (st *byteStream) write(p []byte) {
	st.s.bytes.Add(int64(len(p)))
	st.lane.plain.write(p)
	st.lane.escaped.write(p)
	st.http.write(p)
}

func (st *byteStream) end() {
	st.lane.escaped.end()
	st.http.end()
}

// lane looks at bytes as they are, with escapes undone, and for what is deflated.
type lane struct {
	plain    *matcher
	escaped  *unescaper
	inflated *inflater // nil where nothing more is inflated
}

// newLane returns a lane for the output of the steps that step names.
func (s *Scanner) newLane(stream, step string, depth int) *lane {
	l := &lane{plain: s.newMatcher(stream, step), escaped: &unescaper{to: s.newMatcher(stream, step+string(encodingEscaped)+"/")}}
	if depth > 0 {
		l.inflated = &inflater{open: func() *lane { return s.newLane(stream, step+string(encodingInflated)+"/", depth-1) }}
	}
	return l
}

func (l *lane) write(p []byte) {
	l.plain.write(p)
	l.escaped.write(p)
	if l.inflated != nil {
		l.inflated.write(p)
	}
}

func (l *lane) end() {
	l.escaped.end()
	if l.inflated != nil {
		l.inflated.end()
	}
}

// bodies looks at the bodies of messages. What is not chunked was looked at as
// part of the stream already, and is only inflated.
type bodies struct {
	s      *Scanner
	stream string
	lane   *lane
	whole  bool // the body stood in the stream as it is
}

// begin implements sink.
func (b *bodies) begin(m message) {
	if b.lane == nil || b.whole == m.chunked {
		step := ""
		if m.chunked {
			step = string(encodingUnchunked) + "/"
		}
		b.lane, b.whole = b.s.newLane(b.stream, step, inflateDepth), !m.chunked
	}
	b.lane.inflated.deflate = m.deflate
}

// write implements sink.
func (b *bodies) write(p []byte) {
	if b.whole {
		b.lane.inflated.write(p)
		return
	}
	b.lane.write(p)
}

// end implements sink.
func (b *bodies) end() {
	b.lane.end()
}
