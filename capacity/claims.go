package capacity

import (
	"iter"

	"berth/api"
)

// Fits returns nil if c can be claimed on that one provider, else the reason: not_found
// for an unknown provider, invalid for a malformed claim, a window that has passed or an
// amount that its units do not allow, no_capacity if there is not enough room at some
// instant of the window. It does not check whether the provider is up or enabled. See
// Place for slots.
func (t *Table) Fits(id api.HostID, c api.Claim) error {
	row, known := t.rowOf(id)
	if !known {
		return api.Errorf(api.CodeNotFound, "no such host")
	}
	return t.checkFit(row, c)
}

// Claim makes the claim c, or changes nothing and returns the error of Fits.
func (t *Table) Claim(id api.HostID, c api.Claim) error {
	if err := t.Fits(id, c); err != nil {
		return err
	}
	row, _ := t.rowOf(id)
	t.addClaim(row, c, 1)
	return nil
}

// Restore adds a claim that was made before, whether it fits or not: an over-full provider
// stays over-full. It returns false for an unknown provider.
func (t *Table) Restore(id api.HostID, c api.Claim) bool {
	row, known := t.rowOf(id)
	if known {
		t.addClaim(row, c, 1)
	}
	return known
}

// Lend is Restore for the share that a provider gives to a slot of another host: it does
// not count for View.Instances.
func (t *Table) Lend(id api.HostID, c api.Claim) bool {
	row, known := t.rowOf(id)
	if known {
		t.sumClaim(row, c, 1)
	}
	return known
}

// Return releases a share that was lent by Lend or Place and not returned since; see
// Release.
func (t *Table) Return(id api.HostID, c api.Claim) {
	if row, known := t.rowOf(id); known {
		t.sumClaim(row, c, -1)
	}
}

// Release releases a claim that was made and not released since; its part before now is
// gone already. An unknown provider is not an error: its claims went with it.
func (t *Table) Release(id api.HostID, c api.Claim) {
	if row, known := t.rowOf(id); known {
		t.addClaim(row, c, -1)
	}
}

// addClaim is sumClaim, and adds sign to the count of claims of row even if c has passed.
func (t *Table) addClaim(row int, c api.Claim, sign int64) {
	k, i := t.ownChunk(row)
	ownBlock(&k.claims, t.epoch)[i] += int32(sign)
	t.sumClaim(row, c, sign)
}

// sumClaim adds sign times c to the sums of row, from now on.
func (t *Table) sumClaim(row int, c api.Claim, sign int64) {
	if c.Within != nil {
		t.sumWithin(row, c, int(sign))
		return
	}
	end := c.Window.End.Add(t.specOf(row).Gap) // the conflict rule: see the package comment
	if end <= t.now {
		return
	}
	kind, closing := useFirm, closingOf(&c)
	if c.Class == api.Preemptible {
		kind = usePreemptible
	}
	spans := make([]span, 0, 2*len(c.Resources)+2)
	for class, amount := range t.countedOf(&c, t.classes.intern) {
		spans = append(spans, span{class, c.Window.Start, end, sign * amount, kind})
		if closing.Start < closing.End && closing.End > t.now {
			spans = append(spans, span{class, closing.Start, closing.End, sign * amount, useClosing})
		}
	}
	t.sumSpans(row, spans)
}

// closingOf returns when the room of c is closed to preemptibles although c does not use it yet:
// an empty window for never.
func closingOf(c *api.Claim) api.Window {
	if c.Class == api.Preemptible || c.Grace <= 0 {
		return api.Window{Start: c.Window.Start, End: c.Window.Start}
	}
	return api.Window{Start: c.Window.Start.Add(-c.Grace), End: c.Window.Start}
}

// span is an amount of a class over [start, end).
type span struct {
	class      int // interned or hidden
	start, end api.Instant
	amount     int64
	kind       use
}

// use is how an amount counts.
type use uint8

const (
	useFirm        use = iota
	usePreemptible     // from now until its end, whenever it starts
	useClosing         // for preemptibles only
)

