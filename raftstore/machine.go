package raftstore

import (
	"io"

	"berth/raftstore/command"
	"berth/raftstore/state"
)

// This file is all that the rest of the package knows of the state machine.

func encodeCommand(c command.Command) ([]byte, error) { return command.Encode(c) }

func decodeCommand(b []byte) (command.Command, error) { return command.Decode(b) }

func emptyState() *state.State { return state.New() }

// applyCommand changes s; several commands may share an index.
func applyCommand(s *state.State, index uint64, c command.Command) state.Result {
	return s.Apply(index, c)
}

// freeze returns an immutable view of s for readers.
func freeze(s *state.State) *state.State { return s.Clone() }

// saveState writes a frozen state; it may run beside applyCommand.
func saveState(s *state.State, w io.Writer) error { return s.Save(w) }

// loadState reads what saveState wrote into a state of its own.
func loadState(r io.Reader) (*state.State, error) { return state.Load(r) }
