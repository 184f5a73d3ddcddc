// Package archtest checks the structure of the module: which package may import which,
// which package may use a library, what pure packages must not use, and how long a file
// or a function may be. It contains only tests; docs/architecture.md has the same table
// for people.
package archtest
