package admin

import (
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"berth/api"
	"berth/internal/measure"
	"berth/internal/skew"
	"berth/raftstore/state"
)

var (
	requests    = nodeMetrics.counter("berth_http_requests_total", "Calls that this process has answered. The route is the pattern of the router, unmatched if none was found; the code is the HTTP status, aborted without one.", "listener", "method", "route", "code")
	requestTime = nodeMetrics.histogram("berth_http_request_seconds", "How long calls took. Long polls and streams take as long as their callers ask for.", "listener", "method", "route")

	selectTime = nodeMetrics.histogram("berth_select_seconds", "How long estimates took: own is planning on hosts of this zone, plan that and asking the children, seal making the blob, and select all of one call.", "phase")
	bootsDone  = nodeMetrics.counter("berth_boots_decided_total", "Boots that were decided, with the code of why they were given up.", "decision", "code")
	bootTime   = nodeMetrics.histogram("berth_boot_seconds", "Time between the record of a boot and its decision.", "decision")
	holdsMade  = nodeMetrics.counter("berth_holds_made_total", "Holds on hosts of this zone, with the code of why slots were refused, none if all were held.", "code")
	holdsDone  = nodeMetrics.counter("berth_holds_decided_total", "Holds that were decided.", "decision")

	linkUp    = nodeMetrics.gauge("berth_link_up", "1 if the zone at the other end of a link was heard of late.", "link", "role")
	linkDue   = nodeMetrics.gauge("berth_link_unconfirmed", "1 if the zone at the other end of a link was brought back from a backup and that is not confirmed, as far as this node has heard: berth zone relink.", "link", "role")
	linkClock = nodeMetrics.gauge("berth_link_clock_offset_seconds", "By how much the clock of a linked zone is ahead of that of this node; only on the leader, which measures it.", "link", "role")
	linkAge   = nodeMetrics.gauge("berth_link_gossip_age_seconds", "Age of the newest digest of a linked zone; none if this node has none.", "link", "role")
	linkCalls = nodeMetrics.counter("berth_link_calls_total", "Calls that this process has made over a link, with the code of their error.", "link", "call", "code")
	linkTime  = nodeMetrics.histogram("berth_link_call_seconds", "How long those calls took, with all tries at the gateways of the other zone.", "link", "call")

	logCommands = nodeMetrics.histogram("berth_log_entry_commands", "Commands of the entries that this process has proposed.")
	logCommit   = nodeMetrics.histogram("berth_log_commit_seconds", "Time from proposing an entry to having its results.")
	logWrite    = nodeMetrics.histogram("berth_log_write_seconds", "Time for one synced write to the log on this disk.")
	logApply    = nodeMetrics.histogram("berth_log_apply_seconds", "Time for applying one batch of entries.")
	logFailed   = nodeMetrics.counter("berth_log_failed_total", "Entries that this process has proposed and got no results of.", "reason")
	logWaiting  = nodeMetrics.gauge("berth_log_waiting", "Proposals that wait for an entry.")
	logLag      = nodeMetrics.gauge("berth_log_lag", "Entries that this node knows to be committed and has not applied.")

	logBytes      = nodeMetrics.gauge("berth_log_bytes", "Size of the file with the log. It does not shrink: the room of entries that a snapshot has is used again.")
	snapshotBytes = nodeMetrics.gauge("berth_snapshot_bytes", "Size of the snapshots of Raft that this node keeps, two at most.")
	snapshotAge   = nodeMetrics.gauge("berth_snapshot_age_seconds", "Age of the newest snapshot of Raft; none before the first.")

	raftRole    = nodeMetrics.gauge("berth_raft_role", "1 for the role of this node in Raft.", "role")
	raftContact = nodeMetrics.gauge("berth_raft_contact_seconds", "Time since this node has heard its leader, 0 on that; none before the first time.")
	raftMembers = nodeMetrics.gauge("berth_raft_members", "Members of the zone by whether they vote.", "suffrage")
	raftSilent  = nodeMetrics.gauge("berth_raft_members_silent", "Members that do not answer the heartbeats of this leader; only on the leader.")
	gossipAlive = nodeMetrics.gauge("berth_gossip_members", "Nodes of the zone by what gossip knows of them, this one included.", "liveness")

	agentsSeen  = nodeMetrics.gauge("berth_agents", "Agents with hosts, by whether they have called within the time after which their hosts are down; only on the leader.", "state")
	agentsCert  = nodeMetrics.gauge("berth_agents_certificate_expiry_seconds", "Time until the first certificate of the agents ends that have called of late; only on the leader.")
	agentsClock = nodeMetrics.gauge("berth_agents_clock_offset_seconds", "By how much the clock of an agent is ahead of the leader's, that of the one whose clock is farthest off; only on the leader.")
	quotaLimits = nodeMetrics.gauge("berth_quota_projects_limited", "Projects with limits of their own.")
	quotaUsed   = nodeMetrics.gauge("berth_quota_projects_using", "Projects that have something which counts against quotas.")
)

