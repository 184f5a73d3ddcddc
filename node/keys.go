package node

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"berth/api"
	"berth/buildplan/seal"
	"berth/identity"
	"berth/internal/backoff"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// keys opens the secrets of the replicated state with the key-encryption key of
// this node's directory.
type keys struct {
	kek      [32]byte
	operator []byte // build_plan_encryption_key, or nil

	mu   sync.Mutex // guards open
	open map[string]seal.Key
}

// Ring implements zone.Keys.
func (k *keys) Ring(v *state.State) (seal.Keyring, error) {
	var ring seal.Keyring
	for _, e := range v.Epochs {
		key, err := k.epoch(e)
		if err != nil {
			return nil, err
		}
		ring = append(ring, key)
	}
	if len(ring) == 0 {
		return nil, api.Errorf(api.CodeUnavailable, "the zone has no sealing key yet")
	}
	return ring, nil
}

func (k *keys) epoch(e command.Epoch) (seal.Key, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if key, ok := k.open[string(e.ID)]; ok {
		return key, nil
	}
	plain, err := seal.Unwrap(k.kek, labelEpoch, e.Wrapped)
	if err != nil {
		return seal.Key{}, fmt.Errorf("opening the sealing key %x: is %s of another zone? %w", e.ID, fileKEK, err)
	}
	var key seal.Key
	if len(plain) != len(key.Epoch)+len(key.Secret) {
		return seal.Key{}, fmt.Errorf("sealing key %x has %d bytes", e.ID, len(plain))
	}
	copy(key.Epoch[:], plain)
	copy(key.Secret[:], plain[len(key.Epoch):])
	k.open[string(e.ID)] = key
	return key, nil
}

// check returns what two zones compare to see that they do not seal with one
// key, and nothing else.
func (k *keys) check(v *state.State, other api.ZoneID) ([]byte, error) {
	if k.operator != nil {
		key, err := seal.OperatorKey(k.operator)
		if err != nil {
			return nil, err
		}
		return seal.KeyCheck(key, v.Zone, other), nil
	}
	ring, err := k.Ring(v)
	if err != nil {
		return nil, err
	}
	return seal.KeyCheck(ring[0], v.Zone, other), nil
}

// authority returns the zone's certificate authority.
func (k *keys) authority(v *state.State) (*identity.CA, error) {
	der, err := seal.Unwrap(k.kek, labelCAKey, v.CAKey)
	if err != nil {
		return nil, fmt.Errorf("opening the authority's key: is %s of another zone? %w", fileKEK, err)
	}
	return identity.LoadCA(v.CA, der)
}

// sharedKey refuses a zone that seals with this zone's key.
func (n *Node) sharedKey(peer api.ZoneID, h *api.Hello) error {
	check, err := n.keys.check(n.view(), peer)
	if err != nil {
		return api.Wrap(api.CodeInternal, "node.sharedKey", "", err)
	}
	if bytes.Equal(check, h.KeyCheck) {
		return errSharedKey
	}
	return nil
}

var errSharedKey = api.Errorf(api.CodeConflict, "both zones seal their plans with one key; give each its own build_plan_encryption_key")

// checkKeys asks every linked zone, once, whether it seals with this zone's key;
// if one does, this node must not run. Random keys are not asked about: they are
// never the same.
func (n *Node) checkKeys(ctx context.Context) error {
	asked := map[api.LinkID]bool{}
	for n.keys.operator != nil && ctx.Err() == nil {
		v := n.view()
		for _, l := range v.Links() {
			if asked[l.ID] {
				continue
			}
			check, err := n.keys.check(v, l.Zone)
			if err == nil {
				err = n.peers.Hello(ctx, l, &api.Hello{KeyCheck: check})
			}
			if api.CodeOf(err) == api.CodeConflict {
				return fmt.Errorf("zone %q: %w", l.Name, errSharedKey)
			}
			asked[l.ID] = err == nil
		}
		backoff.Sleep(ctx, announceEvery)
	}
	return nil
}
