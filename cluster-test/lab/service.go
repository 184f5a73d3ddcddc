package lab

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"berth/raftstore"
)

// How long a supervisor waits before it starts a process again: the least, twice
// that after each short life, and at most the most.
const (
	pauseMin  = 200 * time.Millisecond
	pauseMax  = time.Second
	shortLife = 5 * time.Second
)

// Service is one process and those that take its place after it: a node or an
// agent, running or not. Its methods are safe for concurrent use.
type Service struct {
	Name    string // in logs and exits
	Machine *Machine
	Env     []string // further variables; read at each start, set before the first
	// Ended is called after each end of a process, before a supervisor starts another;
	// set while none runs. May be nil.
	Ended func(e Exit)

	w *World

	mu         sync.Mutex // guards what follows
	proc       *Proc      // the newest; nil before the first start
	args       []string   // of the newest
	up         bool       // it should run
	supervised bool
	pause      time.Duration // before the next start by the supervisor
}

// Exit is the end of one process.
type Exit struct {
	Service string
	At      time.Time
	How     string // such as "signal: killed" or "exit status 1"
	Last    string // the last line that it logged
	Meant   bool   // a test has ended it
	Broken  bool   // a test had broken the disk of its machine then, or shortly before
}

// DiskBroken reports whether a process has ended because a test broke the disk of
// its machine, as it should: with the exit code for that, or as it started, when
// the last that it says is what.
func (e Exit) DiskBroken() bool {
	return e.Broken && (e.How == "exit status 9" || strings.Contains(e.Last, "no space left on device") || strings.Contains(e.Last, "input/output error"))
}

// droppedLog reports whether a process has ended to drop a log that contradicts a
// snapshot of its zone, which it may do at any time.
func (e Exit) droppedLog() bool {
	return e.How == "exit status 9" && strings.Contains(e.Last, raftstore.ErrDiverged.Error())
}

// launch starts the service's process.
func (s *Service) launch(args ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil && s.proc.Running() {
		return fmt.Errorf("%s runs already", s.Name)
	}
	s.up, s.args, s.pause = true, args, pauseMin
	return s.begin()
}

// begin starts a process with the newest arguments; s.mu is held.
func (s *Service) begin() error {
	p, err := s.w.start(s.Machine, s.Name, s.Env, s.args...)
	if err != nil {
		return err
	}
	s.proc = p
	s.w.watchers.Go(func() { s.watch(p) })
	return nil
}

// watch waits for the end of p, records it, and starts another in its place if
// that is wanted.
func (s *Service) watch(p *Proc) {
	<-p.done
	at := time.Now()
	e := Exit{s.Name, at, p.cmd.ProcessState.String(), p.Tail(1), p.meant.Load(), s.Machine.wasBroken(at)}
	s.w.record(e)
	if s.Ended != nil {
		s.Ended(e)
	}
	s.mu.Lock()
	if time.Since(p.began) > shortLife {
		s.pause = pauseMin
	}
	pause := s.pause
	s.pause = min(2*s.pause, pauseMax)
	again := s.wanted(p)
	s.mu.Unlock()
	if !again {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.w.over:
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.wanted(p) {
		return
	}
	if err := s.begin(); err != nil {
		s.w.complain(fmt.Errorf("supervising: %w", err))
	}
}

// wanted reports whether another process should take the place of p; s.mu is held.
func (s *Service) wanted(p *Proc) bool {
	select {
	case <-s.w.over:
		return false
	default:
		return s.supervised && s.up && s.proc == p
	}
}

// Supervise lets the process be started again whenever it ends, as an operating
// system would, after 200 ms to 1 s; but not after Kill, Stop and PowerCut, until
// it is started by the test. It starts with the next end.
func (s *Service) Supervise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.supervised = true
}

// isSupervised reports whether Supervise was called.
func (s *Service) isSupervised() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.supervised
}

// Life names the newest process of the service, "" before the first: one that was
// started again has another name.
func (s *Service) Life() string {
	p := s.newest()
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%s, process %d", s.Name, p.cmd.Process.Pid)
}

// newest returns the newest process, nil if there is none.
func (s *Service) newest() *Proc {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// down returns the newest process after noting that none should take its place.
func (s *Service) down() *Proc {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up = false
	return s.proc
}

// Running reports whether the process has not ended. A process that is paused
// runs.
func (s *Service) Running() bool {
	p := s.newest()
	return p != nil && p.Running()
}

// Signal signals the process, unless it has ended.
func (s *Service) Signal(sig syscall.Signal) { s.newest().Signal(sig) }

// Crash ends the process at once, and waits for its end. A supervisor starts it
// again.
func (s *Service) Crash() { s.newest().Kill() }

// Kill ends the process at once, waits for its end, and leaves it so.
func (s *Service) Kill() { s.down().Kill() }

// Stop asks the process to end within d, returns how it did, and leaves it so.
func (s *Service) Stop(d time.Duration) error { return s.down().Stop(d) }

// Pause freezes the process until Resume: its machine still acknowledges what is
// sent to it and accepts connections, and nothing answers.
func (s *Service) Pause() { s.Signal(syscall.SIGSTOP) }

// Resume lets the process go on.
func (s *Service) Resume() { s.Signal(syscall.SIGCONT) }

// Tail returns the last lines of the service's log.
func (s *Service) Tail(lines int) string { return s.newest().Tail(lines) }
