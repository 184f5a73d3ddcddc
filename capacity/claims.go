package capacity

import "berth/api"

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
	k, i := t.ownChunk(row)
	end := c.Window.End.Add(t.specOf(row).Gap) // the conflict rule: see the package comment
	if end <= t.now || len(c.Resources) == 0 {
		return
	}
	line := k.timelines.at[i]
	touched := len(line) > 0
	for _, name := range c.Resources.Classes() {
		class, amount := t.classes.intern(name), sign*c.Resources[name]
		col := k.ownColumn(class, t.epoch)
		var up, down edge
		if c.Class == api.Preemptible {
			down.pre = -amount
		} else {
			up.firm, down.firm = amount, -amount
		}
		if c.Class == api.Firm && c.Window.Start > t.now {
			up.at, up.class = c.Window.Start, class
			line = line.withEdge(up)
		} else {
			ownBlock(&col.now, t.epoch)[i] -= amount
			if c.Class == api.Firm {
				ownBlock(&col.firm, t.epoch)[i] += amount
			}
		}
		if end != api.Forever {
			down.at, down.class = end, class
			line = line.withEdge(down)
		}
		refreshFree(col, line, class, i, t.epoch)
	}
	if touched || len(line) > 0 {
		t.setLine(k, i, line)
	}
}

// refreshFree updates the free column of one row from its timeline.
func refreshFree(col *column, line timeline, class, i int, epoch uint64) {
	peak := line.peakUse(class, col.firm.at[i], 0, api.Forever)
	if free := col.capacity.at[i] - peak; free != col.free.at[i] {
		ownBlock(&col.free, epoch)[i] = free
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
		e := line[n]
		col := &c.columns[e.class]
		ownBlock(&col.firm, t.epoch)[i] += e.firm
		ownBlock(&col.now, t.epoch)[i] -= e.firm + e.pre
		n++
	}
	past := line[:n]
	t.setLine(c, i, line[n:])
	for _, e := range past {
		refreshFree(&c.columns[e.class], line[n:], e.class, i, t.epoch)
	}
}
