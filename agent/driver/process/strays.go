package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"berth/api"
)

// findStrays finds what runs on this machine and was not started for what is in this folder: an agent that joined again into a new
// folder does not know what it had started before, and the zone may list it here once more.
func (d *Driver) findStrays() error {
	pids, err := listPIDs()
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.strays = map[api.InstanceID][]string{}
	for _, pid := range pids {
		owner, id, ok := readMark(pid)
		if !ok || owner == d.groups.owner && d.all[id] != nil || slices.Contains(d.strays[id], owner) {
			continue
		}
		d.strays[id] = append(d.strays[id], owner)
	}
	if len(d.strays) > 0 {
		d.conf.Log.Warn("instances of agents with other folders run on this machine; those that the zone lists here are ended first", "instances", len(d.strays))
	}
	return nil
}

// readMark returns the owner and the instance that the environment of a process names. It is false for a process without
// them, and for one that we may not inspect.
func readMark(pid int) (owner string, id api.InstanceID, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return "", "", false
	}
	for v := range bytes.SplitSeq(text, []byte{0}) {
		mark, found := strings.CutPrefix(string(v), envMark+"=")
		if !found {
			continue
		}
		mark, _, _ = strings.Cut(mark, markSecret)
		owner, name, cut := strings.Cut(mark, ".")
		return owner, api.InstanceID(name), cut && api.ValidName(owner) && api.ValidName(name)
	}
	return "", "", false
}

// HasStray implements driver.StrayFinder.
func (d *Driver) HasStray(id api.InstanceID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.strays[id]) > 0
}

// endStrays ends what findStrays has found of an instance that is to be started here, because the zone wants it once, or to be stopped.
// A process that names an instance which is not its own is ended too, and nothing else.
func (d *Driver) endStrays(ctx context.Context, id api.InstanceID) error {
	d.mu.Lock()
	owners := d.strays[id]
	d.mu.Unlock()
	for _, owner := range owners {
		d.conf.Log.WarnContext(ctx, "what runs of the instance for an agent with another folder is ended", "instance", id)
		other := &Driver{conf: d.conf, groups: d.groups, boot: d.boot}
		other.groups.owner = owner
		if err := other.killAll(ctx, record{Instance: id}); err != nil {
			return fmt.Errorf("ending what runs of the instance: %w", err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.strays, id)
	return nil
}
