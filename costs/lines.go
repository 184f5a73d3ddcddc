package costs

import (
	"cmp"
	"slices"

	"berth/api"
	"berth/capacity"
)

func constantLine(*Look, options, int64) line { return line{flat: 1} }

// classOf returns the class by which hosts are filled and spread over for a group, if the configuration names
// none: MEMORY_MB, or where a slot takes none of it the class of which it takes the most, by points, of equal ones the first.
func classOf(g *api.Group) api.ResourceClass {
	best, most := api.MemoryMB, int64(0)
	if g.Resources[best] > 0 {
		return best
	}
	for _, c := range g.Resources.Classes() {
		unit := Points(c)
		if worth := min(g.Resources[c], ScaleMax/unit) * unit; worth > most {
			best, most = c, worth
		}
	}
	return best
}

// fillLine counts units of the class, so that nothing overflows: a host may have
// more of them than ScaleMax points are worth. Where the view says it all, no column is made.
func fillLine(l *Look, o options, _ int64) line {
	if o.class == "" {
		o.class = classOf(&l.Req.Groups[l.Index])
	}
	unit, step := Points(o.class), -l.Req.Groups[l.Index].Resources[o.class]
	if len(l.Earlier) == 0 && !l.View.HasCompounds() {
		return line{free: l.View.Free(o.class, l.Window, l.Req.ClaimClass()), live: true, step: step, unit: unit, top: ScaleMax / unit}
	}
	free := l.View.FreeColumn(o.class, l.Window, l.Req.ClaimClass())
	for i := range l.Earlier {
		t := &l.Earlier[i]
		free[t.Row] -= t.Of(l.Req, o.class)
	}
	return line{column: free, step: step, unit: unit, top: ScaleMax / unit}
}

func spreadLine(l *Look, o options, weight int64) line {
	n := fillLine(l, o, weight)
	n.flat, n.unit = ScaleMax, -n.unit
	return n
}

// evictionLine counts what preemptibles use now of the room that the next slot would have.
func evictionLine(l *Look, o options, _ int64) line {
	o.class = cmp.Or(o.class, api.MemoryMB)
	used := l.View.PreemptibleColumn(o.class)
	if used == nil || l.Req.ClaimClass() != api.Preempting {
		return line{}
	}
	unit := Points(o.class)
	if l.Req.Groups[l.Index].Whole {
		return line{column: used, unit: unit, top: ScaleMax / unit}
	}
	want := l.Req.Groups[l.Index].Resources[o.class]
	free := l.View.FreeColumn(o.class, l.Window, api.Preempting)
	for i := range l.Earlier {
		t := &l.Earlier[i]
		free[t.Row] -= t.Of(l.Req, o.class)
	}
	for row := range used {
		used[row] += want - free[row]
	}
	return line{column: used, step: want, unit: unit, top: ScaleMax / unit}
}

// gapLine counts seconds.
func gapLine(l *Look, _ options, _ int64) line {
	if l.Req.Class != api.Preemptible {
		return line{}
	}
	gaps := l.View.GapColumn(l.Req.Groups[l.Index].Resources)
	if gaps == nil {
		return line{}
	}
	const top, second = ScaleMax / gapPoints, 1000
	column := make([]int64, len(gaps))
	for row, until := range gaps {
		long := min(int64(until-l.View.Now())/second, top)
		life := int64(l.Window.End-max(l.Window.Start, l.View.Now())) / second
		switch {
		case l.Window.End == api.Forever:
			column[row] = top - long
		case long < life:
			column[row] = top
		default:
			column[row] = long - life
		}
	}
	return line{column: column, unit: gapPoints, top: top}
}

// specialLine counts the things of each host that the group does not ask for.
func specialLine(l *Look, o options, _ int64) line {
	g := &l.Req.Groups[l.Index]
	classes := o.classes
	if classes == nil {
		classes = slices.DeleteFunc(l.View.Classes(), func(c api.ResourceClass) bool { return !IsSpecial(c) })
	}
	column := make([]int64, l.View.Rows())
	for _, c := range classes {
		if g.Resources[c] > 0 {
			continue
		}
		for row, n := range l.View.CapacityColumn(c) {
			if n > 0 {
				column[row]++
			}
		}
	}
	for _, name := range o.traits {
		if asksForTrait(g.Traits, name) {
			continue
		}
		for row := range l.View.TreeTrait(name).All() {
			column[row]++
		}
	}
	return line{column: column, unit: specialPoints, top: ScaleMax / specialPoints}
}