// Road is what a process has measured and knows of the way of a request.
type Road struct {
	Phases map[string]measure.Distribution // of estimates

	Links    []Link
	Calls    map[LinkCall]measure.Distribution
	Outcomes map[LinkOutcome]uint64

	Commands, Commit, Write, Apply measure.Distribution
	Failed                         map[string]uint64
	Waiting                        int
	Lag                            uint64

	Stored      bool // the next three are known
	LogBytes    int64
	Snapshots   int64         // bytes, 0 before the first
	SnapshotAge time.Duration // of the newest, if there is one

	Role             string
	Contact          time.Duration
	Heard            bool // Contact is known
	Voters, Learners int
	Silent           int
	Liveness         map[string]int

	AgentsConnected, AgentsSilent int

	AgentsEnd  api.Instant // of the first certificate of those that have called of late; 0 for unknown
	AgentsSkew *skew.Skew  // of the one whose clock is farthest off; nil for unknown
}

// Link is what is known of a linked zone.
type Link struct {
	Name  string
	Role  api.LinkRole
	Up    bool
	Age   time.Duration
	Heard bool // Age is known

	Skew        *skew.Skew // of the clock of that zone to this node's; nil for unknown
	Unconfirmed bool       // it was brought back from a backup, and nobody has confirmed that
}

// LinkCall is a call over a link, and LinkOutcome one with its code, "" for none.
type (
	LinkCall    struct{ Link, Call string }
	LinkOutcome struct {
		LinkCall
		Code api.Code
	}
)

// raftRoles are the roles that a node may have.
var raftRoles = []string{"leader", "follower", "candidate", "shutdown"}

// collectRoad collects what is measured and known of the way of a request.
func (c *collector) collectRoad(ch chan<- prometheus.Metric, v *state.State) {
	limited, using := v.CountQuotas()
	emit(ch).gauge(quotaLimits, float64(limited))
	emit(ch).gauge(quotaUsed, float64(using))
	if c.Road == nil {
		return
	}
	e, r := emit(ch), c.Road()
	for phase, d := range r.Phases {
		e.histogram(selectTime, d, phase)
	}
	for _, l := range r.Links {
		e.gauge(linkUp, truth(l.Up), l.Name, string(l.Role))
		e.gauge(linkDue, truth(l.Unconfirmed), l.Name, string(l.Role))
		if l.Skew != nil {
			e.gauge(linkClock, l.Skew.Ahead.Seconds(), l.Name, string(l.Role))
		}
		if l.Heard {
			e.gauge(linkAge, l.Age.Seconds(), l.Name, string(l.Role))
		}
	}
	for k, d := range r.Calls {
		e.histogram(linkTime, d, k.Link, k.Call)
	}
	for k, n := range r.Outcomes {
		e.counter(linkCalls, float64(n), k.Link, k.Call, string(k.Code))
	}
	e.histogram(logCommands, r.Commands)
	e.histogram(logCommit, r.Commit)
	e.histogram(logWrite, r.Write)
	e.histogram(logApply, r.Apply)
	for why, n := range r.Failed {
		e.counter(logFailed, float64(n), why)
	}
	e.gauge(logWaiting, float64(r.Waiting))
	e.gauge(logLag, float64(r.Lag))
	r.emitStored(e)
	r.emitMembers(e)
	if _, self := c.Leader(); self {
		e.gauge(raftSilent, float64(r.Silent))
		e.gauge(agentsSeen, float64(r.AgentsConnected), "connected")
		e.gauge(agentsSeen, float64(r.AgentsSilent), "silent")
		if r.AgentsEnd > 0 {
			e.gauge(agentsCert, float64(r.AgentsEnd-c.Now())/1000)
		}
		if r.AgentsSkew != nil {
			e.gauge(agentsClock, r.AgentsSkew.Ahead.Seconds())
		}
	}
}

