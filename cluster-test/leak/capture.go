package leak

import (
	"encoding/asn1"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"
)

// output looks at one stream, for leaks and for the shapes of answers.
type output struct {
	stream *byteStream
	shapes *splitter // nil for no check
}

func newOutput(name string, s *Scanner, sh *Shapes) *output {
	o := &output{stream: s.openStream(name)}
	if sh != nil {
		o.shapes = newSplitter(&answersIn{c: sh, stream: name})
	}
	return o
}

// Write implements io.Writer and never fails.
func (o *output) Write(p []byte) (int, error) {
	o.stream.write(p)
	if o.shapes != nil {
		o.shapes.write(p)
	}
	return len(p), nil
}

func (o *output) end() {
	o.stream.end()
	if o.shapes != nil {
		o.shapes.end()
	}
}

// Totals are the amounts of data in a directory of captures.
type Totals struct {
	Streams, Certs int
	Bytes          int64
}

// captured is the name of a capture, after a number or several: of what left or entered over a connection
// that was accepted or dialled, or of the chain that was shown on it.
var captured = regexp.MustCompile(`^\d+(?:-\d+)*-(?:(in|out)-(?:gateway|dial)-[^/]+\.bin|cert\.der)$`)

// ScanDir searches every capture of outgoing traffic in a directory and those below it,
// several at a time. A file that is not a capture is an error, so that a capture under
// another name cannot be missed. sh may be nil.
func ScanDir(dir string, s *Scanner, sh *Shapes) (Totals, error) {
	var mu sync.Mutex // guards sum
	var sum Totals
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		parts := captured.FindStringSubmatch(d.Name())
		switch {
		case parts == nil:
			return fmt.Errorf("%s is not the name of a capture", path)
		case parts[1] == "in":
			return nil
		}
		g.Go(func() error {
			t, err := scanFile(path, parts[1] == "", s, sh)
			mu.Lock()
			defer mu.Unlock()
			sum.Streams += t.Streams
			sum.Certs += t.Certs
			sum.Bytes += t.Bytes
			return err
		})
		return nil
	})
	return sum, errors.Join(err, g.Wait())
}

// scanFile looks at one capture, which is of certificates or of a stream.
func scanFile(path string, certs bool, s *Scanner, sh *Shapes) (Totals, error) {
	if certs {
		b, err := os.ReadFile(path)
		if err != nil {
			return Totals{}, fmt.Errorf("reading a capture: %w", err)
		}
		chain, err := splitChain(b)
		if err == nil {
			err = s.checkCertificates(path, chain...)
		}
		return Totals{Certs: len(chain), Bytes: int64(len(b))}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return Totals{}, fmt.Errorf("reading a capture: %w", err)
	}
	o := newOutput(path, s, sh)
	n, err := io.Copy(o, f)
	o.end()
	return Totals{Streams: 1, Bytes: n}, errors.Join(err, f.Close())
}

// splitChain splits certificates that stand one behind the other.
func splitChain(b []byte) ([][]byte, error) {
	var out [][]byte
	for len(b) > 0 {
		var one asn1.RawValue
		rest, err := asn1.Unmarshal(b, &one)
		if err != nil {
			return out, fmt.Errorf("splitting a chain: %w", err)
		}
		out, b = append(out, one.FullBytes), rest
	}
	return out, nil
}
