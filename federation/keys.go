package federation

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"berth/api"
	"berth/buildplan/seal"
	"berth/identity"
	"berth/internal/backoff"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// Labels bind a wrapped secret to its use.
const (
	labelEpoch = "berth/epoch"
	labelCAKey = "berth/ca-key"
)

// The number of sealing keys of a zone, and their rotation.
const (
	epochsKept    = 2 // including the active one, when nothing sealed by older ones is left
	epochLife     = 24 * time.Hour
	rotateEvery   = time.Minute            // how often the age of the active key is checked
	keyCheckEvery = 500 * time.Millisecond // between questions to linked zones that have not answered
)

// Keys opens the secrets of the replicated state with the key-encryption key that
// every node of the zone has. Its methods may be called concurrently.
type Keys struct {
	keep     func(KEKs) error // makes them survive a restart
	operator []byte           // build_plan_encryption_key, or nil

	mu     sync.Mutex // guards keks and opened
	keks   KEKs       // never changed in place
	opened map[string]seal.Key
}

// NewKeys returns the keys of a zone. keep stores others in place of keks durably. operator is the
// build_plan_encryption_key that sealing keys are derived from; nil makes random ones.
func NewKeys(keks KEKs, keep func(KEKs) error, operator []byte) *Keys {
	return &Keys{keks: keks, keep: keep, operator: operator, opened: map[string]seal.Key{}}
}

