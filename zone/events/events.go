// Package events says what watchers of a zone are shown of its events: which ones, under
// which names, and with which of their data. The public API streams them and webhooks send
// them; both read them here.
//
// It never decides by an event, and shows nobody the events of another project, of a project
// of a parent zone, or of hosts, but for operators.
package events

import (
	"berth/api"
	"berth/api/rest"
	"berth/raftstore/state"
)

// Watch is what one watcher is shown.
type Watch struct {
	// Project is whose events are shown: of a project of this zone. "" shows those of the
	// whole zone, which needs Operator.
	Project     api.ProjectID
	Operator    bool              // shows what only operators may see
	Kinds       []string          // names, or beginnings of names; empty for all
	Reservation api.ReservationID // events of one reservation; "" for all
	Lease       api.LeaseID       // events of one lease; "" for all
	Server      api.InstanceID    // events of one instance; "" for all
}

// Topic returns what a watcher waits for.
func (w *Watch) Topic() state.Topic { return state.EventsTopic(w.Project) }

// Sees reports whether the watcher is shown an event. An event of a kind that is not known
// here is shown to nobody.
func (w *Watch) Sees(e *state.Event) bool {
	k, known := kinds[e.Kind]
	switch {
	case !known || !matches(w.Kinds, k.nameOf(e)):
		return false
	case w.Reservation != "" && e.Reservation != w.Reservation, w.Lease != "" && e.Lease != w.Lease, w.Server != "" && e.Instance != w.Server:
		return false
	case w.Project != "" && (e.Project != w.Project || e.Origin != ""):
		return false
	case w.Operator:
		return true
	}
	return k.to == owner && w.Project != ""
}

// body returns what the watcher is shown of an event.
func (w *Watch) body(v *state.State, e *state.Event) rest.Event {
	k := kinds[e.Kind]
	out := rest.Event{
		ID: v.EventID(e).String(), Kind: k.nameOf(e), At: e.At, Project: e.Project, Reservation: e.Reservation, Server: e.Instance,
		LeaseID: e.Lease, Was: e.Was, Is: e.Is, Code: e.Code, Eviction: rest.EvictionOf(e.Eviction), Reason: e.Reason,
	}
	if i, ok := v.Instance(e.Instance); ok && e.Is == string(api.StatusError) && i.Status == api.StatusError {
		out.Fault = i.Fault
	}
	if l, ok := v.Lease(e.Lease); ok && e.Lease != "" {
		out.Lease = rest.EventLeaseOf(&l.Terms, l.Events)
		out.Lease.Status, out.Lease.Reason, out.Lease.Created, out.Lease.Updated = l.Status, l.Reason, l.Created, l.Updated
	}
	if l, ok := v.Link(e.Link); ok {
		out.Zone = l.Name
	} else if e.Link == "" && e.Instance != "" {
		out.Zone = v.Name
	}
	if b, ok := v.Binding(e.Binding); ok && out.Zone == "" {
		out.Zone = b.Zone // the link is gone
	}
	if !w.Operator {
		return out
	}
	out.Binding = e.Binding
	out.Hold, out.Host, out.Origin = e.Hold, string(e.Host), string(e.Origin)
	if h, ok := v.Host(e.Host); ok {
		out.Host = h.Name
	}
	if l, ok := v.Link(e.Origin); ok {
		out.Origin = l.Name
	}
	return out
}

// scanAtOnce is how many events one step of a search reads.
const scanAtOnce = 1_000

// Read returns at most limit events after a position that the watcher is shown, and the
// position after them: that of the last one, or the end of v if there are no more. If some
// may be missing, the first one is of KindGap.
func (w *Watch) Read(v *state.State, after api.EventID, limit int) (list []rest.Event, to api.EventID) {
	if _, whole := v.Events(after, 1); !whole {
		gap := gapAfter(v, after)
		list, after = append(list, gap), v.EventsBegin()
	}
	for len(list) < limit {
		all, _ := v.Events(after, scanAtOnce)
		for _, e := range all {
			if after = v.EventID(e); w.Sees(e) {
				if list = append(list, w.body(v, e)); len(list) == limit {
					return list, after
				}
			}
		}
		if len(all) < scanAtOnce {
			return list, later(after, v.EventsEnd())
		}
	}
	return list, after
}

// later returns the end of a view, or a position that the view has not reached yet.
func later(after, end api.EventID) api.EventID {
	if after.History == end.History && after.After(end) {
		return after
	}
	return end
}

// gapAfter returns the event that says that others may be missing after a position.
func gapAfter(v *state.State, after api.EventID) rest.Event {
	begin := v.EventsBegin()
	gap := &rest.EventGap{After: after.String(), Reason: "dropped"}
	if after.History != begin.History {
		gap.Reason = "restored"
	}
	return rest.Event{ID: begin.String(), Kind: KindGap, At: v.Now(), Gap: gap}
}

// Any reports whether Read would return an event.
func (w *Watch) Any(v *state.State, after api.EventID) bool {
	list, _ := w.Read(v, after, 1)
	return len(list) > 0
}
