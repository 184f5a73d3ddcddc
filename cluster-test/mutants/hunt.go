package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	root, dir string // of the module; of the suites that have all joined faults
	jobs      int    // number of concurrent hunts
	short     bool   // suites run as they do before each commit (go test -short)
	own       bool   // a random fault is looked for with the suite of its package alone
	out       io.Writer
	progress  io.Writer

	limit   map[suite]time.Duration // of a run of each suite that was measured
	overlay string                  // of the code with all joined faults; "" for the code as it is
	alone   map[string]bool         // the faults that are compiled alone
	broken  map[string]string       // errors of the compiler for those that are not valid code

	mu     sync.Mutex          // guards what follows, and progress
	suites map[string]*builder // by their file
	absent map[suite]bool      // those that skip themselves here
}

// newHunter returns a hunter in the module of root, with a folder of its own.
func newHunter(root, dir string, jobs int, out, progress io.Writer) *hunter {
	return &hunter{
		root: root, dir: dir, jobs: jobs, out: out, progress: progress,
		alone: map[string]bool{}, broken: map[string]string{}, suites: map[string]*builder{}, absent: map[suite]bool{},
	}
}

// specimen is a fault, and the suites that are compiled with it.
type specimen struct {
	fault   string // its name; "" for none
	overlay string // of the code; "" for the code as it is
	dir     string // of the suites
	tmp     string // for what they leave
}

// join compiles faults into one program, those that can be. It may be called again with more faults.
func (h *hunter) join(ctx context.Context, j *joint, more map[string]change) error {
	for _, name := range slices.Sorted(maps.Keys(more)) {
		switch err := j.add(name, more[name]); {
		case errors.Is(err, errAlone):
			h.alone[name] = true
		case err != nil:
			h.broken[name] = err.Error()
		}
	}
	if len(j.files) == 0 {
		return nil
	}
	h.say("compiling %d faults in %d packages", len(more), len(j.packages()))
	dir, err := os.MkdirTemp(h.dir, "joint-")
	if err == nil {
		err = os.Chmod(dir, passable)
	}
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	overlay, broken, err := j.settle(ctx, dir)
	h.overlay = overlay
	maps.Copy(h.broken, broken)
	return err
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

// hunt runs suites with a fault, one after the other, until one finds it. It returns a *compileError if the fault is
// not valid code. Unless the fault was joined with others, it is compiled alone.
func (h *hunter) hunt(ctx context.Context, fault string, c change, suites []suite) (hunt, error) {
	began := time.Now()
	if text := h.broken[fault]; text != "" {
		return hunt{}, &compileError{text}
	}
	tmp, err := os.MkdirTemp(h.dir, "fault-")
	if err == nil {
		err = os.Chmod(tmp, passable)
	}
	if err != nil {
		return hunt{}, fmt.Errorf("making a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }() // only temporary files would be left
	with := specimen{fault: fault, overlay: h.overlay, dir: h.dir, tmp: tmp}
	if h.alone[fault] {
		with.dir = tmp
		if with.overlay, err = c.overlay(h.root, tmp); err != nil {
			return hunt{}, err
		}
	}
	ran := false
	for _, s := range suites {
		if h.skips(s) {
			continue
		}
		by, err := h.look(ctx, with, s)
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

// compile builds the tests of a package for a fault, the first time.
func (h *hunter) compile(ctx context.Context, sp specimen, pkg string) error {
	file := binary(sp.dir, pkg)
	h.mu.Lock()
	b := h.suites[file]
	if b == nil {
		b = &builder{}
		h.suites[file] = b
	}
	h.mu.Unlock()
	b.once.Do(func() {
		args := []string{"test", "-c", "-vet=off", "-ldflags=-w", "-o", file}
		if sp.overlay != "" {
			args = append(args, "-overlay", sp.overlay)
		}
		_, b.err = compiler(ctx, h.root, append(args, "berth/"+pkg)...)
	})
	return b.err
}

// compiler runs the Go toolchain in the module and returns its output, with a *compileError if that has errors.
func compiler(ctx context.Context, root string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = root
	c.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -gcflags=berth/...=-e") // all errors, not only the first ten
	text, err := c.CombinedOutput()
	switch exit := (*exec.ExitError)(nil); {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case errors.As(err, &exit):
		return string(text), &compileError{string(text)}
	case err != nil:
		return "", fmt.Errorf("running the compiler: %w", err)
	}
	return string(text), nil
}

// without returns the suites without a fault.
func (h *hunter) without() specimen {
	return specimen{overlay: h.overlay, dir: h.dir, tmp: filepath.Join(h.dir, "tmp")}
}

// measure runs suites without a fault, to check that they pass and to measure their time.
func (h *hunter) measure(ctx context.Context, suites []suite) error {
	h.limit = map[suite]time.Duration{}
	for _, s := range suites {
		if _, known := h.limit[s]; known {
			continue
		}
		var o outcome
		var took time.Duration
		for range looksMax { // a flake must not end the whole run
			if err := h.compile(ctx, h.without(), s.pkg); err != nil {
				return err
			}
			began := time.Now()
			var err error
			if o, err = h.runner(h.without(), suiteTimeout).try(ctx, s); err != nil {
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

// runner runs suites with a fault.
func (h *hunter) runner(sp specimen, timeout time.Duration) *runner {
	r := &runner{root: h.root, dir: sp.dir, tmp: sp.tmp, timeout: timeout, short: h.short, env: []string{faultEnv + "=" + sp.fault}}
	if sp.overlay != "" { // for suites that build berth themselves
		r.env = append(r.env, "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+sp.overlay)
	}
	return r
}

// look runs a suite with a fault, and returns the test that finds it: one that fails with it and passes without.
func (h *hunter) look(ctx context.Context, sp specimen, s suite) (string, error) {
	if err := h.compile(ctx, sp, s.pkg); err != nil {
		return "", err
	}
	limit := cmp.Or(h.limit[s], suiteTimeout)
	with := h.runner(sp, limit)
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
		if err = h.compile(ctx, h.without(), s.pkg); err != nil {
			return "", fmt.Errorf("the tests of %s without a fault: %w", s.pkg, err)
		}
		meant, err := confirm(ctx, with, h.runner(h.without(), limit), s, o.test)
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
