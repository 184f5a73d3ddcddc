package fleet

import (
	"context"
	"slices"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// dueSilences returns the jobs that count the instances with a fence that are to end on lost hosts
// as gone, once the agents of these hosts must have killed them: what waits for their room need not
// wait for the hosts.
//
// That is safe because an agent that hears nothing of its zone kills them by its own clock,
// and starts nothing before it has got its lists again, which it does not get before the log
// has its hosts as up: see mayBeLeft. From then on the command does nothing, because it names the
// time since which a host is down.
func (f *Fleet) dueSilences(v *state.State) []zone.Job {
	var out []zone.Job
	if f.zone.Form() < api.FormFourth { // a node could not read the word
		return nil
	}
	hosts := v.Hosts()
	lost := hosts.Hosts()
	lost.AndNot(hosts.Up())
	for row := range lost.All() {
		if h, ok := v.Host(hosts.ID(row)); ok && h.DownSince != 0 && f.isFenced(h) && slices.ContainsFunc(v.OnHost(h.ID), mustEndFenced) {
			out = append(out, zone.Job{Key: string(h.ID), Run: func(ctx context.Context) error { return f.countGone(ctx, h) }})
		}
	}
	return out
}

// mustEndFenced reports whether an instance is to end, and ends with the silence of its zone.
func mustEndFenced(i *api.Instance) bool { return i.Status == api.StatusDeleting && i.Fenced() }

// countGone proposes that the instances that are to end on a lost host are gone, unless its agent
// has called since.
func (f *Fleet) countGone(ctx context.Context, h *state.Host) error {
	if !f.isFenced(h) {
		return nil
	}
	f.zone.Log().InfoContext(ctx, "agent of a lost host has ended what was to end there", "host", h.ID, "down_since", h.DownSince)
	_, err := f.zone.Propose(ctx, command.HostsSilent{Stamp: f.zone.Stamp(), Hosts: []command.SilentHost{{ID: h.ID, Since: h.DownSince}}})
	return err
}
