package cli

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api/client"
	"berth/identity"
)

// saver runs commands of a person with a folder for settings.
type saver struct {
	t    *testing.T
	home string
	vars map[string]string
}

func newSaver(t *testing.T) *saver {
	t.Helper()
	return &saver{t: t, home: t.TempDir(), vars: map[string]string{}}
}

func (s *saver) file() string { return filepath.Join(s.home, "berth", "config.yaml") }

// berth runs a command line, with words as they stand between spaces, and text as its input.
func (s *saver) berth(in, line string) result {
	environ := map[string]string{"XDG_CONFIG_HOME": s.home}
	for k, v := range s.vars {
		environ[k] = v
	}
	return berth(s.t.Context(), environ, in, strings.Fields(line)...)
}

// done is berth that must succeed.
func (s *saver) done(in, line string) string {
	s.t.Helper()
	r := s.berth(in, line)
	require.Zero(s.t, r.exit, "%s: %s", line, r.errOut)
	return r.out
}

// TestContexts: each zone has its settings, one is in use, and others can be named for a command or a shell. No
// setting of one zone is ever used for another.
func TestContexts(t *testing.T) {
	west, east := newFakeZone(t), newFakeZone(t)
	s := newSaver(t)
	require.NoError(t, os.Mkdir(filepath.Dir(s.file()), 0o700))
	require.NoError(t, os.WriteFile(s.file(), []byte("# mine\ntoken: berth_id_own\n"), 0o600))
	s.done("berth_id_west\n", "context add west --token-file - --addr "+west.URL)
	s.done("", "context add east --addr "+east.URL)
	last := func(z *fakeZone) string { all := z.asked("GET"); return all[len(all)-1].token }

	s.done("", "zone list")
	assert.Equal(t, "berth_id_west", last(west), "the first one is in use")
	s.done("", "zone list --context east")
	assert.Empty(t, last(east), "not the token of the file, nor of west")
	s.vars["BERTH_CONTEXT"] = "east"
	s.done("", "zone list")
	assert.Len(t, east.asked("GET"), 2)
	s.vars["BERTH_TOKEN"] = "berth_id_env"
	s.done("", "zone list")
	assert.Equal(t, "berth_id_env", last(east), "the environment names both")
	s.done("", "zone list --context west")
	assert.Equal(t, "berth_id_west", last(west), "it may be the token of another zone")
	s.vars["BERTH_TOKEN"], s.vars["BERTH_TOKEN_FILE"] = "", "/nowhere"
	s.done("", "zone list --context west")
	s.vars = map[string]string{}
	s.done("", "context use east")
	s.done("", "zone list --token berth_id_flag")
	assert.Equal(t, "berth_id_flag", last(east))

	list := s.done("", "context list")
	assert.Regexp(t, `(?m)^east\s+\*\s+`+east.URL, list)
	assert.Regexp(t, `(?m)^west\s+-\s+`+west.URL, list)
	assert.NotContains(t, list, "berth_id")
	assert.Equal(t, "west\neast\n", s.done("", "context list -o name --sort=-context"))
	assert.Equal(t, "{\"addr\":\""+east.URL+"\",\"in_use\":true,\"name\":\"east\"}\n", s.done("", "context list --jq .contexts[] --limit 1"))
	text, err := os.ReadFile(s.file())
	require.NoError(t, err)
	assert.Contains(t, string(text), "# mine")
	info, err := os.Stat(s.file())
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	s.done("", "context remove east")
	s.done("", "zone list --addr "+west.URL)
	assert.Equal(t, "berth_id_own", last(west), "no context is in use")
	for line, exit := range map[string]int{
		"zone list --context east": exitNotFound, "context use east": exitNotFound, "context remove east": exitNotFound,
		"context add west": exitConflict, "context add a.b": exitUsage, "context add " + strings.Repeat("x", 65): exitUsage,
		"context add a --cacert /nowhere": exitUsage, "context add a --addr zone": exitUsage, "context add a --token-file /nowhere": exitUsage,
	} {
		before, err := os.ReadFile(s.file())
		require.NoError(t, err)
		assert.Equal(t, exit, s.berth("", line).exit, line)
		after, err := os.ReadFile(s.file())
		require.NoError(t, err)
		assert.Equal(t, string(before), string(after), line)
	}
	s.done("", "context add west --replace --addr "+east.URL)
	s.done("", "zone list --context west")
	assert.Equal(t, "west\n:4\n", s.done("", "__complete context use "+`""`))
	assert.Equal(t, exitUsage, berth(t.Context(), nil, "", "context", "add", "a").exit, "there is no place")
}

