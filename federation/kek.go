package federation

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"time"

	"berth/api"
	"berth/buildplan/seal"
	"berth/internal/backoff"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

const (
	kekBytes = 32
	// KEKsMax is how many key-encryption keys a node keeps: older ones open older backups.
	KEKsMax = 8

	kekTellTimeout = 5 * time.Second        // of one node that is given the keys
	kekCheckEvery  = 500 * time.Millisecond // how often a node looks whether it needs a key, or the zone another one
	kekRetryEvery  = 10 * time.Second
)

// KEKs are key-encryption keys of a zone: its first one, and then others from the oldest to the
// newest. A node has 1 to KEKsMax of them.
type KEKs [][kekBytes]byte

// NewKEK returns a random key alone.
func NewKEK() KEKs {
	one := make(KEKs, 1)
	_, _ = rand.Read(one[0][:]) // never fails: crypto/rand ends the process instead
	return one
}

// ParseKEKs reads what Bytes has written.
func ParseKEKs(b []byte) (KEKs, error) {
	if len(b) == 0 || len(b)%kekBytes != 0 || len(b) > KEKsMax*kekBytes {
		return nil, fmt.Errorf("key-encryption keys have %d bytes each, and there are 1 to %d: got %d bytes", kekBytes, KEKsMax, len(b))
	}
	var all KEKs
	for one := range slices.Chunk(b, kekBytes) {
		all = append(all, [kekBytes]byte(one))
	}
	return all, nil
}

// Bytes returns all keys, one after the other.
func (k KEKs) Bytes() []byte {
	var b []byte
	for _, one := range k {
		b = append(b, one[:]...)
	}
	return b
}

// find returns the place of the key with an id, below 0 if it is not there. The zone's first key has
// no id in the state.
func (k KEKs) find(id []byte) int {
	if len(id) == 0 {
		return min(0, len(k)-1)
	}
	return slices.IndexFunc(k, func(one [kekBytes]byte) bool { return bytes.Equal(seal.KEKID(one), id) })
}

// join returns k with those of more that it lacks. If they are too many, the oldest are dropped,
// but never the zone's first one and the one with the id inUse.
func (k KEKs) join(more KEKs, inUse []byte) KEKs {
	all := slices.Clone(k)
	for _, one := range more {
		if !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	for at := 1; len(all) > KEKsMax; {
		if at == all.find(inUse) {
			at++
		}
		all = slices.Delete(all, at, at+1)
	}
	return all
}

// KEKs returns the key-encryption keys of this node.
func (k *Keys) KEKs() KEKs {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keks
}

// KEKInUse returns the key that wraps the secrets of a state. It fails with CodeUnavailable while
// this node has yet to get it.
func (k *Keys) KEKInUse(v *state.State) ([kekBytes]byte, error) {
	all := k.KEKs()
	if at := all.find(v.KEK); at >= 0 {
		return all[at], nil
	}
	return [kekBytes]byte{}, api.Errorf(api.CodeUnavailable, "this node does not have the zone's newest key-encryption key yet; try again")
}

// adoptKEKs keeps the keys of more that this node lacks. They survive a restart when it returns.
func (k *Keys) adoptKEKs(v *state.State, more KEKs) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.keks.join(more, v.KEK)
	if slices.Equal(all, k.keks) {
		return nil
	}
	if err := k.keep(all); err != nil {
		return err
	}
	k.keks = all
	return nil
}

// wrap wraps a secret by the key that is in use.
func (k *Keys) wrap(v *state.State, label string, plain []byte) ([]byte, error) {
	kek, err := k.KEKInUse(v)
	if err != nil {
		return nil, err
	}
	return seal.Wrap(kek, label, plain, newNonce()), nil
}

// unwrap opens a secret that any key of this node has wrapped: the one in use, if the state is the
// newest.
func (k *Keys) unwrap(label string, wrapped []byte) (plain []byte, err error) {
	for _, kek := range slices.Backward(k.KEKs()) {
		if plain, err = seal.Unwrap(kek, label, wrapped); err == nil {
			return plain, nil
		}
	}
	return nil, err
}

