package leases

import (
	"context"
	"slices"
	"time"

	"berth/api"
	"berth/raftstore/state"
	"berth/zone/estimate"
)

// Limits of a search for room.
const (
	findTimeout    = 2 * api.SelectTimeout // of all that is looked for in one call
	findWindowsMax = 50                    // windows of starts in an answer
	findLaterMax   = 90 * 24 * time.Hour   // how far beyond the last start is looked for a later one
	shorterTries   = 6                     // lengths that are tried if nothing fits
	recheckMax     = 4                     // earliest starts that are planned in all zones
)

// Search is a search for the starts at which a lease would fit.
type Search struct {
	Terms api.LeaseTerms // its window is that of the first start; a multiple of api.RoomUnit
	Until api.Instant    // starts before it
}

// Found is when a lease would fit. Nothing is held for it.
type Found struct {
	Earliest     api.Instant  // the first start that fits and that quotas allow; 0 for none
	Windows      []api.Window // of starts that fit
	Until        api.Instant  // all starts before it were looked at
	Complete     bool         // nothing was left out: all starts were looked at, and all zones answered
	Estimate     bool         // zones below have a part in it, so it is certain for this zone alone
	Terms        api.LeaseTerms
	Reservations []PlannedReservation // what they would get by starting at Earliest
	Zones        []estimate.ZoneRoom  // this zone first, then its children
	Instead      []Instead            // what would fit if nothing does
	Refusal      error                // why the quotas of the project allow none of the starts that fit; nil if they do
}

// The kinds of what would fit instead.
const (
	InsteadFewer   = "fewer"   // fewer hosts or slots, at this start
	InsteadShorter = "shorter" // all of them, for a shorter time
	InsteadLater   = "later"   // all of them, later than asked for
)

// Instead is something that would fit although the search found nothing.
type Instead struct {
	Change  string
	Window  api.Window // of the lease
	Amounts []int      // of each reservation, for InsteadFewer
}

// Find looks for the starts at which a lease of a caller would fit, in this zone and in those
// below. Its terms are checked as by Create, for the first start. It changes nothing.
func (l *Leases) Find(ctx context.Context, who api.Caller, s Search) (*Found, error) {
	c, err := l.composeCreate(who, s.Terms)
	if err != nil {
		return nil, err
	}
	if c.Order == nil {
		return nil, api.Errorf(api.CodeInvalid, "a lease without reservations fits at any time")
	}
	v := l.zone.View()
	if err = v.CheckLease(c); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	f := &finding{l: l, req: &c.Order.Request, until: s.Until, out: &Found{Terms: c.Terms}}
	room, err := f.look(ctx, s.Until, f.length(), findWindowsMax)
	if err != nil {
		return nil, err
	}
	f.out.Windows, f.out.Until, f.out.Zones = room.Windows, room.Until, room.Zones
	f.out.Estimate = room.Estimate
	f.out.Complete = !room.Silent && (room.Until == s.Until || len(room.Windows) == findWindowsMax)
	if err = f.planEarliest(ctx, v); err != nil {
		return nil, err
	}
	if len(f.out.Windows) == 0 {
		f.findInstead(ctx, room)
	}
	return f.out, nil
}

// finding is one search under way.
type finding struct {
	l     *Leases
	req   *api.Request // of the order at the first start
	until api.Instant
	out   *Found
}

func (f *finding) length() time.Duration {
	return time.Duration(f.req.Window.End-f.req.Window.Start) * time.Millisecond
}

// look looks for starts of windows of a length, within half of the time that is left.
func (f *finding) look(ctx context.Context, until api.Instant, length time.Duration, windows int) (*estimate.FreeRoom, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		now := f.l.zone.Now()
		ctx, cancel = context.WithDeadline(ctx, now.Add(deadline.Sub(now)/2))
		defer cancel()
	}
	req := *f.req
	req.Window.End = req.Window.Start.Add(length)
	return f.l.estimator.FindRoom(ctx, f.l.zone.View(), &req, until, windows)
}

