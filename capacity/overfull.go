package capacity

import "berth/api"

// Overfull reports whether the use of a provider at this instant, firm and preemptible,
// exceeds its capacity in one of the classes of r. False for an unknown provider.
func (t *Table) Overfull(id api.HostID, r api.Resources) bool {
	row, known := t.rowOf(id)
	if !known {
		return false
	}
	k, i := t.chunkOf(row)
	for name := range r { // in any order: each is looked at alone
		if col := k.column(t.classes.numberOf(name)); col != nil && r[name] > 0 && col.now.at[i] < 0 {
			return true
		}
	}
	return false
}
