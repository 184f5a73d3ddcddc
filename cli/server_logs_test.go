package cli

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pieceOf is the answer with a piece of an output of a server.
func pieceOf(offset, total int, data string) answer {
	return answer{status: http.StatusOK, body: fmt.Sprintf(`{"output": {"stream": "stdout", "offset": %d, "next": %d, "total": %d, "data": "%s"}}`,
		offset, offset+len(data), total, base64.StdEncoding.EncodeToString([]byte(data)))}
}

const outputOfI1 = "GET /servers/i-1/output"

// TestServerLogs prints the newest bytes as they are, or all that is kept.
func TestServerLogs(t *testing.T) {
	z := newFakeZone(t)
	z.on(outputOfI1, pieceOf(5, 9, "a\x1bb\xff"))
	r := z.berth(t.Context(), "server", "logs", "web-1")
	require.Zero(t, r.exit, r.errOut)
	assert.Equal(t, "a\x1bb\xff", r.out, "byte by byte")
	assert.Equal(t, outputOfI1+"?limit=65536&stream=stdout", z.asked(outputOfI1)[0].call)

	z.on(outputOfI1, pieceOf(10, 20, "0123"), pieceOf(14, 24, "456789"), pieceOf(20, 24, "late"))
	r = z.berth(t.Context(), "server", "logs", "i-1", "--stderr", "--tail", "0")
	require.Zero(t, r.exit, r.errOut)
	assert.Equal(t, "0123456789", r.out, "what is printed meanwhile is not waited for")
	assert.Equal(t, []string{outputOfI1 + "?after=0&limit=262144&stream=stderr", outputOfI1 + "?after=14&limit=262144&stream=stderr"},
		[]string{z.asked(outputOfI1)[1].call, z.asked(outputOfI1)[2].call})

	z.on(outputOfI1, pieceOf(999_999, 1_000_000, "x"), pieceOf(737_855, 737_856, "y"))
	r = z.berth(t.Context(), "server", "logs", "i-1", "--tail", "262145")
	require.Zero(t, r.exit, r.errOut)
	assert.Equal(t, "y", r.out)
	calls := z.asked(outputOfI1)
	assert.Equal(t, outputOfI1+"?after=737855&limit=262144&stream=stdout", calls[len(calls)-1].call)

	z.on(outputOfI1, pieceOf(0, 9, "one"))
	r = z.berth(t.Context(), "server", "logs", "web-1", "--tail", "0")
	assert.Equal(t, result{"one", "", 1}, result{r.out, "", r.exit}, "a zone that returns the same again and again is not asked for ever")

	z.on(outputOfI1, pieceOf(0, 0, ""))
	r = z.berth(t.Context(), "server", "logs", "web-1")
	assert.Equal(t, result{"", "server web-1 has printed nothing to stdout\n", 0}, r)

	z.on(outputOfI1, answer{status: http.StatusConflict, body: refusalOf("conflict", "the driver keeps no output")})
	r = z.berth(t.Context(), "server", "logs", "web-1")
	assert.Equal(t, exitConflict, r.exit)
	assert.Contains(t, r.errOut, "server web-1: the driver keeps no output")
	z.on(outputOfI1, answer{status: http.StatusGatewayTimeout, body: refusalOf("timeout", "its host does not answer")})
	before := len(z.asked(outputOfI1))
	r = z.berth(t.Context(), "server", "logs", "web-1")
	assert.Equal(t, exitTimeout, r.exit)
	assert.Len(t, z.asked(outputOfI1), before+1, "the zone has waited already")
}

// TestServerLogsInOtherFormats are the answers of the zone.
func TestServerLogsInOtherFormats(t *testing.T) {
	z := newFakeZone(t)
	z.on(outputOfI1, pieceOf(0, 2, "hi"))
	r := z.berth(t.Context(), "server", "logs", "i-1", "-o", "json")
	require.Zero(t, r.exit, r.errOut)
	assert.JSONEq(t, pieceOf(0, 2, "hi").body, r.out)
	r = z.berth(t.Context(), "server", "logs", "i-1", "--jq", ".output.data | @base64d")
	assert.Equal(t, "hi\n", r.out)
}

// TestServerLogsFollow until the server has ended: what it printed at last is there.
func TestServerLogsFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newFakeZone(t)
		ended := answer{status: http.StatusOK, body: strings.Replace(canned["GET /servers/i-1"], `"ACTIVE"`, `"SHUTOFF"`, 1)}
		z.on("GET /servers/i-1", answer{status: http.StatusOK, body: canned["GET /servers/i-1"]}, ended)
		z.on(outputOfI1, pieceOf(0, 3, "one"), pieceOf(3, 6, "two"), pieceOf(8, 12, "four"), pieceOf(12, 12, ""), pieceOf(12, 16, "last"), pieceOf(16, 16, ""))
		r := z.berth(t.Context(), "server", "logs", "i-1", "--follow")
		require.Zero(t, r.exit, r.errOut)
		assert.Equal(t, "onetwofourlast", r.out)
		assert.Equal(t, "2 bytes are left out: they are not kept any more\n", r.errOut)
	})
}

// TestOutputCannotCommandATerminal: what was printed is somebody else's.
func TestOutputCannotCommandATerminal(t *testing.T) {
	z := newFakeZone(t)
	z.on(outputOfI1, pieceOf(0, 16, "a\x1b[2J\r\tb\xe2\x82"), pieceOf(10, 16, "\xac\u202e\xff\n"))
	var out, errOut bytes.Buffer
	e := newEnv(func(k string) string { return map[string]string{"BERTH_ADDR": z.URL}[k] }, strings.NewReader(""), &out, &errOut)
	e.outTTY = true
	require.Zero(t, ReportError(&errOut, e.executeArgs(t.Context(), []string{"server", "logs", "i-1", "--tail", "0"})), errOut.String())
	assert.Equal(t, "a?[2J?\tb€??\n", out.String())
}

// TestCleanOutput keeps the beginning of a character, and nothing else, for later.
func TestCleanOutput(t *testing.T) {
	const text = "a€😀\n"
	for cut := range len(text) {
		first, rest := cleanOutput([]byte(text[:cut]))
		second, left := cleanOutput(append(rest, text[cut:]...))
		assert.Equal(t, text, string(first)+string(second))
		assert.Empty(t, left)
	}
	clean, rest := cleanOutput([]byte("\xe2\x82x\xe2\x82"))
	assert.Equal(t, "??x", string(clean))
	assert.Equal(t, "\xe2\x82", string(rest))
}
