package leak

// byteStream reads the plaintext of one direction of one connection. It finds canaries in
// plain bytes at once, and those in encoded bodies when the body or the stream ends. It is
// for one goroutine at a time.
type byteStream struct {
	s    *Scanner
	lane *lane
	http *splitter
}

// openStream returns a stream with a name, which appears in hits.
func (s *Scanner) openStream(name string) *byteStream {
	return &byteStream{s: s, lane: s.newLane(name, "", inflateDepth), http: newSplitter(&bodies{s: s, stream: name})}
}

// write searches the next bytes.
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

// lane searches bytes as they are, with escapes undone, and inflated.
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

// bodies searches the bodies of messages. Bodies without chunks were searched as part of
// the stream already, and are only inflated.
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
