package raftstore

import (
	"io"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// This file is the interface of the rest of the package to the state machine, except for the
// parts of a backup, which Restore proposes.

// encodeCommand writes the command of a proposal that follows others.
func encodeCommand(before []command.Command, c command.Command, form api.Form) ([]byte, error) {
	return command.EncodeAfter(lastOf(before), c, form)
}

// decodeCommand reads the command of an entry that follows others.
func decodeCommand(before []command.Command, b []byte, newest api.Form) (command.Command, error) {
	return command.DecodeAfter(lastOf(before), b, newest)
}

func lastOf(cmds []command.Command) command.Command {
	if len(cmds) == 0 {
		return nil
	}
	return cmds[len(cmds)-1]
}

func emptyState() *state.State { return state.New() }

// applyCommand changes s; several commands may share an index.
func applyCommand(s *state.State, index uint64, c command.Command) state.Result {
	return s.Apply(index, c)
}

// takesUp reports whether c replaces the whole state by a backup.
func takesUp(c command.Command) bool {
	part, ok := c.(command.Restore)
	return ok && part.Last()
}

// freezeState returns an immutable view of s for readers.
func freezeState(s *state.State) *state.State {
	return s.Clone()
}

// saveState writes a frozen state; it may run beside applyCommand.
func saveState(s *state.State, w io.Writer) error { return s.Save(&yieldingWriter{to: w}) }

// loadState reads what saveState wrote, in forms up to newest, into a state of its own.
func loadState(r io.Reader, newest api.Form) (*state.State, error) {
	return state.LoadAhead(r, newest, readAhead)
}
