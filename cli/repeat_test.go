package cli

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/internal/await"
)

// creators are the command lines that create something, each with its route and the flag
// that names the request.
var creators = []struct{ line, route, flag string }{
	{"boot --flavor small --name web --no-wait", "POST /zones/boot", "--reservation-id"},
	{"server create web --flavor small", "POST /servers", "--key"},
	{"volume create data --size 20 --no-wait", "POST /volumes", "--key"},
	{"lease create nightly --for 2h --instances 3 --flavor small", "POST /reservation/v1/leases", "--key"},
	{"lease create class --for=2h --start +1d --before-end -30m --instances 2 --flavor small --repeat FREQ=DAILY;COUNT=2", "POST /reservation/v1/series", "--key"},
}

// repeatOf returns the words of the command line in a hint.
func repeatOf(t *testing.T, errOut string) []string {
	t.Helper()
	found := regexp.MustCompile(`this repeats it safely: berth (.*)\n`).FindStringSubmatch(errOut)
	require.NotNil(t, found, errOut)
	words := regexp.MustCompile(`'[^']*'|\S+`).FindAllString(found[1], -1)
	for i := range words {
		words[i] = strings.Trim(words[i], "'")
	}
	return words
}

// TestWhoIsInterruptedCanRepeat: whoever interrupts a command that creates something before its
// first answer learns the command that repeats it: the zone then gets the same request again.
func TestWhoIsInterruptedCanRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range creators {
			ctx, cancel := context.WithCancel(t.Context())
			z := newFakeZone(t)
			z.on(c.route, answer{status: http.StatusServiceUnavailable, body: refusalOf("unavailable", "no leader"), do: cancel},
				answer{status: http.StatusGatewayTimeout, body: refusalOf("timeout", "undecided")},
				answer{status: http.StatusConflict, body: refusalOf("conflict", "taken")})
			r := z.berth(ctx, strings.Fields(c.line)...)
			assert.Equal(t, exitInterrupted, r.exit, c.line)
			assert.Contains(t, r.errOut, "berth: interrupted\n  hint: the zone may have recorded it", c.line)
			again := repeatOf(t, r.errOut)
			assert.Contains(t, again, c.flag, c.line)

			r = z.berth(t.Context(), again...)
			assert.Equal(t, exitConflict, r.exit, c.line)
			asked := z.asked(c.route)
			require.Len(t, asked, 3, c.line)
			assert.JSONEq(t, asked[0].body, asked[1].body, c.line)
			if c.flag == "--key" {
				assert.NotEmpty(t, asked[0].key, c.line)
				assert.Equal(t, asked[0].key, asked[1].key, c.line)
			}
		}
	})
}

// TestARefusalNeedsNoRepeat: what a zone has certainly not recorded has no such hint.
func TestARefusalNeedsNoRepeat(t *testing.T) {
	for _, c := range creators {
		z := newFakeZone(t)
		z.on(c.route, answer{status: http.StatusConflict, body: refusalOf("conflict", "taken")})
		r := z.berth(t.Context(), strings.Fields(c.line)...)
		assert.Equal(t, exitConflict, r.exit, c.line)
		assert.NotContains(t, r.errOut, "repeats it safely", c.line)
	}
}

// TestCommandLines: what is set replaces what was given, and a shell reads each word as one.
func TestCommandLines(t *testing.T) {
	r := repeatable{set: [][2]string{{"--key", "k"}, {"--end", "2030-01-31 12:00"}}, drop: "--for"}
	for want, args := range map[string][]string{
		"berth lease create a --key k --end '2030-01-31 12:00'":             {"lease", "create", "a", "--for", "2h"},
		"berth lease create a b --key k --end '2030-01-31 12:00'":           {"lease", "create", "a", "--for=2h", "--end=+2h", "--key", "old", "b"},
		"berth lease create --key k --end '2030-01-31 12:00' -- --for":      {"lease", "create", "--", "--for"},
		`berth a '' 'it'\''s' '!B' '$x' --key k --end '2030-01-31 12:00'`:   {"a", "", "it's", "!B", "$x"},
		"berth --trait=A --key-file 'x y' --key k --end '2030-01-31 12:00'": {"--trait=A", "--key-file", "x y"},
	} {
		e := &env{args: args}
		assert.Equal(t, want, e.commandLine(r))
	}
	assert.Equal(t, "berth boot --apply p", (&env{args: []string{"boot", "--apply", "p"}}).commandLine(repeatable{}))
}

// TestABootThatWaitsNamesItself: the note about a boot without an answer has its reservation id.
func TestABootThatWaitsNamesItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errOut bytes.Buffer
		e := newEnv(os.Getenv, nil, nil, &errOut)
		e.calling = "https://zone:7600"
		answered := e.noteWaitingFor("reservation r-1")
		await.Sleep(slowAfter + time.Millisecond)
		answered()
		assert.Equal(t, "still waiting for https://zone:7600 about reservation r-1 ...\n", errOut.String())
	})
}
