package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits of random faults.
const (
	foundLeast  = 0.9              // the share of them that must be found
	tryMin      = 30 * time.Second // of one run of a suite, however fast it is without a fault
	tryTimes    = 4                // of what it takes without a fault, at most, before it counts as hung
	drawnPerOne = 10               // places that are tried for each fault: not all of them compile
)

// drawn is what became of one random fault.
type drawn struct {
	site
	by     string // package and test; "" if none failed
	absent bool   // it does not compile
	why    string // why it is no fault at all
	took   time.Duration
}

// draw returns the places of faults in the order in which they are to be tried:
// one of each room in turn, so that no room is left out because it is small. Of
// are the rooms that are wanted, all if there are none.
func draw(root string, of []string, seed uint64) ([]site, error) {
	for _, pkg := range of {
		if !slices.ContainsFunc(rooms, func(r room) bool { return r.pkg == pkg }) {
			return nil, fmt.Errorf("no random faults are made in %q", pkg)
		}
	}
	dice := rand.New(rand.NewPCG(seed, 0))
	var all [][]site
	for _, r := range rooms {
		if len(of) > 0 && !slices.Contains(of, r.pkg) {
			continue
		}
		sites, err := r.sites(root)
		if err != nil {
			return nil, err
		}
		dice.Shuffle(len(sites), func(i, j int) { sites[i], sites[j] = sites[j], sites[i] })
		all = append(all, sites)
	}
	var out []site
	for i := 0; ; i++ {
		before := len(out)
		for _, sites := range all {
			if i < len(sites) {
				out = append(out, sites[i])
			}
		}
		if len(out) == before {
			return out, nil
		}
	}
}

// hunter makes random faults and looks for them, some at a time.
type hunter struct {
	root, dir string
	out       io.Writer
	progress  io.Writer

	limit map[suite]time.Duration // of a run of each suite
}

