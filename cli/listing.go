package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/internal/backoff"
)

// watchEvery is the pause between two looks of --watch.
const watchEvery = 2 * time.Second

// listing holds the flags of commands that list.
type listing struct {
	sort  string // name of a column, with - before it from the highest
	usual string // what to sort by without sort, "" for the order of the zone
	limit int    // 0 for all
	watch bool
}

// listFlags adds the flags of listing to the commands below c that list.
func (e *env) listFlags(c *cobra.Command) {
	for _, sub := range c.Commands() {
		e.listFlags(sub)
	}
	if c.Name() != "list" {
		return
	}
	f := c.Flags()
	f.StringVar(&e.list.sort, "sort", "", "`COLUMN` to sort by; with - before it, the highest first: --sort=-created")
	f.IntVar(&e.list.limit, "limit", 0, "list at most so many, 0 for all")
	f.BoolVar(&e.list.watch, "watch", false, "list again every 2 s, until interrupted")
	run := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if e.list.limit < 0 {
			return usageError(cmd, "--limit must be 0 or more, got %d", e.list.limit)
		}
		if !e.list.watch {
			return run(cmd, args)
		}
		return e.watchList(cmd.Context(), func() error { return run(cmd, args) })
	}
}

// clearScreen moves to the first line of a terminal and erases all below.
const clearScreen = "\x1b[H\x1b[J"

// watchList runs a list again and again until ctx ends, which is no error. On a terminal each is in the place of the one before.
func (e *env) watchList(ctx context.Context, list func() error) error {
	for ctx.Err() == nil {
		if e.outTTY {
			if err := e.writeOut([]byte(clearScreen)); err != nil {
				return err
			}
		}
		if err := list(); err != nil && ctx.Err() == nil {
			return err
		}
		backoff.Sleep(ctx, watchEvery)
	}
	return nil
}

// sorted returns the column to sort by, "" for none.
func (l *listing) sorted() string { return cmp.Or(l.sort, l.usual) }

// arrange sorts the rows of a list and leaves as many as the flags want, and returns the items that belong to them. Of a
// table without a row for each item the rows alone are arranged.
func (l *listing) arrange(ts []table, raw []json.RawMessage) ([]json.RawMessage, error) {
	if len(ts) != 1 || ts[0].header == nil {
		if l.sort == "" && l.limit == 0 {
			return raw, nil
		}
		return nil, exitError(exitUsage, "", "this list can be neither sorted nor cut")
	}
	t := &ts[0]
	each := len(raw) == len(t.rows)
	if want := l.sorted(); want != "" {
		index, err := l.order(t, want)
		if err != nil {
			return nil, err
		}
		t.rows = permute(t.rows, index)
		if each {
			raw = permute(raw, index)
		}
	}
	if l.limit > 0 && len(t.rows) > l.limit {
		t.rows = t.rows[:l.limit]
		if each {
			raw = raw[:l.limit]
		}
	}
	return raw, nil
}

// order returns the indices of the rows of a table in the order of a column, with - before its name from the highest.
func (l *listing) order(t *table, column string) ([]int, error) {
	name, falling := strings.CutPrefix(column, "-")
	at := slices.IndexFunc(t.header, func(h string) bool { return strings.EqualFold(h, name) })
	if at < 0 {
		return nil, exitError(exitUsage, "the columns are "+strings.Join(t.header, ", "), "--sort: there is no column %q", name)
	}
	index := make([]int, len(t.rows))
	for i := range index {
		index[i] = i
	}
	slices.SortStableFunc(index, func(a, b int) int {
		c := compareCells(t.rows[a][at], t.rows[b][at])
		if falling {
			c = -c
		}
		return c
	})
	return index, nil
}

// permute returns items in the order of some indices.
func permute[T any](items []T, index []int) []T {
	out := make([]T, len(index))
	for i, from := range index {
		out[i] = items[from]
	}
	return out
}

// compareCells compares cells by the numbers that they begin with, if both do, and else as texts.
func compareCells(a, b string) int {
	x, xs := leadingNumber(a)
	y, ys := leadingNumber(b)
	if xs && ys {
		return cmp.Or(cmp.Compare(x, y), strings.Compare(a, b))
	}
	return strings.Compare(a, b)
}

// leadingNumber returns the number that a cell begins with, if what follows is no part of a name or a time.
func leadingNumber(s string) (float64, bool) {
	word, _, _ := strings.Cut(s, " ")
	word, _, _ = strings.Cut(word, "/")
	n, err := strconv.ParseFloat(strings.TrimSuffix(word, "%"), 64)
	return n, err == nil
}

// joinItems returns the body of a list with some items under a key.
func joinItems(key string, raw []json.RawMessage) ([]byte, error) {
	if raw == nil {
		raw = []json.RawMessage{}
	}
	b, err := json.Marshal(map[string][]json.RawMessage{key: raw})
	if err != nil {
		return nil, fmt.Errorf("joining the pages of a list: %w", err)
	}
	return b, nil
}
