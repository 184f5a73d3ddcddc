package process

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"berth/agent/driver"
	"berth/api"
)

var _ driver.OutputKeeper = (*Driver)(nil)

// keptFolder has the outputs of instances that were killed unasked and may start anew, in a folder for each.
const keptFolder = ".outputs" // no instance id begins with a dot

// keptMark follows what a run that was killed unasked has printed.
const keptMark = "--- berth: the agent of the host killed this run; what follows is of a new one ---\n"

// outputNames are the names of all files of output, the one that the command writes to first of each.
var outputNames = [...][3]string{
	{stdoutFile, stdoutFile + earlierPart, stdoutFile + beginPart},
	{stderrFile, stderrFile + earlierPart, stderrFile + beginPart},
}

// keepOutputs moves the outputs of an instance that has ended out of its folder, for its next run. If it was killed, a
// line in each says so. What is not a plain file of output is not kept, and an output of which nothing was printed.
func (d *Driver) keepOutputs(id api.InstanceID, killed bool) error {
	folder, err := d.openFolderOf(id)
	if isNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }() // nothing was written through it
	for _, names := range outputNames {
		if err := d.keepOutput(folder, id, names, killed); err != nil {
			return fmt.Errorf("keeping the output of instance %s: %w", id, err)
		}
	}
	return nil
}

// keepOutput is keepOutputs of one output.
func (d *Driver) keepOutput(folder *os.File, id api.InstanceID, names [3]string, killed bool) error {
	var there []string
	printed := false
	for n, name := range names {
		p, err := openPart(folder, name)
		if err == nil && p.file != nil {
			there, printed = append(there, name), printed || n < 2 && p.size > 0
		}
		p.close()
	}
	if !printed {
		return nil
	}
	if killed {
		if err := markEnd(folder, names[0]); err != nil {
			return err
		}
	}
	if err := d.root.MkdirAll(keptFolder+"/"+string(id), 0o700); err != nil {
		return err
	}
	for _, name := range there {
		if err := d.root.Rename(string(id)+"/"+name, keptFolder+"/"+string(id)+"/"+name); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept[id] = true
	return nil
}

// markEnd adds keptMark to a file of output, on a line of its own.
func markEnd(folder *os.File, name string) error {
	f, err := openIn(folder, name, unix.O_RDWR|unix.O_CREAT|unix.O_APPEND|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	mark := keptMark
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		last := []byte{'\n'}
		if _, err := f.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			mark = "\n" + mark
		}
	}
	_, err = f.WriteString(mark)
	return errors.Join(err, f.Close())
}

// returnOutputs moves the outputs that were kept of an instance back into its folder, which is new.
func (d *Driver) returnOutputs(id api.InstanceID) error {
	if !d.isKept(id) {
		return nil
	}
	for _, names := range outputNames {
		for _, name := range names {
			if err := d.root.Rename(keptFolder+"/"+string(id)+"/"+name, string(id)+"/"+name); err != nil && !isNotExist(err) {
				return fmt.Errorf("returning the output of instance %s: %w", id, err)
			}
		}
	}
	return d.dropOutputs(id)
}

// dropOutputs removes the outputs that were kept of an instance.
func (d *Driver) dropOutputs(id api.InstanceID) error {
	if !d.isKept(id) {
		return nil
	}
	if err := d.root.RemoveAll(keptFolder + "/" + string(id)); err != nil {
		return fmt.Errorf("removing the output of instance %s: %w", id, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.kept, id)
	return nil
}

func (d *Driver) isKept(id api.InstanceID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kept[id]
}

// findKept finds the outputs that an earlier driver has kept.
func (d *Driver) findKept() error {
	d.kept = map[api.InstanceID]bool{}
	dir, err := d.root.Open(keptFolder)
	if isNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for kept outputs: %w", err)
	}
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		d.kept[api.InstanceID(name)] = true
	}
	return errors.Join(err, dir.Close())
}

// ForgetOutputs removes kept outputs. See driver.OutputKeeper.
func (d *Driver) ForgetOutputs(wanted func(api.InstanceID) bool) error {
	d.mu.Lock()
	var kept []api.InstanceID
	for id := range d.kept {
		if d.all[id] == nil { // else it is being killed
			kept = append(kept, id)
		}
	}
	d.mu.Unlock()
	slices.Sort(kept)
	var errs []error
	for _, id := range kept {
		if !wanted(id) { // it may wait for a call of the driver
			errs = append(errs, d.dropOutputs(id))
		}
	}
	return errors.Join(errs...)
}
