package identity

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"berth/api"
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

// RenewableAge returns how old a certificate that is valid for ttl must be for its zone to renew it: far less than the age at
// which its holder asks, and far more than anybody needs to keep a young one at all times.
func RenewableAge(ttl time.Duration) time.Duration { return ttl / 2 }

// RenamableAge is how old a certificate must be for its zone to renew it for other names.
const RenamableAge = time.Minute

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

// isDue reports whether c should be renewed. A certificate that ends with its authority is never due for its age: a new
// one would end at the same time.
func (c *Credentials) isDue(now time.Time) bool {
	return c.isEarly(now) || !now.Before(renewAt(c.Cert.Leaf)) && c.Cert.Leaf.NotAfter.Before(c.CA.NotAfter)
}

// isEarly reports whether c, or its authority, is not valid yet: it was made while a clock was ahead, and nobody admits
// its holder.
func (c *Credentials) isEarly(now time.Time) bool {
	return now.Before(c.Cert.Leaf.NotBefore) || now.Before(c.CA.NotBefore)
}

// endsSoon reports whether less than a soonShare of the life of c is left.
func (c *Credentials) endsSoon(now time.Time) bool {
	leaf := c.Cert.Leaf
	return leaf.NotAfter.Sub(now) < leaf.NotAfter.Sub(leaf.NotBefore)/soonShare
}

// Wallet holds the credentials of one process by role, and the authorities of its zone that it
// trusts, in memory and in its directory. Its methods may be called concurrently, but only one
// goroutine may renew, and only one may change the authorities.
type Wallet struct {
	dir     string
	zone    api.ZoneID
	held    atomic.Pointer[map[Role]*Credentials] // never changed in place
	trusted atomic.Pointer[trust]                 // never changed in place
}

// trust is the authorities that a wallet trusts, the older one first. Their pins are looked at for every call.
type trust struct {
	ders [][]byte
	pins []Pin
}

func newTrust(ders [][]byte) *trust { return &trust{ders, PinsOf(ders)} }

// OpenWallet loads the credentials of roles, at least one, from dir, and the authorities. Without a
// file of authorities it trusts that of the first credentials. Errors are those of LoadDir.
func OpenWallet(dir string, roles ...Role) (*Wallet, error) {
	held := map[Role]*Credentials{}
	for _, r := range roles {
		c, err := LoadDir(dir, r)
		if err != nil {
			return nil, fmt.Errorf("loading the %s certificate: %w", r, err)
		}
		held[r] = c
	}
	first := held[roles[0]]
	w := &Wallet{dir: dir, zone: first.Subject.Zone}
	trusted, err := loadAuthorities(dir)
	if err != nil {
		return nil, err
	}
	if len(trusted) == 0 {
		trusted = [][]byte{first.CA.Raw}
	}
	if err = w.checkOwn(trusted); err != nil {
		return nil, fmt.Errorf("loading authorities: %w", err)
	}
	w.held.Store(&held)
	w.trusted.Store(newTrust(trusted))
	return w, nil
}

// checkOwn refuses certificates that are not of authorities of the wallet's zone.
func (w *Wallet) checkOwn(ders [][]byte) error {
	for _, der := range ders {
		if _, err := parseAuthority(der, w.zone); err != nil {
			return err
		}
	}
	return nil
}

// Get returns the newest credentials of a role, nil for one that the wallet was not opened with.
func (w *Wallet) Get(r Role) *Credentials { return (*w.held.Load())[r] }

// Of returns Get of a role, for TLS configurations.
func (w *Wallet) Of(r Role) func() *Credentials { return func() *Credentials { return w.Get(r) } }

// Trusted returns the certificates of the zone's authorities in DER, the older one first. The
// caller must not change them.
func (w *Wallet) Trusted() [][]byte { return w.trusted.Load().ders }

// Pins returns the pins of Trusted. The caller must not change them.
func (w *Wallet) Pins() []Pin { return w.trusted.Load().pins }

// Trust replaces the authorities. They are on the disk before they are trusted.
func (w *Wallet) Trust(ders [][]byte) error {
	if err := w.checkOwn(ders); err != nil {
		return err
	}
	if err := SaveAuthorities(w.dir, ders); err != nil {
		return err
	}
	w.trusted.Store(newTrust(ders))
	return nil
}

// TrustTold is Trust of what the zone reports, which CheckTold checks.
func (w *Wallet) TrustTold(told []api.Authority) error {
	if err := CheckTold(w.zone, w.Trusted(), told); err != nil {
		return err
	}
	var ders [][]byte
	for _, a := range told {
		ders = append(ders, a.Cert)
	}
	if slices.EqualFunc(ders, w.Trusted(), bytes.Equal) {
		return nil
	}
	return w.Trust(ders)
}

