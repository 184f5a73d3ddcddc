package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Limits of random faults.
const (
	foundLeast  = 0.9 // the share of them that must be found
	drawnPerOne = 10  // places that are tried for each fault: not all of them compile
)

// drawn is the result of one random fault.
type drawn struct {
	site
	hunt
	absent bool   // it does not compile
	why    string // reason why it is not a fault
}

// draw returns the places of faults in the order in which to try them: one of each room in
// turn, so that no small room is left out. of has the wanted rooms, all if it is empty.
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

// random makes n faults at places drawn with a seed, runs suites against each as a person does before each
// commit, and prints the results. It returns an error if too few were found.
func (h *hunter) random(ctx context.Context, sites []site, seed uint64, n int) error {
	h.short = true
	var all []suite
	for i := range sites {
		all = append(all, h.suitesFor(&sites[i])...)
	}
	slices.SortFunc(all, func(a, b suite) int { return cmp.Compare(a.String(), b.String()) })
	all = slices.Compact(all)
	sites, err := h.joinRandom(ctx, sites[:min(len(sites), n*drawnPerOne)], n)
	if err != nil {
		return err
	}
	if err := h.measure(ctx, all); err != nil {
		return err
	}
	q := &queue{sites: sites, want: n}
	g, ctx := errgroup.WithContext(ctx)
	for range h.jobs {
		g.Go(func() error {
			for s, ok := q.take(); ok && ctx.Err() == nil; s, ok = q.take() {
				d, err := h.try(ctx, s, h.suitesFor(&s))
				if err != nil {
					return err
				}
				q.note(h, d)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return report(h.out, q.done, seed)
}

// suitesFor returns the suites that look for a fault.
func (h *hunter) suitesFor(s *site) []suite {
	if h.own {
		return []suite{{path.Dir(s.file), ""}}
	}
	return rooms[slices.IndexFunc(rooms, func(r room) bool { return r.pkg == s.room })].suites
}

// joinRandom compiles faults into one program, until n of them are valid code, and returns all that it took.
func (h *hunter) joinRandom(ctx context.Context, sites []site, n int) ([]site, error) {
	j := newJoint(h.root)
	for taken, valid := 0, 0; ; {
		more := map[string]change{}
		for len(more) < n-valid && taken < len(sites) {
			s := &sites[taken]
			taken++
			if harmless(s) != "" {
				continue
			}
			c, err := s.change(h.root)
			if err != nil {
				return nil, err
			}
			more[s.name()] = c
		}
		if len(more) == 0 {
			return sites[:taken], nil
		}
		if err := h.join(ctx, j, more); err != nil {
			return nil, err
		}
		for name := range more {
			if h.broken[name] == "" {
				valid++
			}
		}
	}
}

// try makes one fault and runs suites until one finds it.
func (h *hunter) try(ctx context.Context, s site, suites []suite) (drawn, error) {
	d := drawn{site: s, why: harmless(&s)}
	if d.why != "" {
		return d, nil
	}
	c, err := s.change(h.root)
	if err != nil {
		return d, err
	}
	d.hunt, err = h.hunt(ctx, s.name(), c, suites)
	if broken := (*compileError)(nil); errors.As(err, &broken) {
		d.absent = true
		return d, nil
	}
	return d, err
}

// change returns the code of the site's file with the fault in it.
func (s *site) change(root string) (change, error) {
	text, err := os.ReadFile(filepath.Join(root, s.file))
	if err != nil {
		return nil, fmt.Errorf("reading code: %w", err)
	}
	return change{s.file: slices.Concat(text[:s.begin], []byte(s.text), text[s.end:])}, nil
}

// queue has the sites to try and the results. It is safe for concurrent use.
type queue struct {
	want int // faults

	mu    sync.Mutex // guards what follows
	sites []site     // not tried yet
	made  int        // faults in done that compile and are not harmless
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

// note records the result of one. Faults beyond the wanted number are left out.
func (q *queue) note(h *hunter, d drawn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if counts := !d.absent && d.why == ""; counts && q.made == q.want {
		return
	} else if counts {
		q.made++
		h.say("%d: %s: %s", q.made, &d.site, d.hunt)
	}
	q.done = append(q.done, d)
}

// report prints the faults that were not found, the harmless ones, and a count for each
// room.
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
		text += fmt.Sprintf("| %s | %s | %.1f |\n", strings.ReplaceAll(d.site.String(), "|", "\\|"), cmp.Or(d.by, "-"), d.took.Seconds())
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
