package state

import (
	"slices"
	"sort"

	"berth/api"
)

// Limits of the log of changes of work.
const (
	workLogMax  = 1 << 16 // changes that are kept; when there are more, the older half is dropped
	workScanMax = 64      // changes that are looked at for each host of an answer, on average
)

// workChange is a change in the list of what should run on a host.
type workChange struct {
	index    uint64 // of the entry
	host     api.HostID
	instance api.InstanceID
}

// logWork records that an instance was added to the list of a host, changed in it, or removed.
// The log is not in snapshots: whoever loads one knows of the changes after the next entry that
// makes one.
func (s *stockBook) logWork(host api.HostID, instance api.InstanceID) {
	switch {
	case s.workFrom == 0:
		s.workFrom = s.index
	case s.index > s.workFrom:
		s.workLog.Append(workChange{s.index, host, instance})
	}
	if all := s.workLog.Values(); len(all) > workLogMax {
		s.workFrom = all[workLogMax/2].index
		s.workLog.DropFirst(workLogMax/2 + 1)
	}
}

// forgetWorkLog makes unknown what has changed until now.
func (s *stockBook) forgetWorkLog() { s.workFrom = 0 }

// WorkChanges returns, for each of these hosts, which instances changed after a log index in the
// list of what should run there, by id: those that are in it now, and those that are not any more,
// also those that came and went since. So the changes fit the list of that index and every later one.
// It returns nil for a host of which this is not known. The hosts are those of WorkAfter the same
// index.
func (s *stockBook) WorkChanges(hosts []*Host, after uint64) [][]api.InstanceID {
	out := make([][]api.InstanceID, len(hosts))
	if s.workFrom == 0 || after < s.workFrom {
		return out
	}
	all := s.workLog.Values()
	all = all[sort.Search(len(all), func(n int) bool { return all[n].index > after }):]
	if len(all) > workScanMax*len(hosts) {
		return out
	}
	at := make(map[api.HostID]int, len(hosts))
	for n, h := range hosts {
		at[h.ID] = n
	}
	for _, c := range all {
		if n, ok := at[c.host]; ok {
			out[n] = append(out[n], c.instance)
		}
	}
	for n := range out {
		slices.Sort(out[n])
		out[n] = slices.Compact(out[n])
	}
	return out
}
