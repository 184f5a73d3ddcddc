package lab

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"berth/raftstore"
)

// How long a supervisor waits before it starts a process again: at first the minimum,
// doubled after each short life up to the maximum.
const (
	pauseMin  = 200 * time.Millisecond
	pauseMax  = time.Second
	shortLife = 5 * time.Second
)

// Service is a node or an agent, running or not: a process and its successors. Its methods
// are safe for concurrent use.
type Service struct {
	Name    string // in logs and exits
	Machine *Machine
	Env     []string // further variables; read at each start, set before the first
	// Ended is called after each end of a process, before a supervisor starts another;
	// set while none runs. May be nil.
	Ended func(e Exit)

	w *World

	mu         sync.Mutex    // guards what follows
	proc       *proc         // the newest; nil before the first start
	args       []string      // of the newest
	off        time.Duration // by how much the clock of the next is wrong
	up         bool          // it should run
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

// DiskBroken reports whether a process has ended because a test broke the disk of its
// machine, as it should: with the exit code for that, or during its start with what as
// its last line.
func (e Exit) DiskBroken() bool {
	return e.Broken && (e.How == "exit status 9" || strings.Contains(e.Last, "no space left on device") || strings.Contains(e.Last, "input/output error"))
}

// droppedLog reports whether a process has ended to drop a log that contradicts a
// snapshot of its zone, which it may do at any time.
func (e Exit) droppedLog() bool {
	return e.How == "exit status 9" && strings.Contains(e.Last, raftstore.ErrDiverged.Error())
}

// SetClock has the processes that start from now on take the clock of their machine to be off by so much.
func (s *Service) SetClock(off time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off = off
}

// launchProcess starts the service's process.
func (s *Service) launchProcess(args ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil && s.proc.running() {
		return fmt.Errorf("%s runs already", s.Name)
	}
	s.up, s.args, s.pause = true, args, pauseMin
	return s.beginProcess()
}

// beginProcess starts a process with the newest arguments; s.mu is held.
func (s *Service) beginProcess() error {
	env := s.Env
	if s.off != 0 {
		env = append(slices.Clone(env), "BERTH_CLOCK="+s.off.String())
	}
	p, err := s.w.startProcess(s.Machine, s.Name, env, s.args...)
	if err != nil {
		return err
	}
	s.proc = p
	s.w.watchers.Go(func() { s.watchProcess(p) })
	return nil
}

// watchProcess waits for the end of p, records it, and starts a successor if wanted.
func (s *Service) watchProcess(p *proc) {
	<-p.done
	at := time.Now()
	e := Exit{s.Name, at, p.cmd.ProcessState.String(), p.tail(1), p.meant.Load(), s.Machine.wasBroken(at)}
	s.w.recordExit(e)
	if s.Ended != nil {
		s.Ended(e)
	}
	s.mu.Lock()
	if time.Since(p.began) > shortLife {
		s.pause = pauseMin
	}
	pause := s.pause
	s.pause = min(2*s.pause, pauseMax)
	again := s.isWanted(p)
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
	if !s.isWanted(p) {
		return
	}
	if err := s.beginProcess(); err != nil {
		s.w.failAtEnd(fmt.Errorf("supervising: %w", err))
	}
}

// isWanted reports whether another process should take the place of p; s.mu is held.
func (s *Service) isWanted(p *proc) bool {
	select {
	case <-s.w.over:
		return false
	default:
		return s.supervised && s.up && s.proc == p
	}
}

// Supervise restarts the process whenever it ends, as an operating system would, after
// 200 ms to 1 s; but not after Kill, Stop and PowerCut, until the test starts it. It takes
// effect with the next end.
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
	p := s.newestProcess()
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%s, process %d", s.Name, p.cmd.Process.Pid)
}

// Lives counts the processes that the service has had.
func (s *Service) Lives() (n int) {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.procs {
		if p.Name == s.Name {
			n++
		}
	}
	return n
}

// newestProcess returns the newest process, nil if there is none.
func (s *Service) newestProcess() *proc {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// stopRestarts returns the newest process after noting that none should take its place.
func (s *Service) stopRestarts() *proc {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up = false
	return s.proc
}

// Running reports whether the process has not ended. A process that is paused
// runs.
func (s *Service) Running() bool {
	p := s.newestProcess()
	return p != nil && p.running()
}

// Signal signals the process, unless it has ended.
func (s *Service) Signal(sig syscall.Signal) { s.newestProcess().signal(sig) }

// Crash ends the process at once, and waits for its end. A supervisor starts it
// again.
func (s *Service) Crash() { s.newestProcess().kill() }

// Kill ends the process at once, waits for its end, and leaves it so.
func (s *Service) Kill() { s.stopRestarts().kill() }

// Stop asks the process to end, returns how it did, and leaves it so.
func (s *Service) Stop() error { return s.stopRestarts().stop() }

// Pause freezes the process until Resume: its machine still acknowledges packets and
// accepts connections, but nothing answers.
func (s *Service) Pause() { s.Signal(syscall.SIGSTOP) }

// Resume lets the process continue.
func (s *Service) Resume() { s.Signal(syscall.SIGCONT) }

// Tail returns the last lines of the service's log.
func (s *Service) Tail(lines int) string { return s.newestProcess().tail(lines) }
