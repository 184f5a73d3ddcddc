package process

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"berth/api"
)

// Halt ends an instance's process and everything it started, as Stop does, and keeps its folder. That
// its end was ordered is on disk before: then it is SHUTOFF, whoever sees how it ended. See
// driver.Driver.
func (d *Driver) Halt(ctx context.Context, id api.InstanceID) error {
	i, r, leave, err := d.takeTurn(ctx, id)
	if err != nil {
		return err
	}
	if i == nil {
		return d.endStrays(ctx, id)
	}
	defer leave()
	if r.Volume || r.Status != api.StatusActive {
		return nil
	}
	d.mu.Lock()
	i.Halted = true
	r = i.record
	d.mu.Unlock()
	if r.Status == api.StatusActive { // else it has just ended, and that is on disk
		if err := saveRecord(d.root, r); err != nil {
			return err
		}
	}
	return d.endInstance(ctx, i, r, unix.SIGTERM, d.conf.Grace)
}

// findEnded returns the instance of w if it has ended on this host, and w is a later run of it.
func (d *Driver) findEnded(host api.HostID, w api.Workload) *instance {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.all[w.Instance]
	if d.shut || i == nil || i.Host != host || i.Volume || i.Status == api.StatusActive || w.Runs <= i.Runs {
		return nil
	}
	return i
}

// startAgain runs w's command in the folder that an earlier run of it has left. If ctx ends before the
// command may run, that run is still the last one.
func (d *Driver) startAgain(ctx context.Context, ended *instance, w api.Workload) error {
	d.mu.Lock()
	before := ended.record
	d.mu.Unlock()
	if err := d.killAll(ctx, before); err != nil { // its own end may not have found everything
		return err
	}
	i := &instance{gone: make(chan struct{}), volumes: d.linkedVolumes(w.Instance), record: before}
	i.Name, i.Flavor, i.Boot, i.Status, i.Fault = w.Name, w.Flavor, d.boot, api.StatusActive, ""
	i.Fenced, i.DiskGB, i.Runs, i.Again, i.Halted, i.Mark = w.Fence > 0, w.Resources[api.DiskGB], w.Runs, true, false, rand.Text()
	err := checkCommand(w.Command)
	if err == nil {
		err = d.clearRun(w.Instance)
	}
	var user *Identity
	if err == nil {
		user, err = d.keepUser(i)
	}
	switch err = d.launchIn(ctx, i, w, user, err); {
	case err == nil:
		d.addInstance(i)
		return d.awaitCommand(ctx, i)
	case ctx.Err() == nil:
		return d.noteFailure(i.record, err)
	}
	return errors.Join(err, saveRecord(d.root, before))
}

// keepUser returns the user of an earlier run of i, or one for it if that had none.
func (d *Driver) keepUser(i *instance) (user *Identity, err error) {
	if d.conf.Users != nil && d.conf.Users.only(i.UID) != 0 {
		user = &Identity{UID: i.UID, GID: i.UID}
	} else if user, err = d.chooseUser(i); err != nil {
		return nil, err
	}
	return user, d.handOver(i.Instance, user)
}

// clearRun removes what a run leaves that the next one must not find: the mark that its gate has let it
// go, and its notice. The folders are made if an earlier run could not be started for lack of them.
func (d *Driver) clearRun(id api.InstanceID) error {
	for _, name := range []string{workFolder, volumeFolder} {
		if err := d.root.MkdirAll(string(id)+"/"+name, 0o700); err != nil {
			return fmt.Errorf("making the instance's folder: %w", err)
		}
	}
	for _, name := range []string{releasedFile, workFolder + "/" + noticeFile} {
		if err := d.root.RemoveAll(string(id) + "/" + name); err != nil {
			return fmt.Errorf("clearing the instance's folder: %w", err)
		}
	}
	return nil
}
