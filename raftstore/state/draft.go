package state

import (
	"berth/api"
	"berth/capacity"
	"berth/raftstore/command"
	"berth/raftstore/state/table"
)

// draftStepsMax bounds the entries' worth of due steps that a draft takes when time passes.
const draftStepsMax = 10

// Draft is a copy of a state to ask what would be: commands and time are applied to it by the rules of the
// log, and never written. One goroutine may use it.
type Draft struct{ s *State }

// NewDraft returns a draft of v, which must be a clone: it stays as it is. It may be called
// concurrently, and costs as little as a clone.
func NewDraft(v *State) *Draft {
	c := *v
	var mine, theirs [tablesMax]table.Table
	from := v.tables(mine[:0])
	for i, t := range c.tables(theirs[:0]) {
		t.SetCopy(from[i])
	}
	c.hostTable, c.view = v.Hosts().Copy(), capacity.View{}
	c.limits = limitsAt(api.FormNewest)
	return &Draft{&c}
}

// View returns the state of the draft as it is now. It stays as it is.
func (d *Draft) View() *State { return d.s.Clone() }

// PassTime takes everything that is due until an instant, as an entry of that time would: windows
// begin and end. What agents have to report stays as it is: instances that should have ended
// still use their room.
func (d *Draft) PassTime(to api.Instant) {
	for range draftStepsMax {
		d.s.applyEntry(command.Tick{Stamp: command.Stamp{At: to}})
		if d.s.NextDue() > to {
			return
		}
	}
}

// Move applies a move of instances or slots; a refusal is the error, and changes nothing.
func (d *Draft) Move(c command.InstanceMove) error {
	c.Stamp = command.Stamp{At: d.s.now}
	return d.s.applyEntry(c).Err
}

// Apply applies commands as one entry would, until one is refused: that is the error, and changes nothing.
func (d *Draft) Apply(cs ...command.Command) error {
	for _, c := range cs {
		if err := d.s.applyEntry(c).Err; err != nil {
			return err
		}
	}
	return nil
}

// LoseHost applies a write-off on a host and returns what is lost; a refusal is the error, and changes
// nothing.
func (d *Draft) LoseHost(c command.HostWriteOff) (Lost, error) {
	c.Stamp = command.Stamp{At: d.s.now}
	r := d.s.applyEntry(c)
	if r.Err != nil {
		return Lost{}, r.Err
	}
	return *r.Lost, nil
}

// WriteOff applies a write-off of a link and returns what is lost; a refusal is the error, and changes nothing.
func (d *Draft) WriteOff(c command.LinkWriteOff) (Losses, error) {
	c.Stamp = command.Stamp{At: d.s.now}
	r := d.s.applyEntry(c)
	if r.Err != nil {
		return Losses{}, r.Err
	}
	return *r.Losses, nil
}
