package lease

import (
	"slices"

	"berth/api"
)

// Limits of a search for a free start.
const (
	QuestionsMax   = 1_000 // in one search
	FreeWindowsMax = 100   // in one answer
)

// Step is how many could be had, of slots or hosts and for some length, by starting at an
// instant, or at any later one before the next step.
type Step struct {
	At    api.Instant
	Count int
}

// Search is a question for the starts at which as many as needed could be had.
type Search struct {
	Over      api.Window    // of starts
	Turns     []api.Instant // sorted; from one to before the next the answer is the same; see capacity.View.Turns
	Need      int
	Unit      api.Instant // starts are multiples of it; 0 for any
	Windows   int         // stop after so many windows; 0 and more than FreeWindowsMax is FreeWindowsMax
	Questions int         // stop after so many questions; 0 and more than QuestionsMax is QuestionsMax
}

// Found is the answer to a Search.
type Found struct {
	Steps   []Step       // in order, each another count than the one before
	Windows []api.Window // of starts that fit: every multiple of the unit in them does
	Until   api.Instant  // all starts before it have been looked at
}

// Free looks for free starts, the earliest first. count says how many could be had by
// starting at an instant; it need not count further than s.Need. What fits over a window is
// asked as a whole: room that is free at each instant may be on another host each time.
func Free(s *Search, count func(start api.Instant) int) *Found {
	f := &Found{Until: s.Over.Start}
	windows, questions := limitTo(s.Windows, FreeWindowsMax), limitTo(s.Questions, QuestionsMax)
	turns := slices.DeleteFunc(slices.Concat([]api.Instant{s.Over.Start}, s.Turns), func(at api.Instant) bool {
		return !s.Over.Contains(at)
	})
	for i, from := range turns {
		until := s.Over.End
		if i+1 < len(turns) {
			until = turns[i+1]
		}
		if start := roundUp(from, s.Unit); start < until { // others have no start in them
			if questions--; questions < 0 {
				break
			}
			f.Steps = addStep(f.Steps, Step{start, count(start)})
			if f.Steps[len(f.Steps)-1].Count < s.Need && len(WindowsOf(f.Steps, s.Need, s.Over)) == windows {
				f.Until = start
				break
			}
		}
		f.Until = until
	}
	f.Windows = WindowsOf(f.Steps, s.Need, api.Window{Start: s.Over.Start, End: f.Until})
	return f
}

// WindowsOf returns the windows in over in which at least need could be had, in order. Before
// the first step nothing can.
func WindowsOf(steps []Step, need int, over api.Window) []api.Window {
	var out []api.Window
	for i, s := range steps {
		w := api.Window{Start: max(s.At, over.Start), End: over.End}
		if i+1 < len(steps) {
			w.End = min(w.End, steps[i+1].At)
		}
		switch last := len(out) - 1; {
		case s.Count < need || !w.Valid():
		case last >= 0 && out[last].End == w.Start:
			out[last].End = w.End
		default:
			out = append(out, w)
		}
	}
	return out
}

// SumSteps returns how many could be had in all of several places.
func SumSteps(places ...[]Step) []Step {
	var turns []api.Instant
	for _, steps := range places {
		for _, s := range steps {
			turns = append(turns, s.At)
		}
	}
	slices.Sort(turns)
	next, now := make([]int, len(places)), make([]int, len(places)) // by place: the next step, and the count
	var out []Step
	for _, at := range slices.Compact(turns) {
		sum := 0
		for p, steps := range places {
			for next[p] < len(steps) && steps[next[p]].At <= at {
				now[p] = steps[next[p]].Count
				next[p]++
			}
			sum += now[p]
		}
		out = addStep(out, Step{at, sum})
	}
	return out
}

// Earliest returns the first multiple of unit in one of the windows.
func Earliest(windows []api.Window, unit api.Instant) (api.Instant, bool) {
	for _, w := range windows {
		if at := roundUp(w.Start, unit); at < w.End {
			return at, true
		}
	}
	return 0, false
}

// addStep adds s at the end of steps unless nothing changes by it.
func addStep(steps []Step, s Step) []Step {
	if n := len(steps); n > 0 && steps[n-1].Count == s.Count {
		return steps
	}
	return append(steps, s)
}

// roundUp returns the first multiple of unit that is not before at.
func roundUp(at, unit api.Instant) api.Instant {
	if unit <= 1 || at > api.Forever-unit {
		return at
	}
	if past := at % unit; past > 0 {
		return at - past + unit
	}
	return at - at%unit
}

// limitTo returns n, or most if n is no limit.
func limitTo(n, most int) int {
	if n <= 0 || n > most {
		return most
	}
	return n
}
