package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"berth/api"
)

// makeVolume makes the folder of a volume, held to its size where that can be done. As for a
// command, its record comes last and is durable: a folder without one is from a start that was
// aborted.
func (d *Driver) makeVolume(host api.HostID, w api.Workload) error {
	r := record{Instance: w.Instance, Host: host, Name: w.Name, Status: api.StatusActive, Volume: true}
	err := d.makeFolder(w.Instance)
	if err == nil && d.unbounded == nil {
		err = d.boundVolume(w)
	}
	if err == nil {
		err = d.handOver(w.Instance, d.keeper())
	}
	if err == nil {
		err = saveRecord(d.root, r)
	}
	if err != nil {
		return d.noteFailure(r, err)
	}
	d.addInstance(endedInstance(r))
	return nil
}

// Attach links the folders of volumes into that of a running instance. See driver.Driver.
func (d *Driver) Attach(ctx context.Context, id api.InstanceID, volumes []api.InstanceID) error {
	i, r, leave, err := d.takeTurn(ctx, id)
	if err != nil || i == nil {
		return err
	}
	defer leave()
	if r.Status != api.StatusActive || r.Volume {
		return nil
	}
	var errs []error
	if err := d.root.Mkdir(string(id)+"/"+volumeFolder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) { // of an earlier build
		return fmt.Errorf("attaching volumes to instance %s: %w", id, err)
	}
	for _, vol := range d.linkedVolumes(id) {
		if !slices.Contains(volumes, vol) {
			errs = append(errs, d.takeVolume(r, vol), d.root.RemoveAll(linkOf(id, vol)))
		}
	}
	for _, vol := range volumes {
		errs = append(errs, d.linkVolume(r, vol))
	}
	linked := d.linkedVolumes(id)
	d.mu.Lock()
	i.volumes = linked
	d.mu.Unlock()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("attaching volumes to instance %s: %w", id, err)
	}
	return nil
}

// linkVolume links the folder of a volume into that of an instance, unless it is there.
// Before that, all that is in it belongs to the user of the instance.
func (d *Driver) linkVolume(r record, vol api.InstanceID) error {
	id := r.Instance
	d.mu.Lock()
	v := d.all[vol]
	here := v != nil && v.Volume && v.Status == api.StatusActive
	d.mu.Unlock()
	if !here {
		return fmt.Errorf("volume %s is not in %s", vol, d.conf.Dir)
	}
	if err := d.giveVolume(r, vol); err != nil {
		return err
	}
	target := filepath.Join(d.conf.Dir, string(vol), workFolder)
	if has, err := d.root.Readlink(linkOf(id, vol)); err == nil && has == target {
		return nil
	}
	return d.root.Symlink(target, linkOf(id, vol))
}

func linkOf(id, vol api.InstanceID) string {
	return string(id) + "/" + volumeFolder + "/" + string(vol)
}

// linkedVolumes returns the volumes that are linked into the folder of an instance, by id. The
// command can write there; what it has left under other names is not listed.
func (d *Driver) linkedVolumes(id api.InstanceID) (out []api.InstanceID) {
	dir, err := d.root.Open(string(id) + "/" + volumeFolder)
	if err != nil {
		return nil
	}
	entries, err := dir.ReadDir(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return nil
	}
	for _, e := range entries {
		if api.ValidName(e.Name()) {
			out = append(out, api.InstanceID(e.Name()))
		}
	}
	slices.Sort(out)
	return out
}
