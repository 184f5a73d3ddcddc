package gossip

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"berth/api"
)

// Dialer opens a connection to a peer's gateway or node listener: TLS with the
// protocol api.ALPNGossip, the peer authenticated and known to belong to the
// pool. It returns when ctx ends. The endpoint is one of Config.Endpoints or
// one that PeerStore has kept.
type Dialer func(ctx context.Context, endpoint string) (net.Conn, error)

// PeerStore keeps known good endpoints over restarts. One goroutine calls it.
type PeerStore interface {
	// Load returns the endpoints of the last Save, if any.
	Load() ([]string, error)
	// Save replaces the saved endpoints: at most PeersKeptMax, in order.
	Save(endpoints []string) error
}

// Config describes a pool and what it needs.
type Config struct {
	Name string // of the pool; all its members agree on it: a valid name, such as "zone" or a link id
	Self string // this node's SyntheticName; unique in the pool

	// Endpoints returns the current endpoints of members, with or without this one; at
	// most EndpointsMax count. It is called often and must not block.
	Endpoints func() []string
	Dial      Dialer

	// Digest returns this zone's own digest, or nil if there is none. It is called from
	// several goroutines and must not block. The digest is not changed afterwards.
	Digest func() *api.Digest
	// Zones are those whose digests may travel here; others are ignored and
	// counted. Empty means the first DigestsMax that are heard.
	Zones []api.ZoneID

	Peers  PeerStore // may be nil: nothing is kept
	Tuning Tuning    // zero values take those of ZoneTuning
	Logger *slog.Logger
	// Now is the clock for the deadlines of connections.
	Now func() time.Time
	// Drain lets Run wait for the library's own goroutines too, which takes seconds: virtual time must pass for them.
	Drain bool
}

// Tuning sets the pace of a pool. All members should have the same.
type Tuning struct {
	ProbeInterval    time.Duration // between checks of one member each
	ProbeTimeout     time.Duration // until others are asked to check it too; below ProbeInterval
	GossipInterval   time.Duration // between rounds of news
	PushPullInterval time.Duration // between exchanges of everything with one member
	StreamTimeout    time.Duration // of such an exchange
	RejoinMin        time.Duration // between first attempts at an endpoint without a live member
	RejoinMax        time.Duration // between attempts in the long run
	DigestInterval   time.Duration // between readings of the own digest
	DigestTTL        time.Duration // after which a digest that its zone has not repeated is no longer passed on
}

// ZoneTuning returns the pace between the nodes of one zone.
func ZoneTuning() Tuning {
	return Tuning{
		ProbeInterval: time.Second, ProbeTimeout: 500 * time.Millisecond,
		GossipInterval: 200 * time.Millisecond, PushPullInterval: 30 * time.Second, StreamTimeout: 10 * time.Second,
		RejoinMin: time.Second, RejoinMax: 30 * time.Second,
		DigestInterval: 5 * time.Second, DigestTTL: 10 * time.Minute,
	}
}

// LinkTuning returns the pace between two zones, whose nodes may be far apart.
func LinkTuning() Tuning {
	t := ZoneTuning()
	t.ProbeInterval, t.ProbeTimeout = 2*time.Second, time.Second
	t.GossipInterval = 500 * time.Millisecond
	return t
}

// withDefaults returns the tuning with its defaults filled in.
func (t Tuning) withDefaults() Tuning {
	def := ZoneTuning()
	for _, f := range []struct{ v, def *time.Duration }{
		{&t.ProbeInterval, &def.ProbeInterval},
		{&t.ProbeTimeout, &def.ProbeTimeout},
		{&t.GossipInterval, &def.GossipInterval},
		{&t.PushPullInterval, &def.PushPullInterval},
		{&t.StreamTimeout, &def.StreamTimeout},
		{&t.RejoinMin, &def.RejoinMin},
		{&t.RejoinMax, &def.RejoinMax},
		{&t.DigestInterval, &def.DigestInterval},
		{&t.DigestTTL, &def.DigestTTL},
	} {
		if *f.v == 0 {
			*f.v = *f.def
		}
	}
	return t
}

// validate returns an invalid-input error unless all durations are positive and
// in order.
func (t Tuning) validate() error {
	least := min(t.ProbeInterval, t.ProbeTimeout, t.GossipInterval, t.PushPullInterval, t.StreamTimeout,
		t.RejoinMin, t.RejoinMax, t.DigestInterval, t.DigestTTL)
	switch {
	case least < time.Millisecond:
		return api.Errorf(api.CodeInvalid, "gossip intervals must be at least a millisecond")
	case t.ProbeTimeout >= t.ProbeInterval:
		return api.Errorf(api.CodeInvalid, "the gossip probe timeout must be below the probe interval")
	case t.RejoinMin > t.RejoinMax:
		return api.Errorf(api.CodeInvalid, "the shortest gossip rejoin interval must not exceed the longest")
	}
	return nil
}

// withDefaults returns the configuration with its defaults filled in, or an
// invalid-input error.
func (c Config) withDefaults() (Config, error) {
	if err := api.CheckName("pool", c.Name); err != nil {
		return c, err
	}
	if err := checkName(c.Self); err != nil {
		return c, err
	}
	if c.Endpoints == nil || c.Dial == nil || c.Digest == nil || c.Logger == nil || c.Now == nil {
		return c, api.Errorf(api.CodeInvalid, "a gossip pool needs endpoints, a dialer, a digest, a logger and a clock")
	}
	if len(c.Zones) > DigestsMax {
		return c, api.Errorf(api.CodeInvalid, "a gossip pool carries digests of at most %d zones", DigestsMax)
	}
	if c.Peers == nil {
		c.Peers = noPeers{}
	}
	c.Tuning = c.Tuning.withDefaults()
	return c, c.Tuning.validate()
}

// noPeers keeps nothing.
type noPeers struct{}

func (noPeers) Load() ([]string, error) { return nil, nil }
func (noPeers) Save([]string) error     { return nil }

// counters count what a pool heard and what it ignored.
type counters struct {
	heard     atomic.Uint64 // digests newer than what was known
	malformed atomic.Uint64 // digests, or messages that carried some
	tooLarge  atomic.Uint64 // digests above digestMaxBytes
	foreign   atomic.Uint64 // digests of a zone that is not in this pool
	expired   atomic.Uint64 // digests that nobody has vouched for within DigestTTL
	unsent    atomic.Uint64 // own digests that were malformed or too large
	dropped   atomic.Uint64 // packets to members that could not be reached or were slow
	garbage   atomic.Uint64 // packets of a kind or size that no member sends
	refused   atomic.Uint64 // connections above a limit, or for another pool
}