// TestSoManyContexts can be kept.
func TestSoManyContexts(t *testing.T) {
	s := newSaver(t)
	var b strings.Builder
	b.WriteString("contexts:\n")
	for n := range contextsMax - 1 {
		fmt.Fprintf(&b, "  c%d: {addr: https://zone}\n", n)
	}
	require.NoError(t, os.Mkdir(filepath.Dir(s.file()), 0o700))
	require.NoError(t, os.WriteFile(s.file(), []byte(b.String()), 0o600))
	s.done("", "context add last")
	assert.Equal(t, exitUsage, s.berth("", "context add more").exit)
	s.done("", "context add last --replace")
}

// TestLogin saves what the zone has taken, under the name of the zone.
func TestLogin(t *testing.T) {
	z := newFakeZone(t)
	s := newSaver(t)
	s.done("berth_id_a\n", "login --token-file - --addr "+z.URL)
	assert.Contains(t, s.done("", "context list"), "*")
	s.done("", "zone list")
	assert.Equal(t, "berth_id_a", z.asked("GET /zones")[0].token)
	s.done("", "login lab --addr "+z.URL)
	assert.Regexp(t, `(?m)^lab\s+\*\s`, s.done("", "context list"))
	before, err := os.ReadFile(s.file())
	require.NoError(t, err)
	z.on("GET /zones/info", answer{status: http.StatusUnauthorized, body: refusalOf("unauthenticated", "no")})
	assert.Equal(t, exitDenied, s.berth("berth_id_b\n", "login --token-file - --addr "+z.URL).exit)
	after, err := os.ReadFile(s.file())
	require.NoError(t, err)
	assert.Equal(t, string(before), string(after))
}

// TestHintsOfCallsThatReachNoZone name the cause.
func TestHintsOfCallsThatReachNoZone(t *testing.T) {
	zone := newFakeZone(t)
	secure := httptest.NewTLSServer(zone)
	t.Cleanup(secure.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600))
	_, host, _ := strings.Cut(secure.URL, "://")
	_, plain, _ := strings.Cut(zone.URL, "://")
	says := func(line string) string {
		return berth(context.Background(), nil, "", strings.Fields("zone list "+line)...).errOut
	}
	assert.Contains(t, says("--addr "+secure.URL), "hint: name the certificate of the zone's CA with --cacert")
	assert.Empty(t, says("--addr "+secure.URL+" --cacert "+ca))
	trusted, err := os.ReadFile(ca)
	require.NoError(t, err)
	late, err := client.New(client.Config{Addr: secure.URL, CACert: trusted, Now: func() time.Time { return secure.Certificate().NotAfter.Add(time.Second) }})
	require.NoError(t, err)
	_, err = late.Zones(t.Context(), client.ListOptions{})
	assert.Contains(t, hintOfCall(err), "compare the clock of this machine")
	assert.Contains(t, says("--addr "+strings.Replace(secure.URL, "127.0.0.1", "localhost", 1)+" --cacert "+ca), "hint: call the zone by a name in the certificate")
	assert.Contains(t, says("--addr "+secure.URL+" --cacert "+otherCA(t)), "or none for a public CA")
	assert.Contains(t, says("--addr http://"+host), "must begin with https://")
	assert.Contains(t, says("--addr https://"+plain), "has no TLS")
	assert.Contains(t, says("--addr https://"+plain), "must begin with https://")
	zone.Close()
	assert.Empty(t, says("--addr "+zone.URL+","+secure.URL+" --cacert "+ca), "the next one answers")
	synctest.Test(t, func(t *testing.T) {
		gone := newFakeZone(t)
		gone.Close()
		dead := says("--addr " + gone.URL + "," + gone.URL)
		assert.Contains(t, dead, "none of "+gone.URL+", "+gone.URL+" answers")
		assert.Contains(t, dead, "--addr A,B")
	})
}

// otherCA returns a file with the certificate of an authority that has signed nothing.
func otherCA(t *testing.T) string {
	t.Helper()
	ca, err := identity.NewCA("zone-b", time.Now())
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "other.pem")
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.CertDER()}), 0o600))
	return path
}
