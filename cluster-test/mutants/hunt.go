package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Limits of a run of a suite whose time without a fault was measured.
const (
	tryMin   = 30 * time.Second // even for a fast suite
	tryTimes = 4                // times the duration without a fault, before it counts as hung
)

// hunter compiles faults into suites and checks whether they fail. It is safe for
// concurrent use once measure has returned.
type hunter struct {
	root, dir string // of the module; of the suites without a fault
	jobs      int    // number of concurrent hunts
	out       io.Writer
	progress  io.Writer

	limit map[suite]time.Duration // of a run of each suite that was measured

	mu     sync.Mutex          // guards what follows, and progress
	plain  map[string]*builder // of the suites without a fault, by package
	absent map[suite]bool      // those that skip themselves here
}

// newHunter returns a hunter in the module of root, with a folder of its own.
func newHunter(root, dir string, jobs int, out, progress io.Writer) *hunter {
	return &hunter{
		root: root, dir: dir, jobs: jobs, out: out, progress: progress,
		plain: map[string]*builder{}, absent: map[suite]bool{},
	}
}

// builder compiles one thing once.
type builder struct {
	once sync.Once
	err  error
}

// say prints progress.
func (h *hunter) say(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, _ = fmt.Fprintf(h.progress, format+"\n", args...) // the table at the end has it all
}

// hunt is the result of one search for a fault.
type hunt struct {
	by      string // package and test; "" if none failed
	took    time.Duration
	untried bool   // every suite that can find it skips itself here
	broken  string // compile error of the code with the fault
}

// hunt compiles a change into suites, one after the other, and runs them until one
// finds it. It returns a *compileError if the change is not valid code.
func (h *hunter) hunt(ctx context.Context, c change, suites []suite) (hunt, error) {
	began := time.Now()
	dir, err := os.MkdirTemp(h.dir, "fault-")
	if err == nil {
		err = os.Chmod(dir, passable)
	}
	if err != nil {
		return hunt{}, fmt.Errorf("making a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // only temporary files would be left
	overlay, err := c.overlay(h.root, dir)
	if err != nil {
		return hunt{}, err
	}
	ran := false
	for _, s := range suites {
		if h.skips(s) {
			continue
		}
		if err := h.compile(ctx, dir, s.pkg, overlay); err != nil {
			return hunt{}, err
		}
		by, err := h.look(ctx, dir, overlay, s)
		if err != nil {
			return hunt{}, err
		}
		if by != "" {
			return hunt{by: s.pkg + " " + by, took: time.Since(began)}, nil
		}
		ran = ran || !h.skips(s)
	}
	return hunt{took: time.Since(began), untried: !ran}, nil
}

// skips reports whether a suite has skipped itself here.
func (h *hunter) skips(s suite) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.absent[s]
}

// compileError is the error of code that does not compile, with the output of the compiler.
type compileError struct{ text string }

// Error implements error.
func (e *compileError) Error() string { return "it does not compile:\n" + e.text }

// compile builds the tests of a package into a folder, with an overlay unless that
// is "".
func (h *hunter) compile(ctx context.Context, dir, pkg, overlay string) error {
	args := []string{"test", "-c", "-vet=off", "-o", binary(dir, pkg)}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	c := exec.CommandContext(ctx, "go", append(args, "berth/"+pkg)...)
	c.Dir = h.root
	text, err := c.CombinedOutput()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return &compileError{string(text)}
	}
	if err != nil {
		return fmt.Errorf("running the compiler: %w", err)
	}
	return nil
}

// compilePlain builds the tests of a package without a fault, the first time.
func (h *hunter) compilePlain(ctx context.Context, pkg string) error {
	h.mu.Lock()
	b := h.plain[pkg]
	if b == nil {
		b = &builder{}
		h.plain[pkg] = b
	}
	h.mu.Unlock()
	b.once.Do(func() {
		if b.err = h.compile(ctx, h.dir, pkg, ""); b.err != nil {
			b.err = fmt.Errorf("the tests of %s without a fault: %w", pkg, b.err)
		}
	})
	return b.err
}

// measure runs suites without a fault, to check that they pass and to measure their time.
func (h *hunter) measure(ctx context.Context, suites []suite) error {
	h.limit = map[suite]time.Duration{}
	for _, s := range suites {
		if _, known := h.limit[s]; known {
			continue
		}
		if err := h.compilePlain(ctx, s.pkg); err != nil {
			return err
		}
		var o outcome
		var took time.Duration
		for range looksMax { // a flake must not end the whole run
			began := time.Now()
			var err error
			if o, err = h.runner(h.dir, suiteTimeout).try(ctx, s); err != nil {
				return err
			}
			if took = time.Since(began); o.end != failed {
				break
			}
		}
		h.say("%s: %.1f s without a fault", s, took.Seconds())
		if o.end == failed {
			return fmt.Errorf("%s fails without a fault, in %s:\n%s", s, o.test, o.about())
		}
		h.limit[s] = max(tryMin, tryTimes*took)
	}
	return nil
}

// runner runs the suites that were compiled into a folder.
func (h *hunter) runner(dir string, timeout time.Duration) *runner {
	return &runner{root: h.root, dir: dir, timeout: timeout}
}

// look runs a suite with the fault that is compiled into it, and returns the test
// that finds it: one that fails with it and passes without.
func (h *hunter) look(ctx context.Context, dir, overlay string, s suite) (string, error) {
	limit := cmp.Or(h.limit[s], suiteTimeout)
	with := h.runner(dir, limit)
	with.env = []string{"GOFLAGS=" + os.Getenv("GOFLAGS") + " -overlay=" + overlay} // for suites that build berth themselves
	for range looksMax {
		o, err := with.try(ctx, s)
		if early := (*earlyError)(nil); errors.As(err, &early) {
			return "(before its first test)", nil
		}
		switch {
		case err != nil:
			return "", err
		case o.end == skipped:
			h.mu.Lock()
			h.absent[s] = true
			h.mu.Unlock()
			h.say("%s is skipped here: %s", s, o.reason)
			return "", nil
		case o.end == passed:
			return "", nil
		}
		if err = h.compilePlain(ctx, s.pkg); err != nil {
			return "", err
		}
		meant, err := confirm(ctx, with, h.runner(h.dir, limit), s, o.test)
		if err != nil {
			return "", err
		}
		if meant {
			return o.test, nil
		}
		h.say("%s: %s failed, but not because of the fault", s, o.test)
	}
	return "", nil
}

// confirm reports whether a test failed because of a fault: alone it passes without the
// fault, and fails with it again. with and without run suites with and without the fault
// compiled in.
func confirm(ctx context.Context, with, without *runner, s suite, test string) (bool, error) {
	name, _, _ := strings.Cut(test, " ")
	alone := suite{s.pkg, "^" + name + "$"}
	began := time.Now()
	if o, err := without.try(ctx, alone); err != nil || o.end == failed {
		return false, err
	}
	again := *with
	again.timeout = max(againTimeout, againTimes*time.Since(began))
	for range againMax {
		if o, err := again.try(ctx, alone); err != nil || o.end == failed {
			return err == nil, err
		}
	}
	return false, nil
}
