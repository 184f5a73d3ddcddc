package process

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"berth/api"
)

// The gate is a shell that a child runs before the instance's command. It waits for a
// word on descriptor 3 and ends without it, so that a command runs only after its record
// is on disk and its limits are set; an agent that dies before that closes the pipe. Then
// it leaves a mark and becomes the command: the same process, with the same number. The
// command's words are arguments and are never parsed as shell text.
const (
	shell = "/bin/sh"
	gate  = `read -r word <&3 || exit 125
: >` + releasedFile + ` && cd ` + workFolder + ` || exit 125
unset word PWD OLDPWD SHLVL
exec "$@" 3<&-`
)

// instancePath is the PATH that instances get.
const instancePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Names of the variables in the environment of an instance, which has no others but PATH.
const (
	envInstance = "BERTH_INSTANCE_ID"
	envName     = "BERTH_INSTANCE_NAME"
	envFlavor   = "BERTH_FLAVOR"
	envMetadata = "BERTH_METADATA_"      // followed by a key of letters, digits and _
	envNotice   = "BERTH_PREEMPT_NOTICE" // path of the notice, which exists once the instance must leave
	envVolumes  = "BERTH_VOLUMES"        // path of a folder that has each attached volume under its id
	envMark     = "BERTH_MARK"           // by which the driver finds remaining processes of the instance
)

// ownerOf returns a short name for the driver that has a folder, which is an
// absolute path: two drivers of one machine have two.
func ownerOf(folder string) string {
	sum := sha256.Sum256([]byte(folder))
	return hex.EncodeToString(sum[:6])
}

// environmentOf returns the environment of an instance. Metadata whose key cannot be part
// of a name, or whose value has a zero byte, is left out.
func environmentOf(w api.Workload, folder, mark string) []string {
	env := []string{
		"PATH=" + instancePath,
		mark,
		envInstance + "=" + string(w.Instance),
		envName + "=" + withoutZeroBytes(w.Name),
		envFlavor + "=" + withoutZeroBytes(string(w.Flavor)),
		envNotice + "=" + filepath.Join(folder, workFolder, noticeFile),
		envVolumes + "=" + filepath.Join(folder, volumeFolder),
	}
	var extra []string
	for k, v := range w.Metadata {
		if isNameable(k) && !strings.Contains(v, "\x00") {
			extra = append(extra, envMetadata+k+"="+v)
		}
	}
	slices.Sort(extra)
	return append(env, extra...)
}

// markOf returns the variable that all processes of an instance inherit. Others cannot forge it: its end is a secret of the record.
func (d *Driver) markOf(r record) string {
	mark := envMark + "=" + d.groups.owner + "." + string(r.Instance)
	if r.Mark == "" {
		return mark
	}
	return mark + markSecret + r.Mark
}

// markSecret is what the secret of a mark follows; no id has it.
const markSecret = "/"

func withoutZeroBytes(s string) string { return strings.ReplaceAll(s, "\x00", "") }

func isNameable(key string) bool {
	for i := range len(key) {
		c := key[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' {
			return false
		}
	}
	return key != ""
}

// checkCommand returns the reason why a command cannot be run, or nil.
func checkCommand(command []string) error {
	if len(command) == 0 {
		return errors.New("flavor has no command in this zone")
	}
	for _, word := range command {
		if strings.Contains(word, "\x00") {
			return errors.New("the flavor's command has a zero byte")
		}
	}
	program := command[0]
	if !filepath.IsAbs(program) {
		return fmt.Errorf("the flavor's program %q must be an absolute path", program)
	}
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("the flavor's program cannot be run: %w", err)
	}
	return nil
}

// launchInstance starts w's command and returns the instance with its process. On an error
// no command has run, at most a folder is left, and the instance only identifies the
// start.
func (d *Driver) launchInstance(ctx context.Context, host api.HostID, w api.Workload) (*instance, error) {
	i := &instance{gone: make(chan struct{}), record: record{
		Instance: w.Instance, Host: host, Name: w.Name, Flavor: w.Flavor, Boot: d.boot, Status: api.StatusActive,
		Fenced: w.Fence > 0, DiskGB: w.Resources[api.DiskGB], Runs: w.Runs, Mark: rand.Text(),
	}}
	if err := checkCommand(w.Command); err != nil {
		return i, err
	}
	if err := d.makeFolder(w.Instance); err != nil {
		return i, err
	}
	user, err := d.chooseUser(i)
	if err == nil {
		err = d.handOver(w.Instance, user)
	}
	return i, d.launchIn(ctx, i, w, user, err)
}