// countedOf yields the classes of which c takes something, hidden ones too, and how much.
func (d *data) countedOf(c *api.Claim, number func(api.ResourceClass) int) iter.Seq2[int, int64] {
	return func(yield func(int, int64) bool) {
		if c.Whole && !yield(wholeClass, 1) || !c.Whole && len(c.Resources) == 0 && !yield(emptyClass, 1) {
			return
		}
		for _, name := range c.Resources.Classes() {
			if !yield(number(name), c.Resources[name]) {
				return
			}
		}
	}
}

// sumSpans adds spans that have not passed to the sums of row, from now on.
func (t *Table) sumSpans(row int, spans []span) {
	k, i := t.ownChunk(row)
	line := k.timelines.at[i]
	touched := len(line) > 0
	for _, s := range spans {
		k.ownColumn(s.class, t.epoch)
		up, down := s.edges()
		if s.kind != usePreemptible && s.start > t.now {
			line = line.withEdge(up)
		} else {
			k.addEdge(i, up, t.epoch)
		}
		if s.end != api.Forever {
			line = line.withEdge(down)
		}
	}
	if touched || len(line) > 0 {
		t.setLine(k, i, line)
	}
	for _, s := range spans {
		if s.kind != useClosing {
			k.refreshFree(line, s.class, i, t.epoch)
		}
	}
}

// edges returns the changes of use at the start and at the end of s.
func (s *span) edges() (up, down edge) {
	up, down = edge{at: s.start, class: s.class}, edge{at: s.end, class: s.class}
	switch s.kind {
	case useFirm:
		up.firm, down.firm = s.amount, -s.amount
	case usePreemptible:
		up.pre, down.pre = s.amount, -s.amount
	case useClosing:
		up.closing, down.closing = s.amount, -s.amount
	}
	return up, down
}

// addEdge adds a change that is not after now to the columns of row i, which has them.
func (c *chunk) addEdge(i int, e edge, epoch uint64) {
	col := c.column(e.class)
	if use := e.firm + e.pre; use != 0 {
		ownBlock(&col.now, epoch)[i] -= use
	}
	if e.firm != 0 {
		ownBlock(&col.firm, epoch)[i] += e.firm
	}
	if e.pre != 0 {
		col.refreshSoft(i)
	}
	if e.closing != 0 {
		ownBlock(&col.closed, epoch)[i] += e.closing
	}
}

// refreshFree updates the free column of one row from its timeline.
func (c *chunk) refreshFree(line timeline, class, i int, epoch uint64) {
	col := c.column(class)
	peak := line.peakUse(class, col.firm.at[i], 0, api.Forever)
	if free := col.capacity.at[i] - peak; free != col.free.at[i] {
		col.setFree(i, free, epoch)
	}
	if class == wholeClass {
		c.exclusive.set(i, peak > 0)
	}
}

// setLine replaces the timeline of row i.
func (t *Table) setLine(k *chunk, i int, line timeline) {
	if len(line) == 0 {
		line = nil
	}
	ownBlock(&k.timelines, t.epoch)[i] = line
	k.timed.set(i, line != nil)
	k.next = min(k.next, line.nextEdge())
}

// Advance moves the table's time to now; an earlier instant changes nothing. It costs a
// look at each chunk, and at the hosts of the chunks in which a claim begins or ends.
func (t *Table) Advance(now api.Instant) {
	if now <= t.now {
		return
	}
	t.now = now
	for n := range t.chunks {
		if t.chunks[n].next > now {
			continue
		}
		c, _ := t.ownChunk(n * chunkHosts)
		c.next = api.Forever
		for i := range chunkHosts {
			if !c.timed.has(i) {
				continue
			}
			if c.timelines.at[i].nextEdge() <= now {
				t.foldEdges(c, i)
			}
			c.next = min(c.next, c.timelines.at[i].nextEdge())
		}
	}
}

// foldEdges moves the edges of row i that are not after now into its columns.
func (t *Table) foldEdges(c *chunk, i int) {
	line := c.timelines.at[i]
	n := 0
	for n < len(line) && line[n].at <= t.now {
		c.addEdge(i, line[n], t.epoch)
		n++
	}
	past := line[:n]
	t.setLine(c, i, line[n:])
	for _, e := range past {
		c.refreshFree(line[n:], e.class, i, t.epoch)
	}
}