// wrappedSecret is a secret of the state and the label that binds it to its use.
type wrappedSecret struct {
	label   string
	wrapped []byte
}

// secretsOf returns all secrets of a state.
func secretsOf(v *state.State) []wrappedSecret {
	all := []wrappedSecret{{labelCAKey, v.CAKey}}
	if v.Change != nil && len(v.Change.Key) > 0 {
		all = append(all, wrappedSecret{labelCAKey, v.Change.Key})
	}
	for _, e := range v.Epochs {
		all = append(all, wrappedSecret{labelEpoch, e.Wrapped})
	}
	if c := v.Config.Leases.Check; len(c.Token) > 0 {
		all = append(all, wrappedSecret{labelLeaseCheck + c.URL, c.Token})
	}
	for _, w := range v.Webhooks() {
		all = append(all, wrappedSecret{labelWebhook + string(w.ID), w.Secret})
	}
	return all
}

// rewrapSecrets returns the command that takes a key into use.
func (k *Keys) rewrapSecrets(v *state.State, kek [kekBytes]byte, at command.Stamp) (command.KEKUse, error) {
	c := command.KEKUse{Stamp: at, ID: seal.KEKID(kek), Due: v.KEKDue}
	for _, s := range secretsOf(v) {
		plain, err := k.unwrap(s.label, s.wrapped)
		if err != nil {
			return c, fmt.Errorf("opening %s: %w", s.label, err)
		}
		c.Secrets = append(c.Secrets, command.Rewrap{Old: s.wrapped, New: seal.Wrap(kek, s.label, plain, newNonce())})
	}
	return c, nil
}

// Nodes calls the other nodes of the zone.
type Nodes interface {
	// ExchangeKEKs gives a node the keys of this one, and returns those that it has then.
	ExchangeKEKs(ctx context.Context, addr string, keks KEKs) (KEKs, error)
}

// kekAttempt is a key that was made and is not in use: a repeat takes it again.
type kekAttempt struct {
	mu  sync.Mutex // held during a rotation
	kek KEKs
	due uint64 // the removal after which it was made
}

// RotateKEK makes a new key-encryption key, gives it to a majority of the nodes, wraps every secret
// of the zone by it, and rotates the keys that seal plans. Nodes that did not get it ask for it.
func (f *Federation) RotateKEK(ctx context.Context) error {
	if err := checkFifth(f.members.Form(), "change the key-encryption key"); err != nil {
		return err
	}
	f.attempt.mu.Lock()
	defer f.attempt.mu.Unlock()
	v, err := f.zone.Latest(ctx)
	if err != nil {
		return err
	}
	if f.attempt.kek == nil || f.attempt.due != v.KEKDue {
		f.attempt.kek, f.attempt.due = NewKEK(), v.KEKDue
	}
	if err = f.keys.adoptKEKs(v, f.attempt.kek); err != nil {
		return err
	}
	if err = f.spreadKEKs(ctx, f.attempt.kek[0]); err != nil {
		return err
	}
	c, err := f.keys.rewrapSecrets(v, f.attempt.kek[0], f.zone.Stamp())
	if err != nil {
		return api.Wrap(api.CodeInternal, "federation.RotateKEK", "", err)
	}
	if _, err = f.zone.Propose(ctx, c); err != nil {
		return err
	}
	f.attempt.kek = nil
	return f.RotateKeyring(ctx)
}

