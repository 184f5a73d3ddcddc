package main

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"berth/internal/sdnotify"
)

// supervised tells the service manager, if there is one, how a process is.
type supervised struct {
	to    *sdnotify.Notifier
	log   *slog.Logger
	alive func(ctx context.Context) error // returns nil if the process works; an error at the end of ctx if it does not
	state func() string                   // in one line for people
}

const (
	// feedsPerWait is how often the watchdog is fed in the time after which it bites.
	feedsPerWait = 3
	// statusEvery is the time between two looks at the state without a watchdog.
	statusEvery = 10 * time.Second
)

// newSupervised returns how to tell the manager that the environment names.
func newSupervised(log *slog.Logger, alive func(context.Context) error, state func() string) *supervised {
	to, err := sdnotify.New(os.Getenv, os.Getpid())
	if err != nil {
		log.Warn("the service manager is not told how the process is", "error", err)
	}
	return &supervised{to, log, alive, state}
}

// tell logs that the manager could not be told.
func (s *supervised) tell(err error) {
	if err != nil {
		s.log.Warn("the service manager was not told", "error", err)
	}
}

// run tells the manager that the process is ready, and runs it. While it runs, the watchdog is fed as long as the process works.
func (s *supervised) run(ctx context.Context, serve func() error) error {
	ctx, stop := context.WithCancel(ctx)
	var told sync.WaitGroup
	s.tell(s.to.Ready(s.state()))
	told.Go(func() { s.feed(ctx) })
	told.Go(func() {
		<-ctx.Done()
		s.tell(s.to.Stopping())
	})
	err := serve()
	stop()
	told.Wait()
	return err
}

// feed feeds the watchdog and tells what has changed, until ctx ends.
func (s *supervised) feed(ctx context.Context) {
	if s.to == nil {
		return
	}
	every := cmp.Or(s.to.Watchdog()/feedsPerWait, statusEvery)
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	last := s.state()
	for {
		one, cancel := context.WithTimeout(ctx, every)
		err := s.alive(one)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.log.Error("the process does not answer itself; its watchdog is not fed", "error", err)
		case s.to.Watchdog() > 0:
			s.tell(s.to.Alive())
		}
		if now := s.state(); err == nil && now != last {
			last = now
			s.tell(s.to.Status(now))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// answers returns an alive for what does not return while a process is stuck.
func answers(ask func()) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		done := make(chan struct{})
		go func() {
			ask()
			close(done)
		}()
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
