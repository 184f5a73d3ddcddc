package node

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"io"

	"berth/api"
	"berth/buildplan/seal"
	"berth/federation"
	"berth/httpd/native"
	"berth/internal/actor"
)

// authority implements the calls of the public API that concern the node and its zone
// as such.
type authority struct {
	*federation.Federation
	n *Node
}

var _ native.Authority = authority{}

// sealBackup is what a backup is sealed for.
const sealBackup = "backup"

// Snapshot writes a backup of everything acknowledged, sealed with the zone's key-encryption
// key: nobody without it can read, write or change one. Who gets it is logged, and recorded in the
// audit log unless the zone can write nothing: then a backup may be needed most.
func (a authority) Snapshot(ctx context.Context, w io.Writer) error {
	if _, err := a.n.store.Linearizable(ctx); err != nil {
		return err
	}
	by := actor.Of(ctx).By
	a.n.log.InfoContext(ctx, "the zone's state is handed out as a backup", "actor", by.Kind, "id", by.ID, "user", by.User, "project", by.Project)
	if err := a.n.zone.Audit(ctx, "saved backup"); err != nil {
		a.n.log.WarnContext(ctx, "the audit log does not have that a backup is handed out", "error", err)
	}
	return a.n.writeSnapshot(ctx, w)
}

// writeSnapshot writes a sealed backup of what this node has.
func (n *Node) writeSnapshot(ctx context.Context, w io.Writer) error {
	r, _, err := n.store.Snapshot(ctx)
	if err != nil {
		return err
	}
	kek, err := n.keys.KEKInUse(n.view())
	if err != nil {
		return errors.Join(err, r.Close())
	}
	var salt [seal.SaltBytes]byte
	_, _ = rand.Read(salt[:]) // never fails: crypto/rand ends the process instead
	sealed, err := seal.NewStreamWriter(w, kek, sealBackup, salt)
	if err == nil {
		_, err = io.Copy(sealed, r)
	}
	if err == nil {
		err = sealed.Close()
	}
	return errors.Join(err, r.Close())
}

// Restore replaces the zone's state by a backup of the same zone. Backups of older
// releases are not sealed, and nodes that were removed have the keys that are no longer in use:
// others may have written such a backup, so it is restored only if unauthenticated is set.
func (a authority) Restore(ctx context.Context, r io.Reader, unauthenticated bool) error {
	plain, doubt, err := a.n.openBackup(r)
	if err != nil {
		return err
	}
	if doubt != nil && !unauthenticated {
		return doubt
	}
	err = a.n.store.Restore(ctx, plain, a.n.zone.Stamp)
	if errors.Is(err, seal.ErrStream) {
		return errForged
	}
	if err != nil {
		return err
	}
	a.n.log.WarnContext(ctx, "the zone's state was restored from a backup", "authentic", doubt == nil)
	how := "unauthenticated backup"
	if doubt == nil {
		how = "sealed backup"
	}
	return errors.Join(a.n.zone.Audit(ctx, how), a.RecordNode(ctx, a.n.nodeRecord()), a.ForgetRemoved(ctx)) // the other nodes announce themselves
}

// openBackup returns what a backup holds, and why it may not be authentic, nil if it is. Reading
// what is sealed fails with seal.ErrStream where it turns out not to be.
func (n *Node) openBackup(r io.Reader) (plain io.Reader, doubt, err error) {
	from := bufio.NewReader(r)
	start, err := from.Peek(seal.StreamStartBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, api.Wrap(api.CodeInvalid, "node.Restore", "the backup could not be received; nothing was changed", err)
	}
	if !seal.IsStream(start) {
		return from, errUnsealed, nil
	}
	keks := n.keys.KEKs()
	inUse, err := n.keys.KEKInUse(n.view())
	if err != nil {
		return nil, nil, err
	}
	plain, key, err := seal.NewStreamReader(from, keks, sealBackup)
	switch {
	case errors.Is(err, seal.ErrStream):
		return nil, nil, errForged
	case err == nil && keks[key] != inUse:
		return plain, errRetired, nil
	}
	return plain, nil, err
}

var (
	errForged = api.Errorf(api.CodeInvalid,
		"the backup was not written by this zone, or was changed or cut since; nothing was changed")
	errUnsealed = api.Errorf(api.CodeInvalid,
		"the file is no sealed backup, so anybody may have written or changed it; nothing was changed. "+
			"If it is a backup of an older release, and you know where it has been since, restore it with --accept-unauthenticated")
	errRetired = api.Errorf(api.CodeInvalid,
		"the backup is sealed with a key-encryption key that is no longer in use, so a node that was removed may have written or changed it; nothing was changed. "+
			"If you know where it has been since, restore it with --accept-unauthenticated")
)
