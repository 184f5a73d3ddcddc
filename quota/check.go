package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/api"
)

// StepsMax bounds how many windows a search for room looks at.
const StepsMax = 1_000

// Refusal says why an ask is over a limit, at the worst instant of its window.
type Refusal struct {
	Item  Item
	At    api.Instant // the first instant at which most is used
	Used  int64       // at that instant, without the ask
	Asked int64
	Limit int64
	// When is the first instant from which all items of the ask would fit for as long, 0 if
	// none was found before the horizon.
	When  api.Instant
	Fixed bool // no later time was looked for: what is asked for cannot be put off
}

// Check returns why the ask does not fit into the limits, nil if it does. Of several items
// that do not fit it names the first by name. When is looked for up to the horizon, which is
// 0 for what cannot be put off.
func Check(u Usage, limits Limits, ask *Use, horizon api.Instant) *Refusal {
	for _, i := range slices.Sorted(maps.Keys(ask.Amounts)) {
		most, limited := limits.of(i)
		asked := ask.Amounts[i]
		if !limited || asked <= 0 {
			continue
		}
		used, at := u.Peak(i, ask.Window)
		if used <= most-asked {
			continue
		}
		out := &Refusal{Item: i, At: at, Used: used, Asked: asked, Limit: most, Fixed: horizon == 0}
		if !out.Fixed {
			out.When, _ = FirstFit(u, limits, ask, horizon)
		}
		return out
	}
	return nil
}

// FirstFit returns the first start, not before that of the ask nor after the horizon, from
// which the ask fits into the limits for as long as it asks, and whether it found one.
func FirstFit(u Usage, limits Limits, ask *Use, horizon api.Instant) (api.Instant, bool) {
	w := ask.Window
	length := w.End - w.Start
	for range StepsMax {
		full, until := u.full(limits, ask, w)
		switch {
		case !full:
			return w.Start, true
		case until > horizon || until == api.Forever:
			return 0, false
		}
		w.Start = until
		if w.End != api.Forever {
			w.End = api.Forever - max(api.Forever-until-length, 0) // until + length, Forever at most
		}
	}
	return 0, false
}

// full reports whether some item of the ask does not fit at some instant of w, and until when
// no window that starts later can be free of that instant.
func (u Usage) full(limits Limits, ask *Use, w api.Window) (full bool, until api.Instant) {
	for i, asked := range ask.Amounts { // the latest until counts, so their order does not
		most, limited := limits.of(i)
		if !limited || asked <= 0 {
			continue
		}
		tree, room := u.tree(i), most-asked
		at, over := w.Start, tree.useAt(w.Start) > room
		if !over {
			at, over = tree.first(w.Start, w.End, room, true)
		}
		if !over {
			continue
		}
		next, found := tree.first(at, api.Forever, room, false)
		if !found {
			return true, api.Forever
		}
		full, until = true, max(until, next)
	}
	return full, until
}

// Left returns how much of the item is left at the worst instant.
func (r *Refusal) Left() int64 { return max(r.Limit-r.Used, 0) }

// Err returns the refusal as an error for the caller.
func (r *Refusal) Err() error { return api.Errorf(api.CodeOverQuota, "%s", r) }

// String returns the refusal as a sentence.
func (r *Refusal) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Quota exceeded for %s: %d more asked for, but %d of %d are used at %s, so %d are left. ",
		r.Item, r.Asked, r.Used, r.Limit, spell(r.At), r.Left())
	switch {
	case r.Asked > r.Limit && r.Limit == 0:
		b.WriteString("It never fits.")
	case r.Asked > r.Limit:
		fmt.Fprintf(&b, "It never fits: ask for at most %d.", r.Limit)
	case r.Fixed:
		b.WriteString("It cannot be put off.")
	case r.When == 0 && r.Item.frees() != "":
		b.WriteString("It fits when some of them are " + r.Item.frees() + ".")
	case r.When == 0:
		b.WriteString("No later time was found at which it fits.")
	default:
		fmt.Fprintf(&b, "It fits from %s on.", spell(r.When))
	}
	b.WriteString(" An administrator can raise the limit: berth quota set")
	return b.String()
}

// frees returns what has to become of something that is counted without an end; "" for other items.
func (i Item) frees() string {
	return map[Item]string{
		Boots: "decided", Records: forgotten, Data: forgotten, ServerGroups: "deleted",
	}[i]
}

const forgotten = "forgotten, some time after they have ended"

// spell writes an instant for people, with fractions of a second only where there are some.
func spell(i api.Instant) string { return i.Time().Format("2006-01-02T15:04:05.999Z") }
