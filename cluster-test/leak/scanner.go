package leak

import (
	"bytes"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
)

// Limits of a scanner.
const (
	HitsMax      = 1000 // hits that are kept; more are counted
	contextBytes = 32   // of text before and after a hit
	filterMin    = 16   // bits of the number of a place in the filter
	filterMax    = 24
	spreadPer    = 64 // places in the filter for each pattern
)

// Hit is a canary that was found.
type Hit struct {
	Canary   Canary
	Encoding Encoding
	Stream   string // name of the stream
	Offset   int64  // of its last byte, in the stream or in what a step made of a part of it
	Context  string // the text around it, quoted
}

// String describes the canary and its place.
func (h Hit) String() string {
	return fmt.Sprintf("%s as %s in %s, up to byte %d: %s", h.Canary, h.Encoding, h.Stream, h.Offset, h.Context)
}

// Scanner searches for canaries. All of its methods may be called concurrently.
type Scanner struct {
	canaries []Canary
	patterns []pattern
	longest  int
	filter   []uint64           // one bit for each hash of the end of a pattern
	shift    uint               // of a hash, down to a place in the filter
	ends     map[uint64][]int32 // patterns by their folded end

	bytes atomic.Int64
	mu    sync.Mutex // guards the fields below
	hits  []Hit
	found int
}

// NewScanner returns a scanner. It refuses canaries that are too short to search for.
func NewScanner(canaries []Canary) (*Scanner, error) {
	s := &Scanner{ends: map[uint64][]int32{}}
	seen := map[string]bool{}
	for _, c := range canaries {
		if (c.Text == "") == (len(c.Bytes) == 0) || c.Wire && c.Text != "" {
			return nil, fmt.Errorf("canary %s: it has either text or bytes", c)
		}
		if max(len(c.Text), len(c.Bytes)) < canaryMinBytes {
			return nil, fmt.Errorf("canary %s: it has fewer than %d bytes and would be found by chance", c, canaryMinBytes)
		}
		if name := c.String() + strconv.FormatBool(c.Wire); !seen[name] {
			seen[name] = true
			s.patterns = append(s.patterns, c.patternsOf(len(s.canaries))...)
			s.canaries = append(s.canaries, c)
		}
	}
	places := min(max(bits.Len(uint(spreadPer*len(s.patterns))), filterMin), filterMax)
	s.shift = uint(64 - places)
	s.filter = make([]uint64, 1<<(places-6))
	for i, p := range s.patterns {
		if len(p.want) < canaryMinBytes {
			return nil, fmt.Errorf("canary %s: its form %s has fewer than %d bytes", s.canaries[p.canary], p.enc, canaryMinBytes)
		}
		var last [8]byte
		copy(last[8-canaryMinBytes:], p.want[len(p.want)-canaryMinBytes:])
		k := endOf(last[:])
		h := k * spread >> s.shift
		s.filter[h>>6] |= 1 << (h & 63)
		s.ends[k] = append(s.ends[k], int32(i))
		s.longest = max(s.longest, len(p.want))
	}
	return s, nil
}

// spread makes a hash of an end: an odd number without a pattern in its bits.
const spread = 0x9e3779b97f4a7c15

// foldBits makes an end the same for letters of either case, and for some other
// bytes, which are distinguished later.
const foldBits = 0x202020202020

// endOf returns the last canaryMinBytes of the first 8 bytes of b, folded.
func endOf(b []byte) uint64 { return binary.LittleEndian.Uint64(b)>>16 | foldBits }

// Hits returns the first HitsMax hits, in the order in which they were found.
func (s *Scanner) Hits() []Hit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.hits)
}

func (s *Scanner) noteHit(h Hit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found++
	if len(s.hits) < HitsMax {
		s.hits = append(s.hits, h)
	}
}