// spreadKEKs gives this node's keys to all others at once. It fails unless a majority of the voters
// has kek then: as much as the state itself needs.
func (f *Federation) spreadKEKs(ctx context.Context, kek [kekBytes]byte) error {
	ctx, cancel := context.WithTimeout(ctx, kekTellTimeout)
	defer cancel()
	var (
		all            sync.WaitGroup
		mu             sync.Mutex // guards having
		voters, having int
	)
	have := func() {
		mu.Lock()
		defer mu.Unlock()
		having++
	}
	for _, m := range f.members.Members() {
		if m.Voter {
			voters++
		}
		if m.ID == f.node {
			have()
			continue
		}
		all.Go(func() {
			theirs, err := f.nodes.ExchangeKEKs(ctx, m.Addr, f.keys.KEKs())
			if err != nil {
				f.log.WarnContext(ctx, "a node could not be given the key-encryption key", "to", m.ID, "error", err)
				return
			}
			if m.Voter && slices.Contains(theirs, kek) {
				have()
			}
		})
	}
	all.Wait()
	if having <= voters/2 {
		return api.Errorf(api.CodeUnavailable, "%d of %d nodes have taken the new key-encryption key, and a majority is needed; it will be in use when they have", having, voters)
	}
	return nil
}

// AnswerKEKs takes the keys of another node of the zone, and returns those that this one has then.
func (f *Federation) AnswerKEKs(theirs KEKs) (KEKs, error) {
	if err := f.keys.adoptKEKs(f.view(), theirs); err != nil {
		return nil, err
	}
	return f.keys.KEKs(), nil
}

// RotateKEKWhenDue changes the key-encryption key whenever a node that has it was removed, until
// ctx ends. The leader runs it.
func (f *Federation) RotateKEKWhenDue(ctx context.Context) {
	for ctx.Err() == nil {
		pause := kekCheckEvery
		if f.view().KEKDue != 0 {
			if err := f.RotateKEK(f.asNode(ctx, f.node)); err != nil {
				f.log.WarnContext(ctx, "a removed node has the key-encryption key, and it could not be changed; it will be tried again", "error", err)
				pause = kekRetryEvery
			} else {
				f.log.InfoContext(ctx, "the key-encryption key was changed: a removed node had the old one")
			}
		}
		backoff.Sleep(ctx, pause)
	}
}

// FollowKEK asks the other nodes for the key-encryption key in use whenever this one lacks it, until
// ctx ends: it was changed while this node was away.
func (f *Federation) FollowKEK(ctx context.Context) {
	var failed map[api.NodeID]bool // the nodes that it could not be got from, which the log has; nil while it is not lacked
	for ctx.Err() == nil {
		if f.LacksKEK() {
			if failed == nil {
				f.log.WarnContext(ctx, "this node lacks the key-encryption key in use, and opens no secret of the zone until another node gives it")
				failed = map[api.NodeID]bool{}
			}
			f.fetchKEKs(ctx, f.view(), failed)
		}
		if failed != nil && !f.LacksKEK() {
			f.log.InfoContext(ctx, "this node has the key-encryption key in use")
			failed = nil
		}
		backoff.Sleep(ctx, kekCheckEvery)
	}
}

// LacksKEK reports whether this node does not have the key-encryption key in use, as far as it has applied the log: it was
// away when that was changed, or its file of keys is another node's.
func (f *Federation) LacksKEK() bool {
	v := f.view()
	return v.Zone != "" && f.keys.KEKs().find(v.KEK) < 0
}

// fetchKEKs asks one node after the other for the key in use, and logs of each once that it could not be got there.
func (f *Federation) fetchKEKs(ctx context.Context, v *state.State, failed map[api.NodeID]bool) {
	for _, m := range f.members.Members() {
		if m.ID == f.node || f.keys.KEKs().find(v.KEK) >= 0 {
			continue
		}
		one, cancel := context.WithTimeout(ctx, kekTellTimeout)
		theirs, err := f.nodes.ExchangeKEKs(one, m.Addr, f.keys.KEKs())
		cancel()
		if err == nil {
			err = f.keys.adoptKEKs(v, theirs)
		}
		if err != nil && !failed[m.ID] {
			f.log.WarnContext(ctx, "the key-encryption key could not be got from a node; it is asked again", "from", m.ID, "error", err)
			failed[m.ID] = true
		}
	}
}
