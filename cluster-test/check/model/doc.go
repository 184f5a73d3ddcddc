// Package model is a second implementation of what log entries do to a zone: plain
// lists that are slow and obvious. It decides by itself whether a command must be
// refused and what it changes, and so shows where the real state is wrong.
//
// It knows the words (api) and the spelling of entries (raftstore/command) and shares
// no code with what it judges: neither raftstore/state nor capacity. Who compares the
// two reads its fields.
package model