// asksForTrait reports whether a host is wanted for a trait.
func asksForTrait(t api.Traits, name string) bool {
	return slices.Contains(t.Required, name) ||
		slices.ContainsFunc(t.AnyOf, func(list []string) bool { return slices.Contains(list, name) })
}

func ownerLine(l *Look, _ options, _ int64) line {
	column := make([]int64, l.View.Rows())
	if l.Census != nil {
		for id, n := range l.Census.Tenancy(l.Req.Tenant()) {
			if row, ok := l.View.Row(id); ok {
				column[row] += int64(n)
			}
		}
	}
	l.addEarlier(column, -1, 1)
	return line{column: column, step: 1, unit: ownerPoints, top: ScaleMax / ownerPoints}
}

// addEarlier adds to a column times the slots of earlier groups under a rule, or
// under none with a rule below 0.
func (l *Look) addEarlier(column []int64, rule int, times int64) {
	for i := range l.Earlier {
		t := &l.Earlier[i]
		column[t.Row] += times * t.Under(l.Req, rule)
	}
}

// ruleLine counts members under all soft rules of the group: up for each that
// should be elsewhere, down for each that should be here.
func ruleLine(l *Look, _ options, _ int64) line {
	n := line{unit: memberPoints, top: ScaleMax / memberPoints}
	half := int64(0)
	for _, rule := range l.Req.RulesOf(l.Index) {
		times := int64(1)
		switch l.Req.Rules[rule].Policy {
		case api.SoftAffinity:
			times, half = -1, n.top/2
		case api.SoftAntiAffinity:
		case api.Affinity, api.AntiAffinity:
			continue
		}
		if n.column == nil {
			n.column = make([]int64, l.View.Rows())
		}
		n.step += times
		l.addMembers(n.column, rule, times)
		l.addEarlier(n.column, rule, times)
	}
	if half > 0 {
		for row := range n.column {
			n.column[row] += half
		}
	}
	return n
}

// addMembers adds to a column times the members under a rule that are here
// already.
func (l *Look) addMembers(column []int64, rule int, times int64) {
	if l.Census == nil {
		return
	}
	here, _ := l.Census.Members(l.Req.Tenant(), l.Req.RuleKey(rule))
	for id, members := range here { // in any order: each is added alone
		if row, ok := l.View.Row(id); ok {
			column[row] += times * int64(members)
		}
	}
}

func instanceLine(l *Look, _ options, _ int64) line {
	column := l.View.InstanceColumn()
	l.addEarlier(column, -1, 1)
	return line{column: column, step: 1, unit: instancePoints, top: ScaleMax / instancePoints}
}

func failureLine(l *Look, _ options, _ int64) line {
	return line{column: l.View.FailureColumn(), unit: failurePoints, top: ScaleMax / failurePoints}
}

func attributeLine(l *Look, o options, weight int64) line {
	column := make([]int64, l.View.Rows())
	values := l.View.Attribute(o.attribute)
	for row := range l.Pass.All() {
		v := values.At(row)
		switch {
		case v.Kind == capacity.KindNumber:
			column[row] = inPoints(v.Number, o.scale)
		case weight > 0:
			column[row] = ScaleMax
		}
	}
	return line{column: column, unit: 1, top: ScaleMax}
}

// inPoints returns millionths in points of which scale are 1, at most ScaleMax,
// and 0 for what is below 0.
func inPoints(millionths, scale int64) int64 {
	whole, rest := millionths/capacity.Millionths, millionths%capacity.Millionths
	if millionths <= 0 {
		return 0
	}
	if whole >= ScaleMax {
		return ScaleMax
	}
	return min(whole*scale+rest*scale/capacity.Millionths, ScaleMax)
}
