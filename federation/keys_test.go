package federation

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

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
			p := newWorld(t).add("a", key)
			ring := func() seal.Keyring {
				ring, err := p.keys.Ring(p.view())
				require.NoError(t, err)
				return ring
			}
			about := seal.Context{Zone: p.id, Project: "p", Reservation: "r"}
			blob, err := seal.Seal(ring()[0], about, []byte("plan"), newNonce())
			require.NoError(t, err)
			opens := func() bool {
				plain, err := ring().Open(about, blob)
				return err == nil && string(plain) == "plan"
			}
			assert.True(t, opens())

			require.NoError(t, p.RotateKeyring(t.Context()))
			assert.Len(t, ring(), epochsKept)
			assert.True(t, opens())
			p.serve(key)
			assert.True(t, opens())

			require.NoError(t, p.RotateKeyring(t.Context()))
			assert.Len(t, ring(), epochsKept+1)
			assert.True(t, opens(), "it may have been sealed a moment ago")

			p.setForward(api.PlanTTLMax)
			p.serve(key)
			require.NoError(t, p.RotateKeyring(t.Context()))
			assert.Len(t, ring(), epochsKept)
			assert.False(t, opens())
		})
	}
}

func TestKeysRotateDaily(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			forward time.Duration
			want    int
		}{"a day later": {epochLife, 2}, "an hour before": {epochLife - time.Hour, 1}} {
			p := newWorld(t).add("a", nil)
			p.setForward(c.forward)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); p.RotateDaily(ctx) }()
			if c.want > 1 {
				p.until(func(v *state.State) bool { return len(v.Epochs) == c.want })
			}
			cancel()
			<-done
			assert.Len(t, p.view().Epochs, c.want, name)
		}
	})
}

// TestKeysOfAnotherZone open nothing, and say which file to look at.
func TestKeysOfAnotherZone(t *testing.T) {
	t.Parallel()
	p := newWorld(t).add("a", nil)
	wrong := NewKeys(KEKs{{7}}, nil, nil)
	_, err := wrong.Ring(p.view())
	require.ErrorContains(t, err, "kek")
	_, err = wrong.zoneAuthority(p.view())
	require.ErrorContains(t, err, "kek")
	_, err = wrong.Ring(state.New())
	assert.Error(t, err, "there is none yet")
}

func TestOneKeyForTwoZonesIsNotLinked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	parent := w.add("p", keyA)
	same, own, random := w.add("s", keyA), w.add("o", keyB), w.add("r", nil)
	refusedAs(t, api.CodeConflict, same.enrolledBy(parent))
	assert.Empty(t, same.view().Links())
	own.isBelow(parent)
	random.isBelow(parent)
	assert.Len(t, parent.view().Links(), 2)
}

// TestLinkedZonesAreAskedForTheirKey until each has answered, if this zone's key is a
// given one.
func TestLinkedZonesAreAskedForTheirKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key   []byte
		says  []error // to one question after the other, the last for ever
		asked int
		want  error
	}{
		"one key":          {keyA, []error{api.Errorf(api.CodeConflict, "x")}, 1, ErrSharedKey},
		"one key, in time": {keyA, []error{errAway, api.Errorf(api.CodeConflict, "x")}, 2, ErrSharedKey},
		"two keys":         {keyA, []error{nil}, 1, nil},
		"random keys":      {nil, []error{api.Errorf(api.CodeConflict, "x")}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newWorld(t).add("a", c.key)
				p.linked("other", api.LinkChild)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				asked := 0
				p.greet = func(_ *api.Link, h *api.Hello) error {
					assert.NotEmpty(t, h.KeyCheck)
					err := c.says[min(asked, len(c.says)-1)]
					asked++
					if err == nil {
						cancel()
					}
					return err
				}
				err := p.CheckKeys(ctx)
				require.ErrorIs(t, err, c.want)
				assert.Equal(t, c.asked, asked)
			})
		})
	}
}

func TestFirstCommand(t *testing.T) {
	t.Parallel()
	p := newWorld(t).add("a", nil)
	first, token, err := Found(p.keys, p.ca, "again", nil, 0, time.Now())
	require.NoError(t, err)
	assert.NotContains(t, string(first), token)
	require.NoError(t, CheckFirst(first))
	require.NoError(t, p.Begin(t.Context(), first))
	assert.Equal(t, "a", p.view().Name, "a zone begins once")
	for _, bad := range [][]byte{nil, []byte("x"), first[:len(first)-1]} {
		assert.Error(t, CheckFirst(bad))
	}
}
