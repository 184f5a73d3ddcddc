package node

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"berth/api"
	"berth/buildplan/seal"
	"berth/federation"
	"berth/identity"
	"berth/internal/durable"
	"berth/raftstore"
	"berth/raftstore/state"
)

// fileReturn is the state with which a zone that is brought back from a backup begins, sealed as backups are. It is there
// until the node has begun with it.
const fileReturn = "return.backup"

// Returned is a zone that was brought back from a backup.
type Returned struct {
	Token       string // of an admin; it is not stored
	Zone        string
	ZoneID      api.ZoneID
	Node        api.NodeID
	At          api.Instant // of the newest change that the backup has
	Incarnation api.Incarnation
	Links       []api.Link // the zones that have to confirm the incarnation
}

// InitFromBackup makes the data directory of the first node of a zone that has lost all of its nodes, from a sealed backup
// and the zone's key-encryption keys. The zone keeps its name, its id, its certificate authority and all that the backup has, and
// begins a new incarnation; see api.Incarnation. The node is a new one: those of before are no members any more. Of o, Costs, PlanKey
// and TokenTTL are not used but for the token, and Name must be empty or that of the zone.
//
// Errors: CodeInvalid for a backup that is damaged, not sealed with one of the keys, or of another zone; CodeConflict for a
// directory that holds a node, for the id of a node in the backup, and if the clock is before the backup.
func InitFromBackup(o InitOptions, backup []byte, keks federation.KEKs) (*Returned, error) {
	b, sealed, err := ReadBackup(bytes.NewReader(backup), keks)
	switch {
	case err != nil:
		return nil, err
	case !sealed:
		return nil, api.Errorf(api.CodeInvalid, "the file is no sealed backup, so anybody may have written or changed it")
	case b.State.Zone == "":
		return nil, api.Errorf(api.CodeInvalid, "the backup is of a zone that was not initialised")
	case o.Name != "" && o.Name != b.State.Name:
		return nil, api.Errorf(api.CodeInvalid, "the backup is of zone %q, not of %q", b.State.Name, o.Name)
	}
	v := b.State
	at := api.InstantOf(o.Now)
	r := &Returned{Zone: v.Name, ZoneID: v.Zone, Node: o.Node, At: v.Now(), Incarnation: api.Incarnation(o.Now.Unix())}
	for _, l := range v.Links() {
		r.Links = append(r.Links, *l)
	}
	if r.Node == "" { // others, of which the backup does not know, may have had any other name
		r.Node = api.NodeID("node-" + r.Incarnation.String())
	}
	if err = api.CheckName("node id", string(r.Node)); err != nil {
		return nil, err
	}
	if _, was := v.Node(r.Node); was {
		return nil, api.Errorf(api.CodeConflict, "the zone in the backup has a node %q: give the new one an id that none has had", string(r.Node))
	}
	trusted := make([][]byte, 0, 2)
	for _, a := range v.Authorities() {
		trusted = append(trusted, a.Cert)
	}
	ca, err := federation.OpenAuthority(keks, v)
	if err != nil {
		return nil, err
	}
	text, id, hash := identity.NewToken()
	r.Token = text.Reveal()
	expires := api.Forever
	if o.TokenTTL > 0 {
		expires = at.Add(o.TokenTTL)
	}
	if err = v.BringBack(state.Return{
		Incarnation: r.Incarnation, At: at, Sum: b.SHA256[:],
		Admin: api.Token{ID: id, Hash: hash, User: "admin", Project: "admin", Roles: []api.UserRole{api.RoleAdmin}, Created: at, Expires: expires},
	}); err != nil {
		return nil, err
	}
	o.Node = r.Node
	return r, writeReturned(o, v, ca, trusted, keks)
}

// writeReturned writes the directory of the first node of a zone that was brought back.
func writeReturned(o InitOptions, v *state.State, ca *identity.CA, trusted [][]byte, keks federation.KEKs) error {
	if err := newDir(o.Dir); err != nil {
		return err
	}
	begin, err := sealReturn(v, o.Node, keks)
	if err != nil {
		return err
	}
	if err = issueOwn(o, ca, trusted); err != nil {
		return err
	}
	if err = keepKEKs(o.Dir, o.DiskKey)(keks); err != nil {
		return err
	}
	if err = durable.ReplaceFile(filepath.Join(o.Dir, fileReturn), 0o600, begin); err != nil {
		return err
	}
	// Last, because it makes the directory a node's.
	rec := record{Zone: v.Zone, ZoneName: v.Name, Node: o.Node, Listen: o.Listen}
	return rec.writeFile(o.Dir)
}

// sealReturn returns what fileReturn has.
func sealReturn(v *state.State, id api.NodeID, keks federation.KEKs) ([]byte, error) {
	kek, err := federation.NewKeys(keks, nil, nil).KEKInUse(v)
	if err != nil {
		return nil, err
	}
	var salt [seal.SaltBytes]byte
	_, _ = rand.Read(salt[:]) // never fails: crypto/rand ends the process instead
	var out bytes.Buffer
	w, err := seal.NewStreamWriter(&out, kek, sealBackup, salt)
	if err != nil {
		return nil, err
	}
	index, term := v.Incarnation.Begin()
	if err = raftstore.WriteBackup(w, v, raftstore.Backup{Node: id, Index: index, Term: term}); err == nil {
		err = w.Close()
	}
	return out.Bytes(), err
}

// seedStore begins the log of the node with what fileReturn has, if it is there, and reports whether it was.
func (n *Node) seedStore(conf raftstore.Config) (bool, error) {
	f, err := os.Open(filepath.Join(n.dir, fileReturn))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading with what the zone begins: %w", err)
	}
	b, _, err := ReadBackup(f, n.keys.KEKs())
	if err = errors.Join(err, f.Close()); err == nil {
		err = raftstore.Seed(conf, b)
	}
	if err != nil {
		return false, fmt.Errorf("beginning with the state in %s: %w", fileReturn, err)
	}
	return true, nil
}

// forgetReturn removes fileReturn, which the log has.
func (n *Node) forgetReturn() error {
	if err := os.Remove(filepath.Join(n.dir, fileReturn)); err != nil {
		return fmt.Errorf("removing with what the zone began: %w", err)
	}
	return nil
}
