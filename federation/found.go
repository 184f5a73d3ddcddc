package federation

import (
	"context"
	"crypto"
	"errors"
	"time"

	"berth/api"
	"berth/identity"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// Found makes the encoded first command of a zone, and the first admin's token, which
// is not stored and expires after ttl, or never if that is 0. The certificate authority names the zone.
func Found(k *Keys, ca *identity.CA, name string, costs []api.CostWeight, ttl time.Duration, now time.Time) (first []byte, token string, err error) {
	caKey, err := ca.KeyDER()
	if err != nil {
		return nil, "", err
	}
	v := state.New()
	v.Zone = ca.Zone()
	epoch, err := k.newEpoch(v, now)
	if err != nil {
		return nil, "", err
	}
	wrappedKey, err := k.wrap(v, labelCAKey, caKey)
	if err != nil {
		return nil, "", err
	}
	text, id, hash := identity.NewToken()
	at := api.InstantOf(now)
	expires := api.Forever
	if ttl > 0 {
		expires = at.Add(ttl)
	}
	first, err = command.Encode(command.Init{
		Stamp: command.Stamp{At: at}, Zone: ca.Zone(), Name: name,
		Config: api.ZoneConfig{Costs: costs},
		Admin: api.Token{
			ID: id, Hash: hash, User: "admin", Project: "admin", Roles: []api.UserRole{api.RoleAdmin},
			Created: at, Expires: expires,
		},
		Epoch: epoch, CA: ca.CertDER(), CAKey: wrappedKey,
	}, api.FormFirst)
	return first, text.Reveal(), err
}

// CheckFirst refuses bytes that Found has not made.
func CheckFirst(first []byte) error {
	_, err := readFirst(first)
	return err
}

func readFirst(first []byte) (*command.Init, error) {
	c, err := command.Decode(first, api.FormNewest)
	if err != nil {
		return nil, err
	}
	init, ok := c.(command.Init)
	if !ok {
		return nil, errors.New("it is not a zone's first command")
	}
	return &init, nil
}

// Begin logs the zone's first command, as made by Found, unless the zone exists.
func (f *Federation) Begin(ctx context.Context, first []byte) error {
	init, err := readFirst(first)
	if err == nil && f.view().Zone == "" {
		_, err = f.zone.Propose(ctx, *init)
	}
	return err
}

// IssueNode issues the three certificates of a node, by role, which are valid for ttl.
func IssueNode(ca *identity.CA, id string, pub crypto.PublicKey, names []string, now time.Time, ttl time.Duration) (map[string][]byte, error) {
	out := map[string][]byte{}
	// Other zones see the certificate of the gateway: it must not name the node.
	for role, name := range map[identity.Role]string{identity.RoleNode: id, identity.RoleGateway: api.NewUUID()} {
		der, err := ca.Issue(identity.Subject{Zone: ca.Zone(), Role: role, ID: name}, pub, now, ttl)
		if err != nil {
			return nil, err
		}
		out[string(role)] = der
	}
	der, err := ca.IssueAPI(id, names, pub, now, ttl)
	if err != nil {
		return nil, err
	}
	out[string(identity.RoleAPI)] = der
	return out, nil
}
