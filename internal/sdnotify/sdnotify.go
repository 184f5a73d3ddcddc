// Package sdnotify tells a service manager such as systemd how a process is, by the protocol of
// sd_notify(3): datagrams of lines to the socket that NOTIFY_SOCKET names.
package sdnotify

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Environment variables of the protocol.
const (
	envSocket   = "NOTIFY_SOCKET"
	envInterval = "WATCHDOG_USEC"
	envPID      = "WATCHDOG_PID"
)

// statusMax bounds the text of a status, in bytes.
const statusMax = 256

// Notifier tells the manager of this process. A nil Notifier tells nobody. Its methods may be called
// concurrently; each sends one datagram and does not wait for the manager.
type Notifier struct {
	to       *net.UnixAddr
	watchdog time.Duration
}

// New returns the notifier of the process pid with an environment, nil if it has no manager that wants to be told.
// It returns an error for a manager that cannot be told.
func New(getenv func(string) string, pid int) (*Notifier, error) {
	path := getenv(envSocket)
	if path == "" {
		return nil, nil //nolint:nilnil // nobody is to be told
	}
	if path[0] != '/' && path[0] != '@' || len(path) < 2 {
		return nil, fmt.Errorf("%s is neither a path nor an abstract socket: %q", envSocket, path)
	}
	n := &Notifier{to: &net.UnixAddr{Name: path, Net: "unixgram"}} // package net reads @ as abstract
	usec := getenv(envInterval)
	if usec == "" || getenv(envPID) != "" && getenv(envPID) != strconv.Itoa(pid) {
		return n, nil
	}
	us, err := strconv.ParseInt(usec, 10, 64)
	if err != nil || us <= 0 || us > int64(1<<62/time.Microsecond) {
		return nil, fmt.Errorf("%s is not a number of microseconds: %q", envInterval, usec)
	}
	n.watchdog = time.Duration(us) * time.Microsecond
	return n, nil
}

// Watchdog returns how long the manager waits for Alive before it ends this process; 0 for ever.
func (n *Notifier) Watchdog() time.Duration {
	if n == nil {
		return 0
	}
	return n.watchdog
}

// Ready tells that the process has started, or has read its configuration again.
func (n *Notifier) Ready(status string) error {
	return n.send("READY=1", "STATUS="+plainStatus(status))
}

// Reloading tells that the process reads its configuration again; Ready tells the end of it.
func (n *Notifier) Reloading() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	return n.send("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000))
}

// Stopping tells that the process ends.
func (n *Notifier) Stopping() error { return n.send("STOPPING=1") }

// Status tells people in one line what the process does.
func (n *Notifier) Status(text string) error { return n.send("STATUS=" + plainStatus(text)) }

// Alive tells that the process works.
func (n *Notifier) Alive() error { return n.send("WATCHDOG=1") }

// plainStatus returns a text as one line of at most statusMax bytes.
func plainStatus(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text)
	if len(text) > statusMax {
		text = strings.ToValidUTF8(text[:statusMax], "")
	}
	return text
}

func (n *Notifier) send(lines ...string) error {
	if n == nil {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, n.to)
	if err != nil {
		return fmt.Errorf("telling the service manager: %w", err)
	}
	_, err = c.Write([]byte(strings.Join(lines, "\n") + "\n"))
	if err = errors.Join(err, c.Close()); err != nil {
		return fmt.Errorf("telling the service manager: %w", err)
	}
	return nil
}
