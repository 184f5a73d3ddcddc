package capacity

import "berth/api"

// Overfull reports whether the use of a provider at this instant, firm and preemptible,
// exceeds its capacity in one of the classes of r. False for an unknown provider.
func (t *Table) Overfull(id api.HostID, r api.Resources) bool {
	return len(t.Excess(id, r, t.now)) > 0
}

// Excess returns by how much the use of a provider exceeds its capacity, by class of r: the
// preemptible use of this instant together with the firm use of any instant from now until then,
// that one included. Classes that are not exceeded are absent, and so is everything of an unknown
// provider.
func (t *Table) Excess(id api.HostID, r api.Resources, then api.Instant) api.Resources {
	row, known := t.rowOf(id)
	if !known {
		return nil
	}
	var out api.Resources
	k, i := t.chunkOf(row)
	for name := range r { // in any order: each is looked at alone
		class := t.classes.numberOf(name)
		col := k.column(class)
		if col == nil || r[name] < 1 {
			continue
		}
		peak := k.timelines.at[i].peakUse(class, col.firm.at[i], t.now, max(then, t.now)+1)
		if over := peak - col.firm.at[i] - col.now.at[i]; over > 0 {
			out = addTo(out, name, over)
		}
	}
	return out
}

// IsOverClosed reports whether preemptibles use room of a provider that is closed to them, in one of
// the classes of r. False for an unknown provider.
func (t *Table) IsOverClosed(id api.HostID, r api.Resources) bool {
	row, known := t.rowOf(id)
	if !known {
		return false
	}
	k, i := t.chunkOf(row)
	for name := range r { // in any order: each is looked at alone
		if col := k.column(t.classes.numberOf(name)); col != nil && r[name] > 0 && col.now.at[i] < col.closed.value(i) {
			return true
		}
	}
	return false
}

// ExcessWithin returns by how much what is within a claim exceeds it at this instant, firm and
// preemptible, by class. Classes that are not exceeded are absent.
func (t *Table) ExcessWithin(id api.HostID, outer api.Claim) api.Resources {
	row, known := t.rowOf(id)
	if !known {
		return nil
	}
	k, i := t.chunkOf(row)
	r, _, _ := k.roomOf(i, &outer)
	var out api.Resources
	for class, name := range t.classes.list {
		use := r.line.peakUse(class, 0, t.now, t.now+1) + r.line.preemptibleUse(class, t.now)
		if over := use - outer.Resources[name]; over > 0 {
			out = addTo(out, name, over)
		}
	}
	return out
}

// addTo returns r, made if it is nil, with n of a class.
func addTo(r api.Resources, name api.ResourceClass, n int64) api.Resources {
	if r == nil {
		r = api.Resources{}
	}
	r[name] = n
	return r
}
