package federation

import (
	"sync"
	"time"

	"berth/api"
	"berth/identity"
)

// OwnPool is the gossip pool of a zone's own nodes. The pool of a link is named after
// the link's id.
const OwnPool = "zone"

// MayGossip reports whether a peer may take part in a gossip pool of the zone own. The
// zone's own pool is for its nodes, and the pool of a link for the gateways of the two
// zones, so that two children never share a pool. linked is the zone at the other end
// of the link, "" for the zone's own pool and for no pool.
func MayGossip(pool string, own, linked api.ZoneID, who identity.Subject) bool {
	if who.Role == identity.RoleNode {
		return pool == OwnPool
	}
	return pool != OwnPool && linked != "" && (who.Zone == linked || who.Zone == own)
}

// DigestAge is the maximum age of a cached digest.
const DigestAge = time.Second

// Digest returns the digest for the nodes of this zone: its capacity and its gateways.
// It is nil before there is a zone.
func (f *Federation) Digest() *api.Digest {
	return digestInForm(f.digest.currentDigest(), f.members.Form())
}

// digestInForm returns a digest without what an older form does not have.
func digestInForm(d *api.Digest, form api.Form) *api.Digest {
	if d == nil || form >= api.FormFifth {
		return d
	}
	return new(d.WithoutPrices())
}

// DigestFor returns the digest for the zone at the other end of a link. A child gets
// only the zone's existence and gateways, because anything else would include its
// siblings; a parent learns whether the zone has paused the link, and prices once all nodes of
// both zones are known to read them.
func (f *Federation) DigestFor(l *api.Link) *api.Digest {
	full := f.digest.currentDigest()
	if full == nil {
		return nil
	}
	if l.Role == api.LinkChild {
		return &api.Digest{Zone: full.Zone, Sequence: full.Sequence, At: full.At, Health: full.Health, Gateways: full.Gateways}
	}
	full = digestInForm(full, min(f.members.Form(), f.forms.formOf(l.ID)))
	if now, linked := f.view().Link(l.ID); !linked || now.State != api.LinkPaused {
		return full
	}
	paused := *full
	paused.Paused = true
	return &paused
}

// digestCache caches this zone's digest for a moment, for all pools.
type digestCache struct {
	make func() *api.Digest
	now  func() time.Time

	mu   sync.Mutex // guards last and at
	last *api.Digest
	at   time.Time
}

func (d *digestCache) currentDigest() *api.Digest {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil || d.now().Sub(d.at) > DigestAge {
		d.last, d.at = d.make(), d.now()
	}
	return d.last
}
