// Package adminsock is the Unix socket at which a process takes calls of its operator, and of nobody else: it is in the data folder,
// for the owner of the process and for root alone.
package adminsock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
)

// Name is the name of the socket in a data folder, and DirDefault the data folder of a node unless its operator chooses another.
const (
	Name       = "admin.sock"
	DirDefault = "/var/lib/berth"
)

const (
	mode    = 0o600
	pathMax = 100 // bytes of the address of a socket; systems take a few more
)

// Listen opens the socket in a data folder, in place of one that an earlier process has left. The caller is the only process of the
// folder. Close removes the socket.
func Listen(dir string) (net.Listener, error) {
	path := filepath.Join(dir, Name)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("replacing the socket for the operator: %w", err)
	}
	var ln net.Listener
	err := within(dir, func(at string) (err error) {
		ln, err = new(net.ListenConfig).Listen(context.Background(), "unix", at) // it lives as long as the process
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("opening the socket for the operator: %w", err)
	}
	if u, ok := ln.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // the address may be gone by then
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the socket for the operator: %w", err), ln.Close())
	}
	return &listener{ln, path}, nil
}

// listener removes its socket with its end.
type listener struct {
	net.Listener
	path string
}

// Close implements net.Listener.
func (l *listener) Close() error {
	_ = os.Remove(l.path) // the next process replaces one that is left
	return l.Listener.Close()
}

// Transport calls the process with a data folder, whatever the host of a URL.
func Transport(dir string) *http.Transport {
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (c net.Conn, err error) {
		err = within(dir, func(at string) (err error) {
			c, err = new(net.Dialer).DialContext(ctx, "unix", at)
			return err
		})
		return c, err
	}}
}

// within calls do with an address of the socket that is short enough.
func within(dir string, do func(at string) error) error {
	if path := filepath.Join(dir, Name); len(path) <= pathMax {
		return do(path)
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }() // it was only named
	return do(fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), Name))
}
