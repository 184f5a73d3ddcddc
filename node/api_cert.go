package node

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"berth/api"
	"berth/httpd/admin"
	"berth/identity"
	"berth/internal/backoff"
)

// APICert names the files of a certificate that the operator brings for the public API. Both are "" for that of
// the zone's own authority.
type APICert struct {
	Cert string // certificates in PEM, the server's first
	Key  string // its key
}

// APICertEvery is the time between two looks at these files.
const APICertEvery = time.Minute

// Load reads the files, nil for none. It returns an invalid-input error for one without the other, and those of
// identity.LoadPair.
func (a APICert) Load() (*identity.Pair, error) {
	switch {
	case a == APICert{}:
		return nil, nil
	case a.Cert == "" || a.Key == "":
		return nil, api.Errorf(api.CodeInvalid, "a certificate for the public API needs both --api-cert and --api-key")
	}
	return identity.LoadPair(a.Cert, a.Key)
}

// broughtCert is the certificate that the operator brings, as it is now.
type broughtCert struct {
	held atomic.Pointer[identity.Pair] // nil for none

	mu     sync.Mutex // guards all below
	files  APICert
	broken string // error that was last logged
}

// openAPICert has the public API of a node that starts show a certificate. One out of its time is shown all the same, with an error
// in the log: other nodes, zones and agents never see it, and they need this node.
func (n *Node) openAPICert(files APICert) error {
	p, err := files.Load()
	if err != nil {
		return err
	}
	b := &n.brought
	b.mu.Lock()
	defer b.mu.Unlock()
	b.files = files
	n.useAPICert(p)
	if err = p.CheckTime(n.now()); err != nil {
		b.broken = err.Error()
		n.log.Error("clients refuse the certificate of the public API, which was brought for it; replace its files", "cert", files.Cert, "key", files.Key, "error", err)
	}
	return nil
}

// SetAPICert has the public API show another certificate from the next connection on. Files that cannot be used, and
// a certificate out of its time that it does not show yet, are an error and change nothing.
func (n *Node) SetAPICert(files APICert) error {
	p, err := files.Load()
	if err != nil {
		return err
	}
	n.brought.mu.Lock()
	defer n.brought.mu.Unlock()
	if !p.Same(n.brought.held.Load()) {
		if err = p.CheckTime(n.now()); err != nil {
			return err
		}
	}
	n.brought.files = files
	n.useAPICert(p)
	return nil
}

// ReadAPICert looks whether the files of the certificate have others in them. Those that cannot be used are an
// error in the log, once, and change nothing. It reports whether there are such files.
func (n *Node) ReadAPICert() bool {
	b := &n.brought
	b.mu.Lock()
	defer b.mu.Unlock()
	if (b.files == APICert{}) {
		return false
	}
	p, err := b.files.Load()
	if err == nil {
		err = p.CheckTime(n.now())
	}
	if err != nil {
		if text := err.Error(); text != b.broken {
			b.broken = text
			n.log.Error("the files of the certificate of the public API were not taken over; it shows the one that it has",
				"cert", b.files.Cert, "key", b.files.Key, "end", b.held.Load().Leaf().NotAfter, "error", err)
		}
		return true
	}
	n.useAPICert(p)
	return true
}

// useAPICert takes a certificate over, nil for none, if it is another one. The caller holds the mutex.
func (n *Node) useAPICert(p *identity.Pair) {
	n.brought.broken = ""
	before := n.brought.held.Swap(p)
	switch {
	case p == nil && before != nil:
		n.log.Info("the public API shows a certificate of the zone's authority again")
	case p == nil, p.Same(before):
	default:
		leaf := p.Leaf()
		names := identity.APIHosts(leaf)
		n.log.Info("the public API shows the certificate that was brought for it", "end", leaf.NotAfter, "issuer", leaf.Issuer.String(), "names", names)
		if host, _, err := net.SplitHostPort(n.rec.Advertise.API); err == nil && !p.Covers(host) {
			n.log.Warn("the certificate of the public API lacks the name by which others are told to call it: clients refuse it there", "lacks", host, "names", names)
		}
	}
}

// followAPICert reads the files from time to time, until ctx ends.
func (n *Node) followAPICert(ctx context.Context) {
	for ctx.Err() == nil {
		backoff.Sleep(ctx, APICertEvery)
		n.ReadAPICert()
	}
}

// firstEnd returns when the first certificate of this node ends.
func (n *Node) firstEnd() time.Time {
	first := n.wallet.FirstEnd()
	if p := n.brought.held.Load(); p != nil && p.Leaf().NotAfter.Before(first) {
		return p.Leaf().NotAfter
	}
	return first
}

// certificates returns the life of the certificate of each role. That of the public API is the one that is shown.
func (n *Node) certificates() map[string]admin.Life {
	out := map[string]admin.Life{}
	for _, role := range []identity.Role{identity.RoleNode, identity.RoleGateway, identity.RoleAPI} {
		leaf := n.wallet.Get(role).Cert.Leaf
		if p := n.brought.held.Load(); p != nil && role == identity.RoleAPI {
			leaf = p.Leaf()
		}
		out[string(role)] = admin.Life{Begins: leaf.NotBefore, Ends: leaf.NotAfter}
	}
	return out
}
