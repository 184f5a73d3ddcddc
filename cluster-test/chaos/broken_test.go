//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"berth/cluster-test/lab"
	"berth/internal/await"
)

func (n *nemesis) fillDisk(ctx context.Context, h *hit) error {
	if _, err := n.take(ctx, h, n.anyNode); err != nil {
		return err
	}
	o, began := h.nodes[0], time.Now()
	if err := o.Machine.Fill(); err != nil {
		return err
	}
	n.hold(ctx, time.Second, 4*time.Second)
	err := isFull(o.Machine)
	if n.ended(o, began) == nil {
		err = nil // what it had not finished to write it removes when it starts again
	}
	return errors.Join(err, o.Machine.Space())
}

// isFull returns an error unless nothing fits on a machine's disk.
func isFull(m *lab.Machine) error {
	path := filepath.Join(m.Dir, "more")
	err := os.WriteFile(path, make([]byte, 64<<10), 0o600)
	if e := os.Remove(path); e != nil && !errors.Is(e, os.ErrNotExist) {
		return e
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("there is room on the full disk of %s: %w", m.Name, err)
	}
	return nil
}

// powerCut cuts the power of some or all nodes of a zone at the same moment.
func (n *nemesis) powerCut(ctx context.Context, h *hit) error {
	_, err := n.take(ctx, h, func(leader *lab.NodeProc, others []*lab.NodeProc) []*lab.NodeProc {
		all := append(slices.Clone(others), leader)
		return all[n.intn(len(all)):]
	})
	if err != nil {
		return err
	}
	return powerCut(ctx, h.nodes)
}

func powerCut(ctx context.Context, nodes []*lab.NodeProc) error {
	errs := make(chan error, len(nodes))
	for _, o := range nodes {
		go func() { errs <- o.Machine.PowerCut() }()
	}
	for range nodes {
		if err := <-errs; err != nil {
			return err
		}
	}
	for _, o := range nodes {
		if err := o.Machine.Remount(); err != nil {
			return err
		}
	}
	for _, o := range nodes {
		go func() { errs <- o.Up(ctx) }()
	}
	var all []error
	for range nodes {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// hangDisk lets the leader's disk hang, for longer than it waits for it. One that is
// deposed meanwhile waits three times as long, and need not end.
func (n *nemesis) hangDisk(ctx context.Context, h *hit) error {
	if _, err := n.take(ctx, h, theLeader); err != nil {
		return err
	}
	h.promise = hungDiskMax
	o := h.nodes[0]
	began := time.Now()
	if err := o.Machine.Hang(); err != nil {
		return err
	}
	n.hold(ctx, 6*time.Second, 8*time.Second)
	look, cancel := context.WithTimeout(ctx, 2*time.Second)
	leads, silent := o.Leads(look) // one that is to end says nothing
	cancel()
	if err := o.Machine.Unhang(); err != nil {
		return err
	}
	if silent == nil && !leads {
		return nil
	}
	return await.Wait(ctx, func(context.Context) error { return n.ended(o, began) })
}

// ended returns an error unless a node's process has ended for its disk since a
// moment.
func (n *nemesis) ended(o *lab.NodeProc, since time.Time) error {
	if slices.ContainsFunc(n.Exits(), func(e lab.Exit) bool { return e.Service == o.Name && e.At.After(since) && e.DiskBroken() }) {
		return nil
	}
	return fmt.Errorf("%s has not ended for its disk", o.Name)
}

// rest waits until every node that no fault has answers, and every zone has a
// leader.
func (n *nemesis) rest(ctx context.Context) error {
	return await.Wait(ctx, func(ctx context.Context) error {
		for _, z := range n.zones() {
			free := n.free(z)
			for _, o := range free {
				if err := o.AskReady(ctx); err != nil {
					return err
				}
			}
			if len(free) == 0 {
				continue
			}
			if _, err := z.AskLeader(ctx, free...); err != nil {
				return err
			}
		}
		return nil
	})
}
