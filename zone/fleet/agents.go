package fleet

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"berth/api"
	"berth/internal/skew"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// Agent is an agent with what the zone can tell of it.
type Agent struct {
	api.Agent
	Recorded bool        // the zone has a record of its join or its revocation
	Hosts    int         // that it has registered, those included that it no longer serves
	First    api.Instant // its join, or its oldest host
	Seen     time.Time   // its latest call of this leader; zero for none
	About    About       // what it told this leader
}

// About is what an agent tells its zone of itself.
type About struct {
	Version string     // its release; "" if it does not tell
	Skew    *skew.Skew // of its clock to the zone's; nil if it does not know, or tell
}

// NoteAbout notes what an agent tells of itself.
func (f *Fleet) NoteAbout(a api.AgentID, about About) { f.beats.noteAbout(a, about) }

// Agents returns the agents of a state by id: those that joined or were revoked, and those of hosts.
func (f *Fleet) Agents(v *state.State) []Agent {
	all := map[api.AgentID]*Agent{}
	for _, a := range v.Agents() {
		all[a.ID] = &Agent{Agent: *a, Recorded: true, First: a.Joined}
	}
	for _, h := range v.AllHosts() {
		a := all[h.Agent]
		if a == nil {
			a = &Agent{Agent: api.Agent{ID: h.Agent}, First: h.Created}
			all[h.Agent] = a
		}
		a.Hosts++
		a.First = min(a.First, h.Created)
	}
	out := make([]Agent, 0, len(all))
	for _, id := range slices.Sorted(maps.Keys(all)) {
		all[id].Seen, all[id].About = f.beats.lastBeat(id), f.beats.aboutOf(id)
		out = append(out, *all[id])
	}
	return out
}

// AdmitAgent returns a conflict if an agent calls from one home, and this leader has heard it from another one within the time after which its
// hosts are down, though at most HostGraceDefault, because a machine that was restarted is another home too: it runs twice, as from a copy
// of its folder. The one that was first is not disturbed. One that does not say where it runs, of an earlier release, is always admitted.
func (f *Fleet) AdmitAgent(a api.AgentID, home string) error {
	if home == "" || f.beats.moveHome(a, home, f.zone.Now(), min(graceOf(f.zone.View()), HostGraceDefault)) {
		return nil
	}
	return api.Errorf(api.CodeConflict,
		"agent %q runs already, on another machine or from another folder: if this folder is a copy, let this machine join with a token and a name of its own; if the other one was stopped, start again in some seconds", string(a))
}

// CountAgents returns how many agents with hosts have called this leader within the time after which their
// hosts are down, and how many have not.
func (f *Fleet) CountAgents(v *state.State) (connected, silent int) {
	seen, now := map[api.AgentID]bool{}, f.zone.Now()
	for _, h := range v.AllHosts() {
		if seen[h.Agent] {
			continue
		}
		seen[h.Agent] = true
		if f.beats.isKnown(h.Agent) && f.beats.silentFor(h.Agent, now) <= graceOf(v) {
			connected++
		} else {
			silent++
		}
	}
	return connected, silent
}

// graceOf returns the silence of an agent after which its hosts are down.
func graceOf(v *state.State) time.Duration { return cmp.Or(v.Config.HostGrace, HostGraceDefault) }

// RevokeAgent ends an agent: its certificates are refused from now on, and its hosts are down and
// disabled. A repeat changes nothing.
func (f *Fleet) RevokeAgent(ctx context.Context, id api.AgentID) error {
	_, err := f.zone.Change(ctx, command.AgentRevoke{Stamp: f.zone.Stamp(), ID: id}, func(v *state.State) error {
		if _, known := v.Agent(id); !known && !v.HasHosts(id) {
			return api.Errorf(api.CodeNotFound, "no agent %q", string(id))
		}
		return nil
	})
	if err == nil {
		f.beats.leaveHome(id) // from there it is refused; it may join again anywhere
	}
	return err
}
