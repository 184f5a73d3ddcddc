package leak

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/internal/codec"
)

const (
	host   = "Edge-Host:07/é"
	hidden = "7b2c9f1e-55aa-4c3d-9e8f-0a1b2c3d4e5f"
)

var secret = []byte("\x00\x9f\xfe\xffsixteen bytes at least\xc3\x28\x3e\x3f")

func scanner(tb testing.TB, canaries ...Canary) *Scanner {
	tb.Helper()
	s, err := NewScanner(canaries)
	require.NoError(tb, err)
	return s
}

// target is a scanner for one canary of each sort.
func target(tb testing.TB) *Scanner {
	tb.Helper()
	all := append(idCanaries("host id", hidden), Canary{Kind: "host name", Text: host}, Canary{Kind: "key", Bytes: secret})
	inner, err := addressCanaries("address", []string{"10.1.2.34:7001"}, []string{"192.0.2.1:443"})
	require.NoError(tb, err)
	return scanner(tb, append(all, inner...)...)
}

func wide(s string, big bool) string {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		if big {
			b = append(b, byte(u>>8), byte(u))
		} else {
			b = append(b, byte(u), byte(u>>8))
		}
	}
	return string(b)
}

func each(s, format string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, format, s[i])
	}
	return b.String()
}

func squeeze(tb testing.TB, s string, open func(io.Writer) io.WriteCloser) string {
	tb.Helper()
	var b bytes.Buffer
	w := open(&b)
	_, err := io.WriteString(w, s)
	require.NoError(tb, err)
	require.NoError(tb, w.Close())
	return b.String()
}

func gzipped(tb testing.TB, s string) string {
	tb.Helper()
	return squeeze(tb, s, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
}

func deflated(tb testing.TB, s string) string {
	tb.Helper()
	return squeeze(tb, s, func(w io.Writer) io.WriteCloser {
		f, err := flate.NewWriter(w, 9)
		require.NoError(tb, err)
		return f
	})
}

func marshal(tb testing.TB, f func(any) ([]byte, error), v any) string {
	tb.Helper()
	b, err := f(v)
	require.NoError(tb, err)
	return string(b)
}

func answer(head, body string) string {
	return "HTTP/1.1 200 OK\r\n" + head + "\r\n" + body
}

func sized(head, body string) string {
	return answer(fmt.Sprintf("%sContent-Length: %d\r\n", head, len(body)), body)
}

func chunked(head, body string, n int) string {
	var b strings.Builder
	for len(body) > 0 {
		n := min(n, len(body))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return answer(head+"Transfer-Encoding: chunked\r\n", b.String()+"0\r\n\r\n")
}

type leaked struct {
	name string
	text string
	want Encoding
}

// leaks returns every encoding of every sort of canary.
func leaks(tb testing.TB) []leaked {
	tb.Helper()
	key := string(secret)
	out := []leaked{
		{"host", host, encodingRaw},
		{"lower", strings.ToLower(host), encodingFolded},
		{"upper", strings.ToUpper(host), encodingFolded}, // the accent but for it is the same
		{"hex", hex.EncodeToString([]byte(host)), encodingHex},
		{"upper hex", strings.ToUpper(hex.EncodeToString([]byte(host))), encodingHex},
		{"hex of lower", hex.EncodeToString([]byte(strings.ToLower(host))), encodingHex},
		{"utf-16le", wide(host, false), encodingUTF16LE},
		{"utf-16be", wide(host, true), encodingUTF16BE},
		{"upper utf-16", wide("EDGE-HOST:07/é", true), encodingUTF16BE},
		{"query escape", url.QueryEscape(host), "escaped/raw"},
		{"path escape", url.PathEscape(host), "escaped/raw"},
		{"lower path escape", strings.ToLower(url.PathEscape(host)), "escaped/folded"},
		{"every byte escaped", each(host, "%%%02X"), "escaped/raw"},
		{"JSON in full", each(host, `\u00%02x`), "escaped/raw"},
		{"JSON in part", strings.ReplaceAll(host, "H", `\u0048`), "escaped/raw"},
		{"JSON with a slash", strings.ReplaceAll(host, "/", `\/`), "escaped/raw"},
		{"JSON", marshal(tb, json.Marshal, host), encodingRaw},
		{"Go's quotes", fmt.Sprintf("%+x", host), encodingHex},
		{"Go's escapes", each(host, `\x%02x`), "escaped/raw"},
		{"escaped base64", url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(key))), "escaped/base64"},
		{"CBOR text", marshal(tb, codec.Marshal, map[int]string{1: host}), encodingRaw},
		{"CBOR bytes", marshal(tb, codec.Marshal, map[int][]byte{1: secret}), encodingRaw},
		{"key", key, encodingRaw},
		{"key in hex", hex.EncodeToString(secret), encodingHex},
		{"escaped key", each(key, "%%%02x"), "escaped/raw"},
		{"JSON bytes", marshal(tb, json.Marshal, secret), encodingBase64},
		{"id", hidden, encodingRaw},
		{"upper id", strings.ToUpper(hidden), encodingFolded},
		{"id in bytes", string(unhex(tb, strings.ReplaceAll(hidden, "-", ""))), encodingRaw},
		{"id without dashes", strings.ReplaceAll(hidden, "-", ""), encodingHex},
		{"address", "10.1.2.34:7001", encodingRaw},
		{"address without a port", "dial tcp 10.1.2.34: refused", encodingRaw},
		{"address and port in bytes", "\x0a\x01\x02\x22\x1b\x59", encodingRaw},
		{"and the other way", "\x0a\x01\x02\x22\x59\x1b", encodingRaw},
		{"wide address", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x0a\x01\x02\x22", encodingRaw},
		{"decimal address", "167838242", encodingRaw},
		{"address in hex", "0A010222", encodingFolded},
		{"CBOR address", marshal(tb, codec.Marshal, map[int][]byte{5: {10, 1, 2, 34}}), encodingRaw},
		{"gossip address", "\xa4Addr\xa4\x0a\x01\x02\x22", encodingRaw},
		{"address in a certificate", "\x87\x04\x0a\x01\x02\x22", encodingRaw},
	}
	for at := range 3 {
		for n, e := range map[string]*base64.Encoding{"std": base64.StdEncoding, "url": base64.RawURLEncoding} {
			name := fmt.Sprint("base64 ", n, " at ", at)
			out = append(out, leaked{name, e.EncodeToString([]byte("~~~"[:at] + key + "~")), encodingBase64})
			out = append(out, leaked{name + " of the host", e.EncodeToString([]byte("~~~"[:at] + host)), encodingBase64})
		}
	}
	return out
}

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(s)
	require.NoError(tb, err)
	return b
}

