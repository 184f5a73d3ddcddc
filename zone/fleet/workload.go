package fleet

import (
	"cmp"
	"maps"

	"berth/api"
	"berth/raftstore/state"
)

// workloadOf returns the lists of hosts for their agent at an instant of the zone's time. An agent
// that reads api.FormFifth and has lists gets the changes, where they are known, and what instances
// have in common once.
func workloadOf(v *state.State, now api.Instant, term uint64, r *api.AgentWork, hosts []*state.Host) *api.AgentWorkload {
	w := &workload{view: v, now: now, AgentWorkload: &api.AgentWorkload{Term: term, Generation: v.Index()}}
	w.Addresses = agentAddresses(v)
	changes := make([][]api.InstanceID, len(hosts))
	if r.Form >= api.FormFifth {
		w.terms = map[termsKey][]int{}
		if r.After > 0 {
			changes = v.WorkChanges(hosts, r.After)
		}
	}
	for n, h := range hosts {
		hw := api.HostWorkload{Host: h.ID, Generation: h.Work}
		if changes[n] == nil {
			w.addWhole(&hw)
		} else {
			hw.Since = r.After
			w.addChanges(&hw, changes[n])
		}
		w.Hosts = append(w.Hosts, hw)
	}
	return w.AgentWorkload
}

// agentAddresses returns the agent listeners of the zone's nodes.
func agentAddresses(v *state.State) (out []string) {
	for _, n := range v.Nodes() {
		out = append(out, n.AgentAddr)
	}
	return out
}

// workload is an answer to an agent that is being made.
type workload struct {
	*api.AgentWorkload
	view  *state.State
	now   api.Instant
	terms map[termsKey][]int // places of terms; nil if the agent does not read them
}

// termsKey is what instances with the same terms have in common; those of one group mostly have.
type termsKey struct {
	origin api.LinkID
	hold   api.HoldID
	group  string
}

// addWhole adds all instances of a host to its list.
func (w *workload) addWhole(hw *api.HostWorkload) {
	for _, i := range w.view.OnHost(hw.Host) {
		if w.isShown(i) {
			hw.Instances = append(hw.Instances, w.workOf(i))
		}
	}
}

// addChanges adds the instances of a host that have changed to its list.
func (w *workload) addChanges(hw *api.HostWorkload, changed []api.InstanceID) {
	for _, id := range changed {
		if i, ok := w.view.Instance(id); ok && i.Host == hw.Host && i.Live() && !i.Reserved && w.isShown(i) {
			hw.Instances = append(hw.Instances, w.workOf(i))
		} else {
			hw.Gone = append(hw.Gone, id)
		}
	}
}

// isShown reports whether an agent is shown an instance of its host: nothing runs before its window,
// nor before its room is free. An agent that does not read api.FormFifth would run what its owner has
// stopped: it ends what it is not shown.
func (w *workload) isShown(i *api.Instance) bool {
	return i.Window.Start <= w.view.Now() && !i.Waits && (!i.Halted || w.terms != nil)
}

// workOf returns one instance for a list.
func (w *workload) workOf(i *api.Instance) api.Workload {
	out := api.Workload{
		Instance: i.ID, Name: i.Name, Stop: i.Status == api.StatusDeleting || i.Target != "", Stay: i.Stay(), Volumes: w.view.VolumesOf(i),
	}
	if out.Stop && i.Eviction != nil {
		out.Notice = noticeOf(i, w.now)
	}
	t := api.WorkTerms{Flavor: i.Flavor, Resources: i.Resources, Metadata: i.Metadata, Project: i.Project, Volume: i.Volume}
	if i.Fenced() {
		t.Fence = FenceAfter
	}
	if w.terms != nil {
		out.Halt, out.Runs = i.Halted, i.Runs
		out.Terms = w.placeOf(i, t)
		return out
	}
	w.setCommand(&t)
	out.Flavor, out.Resources, out.Command, out.Metadata = t.Flavor, t.Resources, t.Command, t.Metadata
	out.Project, out.Fence, out.Volume = t.Project, t.Fence, t.Volume
	return out
}

// setCommand sets the command of the flavor of terms.
func (w *workload) setCommand(t *api.WorkTerms) {
	if f, ok := w.view.Flavor(t.Flavor); ok && f.Resources.Equal(t.Resources) {
		t.Command = f.Command
	}
}

// placeOf returns the place of terms in the answer, from 1, and adds them if it does not have them.
func (w *workload) placeOf(i *api.Instance, t api.WorkTerms) int {
	key := termsKey{i.Origin, i.Hold, i.Group}
	for _, place := range w.terms[key] {
		is := &w.Terms[place-1]
		if is.Flavor == t.Flavor && is.Project == t.Project && is.Fence == t.Fence && is.Volume == t.Volume &&
			is.Resources.Equal(t.Resources) && maps.Equal(is.Metadata, t.Metadata) {
			return place
		}
	}
	w.setCommand(&t)
	w.Terms = append(w.Terms, t)
	w.terms[key] = append(w.terms[key], len(w.Terms))
	return len(w.Terms)
}

// noticeOf returns the notice for an instance that is evicted.
func noticeOf(i *api.Instance, now api.Instant) *api.PreemptNotice {
	n := &api.PreemptNotice{For: i.Eviction.For, Lease: i.Eviction.Lease, Action: cmp.Or(i.OnPreempt, api.PreemptStop)}
	n.Quiet = n.Action == api.PreemptNotify
	if i.Eviction.By > now {
		n.Left = i.Eviction.By.Time().Sub(now.Time())
	}
	return n
}
