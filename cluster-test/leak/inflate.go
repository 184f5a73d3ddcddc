package leak

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
)

// Limits of an inflater.
const (
	inflateDepth    = 2        // levels of nested deflated data
	inflateMaxBytes = 16 << 20 // of the output of one start
	windowBytes     = 2 << 20  // of input to keep: data is inflated from up to half of it
)

// inflater finds the starts of gzip and zlib data anywhere in its input, inflates from
// there as long as the data is valid, and searches the result.
type inflater struct {
	open    func() *lane // for the output
	deflate bool         // the whole is deflated, perhaps without a recognisable start
	buf     []byte
	later   bool // the start of the whole is gone
	gzip    gzip.Reader
	zlib    io.ReadCloser
	chunk   []byte
}

func (f *inflater) write(p []byte) {
	for len(p) > 0 {
		n := min(len(p), windowBytes-len(f.buf))
		f.buf, p = append(f.buf, p[:n]...), p[n:]
		if len(f.buf) == windowBytes {
			f.searchStarts(windowBytes / 2)
			f.buf = append(f.buf[:0], f.buf[windowBytes/2:]...)
			f.later = true
		}
	}
}

// end inflates what is pending, and makes ready for the next body.
func (f *inflater) end() {
	f.searchStarts(len(f.buf))
	f.buf, f.later, f.deflate = f.buf[:0], false, false
}

// searchStarts inflates from every start before a place of buf.
func (f *inflater) searchStarts(before int) {
	if f.deflate && !f.later {
		f.drainReader(flate.NewReader(bytes.NewReader(f.buf)))
	}
	for at := 0; at+2 < before; at++ {
		if c := f.buf[at]; c != 0x1f && c != 0x78 {
			continue
		}
		p := f.buf[at:]
		switch {
		case p[0] == 0x1f && p[1] == 0x8b && p[2] == 8:
			if f.gzip.Reset(bytes.NewReader(p)) == nil {
				f.gzip.Multistream(false) // the next member is found as well
				f.drainReader(&f.gzip)
			}
		case p[0] == 0x78 && (uint(p[0])<<8|uint(p[1]))%31 == 0 && p[1]&0x20 == 0:
			f.unzlib(p)
		}
	}
}

func (f *inflater) unzlib(p []byte) {
	r := bytes.NewReader(p)
	if f.zlib == nil {
		z, err := zlib.NewReader(r)
		if err != nil {
			return // its first two bytes only looked so
		}
		f.zlib = z
	} else if f.zlib.(zlib.Resetter).Reset(r, nil) != nil { //nolint:forcetypeassert // documented
		return // as above
	}
	f.drainReader(f.zlib)
}

// drainReader searches the output of r until it ends, fails or is long enough.
func (f *inflater) drainReader(r io.Reader) {
	if f.chunk == nil {
		f.chunk = make([]byte, 32<<10)
	}
	var out *lane
	for left := inflateMaxBytes; left > 0; {
		n, err := r.Read(f.chunk)
		if n > 0 && out == nil {
			out = f.open()
		}
		if n > 0 {
			out.write(f.chunk[:n])
		}
		if left -= n; err != nil {
			break // the data before this was deflated, the rest was not
		}
	}
	if out != nil {
		out.end()
	}
}
