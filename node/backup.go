package node

import (
	"context"
	"errors"
	"io"

	"berth/federation"
	"berth/httpd/native"
)

// authority implements the calls of the public API that concern the node and its zone
// as such.
type authority struct {
	*federation.Federation
	n *Node
}

var _ native.Authority = authority{}

// Snapshot writes a backup of everything acknowledged.
func (a authority) Snapshot(ctx context.Context, w io.Writer) error {
	if _, err := a.n.store.Linearizable(ctx); err != nil {
		return err
	}
	r, _, err := a.n.store.Snapshot(ctx)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, r.Close())
}

// Restore replaces the zone's state by a backup of the same zone.
func (a authority) Restore(ctx context.Context, r io.Reader) error {
	if err := a.n.store.Restore(ctx, r, a.n.zone.Stamp); err != nil {
		return err
	}
	a.n.log.Warn("the zone's state was restored from a backup")
	return errors.Join(a.RecordNode(ctx, a.n.nodeRecord()), a.ForgetRemoved(ctx)) // the other nodes announce themselves
}
