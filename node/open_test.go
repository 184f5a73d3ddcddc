package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore"
)

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*world, *home){
		"no directory": func(t *world, h *home) { require.NoError(t, os.RemoveAll(h.opts.Dir)) },
		"no key-encryption key": func(t *world, h *home) {
			require.NoError(t, os.Remove(h.path(fileKEK)))
		},
		"a key-encryption key that others read": func(t *world, h *home) {
			require.NoError(t, os.Chmod(h.path(fileKEK), 0o640))
		},
		"a short key-encryption key": func(t *world, h *home) {
			require.NoError(t, os.WriteFile(h.path(fileKEK), make([]byte, 31), 0o600))
		},
		"a long key-encryption key": func(t *world, h *home) {
			require.NoError(t, os.WriteFile(h.path(fileKEK), make([]byte, 33), 0o600))
		},
		"a node key that others read": func(t *world, h *home) {
			require.NoError(t, os.Chmod(h.path("node.pem"), 0o644))
		},
		"a gateway key that others read": func(t *world, h *home) {
			require.NoError(t, os.Chmod(h.path("gateway.pem"), 0o604))
		},
		"no certificate for the public API": func(t *world, h *home) {
			require.NoError(t, os.Remove(h.path("api.pem")))
		},
		"a damaged record": func(t *world, h *home) {
			require.NoError(t, os.WriteFile(h.path(fileNode), []byte("{"), 0o600))
		},
		"a damaged first command": func(t *world, h *home) {
			require.NoError(t, os.WriteFile(h.path(fileInit), []byte("x"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *world) {
				h := newZone(t, "a")
				spoil(t, h)
				err := h.refusedToOpen()
				if name == "no directory" {
					refusedAs(t, api.CodeNotFound, err)
				}
			})
		})
	}
}

func TestANodeThatHasRunNeedsItsLog(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		h := newZone(t, "a").onDisk()
		require.NoError(t, h.run().stop())
		require.NoError(t, os.RemoveAll(h.path(dirRaft)))
		err := h.refusedToOpen()
		require.ErrorIs(t, err, raftstore.ErrDamaged)
		require.ErrorContains(t, err, "let a new node join under a new id")
		assert.NoDirExists(t, filepath.Join(h.path(dirRaft), "snapshots"), "nothing was made in its place")
	})
}

// TestOpenKeepsSecretsOffTheNetwork refuses plain HTTP and the lack of tokens
// where others than this machine could call, and takes both on loopback.
func TestOpenKeepsSecretsOffTheNetwork(t *testing.T) {
	t.Parallel()
	everywhere := func(o *InitOptions) { o.Listen.API, o.Advertise.API = "0.0.0.0:0", "127.0.0.1:0" }
	for name, change := range map[string]func(*Options){
		"plain":    func(o *Options) { o.Plain, o.Insecure = true, false },
		"insecure": func(o *Options) { o.Plain, o.Insecure = false, true },
		"both":     func(o *Options) { o.Plain, o.Insecure = true, true },
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *world) {
				h := newZone(t, "a", everywhere)
				change(&h.opts)
				refusedAs(t, api.CodeInvalid, h.refusedToOpen())

				local := newZone(t, "b")
				change(&local.opts)
				require.NoError(t, local.start().stop())
			})
		})
	}
	t.Run("neither", func(t *testing.T) {
		virtually(t, func(t *world) {
			h := newZone(t, "a", everywhere)
			h.opts.Plain = false
			require.NoError(t, h.start().stop())
		})
	})
}

func TestFreePortsAreKept(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		r := newZone(t, "a").run()
		was := r.Addresses()
		for _, a := range []string{was.API, was.Gateway, was.Node, was.Agent, was.Admin} {
			assert.Regexp(t, `^127\.0\.0\.1:[1-9]`, a)
		}
		r = r.again()
		assert.Equal(t, was, r.Addresses())
		known, ok := r.view().Node("node-1")
		require.True(t, ok)
		assert.Equal(t, was.Gateway, known.GatewayAddr)
	})
}

// TestATakenPortIsNamed and nothing that was opened before it stays open. The kernel has given it, and gives it again.
func TestATakenPortIsNamed(t *testing.T) {
	t.Parallel()
	w := really(t)
	first := newZone(w, "a").start()
	second := newZone(w, "b", func(o *InitOptions) { o.Listen.Admin = first.Addresses().Admin })
	_, err := Open(second.opts) // at once: nobody gives the port back
	require.ErrorContains(t, err, "admin listener")
	require.NoError(t, first.stop())
	assert.Equal(t, first.Addresses(), first.home.start().Addresses())
}
