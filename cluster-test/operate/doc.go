// Package operate runs every command block of docs/operate.md, in its order and as it is written, on
// machines with their own networks, folders and names. It must never change a command: what the text around a
// block assumes is prepared before, and what it promises is looked at afterwards.
//
// It also breaks zones in the ways that docs/runbooks.md tells of, and runs the blocks of that page, as they are
// written, to mend them.
package operate