// random makes n faults at places of a seed, runs suites against each, and prints
// what was found. It returns an error if too few were.
func (h *hunter) random(ctx context.Context, sites []site, seed uint64, n, jobs int) error {
	var all []suite
	for _, r := range rooms {
		if slices.ContainsFunc(sites, func(s site) bool { return s.room == r.pkg }) {
			all = append(all, r.suites...)
		}
	}
	if err := h.whole(ctx, all); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	q := &queue{sites: sites[:min(len(sites), n*drawnPerOne)], want: n}
	var wg sync.WaitGroup
	for job := range jobs {
		wg.Go(func() {
			for s, ok := q.take(); ok && ctx.Err() == nil; s, ok = q.take() {
				own := rooms[slices.IndexFunc(rooms, func(r room) bool { return r.pkg == s.room })]
				d, err := h.one(ctx, job, s, own.suites)
				if err != nil {
					stop(err)
					return
				}
				q.note(h.progress, d)
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return report(h.out, q.done, seed)
}

// queue is what is to be tried, and what came of it. It is safe for concurrent use.
type queue struct {
	want int // faults

	mu    sync.Mutex // guards what follows
	sites []site     // not tried yet
	made  int        // faults that compile and are ones; of done
	done  []drawn
}

// take returns the next site, false if there are enough.
func (q *queue) take() (site, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.made >= q.want || len(q.sites) == 0 {
		return site{}, false
	}
	s := q.sites[0]
	q.sites = q.sites[1:]
	return s, true
}

// note notes what came of one. A fault more than is wanted is left out.
func (q *queue) note(progress io.Writer, d drawn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if counts := !d.absent && d.why == ""; counts && q.made == q.want {
		return
	} else if counts {
		q.made++
		_, _ = fmt.Fprintf(progress, "%d: %s: %s\n", q.made, &d.site, d.result()) // the table at the end has it all
	}
	q.done = append(q.done, d)
}

// compile builds the tests of a package, with an overlay if there is one, and
// returns what the compiler says if it cannot.
func (h *hunter) compile(ctx context.Context, dir, pkg, overlay string) (string, error) {
	args := []string{"test", "-c", "-vet=off", "-o", binary(dir, pkg)}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	c := exec.CommandContext(ctx, "go", append(args, "berth/"+pkg)...)
	c.Dir = h.root
	text, err := c.CombinedOutput()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	switch exit := (*exec.ExitError)(nil); {
	case err == nil:
		return "", nil
	case errors.As(err, &exit):
		return string(text), nil
	}
	return "", fmt.Errorf("running the compiler: %w", err)
}

// whole builds suites without a fault and runs them, to know that they pass and how
// long they take.
func (h *hunter) whole(ctx context.Context, suites []suite) error {
	h.limit = map[suite]time.Duration{}
	for _, s := range suites {
		if _, known := h.limit[s]; known {
			continue
		}
		if said, err := h.compile(ctx, h.dir, s.pkg, ""); err != nil || said != "" {
			return errors.Join(err, fmt.Errorf("%s does not compile: %s", s, said))
		}
		var o outcome
		var took time.Duration
		for range looksMax { // a flake must not end the whole run
			began := time.Now()
			var err error
			if o, err = h.runner(h.dir, suiteTimeout).try(ctx, s, ""); err != nil {
				return err
			}
			if took = time.Since(began); o.end != failed {
				break
			}
		}
		_, _ = fmt.Fprintf(h.progress, "%s: %.1f s without a fault\n", s, took.Seconds()) // it tells how it gets on
		if o.end == failed {
			return fmt.Errorf("%s fails without a fault, in %s:\n%s", s, o.test, o.about())
		}
		h.limit[s] = max(tryMin, tryTimes*took)
	}
	return nil
}

// runner runs the suites that were compiled into a folder.
func (h *hunter) runner(dir string, timeout time.Duration) *runner {
	return &runner{root: h.root, dir: dir, timeout: timeout, progress: h.progress, absent: map[suite]bool{}}
}

// one makes one fault and runs suites until one finds it.
func (h *hunter) one(ctx context.Context, job int, s site, suites []suite) (drawn, error) {
	d := drawn{site: s, why: harmless(&s)}
	if d.why != "" {
		return d, nil
	}
	began := time.Now()
	dir := filepath.Join(h.dir, fmt.Sprint("job", job))
	overlay, err := h.overlay(dir, &s)
	if err != nil {
		return d, err
	}
	for _, suite := range suites {
		said, err := h.compile(ctx, dir, suite.pkg, overlay)
		if err != nil {
			return d, err
		}
		if d.absent = said != ""; d.absent {
			return d, nil
		}
		by, err := h.look(ctx, dir, suite)
		if err != nil {
			return d, err
		}
		if by != "" {
			d.by = suite.pkg + " " + by
			break
		}
	}
	d.took = time.Since(began)
	return d, nil
}

// look runs a suite with the fault that is compiled into it, and returns the test
// that finds it: one that fails with it and passes without.
func (h *hunter) look(ctx context.Context, dir string, s suite) (string, error) {
	with := h.runner(dir, h.limit[s])
	o, err := with.try(ctx, s, "")
	if early := (*earlyError)(nil); errors.As(err, &early) {
		return "(before its first test)", nil
	}
	if err != nil || o.end != failed {
		return "", err
	}
	meant, err := confirm(ctx, with, h.runner(h.dir, h.limit[s]), s, "", o.test)
	if err != nil || !meant {
		return "", err
	}
	return o.test, nil
}

// overlay writes the file with the fault, and the list that puts it in the place of
// the other.
func (h *hunter) overlay(dir string, s *site) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making a folder: %w", err)
	}
	whole := filepath.Join(h.root, s.file)
	text, err := os.ReadFile(whole)
	if err != nil {
		return "", fmt.Errorf("reading code: %w", err)
	}
	faulty := filepath.Join(dir, "faulty.go")
	if err = os.WriteFile(faulty, slices.Concat(text[:s.begin], []byte(s.text), text[s.end:]), 0o600); err != nil {
		return "", fmt.Errorf("writing a fault: %w", err)
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {whole: faulty}})
	if err != nil {
		return "", fmt.Errorf("writing a fault: %w", err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err = os.WriteFile(overlay, list, 0o600); err != nil {
		return "", fmt.Errorf("writing a fault: %w", err)
	}
	return overlay, nil
}

// result says what became of the fault.
func (d *drawn) result() string {
	if d.by == "" {
		return fmt.Sprintf("not found in %.1f s", d.took.Seconds())
	}
	return fmt.Sprintf("found by %s in %.1f s", d.by, d.took.Seconds())
}

// report prints the faults that nobody found, those that are none, and a count for
// each room.
func report(out io.Writer, all []drawn, seed uint64) error {
	slices.SortFunc(all, func(a, b drawn) int { return cmp.Or(cmp.Compare(a.file, b.file), a.begin-b.begin) })
	text := "| fault | found by | s |\n| --- | --- | ---: |\n"
	found, made, absent := map[string]int{}, map[string]int{}, 0
	var none, missed strings.Builder
	for _, d := range all {
		switch {
		case d.absent:
			absent++
			continue
		case d.why != "":
			fmt.Fprintf(&none, "harmless: %s: %s\n", &d.site, d.why)
			continue
		case d.by != "":
			found[d.room]++
			found[""]++
		default:
			fmt.Fprintf(&missed, "not found: %s\n", &d.site)
		}
		made[d.room]++
		made[""]++
		text += fmt.Sprintf("| %s | %s | %.1f |\n", strings.ReplaceAll(d.String(), "|", "\\|"), cmp.Or(d.by, "-"), d.took.Seconds())
	}
	text += "\n" + none.String() + missed.String() + "\n"
	for _, r := range rooms {
		text += fmt.Sprintf("%s: %d of %d found\n", r.pkg, found[r.pkg], made[r.pkg])
	}
	text += fmt.Sprintf("seed %d: %d of %d random faults found; %d more did not compile\n", seed, found[""], made[""], absent)
	if _, err := io.WriteString(out, text); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	if float64(found[""]) < foundLeast*float64(made[""]) {
		return fmt.Errorf("%d of %d random faults were found; at least %.0f %% must be", found[""], made[""], 100*foundLeast)
	}
	return nil
}
