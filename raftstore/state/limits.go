package state

import (
	"strings"
	"time"

	"berth/api"
	"berth/quota"
)

// limits are the bounds that decide whether a command is refused. They depend on the form
// of its entry, not on the release that applies it: an entry that was refused once is
// refused on every node, for ever. They are counts, except faultBytes in bytes and
// providerName in characters. Before api.FormThird no events are kept.
type limits struct {
	leases                   int           // of the zone; 0 where nothing happens by time alone
	series                   int           // of leases, of the zone
	leaseEnds, leaseEndsTold int           // ends of leases that are to be told, and those of one command
	reserved                 int           // slots of leases that one parent may have
	requeued                 int           // preempted instances that wait to be booted again
	requeuePause             time.Duration // the longest between two tries to do that
	events                   int           // kept
	audit                    int           // records of the audit log that are kept; 0 where there is none
	auditParty               int           // of those, of one agent or linked zone
	eventAge                 time.Duration // how long they are kept

	bindings, bindingsProject, bindingsPast int // active ones of the zone and of one project; past ones that are kept of one project

	leaseLead time.Duration // how far ahead a lease of a parent may start

	quotas, quotaItems int           // projects with limits of their own, and limits of each
	quotaAhead         time.Duration // how far ahead a refusal looks for room
	// quotaDefaults are the limits of projects for which the zone has none. Without them what is
	// kept for projects is counted and not limited.
	quotaDefaults quota.Limits

	shareHeld, shareCommitted int // percent of each class that a parent may have, unless its link says otherwise; 0 for no limit

	agentHosts, agentClasses, agentTraits int // hosts of one agent, and custom names of these; 0 for no limit

	unlinked     bool          // a zone that is linked no more confirms nothing, and what is undecided there keeps its link
	rulesLifted  bool          // zones below learn that a server group is deleted
	detachedMove bool          // what was booted with volumes may leave them once they are detached
	tagTexts     bool          // values of affinity tags need not be names
	choicesHeld  bool          // a hold that has nothing of the child that it has chosen keeps no other from another one
	endFirst     bool          // nothing that waits for room begins while a window that is over is yet to be ended
	roles        int           // that operators have made; 0 where there are none
	agents       int           // that the zone keeps; 0 where it keeps none
	agentAge     time.Duration // how long they are kept: longer than a certificate is valid

	incarnation api.Incarnation // the last one
	lostHosts   int             // of one agent that were written off and are still known to it

	authorities, authorityBytes, vouchBytes int           // of one zone, of the certificate of one, and of the signature for it
	pinPause                                time.Duration // between two changes of the authorities of one linked zone

	webhookFailing             time.Duration // how long deliveries may fail before a webhook is paused
	webhooks, webhooksProject  int           // of the zone, and of one project
	attributeBytes, properties int           // of attributes of hosts; for a command of api.FormFourth

	aggregates, attached, attributes, classes, consumers, consumersCall, customClasses, customTraits, epochs, faultBytes, filters, flavors,
	holdsPerLink, links, providerAggs, providerName, providers, serverGroups, shares, tokens, tokenUses, tombstonesPerLink, tree, treeDepth int
}

// limitsFirst are the limits of the first form, and those of commands that came later.
var limitsFirst = limits{
	attributeBytes: 255, properties: 10_000,
	aggregates: 1_000, attached: 32, attributes: 128, classes: 32, consumers: 1_000_000, consumersCall: 1_000,
	customClasses: 1_000, customTraits: 10_000, epochs: 16, faultBytes: 512, filters: 64, flavors: 1_000, holdsPerLink: 10_000, links: 64,
	providerAggs: 1_000, providerName: 200, providers: 100_000, serverGroups: 10_000, shares: 256, tokens: 10_000, tokenUses: 1_000,
	tombstonesPerLink: 10_000, tree: 4_096, treeDepth: 32,
	bindings: 100_000, bindingsProject: 100, bindingsPast: 1_000,
	quotas: 10_000, quotaItems: 64, quotaAhead: 10 * 365 * 24 * time.Hour, leaseLead: 10 * 365 * 24 * time.Hour,
	webhooks: 1_000, webhooksProject: 10, webhookFailing: 24 * time.Hour,
	incarnation: 1 << 34, lostHosts: 1_000,
}

// limitsOf lists the limits by the form that introduced them, ascending. To change a limit,
// add a row, and a form in package api; never change a row.
var limitsOf = []struct {
	since  api.Form
	limits limits
}{
	{api.FormFirst, limitsFirst},
	{api.FormThird, limitsFirst.withEvents(20_000, 24*time.Hour)},
	{api.FormFourth, limitsFirst.withEvents(20_000, 24*time.Hour).withLeases(100_000)},
	{api.FormFifth, limitsFirst.withEvents(20_000, 24*time.Hour).withLeases(100_000).withBudgets().withAudit(10_000)},
}

// withEvents returns l with limits of events.
func (l limits) withEvents(most int, age time.Duration) limits {
	l.events, l.eventAge = most, age
	return l
}

// withAudit returns l with limits of the audit log.
func (l limits) withAudit(most int) limits {
	l.audit, l.auditParty = most, 500
	return l
}

// withLeases returns l with limits of leases.
func (l limits) withLeases(most int) limits {
	l.leases, l.series, l.reserved = most, 10_000, 100_000
	l.leaseEnds, l.leaseEndsTold, l.requeued, l.requeuePause = 10_000, 100, 100_000, time.Minute
	return l
}

// withBudgets returns l with limits of what one party makes the zone keep.
func (l limits) withBudgets() limits {
	l.quotaDefaults = quota.Limits{quota.Boots: 1_000, quota.Records: 100_000, quota.Data: 64 << 20, quota.ServerGroups: 1_000}
	l.agentHosts, l.agentClasses, l.agentTraits = 10_000, 100, 1_000
	l.shareHeld, l.shareCommitted = 100, 100
	l.agents, l.agentAge = 10_000, 400*24*time.Hour
	l.leaseLead = 100 * 365 * 24 * time.Hour
	l.roles, l.unlinked, l.endFirst = 100, true, true
	l.choicesHeld, l.tagTexts, l.detachedMove, l.rulesLifted = true, true, true, true
	l.authorities, l.authorityBytes, l.vouchBytes, l.pinPause = 2, 8<<10, 128, 10*time.Second
	return l
}

// checkTags refuses values of affinity tags that are no names, where they have to be.
func (l *limits) checkTags(tags []string) error {
	for _, t := range tags {
		if _, value, _ := strings.Cut(t, "="); !l.tagTexts && !api.ValidName(value) {
			return api.Errorf(api.CodeInvalid, "an affinity tag must be key=value, got %q", t)
		}
	}
	return nil
}

// limitsAt returns the limits of a form.
func limitsAt(form api.Form) *limits {
	row := 0
	for i := range limitsOf {
		if limitsOf[i].since <= form {
			row = i
		}
	}
	return &limitsOf[row].limits
}