// planEarliest plans the lease at the first start that fits, in all zones, and that the quotas of
// its project allow. A window whose first start does not fit then is left out: what zones
// below say of theirs is an estimate.
func (f *finding) planEarliest(ctx context.Context, v *state.State) error {
	terms := f.out.Terms
	for tries, n := 0, 0; n < len(f.out.Windows); {
		w := f.out.Windows[n]
		terms.Window = f.windowAt(w.Start)
		at, ok := v.FirstQuotaStart(&terms, w.End-1)
		if at = api.NextStart(at); !ok || at >= w.End {
			f.out.Refusal = v.CheckLeaseQuota(nil, &terms)
			n++
			continue
		}
		p, err := f.planOver(ctx, f.windowAt(at))
		switch {
		case err != nil:
			return err
		case p.Fits:
			f.out.Earliest, f.out.Reservations, f.out.Refusal = at, p.Reservations, nil
			return nil
		}
		f.out.Windows = slices.Delete(f.out.Windows, n, n+1)
		if tries++; tries == recheckMax {
			f.out.Windows, f.out.Complete = f.out.Windows[:n], false
		}
	}
	return nil
}

// windowAt returns the window of the lease if it started at an instant.
func (f *finding) windowAt(at api.Instant) api.Window {
	return api.Window{Start: at, End: at.Add(f.length())}
}

// findInstead looks for what would fit if the lease does not: as many as fit at the start at
// which most do, all for a shorter time, and all at a later time. What there is no time
// for is left out.
func (f *finding) findInstead(ctx context.Context, room *estimate.FreeRoom) {
	if room.Best > 0 {
		if p, err := f.planOver(ctx, f.windowAt(room.Best)); err == nil && !p.Fits {
			f.addFewer(room.Best, p)
		}
	}
	if w, ok := f.findShorter(ctx); ok {
		f.out.Instead = append(f.out.Instead, Instead{Change: InsteadShorter, Window: w})
	}
	if w, ok := f.findLater(ctx); ok {
		f.out.Instead = append(f.out.Instead, Instead{Change: InsteadLater, Window: w})
	}
}

// addFewer adds what each reservation would get by a plan that comes out short.
func (f *finding) addFewer(at api.Instant, p *Planned) {
	one := Instead{Change: InsteadFewer, Window: f.windowAt(at)}
	sum := 0
	for _, r := range p.Reservations {
		one.Amounts = append(one.Amounts, r.Offered)
		sum += r.Offered
	}
	if sum > 0 {
		f.out.Instead = append(f.out.Instead, one)
	}
}

// findShorter tries shorter lengths, and returns the longest that fits.
func (f *finding) findShorter(ctx context.Context) (api.Window, bool) {
	var best api.Window
	fits, short := 0, int(f.length()/api.RoomUnit) // in minutes: a length that fits, and one that does not
	for try := 0; try < shorterTries && short-fits > 1; try++ {
		length := time.Duration((fits+short)/2) * api.RoomUnit
		until := f.until.Add(f.length() - length) // it still ends by the same time
		room, err := f.look(ctx, until, length, 1)
		if err != nil {
			break
		}
		if len(room.Windows) == 0 {
			short = int(length / api.RoomUnit)
			continue
		}
		at := room.Windows[0].Start
		w := api.Window{Start: at, End: at.Add(length)}
		if !f.fitsOver(ctx, w) {
			short = int(length / api.RoomUnit)
			continue
		}
		fits, best = int(length/api.RoomUnit), w
	}
	return best, fits > 0
}

// findLater looks for a start beyond those that were asked for.
func (f *finding) findLater(ctx context.Context) (api.Window, bool) {
	now := f.l.zone.Instant()
	until := min(f.until.Add(findLaterMax), now.Add(api.LeaseLeadMax))
	if until <= f.until {
		return api.Window{}, false
	}
	later := *f
	req := *f.req
	req.Window = f.windowAt(f.until)
	later.req = &req
	room, err := later.look(ctx, until, f.length(), 1)
	if err != nil || len(room.Windows) == 0 {
		return api.Window{}, false
	}
	w := f.windowAt(room.Windows[0].Start)
	return w, f.fitsOver(ctx, w)
}

// fitsOver plans the lease over a window in all zones.
func (f *finding) fitsOver(ctx context.Context, w api.Window) bool {
	p, err := f.planOver(ctx, w)
	return err == nil && p.Fits
}

// planOver plans the lease over a window.
func (f *finding) planOver(ctx context.Context, w api.Window) (*Planned, error) {
	req := *f.req
	req.Window = w
	return f.l.planOrder(ctx, f.l.zone.View(), f.out.Terms, &req)
}
