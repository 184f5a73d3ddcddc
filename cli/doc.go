// Package cli has the verbs of the callers and operators of a zone: the command line
// of berth, but for the commands that run a process, which are handed in. There is a
// file for each noun. A verb reads flags, calls a zone with api/client and prints the
// answer; it decides nothing that a zone decides.
package cli
