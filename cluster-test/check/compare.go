package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// Comparison compares one state with the model, command by command.
type Comparison struct{ r *replay }

// Compare starts with a state before its first command. apply must apply a command to that
// state, and return the result.
func Compare(s *state.State, apply func(index uint64, c command.Command) state.Result) *Comparison {
	r := newReplay(&list{})
	r.s, r.twin = s, nil
	r.apply = func(_ *state.State, index uint64, c command.Command) state.Result { return apply(index, c) }
	return &Comparison{r}
}

// Apply applies a command to both, and compares the changes.
func (c *Comparison) Apply(index uint64, cmd command.Command) (state.Result, []Violation) {
	c.r.applyCommand(index, cmd)
	return c.r.last, c.r.all
}

// All compares all results of readers.
func (c *Comparison) All(index uint64) []Violation {
	c.r.compareAll(index)
	return c.r.all
}

// Summary counts the comparisons.
func (c *Comparison) Summary() LogSummary { return c.r.sum }

// Outcomes counts the results of commands, by kind and code ("Hold ok", "Hold conflict"),
// and of their parts ("slot on a spare").
type Outcomes map[string]int

func (o Outcomes) countOutcome(c command.Command, r state.Result) {
	kind, code := strings.TrimPrefix(fmt.Sprintf("%T", c), "command."), api.CodeOf(r.Err)
	if r.Err == nil {
		code = "ok"
	}
	o[kind+" "+string(code)]++
	if m, is := c.(command.InstanceMove); is && m.Evacuate && r.Err == nil {
		o["instance evacuated"]++
	}
	h, isHold := c.(command.Hold)
	if !isHold || r.Err != nil {
		return
	}
	o["slot refused"] += len(r.Hold.Refused)
	if r.Hold.Why == api.CodeOverQuota {
		o["hold over a share"]++
	}
	for _, sl := range r.Hold.Slots {
		i := slices.IndexFunc(h.Slots, func(wish command.Slot) bool { return wish.Instance.ID == sl.Instance.ID })
		if i >= 0 && h.Slots[i].Host != sl.Host {
			o["slot on a spare"]++
		}
	}
}

// Add adds the counts of another run.
func (o Outcomes) Add(other Outcomes) {
	for k, n := range other {
		o[k] += n
	}
}

// Below lists the outcomes that occurred fewer times than a floor requires: a generator that
// never draws something proves nothing about it.
func (o Outcomes) Below(floor Outcomes) (out []string) {
	for _, k := range slices.Sorted(maps.Keys(floor)) {
		if o[k] < floor[k] {
			out = append(out, fmt.Sprintf("%d of %q; at least %d are needed", o[k], k, floor[k]))
		}
	}
	return out
}
