// Package model is a second implementation of the effects of log entries on a zone, with
// plain lists that are slow and obvious. It decides by itself whether a command must be
// refused and what it changes, and so shows where the real state is wrong.
//
// It uses the vocabulary (api) and the encoding of entries (raftstore/command) and shares
// no code with the packages that it judges: neither raftstore/state nor capacity. A
// comparison reads its fields.
package model
