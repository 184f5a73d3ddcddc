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

// isGiven reports whether a list must be arranged.
func (l *listing) isGiven() bool { return l.sorted() != "" || l.limit > 0 }

// onlyList returns the table of a list, nil if there is none or several.
func onlyList(ts []table) *table {
	var found *table
	for i := range ts {
		if ts[i].header == nil {
			continue
		}
		if found != nil {
			return nil
		}
		found = &ts[i]
	}
	return found
}

// arrange sorts the rows of a list and leaves as many as the flags want, and returns the items that belong to them. Of a
// table that does not tell whose its rows are, the rows alone are arranged.
func (l *listing) arrange(ts []table, raw []json.RawMessage) ([]json.RawMessage, error) {
	t := onlyList(ts)
	if t == nil {
		if l.sort == "" && l.limit == 0 {
			return raw, nil
		}
		return nil, exitError(exitUsage, "", "this list can be neither sorted nor cut")
	}
	owners := t.of
	if owners == nil && len(raw) == len(t.rows) {
		owners = countUp(len(raw))
	}
	if want := l.sorted(); want != "" {
		index, err := l.order(t, want)
		if err != nil {
			return nil, err
		}
		t.rows = permute(t.rows, index)
		if owners != nil {
			owners = permute(owners, index)
		}
	}
	if l.limit > 0 && len(t.rows) > l.limit {
		t.rows = t.rows[:l.limit]
		owners = owners[:min(l.limit, len(owners))]
	}
	if owners == nil {
		return raw, nil
	}
	return l.pickItems(raw, owners), nil
}

// pickItems returns the items of some rows, each once in the order of its first row, and without a limit those that have
// no row behind them.
func (l *listing) pickItems(raw []json.RawMessage, owners []int) []json.RawMessage {
	if l.limit == 0 {
		owners = slices.Concat(owners, countUp(len(raw)))
	}
	out, seen := make([]json.RawMessage, 0, len(raw)), make([]bool, len(raw))
	for _, i := range owners {
		if !seen[i] {
			out, seen[i] = append(out, raw[i]), true
		}
	}
	return out
}

// arrangeBody is arrange for the body of an answer, whose items are under key: in an array, or in an object under names
// that cells of their rows have.
func (l *listing) arrangeBody(ts []table, key string, body []byte) ([]byte, error) {
	var answer map[string]json.RawMessage
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("arranging a list: %w", err)
	}
	var raw []json.RawMessage
	var named map[string]json.RawMessage
	isArray := json.Unmarshal(answer[key], &raw) == nil
	if !isArray {
		if err := json.Unmarshal(answer[key], &named); err != nil {
			return nil, fmt.Errorf("arranging a list: %w", err)
		}
	}
	raw, err := l.arrange(ts, raw)
	if err != nil {
		return nil, err
	}
	var items any = raw
	if !isArray {
		items = namedInRows(named, ts)
	}
	if answer[key], err = json.Marshal(items); err == nil {
		body, err = json.Marshal(answer)
	}
	if err != nil {
		return nil, fmt.Errorf("arranging a list: %w", err)
	}
	return body, nil
}

// namedInRows returns the items whose names are in cells of a list.
func namedInRows(named map[string]json.RawMessage, ts []table) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for _, row := range onlyList(ts).rows {
		for _, cell := range row {
			if item, has := named[cell]; has {
				out[cell] = item
			}
		}
	}
	return out
}

// countUp returns the numbers from 0 to n-1.
func countUp(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// order returns the indices of the rows of a table in the order of a column, with - before its name from the highest.
func (l *listing) order(t *table, column string) ([]int, error) {
	name, falling := strings.CutPrefix(column, "-")
	at := slices.IndexFunc(t.header, func(h string) bool { return strings.EqualFold(h, name) })
	if at < 0 {
		return nil, exitError(exitUsage, "the columns are "+strings.Join(t.header, ", "), "--sort: there is no column %q", name)
	}
	index := countUp(len(t.rows))
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