// Newest returns the fingerprint of the newest authority that is trusted.
func (w *Wallet) Newest() api.Fingerprint {
	all := w.Trusted()
	return api.FingerprintOf(all[len(all)-1])
}

// Issuer returns the fingerprint of the authority of all credentials, "" if they have several.
func (w *Wallet) Issuer() (of api.Fingerprint) {
	for _, c := range *w.held.Load() {
		one := api.FingerprintOf(c.CA.Raw)
		if of != "" && of != one {
			return ""
		}
		of = one
	}
	return of
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
// of an authority that is trusted and of the same subject, except that a gateway has a new id, valid
// now, and with a later end unless the authority is another one or an old one is not valid yet. All
// are on disk before they are used, that of a node last: it shows it to ask again if it was stopped
// in between.
func (w *Wallet) Renew(now time.Time, ask func(csr []byte) (map[string][]byte, error)) error {
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
	next, early := maps.Clone(*w.held.Load()), w.holds((*Credentials).isEarly, now)
	for role, old := range next {
		c, err := w.newCredentials(key, certs[string(role)])
		if err != nil {
			return err
		}
		if c.isEarly(now) {
			return fmt.Errorf("the new certificate of %s is not valid yet: the clock of its zone is ahead of this one", old.Subject)
		}
		if err = checkSuccessor(old, c, early); err != nil {
			return err
		}
		next[role] = c
	}
	for _, role := range []Role{RoleGateway, RoleAPI, RoleAgent, RoleNode} {
		if c := next[role]; c != nil {
			if err := c.SaveDir(w.dir); err != nil {
				return err
			}
		}
	}
	w.held.Store(&next)
	return nil
}

// newCredentials returns the credentials of a certificate that one of the trusted authorities has issued.
func (w *Wallet) newCredentials(key *ecdsa.PrivateKey, leafDER []byte) (c *Credentials, err error) {
	for _, ca := range slices.Backward(w.Trusted()) {
		if c, err = NewCredentials(key, leafDER, ca); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// checkSuccessor refuses credentials that cannot take the place of others, which may end sooner.
func checkSuccessor(old, c *Credentials, sooner bool) error {
	want := old.Subject
	if want.Role == RoleGateway {
		want.ID = c.Subject.ID
	}
	if c.Subject != want {
		return fmt.Errorf("the new certificate is of %s, not of %s", c.Subject, old.Subject)
	}
	if c.CA.Equal(old.CA) && !sooner && !c.Cert.Leaf.NotAfter.After(old.Cert.Leaf.NotAfter) {
		return fmt.Errorf("the new certificate of %s ends no later than the old one", old.Subject)
	}
	return nil
}

// Renewal is what RenewWhenDue needs.
type Renewal struct {
	// Ask asks the zone for certificates; see Wallet.Renew.
	Ask func(ctx context.Context, csr []byte) (map[string][]byte, error)
	// Issuer returns the authority that issues now, "" if that is unknown; nil for no such function.
	// A certificate of another one is due.
	Issuer func() api.Fingerprint
	// Misnamed reports whether the names in a certificate are not those that it should have: then
	// it is due. Nil for none.
	Misnamed func() bool
	// Renewed is called after each renewal; nil for nothing.
	Renewed func(ctx context.Context)
	Now     func() time.Time
	Log     *slog.Logger
}

// isReplaced reports whether another authority than that of the credentials issues now, which the
// wallet trusts already.
func (w *Wallet) isReplaced(r *Renewal) bool {
	if r.Issuer == nil {
		return false
	}
	issuer := r.Issuer()
	return issuer != "" && issuer != w.Issuer() &&
		slices.ContainsFunc(w.Trusted(), func(der []byte) bool { return api.FingerprintOf(der) == issuer })
}

// RenewWhenDue renews all credentials whenever some are due, until ctx ends. It tries again as long
// as it takes, and logs errors when a certificate has little time left.
func (w *Wallet) RenewWhenDue(ctx context.Context, r Renewal) {
	fails, pause := 0, dueEvery
	for ; ctx.Err() == nil; backoff.Sleep(ctx, pause) {
		pause = dueEvery
		due := w.holds((*Credentials).isDue, r.Now()) || w.isReplaced(&r) || r.Misnamed != nil && r.Misnamed()
		var err error
		if due {
			if err = w.Renew(r.Now(), func(csr []byte) (map[string][]byte, error) { return r.Ask(ctx, csr) }); err == nil {
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
