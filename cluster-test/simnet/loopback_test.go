package simnet_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/cluster-test/simnet"
)

// TestLoopback: each loopback address is one of its own, the wildcard is all of them, and no other machine is there.
func TestLoopback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := simnet.Loopback{Network: simnet.New(1)}
		for _, addr := range []string{"127.0.0.1:1", "127.0.0.7:2", "0.0.0.0:3"} {
			_, err := l.Listen(t.Context(), addr)
			require.NoError(t, err)
		}
		for addr, reached := range map[string]bool{
			"127.0.0.1:1": true, "localhost:1": true, "127.0.0.7:2": true, "127.0.0.9:3": true, "localhost:3": true,
			"127.0.0.1:2": false, "127.0.0.7:1": false, "127.0.0.1:4": false,
		} {
			c, err := l.Dial(t.Context(), addr)
			if !reached {
				require.ErrorIs(t, err, simnet.ErrRefused, addr)
				continue
			}
			require.NoError(t, err, addr)
			require.NoError(t, c.Close())
		}
		for _, elsewhere := range []string{"192.0.2.1:0", "localhost:0", "127.0.0.1"} {
			_, err := l.Listen(t.Context(), elsewhere)
			assert.Error(t, err, elsewhere)
		}
		_, err := l.Dial(t.Context(), "127.0.0.1")
		assert.Error(t, err)
	})
}
