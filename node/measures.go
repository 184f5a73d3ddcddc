package node

import (
	"net/http"
	"time"

	"berth/api"
	"berth/httpd/admin"
	"berth/httpd/agents"
	"berth/httpd/traffic"
	"berth/identity"
	"berth/internal/measure"
	"berth/internal/skew"
	"berth/internal/sysinfo"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/fleet"
)

// measures is what a node measures for its metrics. The methods may be called concurrently.
type measures struct {
	traffic  *traffic.Meter
	phases   *measure.Family[string] // of estimates
	calls    *measure.Family[admin.LinkCall]
	outcomes *measure.Counts[admin.LinkOutcome]
}

func newMeasures(now func() time.Time) measures {
	return measures{
		traffic: traffic.New(now, func(r *http.Request) bool { return r.Header.Get(headerDoor) != "" }),
		phases:  measure.NewFamily[string](), calls: measure.NewFamily[admin.LinkCall](), outcomes: measure.NewCounts[admin.LinkOutcome](),
	}
}

// noteCall counts a call of a linked zone.
func (m *measures) noteCall(l *api.Link, call string, code api.Code, took time.Duration) {
	k := admin.LinkCall{Link: l.Name, Call: call}
	m.calls.NoteTime(k, took)
	m.outcomes.Add(admin.LinkOutcome{LinkCall: k, Code: code})
}

// agentDoor returns the handler of the calls of agents.
func (n *Node) agentDoor() http.Handler {
	return agents.New(agents.Config{
		Zone: n.zone, Fleet: n.fleet, Outputs: n.outputs, Renew: n.renewAgent, Trust: n.trustAgent, TrustMark: n.federation.TrustMark,
		Agent: n.agentOf, Leader: n.leaderAgentAddr, OnLeaderChange: n.onLeaderChange, Log: n.log, Rates: n.rates, Now: n.now, Refusals: n.refusals,
		Insecure: n.opts.Insecure, Traffic: n.measures.traffic,
	})
}

// adminDoor returns the handler of the admin listener.
func (n *Node) adminDoor() http.Handler {
	h := admin.New(n.adminConfig())
	if n.opts.Admin != nil {
		h = n.opts.Admin(h)
	}
	return h
}

// adminConfig is what the handlers of the admin listener and of the operator's socket report.
func (n *Node) adminConfig() admin.Config {
	return admin.Config{
		View: n.view, Leader: n.leaderID, Term: n.store.Term, Form: n.store.FormAllRead, Ready: func() bool { return n.leading.Load() || n.store.CaughtUp() },
		Removed: n.removed.Load, Backups: n.backupStatus,
		Watching: n.watching, Admission: func() admin.Admission { return admin.Admission(n.saga.Admission()) }, Refused: n.rates.Refused, Budget: n.budget, Waiting: n.turns.Waiting, Share: n.opts.Share, Refusals: n.refusals.Counts, Certificates: n.certificates, Clocks: n.clockOffsets, Disk: func() (free, total int64, err error) { return sysinfo.Disk(n.dir) }, CADue: func() bool { return n.federation.CADue() != "" }, LacksKEK: n.federation.LacksKEK, Now: func() api.Instant { return api.InstantOf(n.opts.Now()) },
		Traffic: n.measures.traffic, Road: n.road, Version: n.opts.Version, Level: n.opts.Level, Log: n.log,
	}
}

// road returns what this node has measured and knows of the way of a request.
func (n *Node) road() admin.Road {
	v, now := n.view(), n.now()
	log := n.store.Measures()
	r := admin.Road{
		Phases: n.measures.phases.Read(), Calls: n.measures.calls.Read(), Outcomes: n.measures.outcomes.Read(), Links: n.knownLinks(v),
		Commands: log.Commands.Read(), Commit: log.Commit.Read(), Write: log.Write.Read(), Apply: log.Apply.Read(), Failed: log.Failed.Read(),
		Waiting: n.store.Waiting(), Lag: n.store.Lag(), Role: n.store.Role(), Silent: len(n.store.Silent()), Liveness: map[string]int{},
	}
	r.Contact, r.Heard = n.store.Age(now)
	if stored, ok := n.store.Stored(); ok {
		r.Stored, r.LogBytes, r.Snapshots = true, stored.LogBytes, stored.SnapshotBytes
		r.SnapshotAge = max(0, now.Sub(stored.Newest))
	}
	for _, m := range n.store.Members() {
		if m.Voter {
			r.Voters++
		} else {
			r.Learners++
		}
		liveness := n.pools.livenessOf(m.ID)
		if liveness == "" {
			liveness = "unknown"
		}
		r.Liveness[liveness]++
	}
	r.AgentsConnected, r.AgentsSilent = n.fleet.CountAgents(v)
	r.AgentsEnd, r.AgentsSkew = worstOf(n.fleet.Agents(v), now)
	return r
}

// agentFresh is how long ago an agent may have called to count in the metrics of certificates and clocks.
const agentFresh = time.Minute

// worstOf returns the first end of a certificate of agents that have called of late, 0 for unknown, and the clock that is farthest
// off, nil for unknown.
func worstOf(agents []fleet.Agent, now time.Time) (end api.Instant, off *skew.Skew) {
	for _, a := range agents {
		if a.Seen.IsZero() || now.Sub(a.Seen) > agentFresh {
			continue
		}
		if s := a.About.Skew; s != nil && (off == nil || s.Ahead.Abs() > off.Ahead.Abs()) {
			off = s
		}
		if ends := a.Issued().Add(identity.LeafTTL); a.Recorded && !a.IsRevoked() && (end == 0 || ends < end) {
			end = ends
		}
	}
	return end, off
}

// knownLinks returns what gossip knows of the linked zones.
func (n *Node) knownLinks(v *state.State) []admin.Link {
	var out []admin.Link
	for _, l := range v.Links() {
		_, age, heard := n.pools.Digest(l.Zone)
		out = append(out, admin.Link{Name: l.Name, Role: l.Role, Up: heard && age <= zone.LinkFresh, Age: age, Heard: heard, Unconfirmed: n.unconfirmed(l) > 0})
		if s, known := n.peers.Skew(l); known && n.leading.Load() {
			out[len(out)-1].Skew = &s
		}
	}
	return out
}
