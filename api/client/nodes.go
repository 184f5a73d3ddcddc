package client

import (
	"errors"
	"net"
	"net/url"
	"strings"
	"sync/atomic"

	"berth/api"
)

// AddrsMax is how many addresses of nodes a client may have.
const AddrsMax = 16

// nodes are the addresses of a zone's nodes, and which of them answers. Its methods may be called
// concurrently.
type nodes struct {
	all []string // scheme://host[:port][/prefix], without a slash at the end
	at  atomic.Uint32
}

// parseNodes returns the nodes of a list of addresses, of which the first is called first.
func parseNodes(list string) (*nodes, error) {
	addrs := strings.Split(list, ",")
	if len(addrs) > AddrsMax {
		return nil, api.Errorf(api.CodeInvalid, "a zone may have %d addresses, got %d", AddrsMax, len(addrs))
	}
	n := &nodes{}
	for _, a := range addrs {
		base, err := parseAddr(strings.TrimSpace(a))
		if err != nil {
			return nil, err
		}
		n.all = append(n.all, base)
	}
	return n, nil
}

// current returns the address to call.
func (n *nodes) current() string { return n.all[n.at.Load()] }

// ask calls f with one address after the other until a node has heard the call, and returns its error. A node that is
// there and cannot serve the call for now is left for the next call.
func (n *nodes) ask(f func(node string) error) error {
	var err error
	for range n.all {
		node := n.current()
		if err = f(node); err == nil || !isPassing(err) {
			return err
		}
		n.leave(node)
		if !isDeaf(err) {
			return err
		}
	}
	return n.nameAll(err)
}

// leave makes the next address the one to call, unless another call has done so already.
func (n *nodes) leave(addr string) {
	at := n.at.Load()
	if n.all[at] == addr {
		n.at.CompareAndSwap(at, (at+1)%uint32(len(n.all)))
	}
}

// inTurn returns all addresses, beginning with the one to call.
func (n *nodes) inTurn() []string {
	at := n.at.Load()
	return append(append([]string(nil), n.all[at:]...), n.all[:at]...)
}

// nameAll returns err, of a call that no node has heard, with the addresses of all.
func (n *nodes) nameAll(err error) error {
	e, ok := errors.AsType[*api.Error](err)
	if !ok || len(n.all) == 1 {
		return err
	}
	named := *e
	named.Msg = "none of " + strings.Join(n.all, ", ") + " answers; the last one: " + e.Msg
	return &named
}

// isDeaf reports whether the call that failed with err has not reached a node: nobody has heard anything of it.
func isDeaf(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// parseAddr returns addr without a slash at the end. A token must not be sent in clear
// text, so plain HTTP is only for loopback addresses, where berth dev listens.
func parseAddr(addr string) (string, error) {
	u, err := url.Parse(addr)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", api.Errorf(api.CodeInvalid, "the address must look like https://host:7600")
	}
	switch u.Scheme {
	case "https":
	case "http":
		ip := net.ParseIP(u.Hostname())
		if u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return "", api.Errorf(api.CodeInvalid, "plain http is for this machine alone; use https://%s", u.Host)
		}
	default:
		return "", api.Errorf(api.CodeInvalid, "the address must begin with https://")
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}
