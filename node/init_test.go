package node

import (
	"bytes"
	"encoding/hex"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/buildplan/seal"
)

// TestInitMakesAPrivateDirectory holds for every file but the authority's
// certificate, which callers of the public API need.
func TestInitMakesAPrivateDirectory(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		h := newZone(t, "a")
		info, err := os.Stat(h.opts.Dir)
		require.NoError(t, err)
		assert.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
		assert.Equal(t, map[string]fs.FileMode{
			fileNode: 0o600, fileKEK: 0o600, fileInit: 0o600,
			"node.pem": 0o600, "gateway.pem": 0o600, "api.pem": 0o600, "ca.pem": 0o644,
		}, files(t, h.opts.Dir))
	})
}

func TestInitRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*InitOptions){
		"no zone name":           func(o *InitOptions) { o.Name = "" },
		"a zone name with slash": func(o *InitOptions) { o.Name = "a/b" },
		"a long zone name":       func(o *InitOptions) { o.Name = strings.Repeat("a", api.NameMaxBytes+1) },
		"a bad node name":        func(o *InitOptions) { o.Node = "-" },
		"an unknown cost":        func(o *InitOptions) { o.Costs = []api.CostWeight{{Name: "beauty", Weight: 1}} },
		"a short plan key":       func(o *InitOptions) { o.PlanKey = make([]byte, seal.OperatorKeyMinBytes-1) },
		"an empty plan key":      func(o *InitOptions) { o.PlanKey = []byte{} },
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *world) {
				o := InitOptions{Dir: filepath.Join(t.TempDir(), "a"), Name: "a", Placement: Placement{Listen: anyPorts()}, Now: time.Now()}
				change(&o)
				_, err := Init(o)
				refusedAs(t, api.CodeInvalid, err)
				_, err = Open(homeIn(t, o.Dir).opts)
				refusedAs(t, api.CodeNotFound, err)
			})
		})
	}
}

func TestInitTakesTheLongestNameAndTheShortestKey(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		newZone(t, strings.Repeat("a", api.NameMaxBytes), withPlanKey(make([]byte, seal.OperatorKeyMinBytes)))
	})
}

// TestInitIsForOnce leaves what is there as it was.
func TestInitIsForOnce(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		h := newZone(t, "a")
		before, err := os.ReadFile(h.path(fileKEK))
		require.NoError(t, err)
		_, err = Init(InitOptions{Dir: h.opts.Dir, Name: "b", Placement: Placement{Listen: anyPorts()}, Now: time.Now()})
		refusedAs(t, api.CodeConflict, err)
		err = JoinNode(t.Context(), JoinOptions{Dir: h.opts.Dir, Placement: Placement{Listen: anyPorts()}, Now: time.Now, Net: t.net})
		refusedAs(t, api.CodeConflict, err)
		after, err := os.ReadFile(h.path(fileKEK))
		require.NoError(t, err)
		assert.Equal(t, before, after)
	})
}

// TestAdminTokenIsKeptNowhere looks for its secret half, as text and as bytes,
// before the node has run and after.
func TestAdminTokenIsKeptNowhere(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		h := newZone(t, "a").onDisk()
		secret := h.token[strings.LastIndex(h.token, "_")+1:]
		raw, err := hex.DecodeString(secret)
		require.NoError(t, err)
		unknown := func() {
			looked := 0
			require.NoError(t, filepath.WalkDir(h.opts.Dir, func(path string, e fs.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return err
				}
				b, err := os.ReadFile(path)
				require.NoError(t, err)
				assert.False(t, bytes.Contains(b, []byte(secret)) || bytes.Contains(b, raw), "%s holds the secret", path)
				looked++
				return nil
			}))
			assert.Greater(t, looked, 5)
		}
		unknown()
		r := h.run()
		status, said := r.answers(call{method: http.MethodGet, path: "/operator/members", token: h.token})
		assert.Equal(t, http.StatusOK, status, said)
		status, _ = r.answers(call{method: http.MethodGet, path: "/operator/members", token: h.token[:len(h.token)-1] + "x"})
		assert.Equal(t, http.StatusUnauthorized, status)
		assert.NoFileExists(t, h.path(fileInit), "it is in the log now")
		require.NoError(t, r.stop())
		unknown()
	})
}