// forms returns the encodings that a stream was found to hold canaries in.
func forms(s *Scanner) []Encoding {
	var out []Encoding
	for _, h := range s.Hits() {
		out = append(out, h.Encoding)
	}
	return out
}

func scan(tb testing.TB, s *Scanner, pieces ...string) {
	tb.Helper()
	st := s.openStream("a stream")
	for _, p := range pieces {
		st.write([]byte(p))
	}
	st.end()
}

// TestEveryEncodingIsFound looks for each, alone, amid other bytes, cut at every
// byte, and byte by byte.
func TestEveryEncodingIsFound(t *testing.T) {
	for _, l := range leaks(t) {
		t.Run(l.name, func(t *testing.T) {
			text := "\x01?" + l.text + " end"
			if strings.HasPrefix(l.name, "upper") {
				text = strings.ReplaceAll(text, "É", "é") // case is folded in ASCII
			}
			for at := range len(text) {
				s := target(t)
				scan(t, s, text[:at], text[at:])
				require.Contains(t, forms(s), l.want, "cut at %d", at)
				require.EqualValues(t, len(text), s.bytes.Load())
			}
			s := target(t)
			scan(t, s, strings.Split(strings.Repeat("\xff\x00x", 20_000), "x")...)
			require.Empty(t, s.Hits())
			scan(t, s, strings.Split(each(text, "%c"), "")...)
			if !strings.ContainsFunc(text, func(r rune) bool { return r > 127 }) {
				require.Contains(t, forms(s), l.want, "byte by byte")
			}
		})
	}
}

// TestWhatABodyHides looks inside what is chunked and deflated, cut at every byte.
func TestWhatABodyHides(t *testing.T) {
	body := strings.Repeat("nothing to see. ", 9) + "the host is " + host + ", as we said"
	zipped := gzipped(t, body)
	raw := deflated(t, body)
	wrapped := squeeze(t, body, func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) })
	deflate, zip := "Content-Encoding: deflate\r\n", "Content-Encoding: gzip\r\n"
	for _, c := range []leaked{
		{"chunks", chunked("", body, 7), "unchunked/raw"},
		{"chunks of escapes", chunked("", url.QueryEscape(host), 4), "unchunked/escaped/raw"},
		{"gzip", sized(zip, zipped), "inflated/raw"},
		{"gzip in chunks", chunked(zip, zipped, 11), "unchunked/inflated/raw"},
		{"zlib", sized(deflate, wrapped), "inflated/raw"},
		{"deflate", sized(deflate, raw), "inflated/raw"},
		{"deflate in chunks", chunked(deflate, raw, 5), "unchunked/inflated/raw"},
		{"deflate until the end", answer(deflate, raw), "inflated/raw"},
		{"gzip somewhere in a body", sized("", "\xa1\x01\x58\x90"+zipped+"behind"), "inflated/raw"},
		{"zlib somewhere in a body", sized("", "before"+wrapped), "inflated/raw"},
		{"gzip in gzip", sized("", gzipped(t, zipped)), "inflated/inflated/raw"},
		{"escapes in gzip", sized("", gzipped(t, url.QueryEscape(host))), "inflated/escaped/raw"},
		{"hex in gzip", sized("", gzipped(t, hex.EncodeToString([]byte(host)))), "inflated/hex"},
		{"gzip that is no HTTP", "\x00\x01" + zipped, "inflated/raw"},
		{"gzip that is cut off", "\x00\x01" + gzipped(t, body+string(noise(1, 4096)))[:3000], "inflated/raw"},
		{"the second of two", sized("", "first") + "HTTP/1.1 204 No Content\r\n\r\n" + sized(zip, zipped), "inflated/raw"},
		{"behind chunks", chunked("", "first", 2) + chunked("", body, 3), "unchunked/raw"},
		{"a request", "POST /zones/select HTTP/1.1\r\nContent-Length: " + strconv.Itoa(len(zipped)) + "\r\n\r\n" + zipped, "inflated/raw"},
		{"a header", answer("X-Trace: "+host+"\r\n", ""), encodingRaw},
		{"a trailer", strings.TrimSuffix(chunked("", "a", 1), "\r\n") + "X-Trace: " + host + "\r\n\r\n", encodingRaw},
	} {
		t.Run(c.name, func(t *testing.T) {
			for at := range len(c.text) {
				s := target(t)
				scan(t, s, c.text[:at], c.text[at:])
				require.Contains(t, forms(s), c.want, "cut at %d", at)
			}
			s := target(t)
			st := s.openStream("byte by byte")
			for i := range len(c.text) {
				st.write([]byte{c.text[i]})
			}
			st.end()
			assert.Contains(t, forms(s), c.want)
		})
	}
}

