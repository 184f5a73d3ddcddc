package state

import (
	"berth/api"
	"berth/quota"
)

// countLentTo counts instances of a parent on own hosts.
func (s *workBook) countLentTo(old, i *api.Instance) {
	was, is := isLent(old), isLent(i)
	if was == is && (!is || countsAsLent(old, i)) {
		return
	}
	if was {
		s.countLent(old.Origin, false, useOfLent(old))
	}
	if is {
		s.countLent(i.Origin, true, useOfLent(i))
	}
}

// isLent reports whether an instance, which may be nil, counts for a parent.
func isLent(i *api.Instance) bool {
	return i != nil && i.Origin != "" && i.Host != "" && i.Within == "" && i.Live()
}

// countsAsLent reports whether two records of an instance count the same.
func countsAsLent(old, i *api.Instance) bool {
	return old.Window == i.Window && old.Overdue == i.Overdue && old.Resources.Equal(i.Resources)
}

// useOfLent returns what an instance counts for a parent. What is overdue counts until it is gone, and
// keeps nothing out, as in the host table. Windows of instances have begun when they are made, so only the
// ends are kept.
func useOfLent(i *api.Instance) quota.Use {
	w, c := i.Window, i.Class
	if !i.Reserved {
		w.Start = 0
	}
	if i.Overdue {
		w.End, c = api.Forever, api.Preemptible
	}
	return lentUse(w, c, i.Resources, false)
}
