package identity

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"berth/internal/backoff"
)

// When certificates are renewed. Shares are of the life of a certificate.
const (
	lifeSpread  = 12          // those issued together are renewed within a twelfth of it
	soonShare   = 8           // with less than an eighth left, a failure is an error
	dueEvery    = time.Second // between two looks at the clock
	renewPause  = time.Second // after the first failure; it doubles
	renewPauses = time.Hour   // at most
)

// RenewableAge is how old a certificate must be for its zone to renew it: far less than the age at
// which its holder asks, and far more than anybody needs to keep a young one at all times.
const RenewableAge = LeafTTL / 2

// renewAt returns when the holder of leaf should renew it: after two thirds of its life, and up to
// a twelfth later by its serial number, which is random.
func renewAt(leaf *x509.Certificate) time.Time {
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	spread := time.Duration(0)
	if b := leaf.SerialNumber.Bytes(); len(b) > 0 {
		spread = life / lifeSpread / 256 * time.Duration(b[len(b)-1])
	}
	return leaf.NotBefore.Add(life*2/3 + spread)
}

// isDue reports whether c should be renewed. A certificate that ends with its authority is never
// due: a new one would end at the same time.
func (c *Credentials) isDue(now time.Time) bool {
	return !now.Before(renewAt(c.Cert.Leaf)) && c.Cert.Leaf.NotAfter.Before(c.CA.NotAfter)
}

// endsSoon reports whether less than a soonShare of the life of c is left.
func (c *Credentials) endsSoon(now time.Time) bool {
	leaf := c.Cert.Leaf
	return leaf.NotAfter.Sub(now) < leaf.NotAfter.Sub(leaf.NotBefore)/soonShare
}

// Wallet holds the credentials of one process by role, in memory and in its directory. Its methods
// may be called concurrently, but only one goroutine may renew.
type Wallet struct {
	dir  string
	held atomic.Pointer[map[Role]*Credentials] // never changed in place
}

// OpenWallet loads the credentials of roles from dir. Errors are those of LoadDir.
func OpenWallet(dir string, roles ...Role) (*Wallet, error) {
	held := map[Role]*Credentials{}
	for _, r := range roles {
		c, err := LoadDir(dir, r)
		if err != nil {
			return nil, fmt.Errorf("loading the %s certificate: %w", r, err)
		}
		held[r] = c
	}
	w := &Wallet{dir: dir}
	w.held.Store(&held)
	return w, nil
}

// Get returns the newest credentials of a role, nil for one that the wallet was not opened with.
func (w *Wallet) Get(r Role) *Credentials { return (*w.held.Load())[r] }

// Of returns Get of a role, for TLS configurations.
func (w *Wallet) Of(r Role) func() *Credentials { return func() *Credentials { return w.Get(r) } }

// CA returns the certificate of the zone's authority in DER.
func (w *Wallet) CA() []byte {
	for _, c := range *w.held.Load() {
		return c.CA.Raw
	}
	return nil
}

// Ends returns when the certificate of each role ends.
func (w *Wallet) Ends() map[Role]time.Time {
	out := map[Role]time.Time{}
	for r, c := range *w.held.Load() {
		out[r] = c.Cert.Leaf.NotAfter
	}
	return out
}

// FirstEnd returns when the first certificate ends.
func (w *Wallet) FirstEnd() (first time.Time) {
	for _, end := range w.Ends() {
		if first.IsZero() || end.Before(first) {
			first = end
		}
	}
	return first
}

// holds reports whether is holds for any credentials.
func (w *Wallet) holds(is func(*Credentials, time.Time) bool, now time.Time) bool {
	for _, c := range *w.held.Load() {
		if is(c, now) {
			return true
		}
	}
	return false
}

// Renew makes a new key and replaces all credentials by others for it. ask gets a certificate
// request, and returns a certificate for each role. A certificate must be the old one's successor:
// of the same authority and subject, except that a gateway has a new id, and with a later end. All
// are on disk before they are used.
func (w *Wallet) Renew(ask func(csr []byte) (map[string][]byte, error)) error {
	key, err := NewKey()
	if err != nil {
		return err
	}
	csr, err := CSR(key)
	if err != nil {
		return err
	}
	certs, err := ask(csr)
	if err != nil {
		return err
	}
	next := maps.Clone(*w.held.Load())
	for role, old := range next {
		c, err := NewCredentials(key, certs[string(role)], old.CA.Raw)
		if err != nil {
			return err
		}
		if err = checkSuccessor(old, c); err != nil {
			return err
		}
		next[role] = c
	}
	for _, c := range next {
		if err := c.SaveDir(w.dir); err != nil {
			return err
		}
	}
	w.held.Store(&next)
	return nil
}

// checkSuccessor refuses credentials that cannot take the place of others.
func checkSuccessor(old, c *Credentials) error {
	want := old.Subject
	if want.Role == RoleGateway {
		want.ID = c.Subject.ID
	}
	if c.Subject != want {
		return fmt.Errorf("the new certificate is of %s, not of %s", c.Subject, old.Subject)
	}
	if !c.Cert.Leaf.NotAfter.After(old.Cert.Leaf.NotAfter) {
		return fmt.Errorf("the new certificate of %s ends no later than the old one", old.Subject)
	}
	return nil
}

// Renewal is what RenewWhenDue needs.
type Renewal struct {
	// Ask asks the zone for certificates; see Wallet.Renew.
	Ask func(ctx context.Context, csr []byte) (map[string][]byte, error)
	// Renewed is called after each renewal; nil for nothing.
	Renewed func(ctx context.Context)
	Now     func() time.Time
	Log     *slog.Logger
}

// RenewWhenDue renews all credentials whenever some are due, until ctx ends. It tries again as long
// as it takes, and logs errors when a certificate has little time left.
func (w *Wallet) RenewWhenDue(ctx context.Context, r Renewal) {
	fails, pause := 0, dueEvery
	for ; ctx.Err() == nil; backoff.Sleep(ctx, pause) {
		pause = dueEvery
		due := w.holds((*Credentials).isDue, r.Now())
		var err error
		if due {
			if err = w.Renew(func(csr []byte) (map[string][]byte, error) { return r.Ask(ctx, csr) }); err == nil {
				fails = 0
				r.Log.InfoContext(ctx, "the certificates were renewed", "end", w.FirstEnd().UTC())
				if r.Renewed != nil {
					r.Renewed(ctx)
				}
				continue
			}
			pause = backoff.Double(renewPause, renewPauses, fails)
			fails++
		}
		switch {
		case ctx.Err() != nil:
		case w.holds((*Credentials).endsSoon, r.Now()):
			if !due {
				pause = renewPauses // they end with the authority: there is nothing to try
			}
			r.Log.ErrorContext(ctx, "a certificate ends soon and is not renewed: then this process reaches nobody", "end", w.FirstEnd().UTC(), "error", err)
		case err != nil:
			r.Log.WarnContext(ctx, "the certificates could not be renewed; it will be tried again", "end", w.FirstEnd().UTC(), "retry_in", pause, "error", err)
		}
	}
}