// TestHitSaysWhereItIs checks the offset and the context of a hit.
func TestHitSaysWhereItIs(t *testing.T) {
	s := target(t)
	scan(t, s, "HTTP/1.1 500 Oops\r\n\r\nhost "+host+" is gone")
	hits := s.Hits()
	require.Len(t, hits, 1)
	assert.Equal(t, "host name", hits[0].Canary.Kind)
	assert.EqualValues(t, len("HTTP/1.1 500 Oops\r\n\r\nhost "+host), hits[0].Offset)
	assert.Equal(t, `"HTTP/1.1 500 Oops\r\n\r\nhost `+host+` is gone"`, hits[0].Context)
	assert.Equal(t, "a stream", hits[0].Stream)
}

// TestHitsAreBounded keeps so many and counts all.
func TestHitsAreBounded(t *testing.T) {
	s := target(t)
	scan(t, s, strings.Repeat(host+" ", HitsMax+1))
	assert.Len(t, s.Hits(), HitsMax)
	assert.Equal(t, HitsMax+1, s.found)
}

// TestShortCanariesAreRefused tries the limit and one below it.
func TestShortCanariesAreRefused(t *testing.T) {
	long := strings.Repeat("a", canaryMinBytes)
	_, err := NewScanner([]Canary{{Kind: "text", Text: long}, {Kind: "bytes", Bytes: []byte(long)}})
	require.NoError(t, err)
	for _, c := range []Canary{
		{Kind: "text", Text: long[1:]},
		{Kind: "bytes", Bytes: []byte(long[1:])},
		{Kind: "nothing"},
		{Kind: "both", Text: long, Bytes: []byte(long)},
		{Kind: "a form of text", Text: long, Wire: true},
	} {
		_, err = NewScanner([]Canary{c})
		assert.Error(t, err, c.Kind)
	}
}

// TestPublicAddressesAreNoCanaries looks for inner ports of an address that all know.
func TestPublicAddressesAreNoCanaries(t *testing.T) {
	all, err := addressCanaries("address", []string{"10.1.2.3:7001", "10.1.2.3:7002"}, []string{"10.1.2.3:443"})
	require.NoError(t, err)
	s := scanner(t, all...)
	scan(t, s, "10.1.2.3:443 and \x0a\x01\x02\x03\x01\xbb and 10.1.2.3")
	assert.Empty(t, s.Hits())
	scan(t, s, "10.1.2.3:7002")
	assert.Len(t, s.Hits(), 1)
	for _, bad := range []string{"host:1", "10.1.2.3", ""} {
		_, err = addressCanaries("address", []string{bad}, nil)
		require.Error(t, err, bad)
		_, err = addressCanaries("address", nil, []string{bad})
		require.Error(t, err, bad)
	}
}

// privateKeyCanaries returns the canaries of an ECDSA key in PKCS #8, of which only the
// secret number is secret: its other half stands in every certificate.
func privateKeyCanaries(kind string, der []byte) ([]Canary, error) {
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", kind, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("reading %s: it is a %T", kind, parsed)
	}
	secret, err := key.Bytes()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", kind, err)
	}
	return Key(kind, secret), nil
}

// TestPiecesOfKeysAreFound looks for a part of a key, and refuses what is no key.
func TestPiecesOfKeysAreFound(t *testing.T) {
	key := noise(9, 3*keyPieceBytes+5)
	s := scanner(t, Key("key", key)...)
	scan(t, s, "..."+string(key[keyPieceBytes:2*keyPieceBytes])+"...")
	assert.Equal(t, []Encoding{encodingRaw}, forms(s))
	assert.Len(t, Key("key", key[:keyPieceBytes-1]), 1)
	_, err := NewScanner(Key("key", nil))
	require.Error(t, err)
	_, err = privateKeyCanaries("key", key)
	require.Error(t, err)
}