// Ring implements estimate.Keys.
func (k *Keys) Ring(v *state.State) (seal.Keyring, error) {
	var ring seal.Keyring
	if _, err := k.KEKInUse(v); err != nil {
		return nil, err
	}
	for _, e := range v.Epochs {
		key, err := k.epochKey(e)
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

func (k *Keys) epochKey(e command.Epoch) (seal.Key, error) {
	k.mu.Lock()
	key, ok := k.opened[string(e.ID)]
	k.mu.Unlock()
	if ok {
		return key, nil
	}
	plain, err := k.unwrap(labelEpoch, e.Wrapped)
	if err != nil {
		return seal.Key{}, fmt.Errorf("opening the sealing key %x: is kek of another zone? %w", e.ID, err)
	}
	if len(plain) != len(key.Epoch)+len(key.Secret) {
		return seal.Key{}, fmt.Errorf("sealing key %x has %d bytes", e.ID, len(plain))
	}
	copy(key.Epoch[:], plain)
	copy(key.Secret[:], plain[len(key.Epoch):])
	k.mu.Lock()
	defer k.mu.Unlock()
	k.opened[string(e.ID)] = key
	return key, nil
}

// checkValue returns a value by which two zones can tell that their sealing keys
// differ, and that reveals nothing else.
func (k *Keys) checkValue(v *state.State, other api.ZoneID) ([]byte, error) {
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

// zoneAuthority returns the certificate authority of the zone that issues.
func (k *Keys) zoneAuthority(v *state.State) (*identity.CA, error) {
	der, err := k.unwrap(labelCAKey, v.CAKey)
	if err != nil {
		return nil, fmt.Errorf("opening the authority's key: is kek of another zone? %w", err)
	}
	return identity.LoadCA(v.CA, der)
}

// OpenAuthority returns the certificate authority of the zone of a state that issues, with the zone's key-encryption keys.
// It fails with CodeInvalid if the key that is in use in the state is not among them.
func OpenAuthority(keks KEKs, v *state.State) (*identity.CA, error) {
	k := NewKeys(keks, nil, nil)
	if _, err := k.KEKInUse(v); err != nil {
		return nil, api.Wrap(api.CodeInvalid, "federation.OpenAuthority", "the zone used another key-encryption key than these: give the newest kek of its nodes", err)
	}
	ca, err := k.zoneAuthority(v)
	if err != nil {
		return nil, api.Wrap(api.CodeInvalid, "federation.OpenAuthority", "the zone's authority cannot be opened with these key-encryption keys", err)
	}
	return ca, nil
}

// newEpoch makes a sealing key for the zone of v: random, or derived from the operator's.
func (k *Keys) newEpoch(v *state.State, now time.Time) (command.Epoch, error) {
	var key seal.Key
	_, _ = rand.Read(key.Epoch[:])  // never fails: crypto/rand ends the process instead
	_, _ = rand.Read(key.Secret[:]) // never fails: crypto/rand ends the process instead
	if k.operator != nil {
		var err error
		if key, err = seal.DeriveKey(k.operator, v.Zone, key.Epoch); err != nil {
			return command.Epoch{}, err
		}
	}
	plain := append(append([]byte(nil), key.Epoch[:]...), key.Secret[:]...)
	wrapped, err := k.wrap(v, labelEpoch, plain)
	return command.Epoch{ID: key.Epoch[:], Wrapped: wrapped, Created: api.InstantOf(now)}, err
}

func newNonce() (n [24]byte) {
	_, _ = rand.Read(n[:]) // never fails: crypto/rand ends the process instead
	return n
}

// refuseSharedKey refuses a zone whose check value shows that it seals with this zone's
// key.
func (f *Federation) refuseSharedKey(peer api.ZoneID, theirs []byte) error {
	check, err := f.keys.checkValue(f.view(), peer)
	if err != nil {
		return api.Wrap(api.CodeInternal, "federation.refuseSharedKey", "", err)
	}
	if bytes.Equal(check, theirs) {
		return ErrSharedKey
	}
	return nil
}

// ErrSharedKey refuses a zone that seals with this zone's key.
var ErrSharedKey = api.Errorf(api.CodeConflict, "both zones seal their plans with one key; give each its own build_plan_encryption_key")

// CheckKeys asks every linked zone once whether it seals with this zone's key, until
// ctx ends. It returns ErrSharedKey when one does: this node must not run then. Random
// keys need no check, because they always differ.
func (f *Federation) CheckKeys(ctx context.Context) error {
	asked := map[api.LinkID]bool{}
	for f.keys.operator != nil && ctx.Err() == nil {
		v := f.view()
		for _, l := range v.Links() {
			if asked[l.ID] {
				continue
			}
			err := f.askForKey(ctx, v, l)
			if api.CodeOf(err) == api.CodeConflict {
				return fmt.Errorf("zone %q: %w", l.Name, ErrSharedKey)
			}
			asked[l.ID] = err == nil
		}
		backoff.Sleep(ctx, keyCheckEvery)
	}
	return nil
}

// askForKey asks a linked zone, for a limited time: one that hangs keeps nobody from asking the others.
func (f *Federation) askForKey(ctx context.Context, v *state.State, l *api.Link) error {
	check, err := f.keys.checkValue(v, l.Zone)
	if err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	return f.peers.Hello(call, l, &api.Hello{KeyCheck: check})
}

// RotateKeyring activates a new sealing key. Older keys still open plans that they have
// sealed until the last one has expired. It fails with CodeOverloaded while that needs
// more keys than a zone keeps.
func (f *Federation) RotateKeyring(ctx context.Context) error {
	v := f.view()
	at := f.zone.Stamp()
	e, err := f.keys.newEpoch(v, at.At.Time())
	if err != nil {
		return err
	}
	_, err = f.zone.Propose(ctx, command.EpochAdd{
		Stamp: at, Epoch: e, Keep: epochsKept, Sealed: at.At.Add(-api.PlanTTLMax),
	})
	return err
}

// RotateDaily activates a new sealing key whenever the active one is a day old, until
// ctx ends. The leader runs it.
func (f *Federation) RotateDaily(ctx context.Context) {
	for ctx.Err() == nil {
		if es := f.view().Epochs; len(es) > 0 && es[0].Created.Add(epochLife) <= api.InstantOf(f.now()) {
			if err := f.RotateKeyring(ctx); err != nil {
				f.log.WarnContext(ctx, "the sealing key could not be rotated; it will be tried again", "error", err)
			}
		}
		backoff.Sleep(ctx, rotateEvery)
	}
}
