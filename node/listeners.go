package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"

	"berth/api"
)

// listeners are the five open listeners of a node.
type listeners struct {
	api, gateway, node, agent, admin net.Listener
}

// of returns where the listener of a kind is kept.
func (l *listeners) of(k *listenerKind) *net.Listener {
	switch k.flag {
	case "api-addr":
		return &l.api
	case "gateway-addr":
		return &l.gateway
	case "node-addr":
		return &l.node
	case "agent-addr":
		return &l.agent
	}
	return &l.admin
}

// openListeners opens the five listeners and records their addresses.
func (n *Node) openListeners() error {
	before, err := readRecord(n.dir)
	if err != nil {
		return err
	}
	for _, k := range listenerKinds {
		ln, err := n.net.Listen(context.Background(), n.rec.toBind(&k)) // a listener lives as long as the node
		if err != nil {
			return errors.Join(fmt.Errorf("opening the %s listener, which --%s moves: %w", k.name, k.flag, err), n.closeOpened())
		}
		*n.listeners.of(&k) = ln
		if err := n.rec.noteBound(&k, ln.Addr()); err != nil {
			return errors.Join(err, n.closeOpened())
		}
	}
	if (n.opts.Plain || n.opts.Insecure) && !isLoopback(n.listeners.api.Addr()) {
		return errors.Join(api.Errorf(api.CodeInvalid, "--insecure-dev and plain HTTP are for loopback addresses alone, not %s", n.listeners.api.Addr()), n.closeOpened())
	}
	if reflect.DeepEqual(n.rec, before) {
		return nil // a full disk must not prevent the start
	}
	if err := n.rec.writeFile(n.dir); err != nil {
		return errors.Join(err, n.closeOpened())
	}
	return nil
}

// openSocket opens the socket for the operator of this machine, which has the data folder to itself by now. A node serves without
// one, too: nil for none.
func (n *Node) openSocket(ctx context.Context) net.Listener {
	local, ok := n.net.(interface {
		ListenLocal(dir string) (net.Listener, error)
	})
	if !ok {
		return nil
	}
	ln, err := local.ListenLocal(n.dir)
	if err != nil {
		n.log.ErrorContext(ctx, "berth operator debug and log-level do not reach this node", "error", err)
		return nil
	}
	return ln
}

func isLoopback(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return ok && t.IP.IsLoopback()
}

// closeOpened closes what was opened before Run took over.
func (n *Node) closeOpened() error {
	var errs []error
	for _, l := range []net.Listener{n.listeners.api, n.listeners.gateway, n.listeners.node, n.listeners.agent, n.listeners.admin} {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	return errors.Join(errs...)
}
