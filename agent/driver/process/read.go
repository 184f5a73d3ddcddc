package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/agent/driver"
	"berth/api"
	"berth/internal/backoff"
)

var _ driver.OutputReader = (*Driver)(nil)

// beginPart is what the name of a file ends with that says how much was printed before the file of output began: a
// number of a fixed width, so that writing it anew needs no room.
const (
	beginPart  = ".begin"
	beginWidth = 20
)

// folderEvery is the pause between two tries to read an output that is being trimmed.
const folderEvery = 5 * time.Millisecond

// outputFiles are the names of the files of output.
var outputFiles = map[api.OutputStream]string{api.Stdout: stdoutFile, api.Stderr: stderrFile}

// ReadOutput reads the files of an instance's output. See driver.OutputReader.
func (d *Driver) ReadOutput(ctx context.Context, host api.HostID, q *api.OutputQuestion) (*api.OutputAnswer, error) {
	d.mu.Lock()
	i, shut := d.all[q.Instance], d.shut
	known := i != nil && i.Host == host && !i.Volume
	d.mu.Unlock()
	switch {
	case shut:
		return nil, errClosed
	case !known:
		return &api.OutputAnswer{Lack: api.OutputUnstarted}, nil
	}
	for !i.folder.TryLock() { // it is being trimmed or removed
		if !backoff.Sleep(ctx, folderEvery) {
			return nil, context.Cause(ctx)
		}
	}
	defer i.folder.Unlock()
	folder, err := d.openFolderOf(q.Instance)
	if isNotExist(err) { // it could not be started
		return &api.OutputAnswer{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = folder.Close() }() // nothing was written through it
	return readOutput(folder, outputFiles[q.Stream], q)
}

// openFolderOf opens the folder of an instance, and follows no link.
func (d *Driver) openFolderOf(id api.InstanceID) (*os.File, error) {
	all, err := d.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer func() { _ = all.Close() }() // nothing was written through it
	return openIn(all, string(id), unix.O_RDONLY|unix.O_DIRECTORY)
}

// part is a part of an output, which lies at an offset of it.
type part struct {
	file *os.File // nil if there is none
	from uint64
	size uint64
}

// readOutput reads a piece of the output that a file of folder and its earlier part hold. Nobody trims them meanwhile, but the
// command may write, and may cut its file.
func readOutput(folder *os.File, name string, q *api.OutputQuestion) (*api.OutputAnswer, error) {
	earlier, err := openPart(folder, name+earlierPart)
	if err != nil {
		return nil, err
	}
	defer earlier.close()
	latest, err := openPart(folder, name)
	if err != nil {
		return nil, err
	}
	defer latest.close()
	begin, err := readBegin(folder, name)
	if err != nil {
		return nil, err
	}
	latest.from = max(begin, earlier.size)
	earlier.from = latest.from - earlier.size
	total := latest.from + latest.size
	first := min(max(q.After, earlier.from), total)
	if q.Last {
		first = max(earlier.from, total-min(total, uint64(q.Limit))) //nolint:gosec // a limit is positive
	}
	a := &api.OutputAnswer{Offset: first, Total: total, Data: make([]byte, 0, min(uint64(q.Limit), total-first))} //nolint:gosec // the same
	for _, p := range []part{earlier, latest} {
		if err := p.appendTo(a); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// openPart opens a file of output. It must be a plain one that has no other name: the command may have put anything in its
// place if it runs as the agent's own user.
func openPart(folder *os.File, name string) (part, error) {
	f, err := openIn(folder, name, unix.O_RDONLY|unix.O_NONBLOCK)
	if isNotExist(err) {
		return part{}, nil
	}
	if err != nil {
		return part{}, err
	}
	var s unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &s); err == nil && (s.Mode&unix.S_IFMT != unix.S_IFREG || s.Nlink > 1) {
		err = errors.New("it is not the file that was made for it")
	}
	if err != nil {
		return part{}, errors.Join(fmt.Errorf("reading %s: %w", name, err), f.Close())
	}
	return part{file: f, size: min(uint64(max(s.Size, 0)), api.OutputTotalMax/4)}, nil //nolint:gosec // it is not negative
}

func (p *part) close() {
	if p.file != nil {
		_ = p.file.Close() // nothing was written through it
	}
}

// appendTo appends what the part has of a piece at its end, while there is room. If the file is shorter by now than it was, the piece
// ends there.
func (p *part) appendTo(a *api.OutputAnswer) error {
	at := a.Offset + uint64(len(a.Data))
	room := uint64(cap(a.Data) - len(a.Data)) //nolint:gosec // it is not negative
	if p.file == nil || room == 0 || at < p.from || at >= p.from+p.size {
		return nil
	}
	n := min(room, p.from+p.size-at)
	b := a.Data[len(a.Data) : uint64(len(a.Data))+n]
	got, err := p.file.ReadAt(b, int64(at-p.from)) //nolint:gosec // within the file
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	a.Data = a.Data[:len(a.Data)+got]
	return nil
}

// readBegin returns how much was printed before a file of output began; 0 for a file that was never trimmed.
func readBegin(folder *os.File, name string) (uint64, error) {
	p, err := openPart(folder, name+beginPart)
	if err != nil || p.file == nil {
		return 0, err
	}
	defer p.close()
	b := make([]byte, beginWidth)
	if _, err := p.file.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || n > api.OutputTotalMax/4 {
		return 0, nil // as if it were lost: offsets begin anew
	}
	return n, nil
}

// addBegin notes that a file of output begins so many bytes later.
func addBegin(folder *os.File, name string, more int64) error {
	was, err := readBegin(folder, name)
	if err != nil {
		return err
	}
	f, err := openIn(folder, name+beginPart, unix.O_WRONLY|unix.O_CREAT|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	now := min(was+uint64(max(more, 0)), api.OutputTotalMax/4) //nolint:gosec // it is not negative
	_, err = f.WriteAt(fmt.Appendf(nil, "%0*d", beginWidth, now), 0)
	return errors.Join(err, f.Close())
}