// launchIn starts w's command as i in its folder, unless that could not be prepared, and err says why.
func (d *Driver) launchIn(ctx context.Context, i *instance, w api.Workload, user *Identity, err error) error {
	if err == nil {
		err = d.makePrivate(i.record, user)
	}
	if err == nil {
		err = d.groups.createGroups(w.Instance, w.Resources)
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = d.beginProcess(ctx, i, w, user)
	}
	if err != nil {
		return errors.Join(err, d.groups.removeGroups(w.Instance))
	}
	return nil
}

// beginProcess starts i's process and lets it become the command, of a user if it has one.
func (d *Driver) beginProcess(ctx context.Context, i *instance, w api.Workload, user *Identity) error {
	cmd, word, fenceEnd, err := d.startGate(i.record, w, user)
	if err != nil {
		return err
	}
	i.fenceEnd, i.cmd, i.PID = fenceEnd, cmd, cmd.Process.Pid
	if i.pidfd, err = openPidfd(i.PID); err == nil { // it has not been waited for, so the number is still its own
		err = d.recordProcess(i)
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx) // the caller may have reported this already: it must not run
	}
	if err == nil {
		_, err = word.WriteString("go\n")
	}
	if err = errors.Join(err, word.Close()); err == nil {
		return nil
	}
	_ = cmd.Process.Kill() // it would also end by itself: its pipe is closed
	_ = cmd.Wait()         // the error that matters is known
	if i.pidfd != nil {
		_ = i.pidfd.Close() // nothing was written through it
	}
	i.closeFenceEnd()
	return err
}

// recordProcess applies the limits to i's process and writes the record.
func (d *Driver) recordProcess(i *instance) error {
	s, err := readStat(i.PID)
	if err != nil {
		return err
	}
	i.Start = s.start
	if err := d.groups.joinGroups(i.Instance, i.PID); err != nil {
		return err
	}
	return saveRecord(d.root, i.record)
}

// makeFolder creates a folder for an instance, with nothing but the outputs of earlier runs. Anything else that was in
// it is from a start that was aborted before the command ran.
func (d *Driver) makeFolder(id api.InstanceID) error {
	err := d.discardFolder(id)
	if err == nil {
		err = d.root.Mkdir(string(id), 0o700)
	}
	if err == nil {
		err = d.root.Mkdir(string(id)+"/"+workFolder, 0o700)
	}
	if err == nil {
		err = d.root.Mkdir(string(id)+"/"+volumeFolder, 0o700)
	}
	if err == nil {
		err = d.returnOutputs(id)
	}
	if err != nil {
		return fmt.Errorf("making the instance's folder: %w", err)
	}
	return nil
}

// discardFolder removes the folder of a start whose command has not run. The outputs of earlier runs are kept.
func (d *Driver) discardFolder(id api.InstanceID) error {
	if err := d.keepOutputs(id, false); err != nil {
		d.conf.Log.Warn("output of an earlier run is lost", "instance", id, "err", err)
	}
	return d.root.RemoveAll(string(id))
}

// startGate starts the gate in a session of its own. The gate waits for a word on the
// returned file, which the caller must close. fenceEnd is nil without a fence.
func (d *Driver) startGate(r record, w api.Workload, user *Identity) (cmd *exec.Cmd, word, fenceEnd *os.File, err error) {
	var files []*os.File
	defer func() {
		for _, f := range files {
			_ = f.Close() // the child has its own
		}
	}()
	for _, name := range []string{stdoutFile, stderrFile} {
		f, failure := d.root.OpenFile(string(w.Instance)+"/"+name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if failure != nil {
			return nil, nil, nil, fmt.Errorf("opening the instance's output: %w", failure)
		}
		files = append(files, f)
	}
	awaits, word, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("opening the instance's gate: %w", err)
	}
	files = append(files, awaits)
	folder := filepath.Join(d.conf.Dir, string(w.Instance))
	// Not CommandContext: an instance outlives the call that starts it.
	cmd = &exec.Cmd{
		Path: d.shell, Args: slices.Concat([]string{"sh", "-c", gate, "berth-gate"}, d.confine(user, folder), w.Command),
		Dir: folder, Env: environmentOf(w, folder, d.markOf(r)),
		Stdout: files[0], Stderr: files[1], ExtraFiles: []*os.File{awaits},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	launch := cmd.Start
	if w.Fence > 0 {
		end, failure := d.tieFence(cmd, w.Instance)
		if failure != nil {
			return nil, nil, nil, errors.Join(failure, word.Close())
		}
		files, fenceEnd = append(files, end.childEnd), end.driverEnd
		launch = func() error { return d.startFromTether(cmd) }
	}
	if err := launch(); err != nil {
		err = errors.Join(fmt.Errorf("starting a process: %w", err), word.Close())
		if fenceEnd != nil {
			err = errors.Join(err, fenceEnd.Close())
		}
		return nil, nil, nil, err
	}
	return cmd, word, fenceEnd, nil
}
