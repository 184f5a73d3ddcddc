// Package cli has the verbs of the callers and operators of a zone: the whole command
// line of berth except the commands that run a process, which are passed in. There is
// one file for each noun. A verb reads flags, calls a zone with api/client and prints
// the answer; all decisions are the zone's.
package cli
