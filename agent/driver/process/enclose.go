package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// An instance that runs as another user is enclosed: where every user of a machine may write it finds folders of its own, which lie
// in its folder and end with it, and its shared memory, semaphores and queues are in a namespace that ends with its last process.
// So nothing of it is left for the next instance with its user, and what it writes is counted.

// sharedPlaces are where every user may write.
var sharedPlaces = []string{"/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock"}

// enclose is a shell between the gate and the command, still as root, in namespaces of its own and in the work folder. Its words are
// pairs of a private folder and the place that it covers, "--", the folder of all instances if one of the places covers that, or
// nothing, and the command.
const enclose = `while [ "$1" != -- ]; do
mount -n -c --bind "../` + privateFolder + `/$1" "$2" || exit 125
shift 2; done
here=$2 work=$3; shift 3
if [ -n "$here" ]; then mount -n -c --bind ../.. "$here" || exit 125; fi
cd "$work" || exit 125
unset here work PWD OLDPWD SHLVL
exec "$@"`

// placeName returns the name of the folder that covers a place.
func placeName(place string) string { return strings.ReplaceAll(strings.Trim(place, "/"), "/", "-") }

// findPlaces finds the shared places of this machine, and notes which of them has the folder of all instances. Without namespaces it
// warns, and instances share them.
func (d *Driver) findPlaces() {
	for _, place := range sharedPlaces {
		if info, err := os.Stat(place); err != nil || !info.IsDir() {
			continue
		}
		target, err := filepath.EvalSymlinks(place)
		if err != nil || slices.Contains(d.places, target) {
			continue // it is another name of one before
		}
		d.places = append(d.places, target)
	}
	err := d.tryEnclosing()
	if err == nil {
		d.here, err = filepath.EvalSymlinks(d.conf.Dir)
	}
	if err != nil {
		d.places = nil
		d.conf.Log.Warn("instances share the folders for temporary files and their shared memory: namespaces cannot be made", "error", err)
	}
}

// tryEnclosing covers a place for a process that ends at once.
func (d *Driver) tryEnclosing() (err error) {
	if d.unshare, err = exec.LookPath("unshare"); err != nil || len(d.places) == 0 {
		return err
	}
	words := append(d.namespaces(), "/bin/sh", "-c", `mount -n -c --bind . "$1"`, "sh", d.places[0])
	try := exec.Command(words[0], words[1:]...) //nolint:gosec,noctx // words of this program; it ends at once
	try.Dir = d.conf.Dir
	if said, err := try.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(said)))
	}
	return nil
}

// namespaces are the words that run a command in namespaces of its own. What the machine mounts later, and what it unmounts, is seen there.
func (d *Driver) namespaces() []string {
	return []string{d.unshare, "--mount", "--ipc", "--propagation", "slave", "--"}
}

// enclosed returns the words that go before those that run the command of an instance as another user.
func (d *Driver) enclosed(folder string) []string {
	if len(d.places) == 0 {
		return nil
	}
	words := append(d.namespaces(), "/bin/sh", "-c", enclose, "berth-enclose")
	for _, place := range d.places {
		words = append(words, placeName(place), place)
	}
	here := ""
	if place, _ := d.placeOfAll(); place != "" {
		here = d.here
	}
	return append(words, "--", here, filepath.Join(folder, workFolder))
}

// placeOfAll returns the shared place that has the folder of all instances, and the way from there; "" if none has.
func (d *Driver) placeOfAll() (place, rest string) {
	for _, place := range d.places {
		if rest, found := strings.CutPrefix(d.here, place+"/"); found {
			return place, rest
		}
	}
	return "", ""
}

// makePrivate makes the folders of an instance that cover the shared places, for the user that it runs as. Nothing of it runs.
func (d *Driver) makePrivate(r record, u *Identity) error {
	if u == nil || len(d.places) == 0 {
		return nil
	}
	private := string(r.Instance) + "/" + privateFolder
	err := d.makeDir(private, passable)
	for _, place := range d.places {
		at := private + "/" + placeName(place)
		if err == nil {
			err = d.makeDir(at, 0o700)
		}
		if all, rest := d.placeOfAll(); err == nil && all == place {
			err = d.makeWay(at, rest)
		}
		if err == nil {
			err = d.root.Chown(at, int(u.UID), int(u.GID))
		}
	}
	if err != nil {
		return fmt.Errorf("making the instance's folders for temporary files: %w", err)
	}
	return nil
}

// makeWay makes the folders on which the folder of all instances is mounted again, in place of what an earlier run has made of them.
func (d *Driver) makeWay(at, rest string) error {
	first, _, _ := strings.Cut(rest, "/")
	err := d.root.Chown(at, 0, 0)
	if err == nil {
		err = d.root.RemoveAll(at + "/" + first)
	}
	for name := range strings.SplitSeq(rest, "/") {
		if at += "/" + name; err == nil {
			err = d.makeDir(at, passable)
		}
	}
	return err
}

// makeDir makes a folder with a mode, unless it is there.
func (d *Driver) makeDir(name string, mode fs.FileMode) error {
	if err := d.root.Mkdir(name, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.root.Chmod(name, mode)
}
