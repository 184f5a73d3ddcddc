package node

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/buildplan/seal"
	"berth/raftstore/state"
)

// TestRotationKeepsKeys: what was sealed before a rotation opens, after another one
// and a restart too, until it has expired. It holds for random and for given keys.
func TestRotationKeepsKeys(t *testing.T) {
	t.Parallel()
	for name, key := range map[string][]byte{"random": nil, "given": keyA} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newZone(t, "a", withPlanKey(key)).run()
			ring := func() seal.Keyring {
				ring, err := r.keys.Ring(r.view())
				require.NoError(t, err)
				return ring
			}
			about := seal.Context{Zone: r.rec.Zone, Project: "p", Reservation: "r"}
			blob, err := seal.Seal(ring()[0], about, []byte("plan"), nonce())
			require.NoError(t, err)
			opens := func() bool {
				plain, err := ring().Open(about, blob)
				return err == nil && string(plain) == "plan"
			}
			assert.True(t, opens())

			require.NoError(t, r.RotateKeyring(t.Context()))
			assert.Len(t, ring(), EpochsKept)
			assert.True(t, opens())
			r = r.again()
			assert.True(t, opens())

			require.NoError(t, r.RotateKeyring(t.Context()))
			assert.Len(t, ring(), EpochsKept+1)
			assert.True(t, opens(), "it may have been sealed a moment ago")

			r.home.clock.setForward(api.PlanTTLMax)
			r = r.again()
			require.NoError(t, r.RotateKeyring(t.Context()))
			assert.Len(t, ring(), EpochsKept)
			assert.False(t, opens())
		})
	}
}

// TestKeysRotateDaily as soon as somebody leads.
func TestKeysRotateDaily(t *testing.T) {
	t.Parallel()
	r := newZone(t, "a").run()
	require.Len(t, r.view().Epochs, 1)
	r.home.clock.setForward(epochLife)
	r = r.again()
	r.until("there is a second key", func(v *state.State) bool { return len(v.Epochs) == 2 })
	assert.GreaterOrEqual(t, r.view().Epochs[0].Created, r.view().Epochs[1].Created.Add(epochLife))
}

// TestKeysOfAnotherZone open nothing, and say which file to look at.
func TestKeysOfAnotherZone(t *testing.T) {
	t.Parallel()
	r := newZone(t, "a").run()
	wrong := &keys{kek: [32]byte{1}, open: map[string]seal.Key{}}
	_, err := wrong.Ring(r.view())
	require.ErrorContains(t, err, fileKEK)
	_, err = wrong.authority(r.view())
	require.ErrorContains(t, err, fileKEK)
	_, err = wrong.Ring(state.New())
	assert.Error(t, err, "there is none yet")
}
