package node

import (
	"context"
	"net"
	"time"

	"berth/httpd/admin"
	httpevents "berth/httpd/events"
	"berth/webhook"
	"berth/zone/hooks"
	"berth/zone/leasecheck"
)

// buildWatching builds what tells others of the zone's events: streams, webhooks, and the
// external service for leases.
func (n *Node) buildWatching() {
	n.streams = httpevents.New(httpevents.Config{Zone: n.zone, Led: n.led, Closing: n.closing})
	n.egress = webhook.New(webhook.Config{
		Resolve: n.opts.Resolve, Now: n.now,
		Dial: func(ctx context.Context, _, addr string) (net.Conn, error) { return n.net.Dial(ctx, addr) },
		Networks: func() webhook.Networks {
			nets, _ := webhook.ParseNetworks(n.view().Config.WebhookNetworks) // they were read before they were logged
			return nets
		},
	})
	n.hooks = hooks.New(hooks.Config{Zone: n.zone, Sender: n.egress, Secret: n.keys.WebhookSecret})
	n.checks = leasecheck.New(leasecheck.Config{Zone: n.zone, Sender: n.egress, Token: n.keys.LeaseToken})
}

// watching returns what this process does for those who watch events.
func (n *Node) watching() admin.Watching {
	sent := n.hooks.Counts()
	asked := n.checks.Counts()
	return admin.Watching{
		Delivered: sent.Delivered, Failed: sent.Failed, Lag: n.hooks.Lag(), Streams: n.streams.Open(),
		ChecksAllowed: asked.Allowed, ChecksRefused: asked.Refused, ChecksUnanswered: asked.Unanswered, EndsTold: asked.Told, EndsUntold: asked.Untold,
	}
}

// led reports whether this node knows a leader of the zone.
func (n *Node) led() bool {
	id, _ := n.store.Leader()
	return id != ""
}

// noteLed records that a leader of the zone is known now.
func (n *Node) noteLed() {
	now := n.now()
	n.heard.Store(&now)
}

// cutOff returns for how long this node has known no leader of the zone.
func (n *Node) cutOff() time.Duration { return n.now().Sub(*n.heard.Load()) }