// checkCertificates searches a chain for canaries: the bytes of each certificate, and its
// names and addresses as text.
func (s *Scanner) checkCertificates(name string, chain ...[]byte) error {
	for _, der := range chain {
		st := s.openStream(name)
		st.write(der)
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return fmt.Errorf("reading a certificate of %s: %w", name, err)
		}
		text := fmt.Sprintln(c.Subject, c.Issuer, c.DNSNames, c.EmailAddresses, c.IPAddresses, c.URIs, c.SerialNumber,
			c.OCSPServer, c.IssuingCertificateURL, c.CRLDistributionPoints)
		st.write([]byte(text))
		st.end()
	}
	return nil
}

// matcher searches bytes for patterns as they arrive.
type matcher struct {
	s      *Scanner
	stream string
	step   string // steps before it, each with a slash at the end

	buf   []byte // the latest bytes, and room for more
	fill  int    // of buf
	keep  int    // bytes of buf that a later match may need
	total int64  // bytes seen
	limit int    // end of the range to search, in buf
	mark  int64  // number of the byte, from 1 on, that a match must contain; 0 for any
}

// matcherBytes is the number of bytes that a matcher reads before it moves those to keep.
const matcherBytes = 16 << 10

func (s *Scanner) newMatcher(stream, step string) *matcher {
	m := &matcher{s: s, stream: stream, step: step, keep: max(s.longest+contextBytes, 8)}
	m.buf = make([]byte, m.keep+matcherBytes)
	m.fill = m.keep // the zeros before the start match nothing: see check
	return m
}

// write searches the next bytes.
func (m *matcher) write(p []byte) {
	for len(p) > 0 {
		if m.fill == len(m.buf) {
			copy(m.buf, m.buf[m.fill-m.keep:])
			m.fill = m.keep
		}
		n := copy(m.buf[m.fill:], p)
		m.scanRange(m.fill, m.fill+n)
		p = p[n:]
	}
}

// passBytes reads bytes without searching them.
func (m *matcher) passBytes(p []byte) {
	m.total += int64(len(p))
	if len(p) > m.keep {
		p = p[len(p)-m.keep:]
	}
	if m.fill+len(p) > len(m.buf) {
		copy(m.buf, m.buf[m.fill-m.keep:m.fill])
		m.fill = m.keep
	}
	m.fill += copy(m.buf[m.fill:], p)
}

// scanRange searches buf[from:to] together with the bytes before it.
func (m *matcher) scanRange(from, to int) {
	filter, shift := m.s.filter, m.s.shift
	window := m.buf[from-7 : to]
	m.limit = to
	for i := 0; i+8 <= len(window); i++ {
		h := endOf(window[i:]) * spread >> (shift & 63)
		if filter[h>>6]&(1<<(h&63)) != 0 {
			m.checkAt(from + i)
		}
	}
	m.total += int64(to - from)
	m.fill = to
}

// checkAt checks the patterns that may end at buf[at].
func (m *matcher) checkAt(at int) {
	seen := m.total + int64(at+1-m.fill)
	for _, i := range m.s.ends[endOf(m.buf[at-7:])] {
		p := &m.s.patterns[i]
		n := len(p.want)
		if int64(n) > seen || m.mark > 0 && seen-m.mark >= int64(n) {
			continue
		}
		got := m.buf[at+1-n : at+1]
		switch {
		case !p.fold && !bytes.Equal(got, p.want), p.fold && !equalFold(got, p.want):
			continue
		case p.exact != nil && !bytes.Equal(got, p.exact):
			m.reportHit(p, encodingFolded, seen, at)
		default:
			m.reportHit(p, p.enc, seen, at)
		}
	}
}

func (m *matcher) reportHit(p *pattern, enc Encoding, seen int64, at int) {
	first := at + 1 - len(p.want) - contextBytes
	if before := int64(at + 1 - first); before > seen {
		first = at + 1 - int(seen)
	}
	m.s.noteHit(Hit{
		Canary: m.s.canaries[p.canary], Encoding: Encoding(m.step) + enc, Stream: m.stream, Offset: seen,
		Context: strconv.Quote(string(m.buf[first:min(at+1+contextBytes, m.limit)])),
	})
}

// equalFold reports whether b is low in letters of either case.
func equalFold(b, low []byte) bool {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != low[i] {
			return false
		}
	}
	return true
}
