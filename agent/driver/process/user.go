package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"berth/api"
)

// Identity is a user as whom commands run.
type Identity struct{ UID, GID uint32 }

// FindUser returns the user of a name or number with his group. It is not root's.
func FindUser(name string) (*Identity, error) {
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			return nil, api.Errorf(api.CodeInvalid, "there is no user %q on this machine", name)
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	if err = errors.Join(err, gidErr); err != nil {
		return nil, fmt.Errorf("the user %q has no numbers: %w", name, err)
	}
	if uid == 0 {
		return nil, api.Errorf(api.CodeInvalid, "instances that run as root are not separated from the agent: name another user than %q", name)
	}
	return &Identity{UID: uint32(uid), GID: uint32(gid)}, nil
}

// separate prepares what keeps instances from the agent: they run as another user, have no
// capability and get no new privileges. Without a user it warns that nothing does.
func (d *Driver) separate() error {
	u, r := d.conf.User, d.conf.Users
	if u != nil && r != nil {
		return api.Errorf(api.CodeInvalid, "instances run as one user or as users of a range, not both")
	}
	if r != nil {
		if err := r.Check(); err != nil {
			return err
		}
		u = &Identity{UID: r.First, GID: r.First} // the others of the range reach what it reaches
	}
	if u == nil {
		d.conf.Log.Warn("instances run as the agent's own user: each can read the agent's key and end other instances; " +
			"run only commands that you trust, or name users for them with --users or --user")
		return nil
	}
	if os.Geteuid() != 0 {
		return api.Errorf(api.CodeInvalid, "only an agent that runs as root can run instances as another user")
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		return fmt.Errorf("running instances as another user needs setpriv, of util-linux: %w", err)
	}
	if err := d.root.Chmod(".", passable); err != nil {
		return err
	}
	if err := u.checkReach(d.conf.Dir); err != nil {
		return err
	}
	d.setpriv = setpriv
	d.findPlaces()
	return nil
}

// confine returns the words that go before the command of an instance with a folder to run it as a user; none without one.
func (d *Driver) confine(u *Identity, folder string) []string {
	if u == nil {
		return nil
	}
	return append(d.enclosed(folder),
		d.setpriv, fmt.Sprint("--reuid=", u.UID), fmt.Sprint("--regid=", u.GID), "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--",
	)
}

// checkReach returns an error if the user cannot pass a folder or one above it.
func (u *Identity) checkReach(dir string) error {
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		s, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("%s has no owner", at)
		}
		need := os.FileMode(0o001)
		switch {
		case s.Uid == u.UID:
			need = 0o100
		case s.Gid == u.GID:
			need = 0o010
		}
		if info.Mode()&need == 0 {
			return api.Errorf(api.CodeInvalid, "user %d cannot pass the folder %s, so no instance could reach its own: chmod o+x %s (it can be passed then, and not listed)", u.UID, at, at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// handOver gives the work folder of an instance to the user that it runs as, if it has one.
func (d *Driver) handOver(id api.InstanceID, u *Identity) error {
	if u == nil {
		return nil
	}
	err := d.root.Chmod(string(id), passable)
	if err == nil {
		err = d.root.Chmod(string(id)+"/"+volumeFolder, listable)
	}
	if err == nil {
		err = d.root.Chown(string(id)+"/"+workFolder, int(u.UID), int(u.GID))
	}
	if err != nil {
		return fmt.Errorf("giving the instance its folder: %w", err)
	}
	return nil
}

// Modes of folders that another user has to get through.
const (
	passable = 0o711
	listable = 0o755
)