// emitStored emits what the log and the snapshots take on the disk.
func (r *Road) emitStored(e emit) {
	if !r.Stored {
		return
	}
	e.gauge(logBytes, float64(r.LogBytes))
	e.gauge(snapshotBytes, float64(r.Snapshots))
	if r.Snapshots > 0 {
		e.gauge(snapshotAge, r.SnapshotAge.Seconds())
	}
}

func (r *Road) emitMembers(e emit) {
	for _, role := range raftRoles {
		e.gauge(raftRole, truth(role == r.Role), role)
	}
	if r.Heard {
		e.gauge(raftContact, r.Contact.Seconds())
	}
	e.gauge(raftMembers, float64(r.Voters), "voter")
	e.gauge(raftMembers, float64(r.Learners), "learner")
	for liveness, n := range r.Liveness {
		e.gauge(gossipAlive, float64(n), liveness)
	}
}

// collectTraffic collects the calls that were answered.
func (c *collector) collectTraffic(ch chan<- prometheus.Metric) {
	if c.Traffic == nil {
		return
	}
	took, answers := c.Traffic.Read()
	for r, d := range took {
		emit(ch).histogram(requestTime, d, r.Listener, r.Method, r.Path)
	}
	for a, n := range answers {
		emit(ch).counter(requests, float64(n), a.Listener, a.Method, a.Path, a.Status)
	}
}

// workCounts is what was counted of boots and holds.
type workCounts struct {
	boots map[bootOutcome]uint64
	times *measure.Family[api.Decision]
	made  map[api.Code]uint64
	holds map[api.Decision]uint64
}

type bootOutcome struct {
	decision api.Decision
	code     api.Code
}

// count counts one event.
func (c *workCounts) count(v *state.State, e *state.Event) {
	if c.boots == nil {
		c.boots, c.times = map[bootOutcome]uint64{}, measure.NewFamily[api.Decision]()
		c.made, c.holds = map[api.Code]uint64{}, map[api.Decision]uint64{}
	}
	switch e.Kind { //nolint:exhaustive // the others are not of boots or holds
	case state.EventBootDecided:
		d := api.Decision(e.Is)
		c.boots[bootOutcome{d, e.Code}]++
		if b, ok := v.Boot(e.Project, e.Reservation); ok {
			c.times.NoteTime(d, time.Duration(e.At-b.Created)*time.Millisecond)
		}
	case state.EventHoldMade:
		c.made[e.Code]++
	case state.EventHoldDecided:
		c.holds[api.Decision(e.Is)]++
	}
}

// clone returns a copy, which counts no more.
func (c *workCounts) clone() workCounts {
	return workCounts{maps.Clone(c.boots), c.times, maps.Clone(c.made), maps.Clone(c.holds)}
}

// emit sends what was counted.
func (c *workCounts) emit(e emit) {
	for k, n := range c.boots {
		e.counter(bootsDone, float64(n), string(k.decision), string(k.code))
	}
	for d, t := range c.times.Read() {
		e.histogram(bootTime, t, string(d))
	}
	for code, n := range c.made {
		e.counter(holdsMade, float64(n), string(code))
	}
	for d, n := range c.holds {
		e.counter(holdsDone, float64(n), string(d))
	}
}
