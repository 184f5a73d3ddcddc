// Package archtest holds the shape of the tree to its rules: which package may
// import which, which library has its door where, what pure packages must not
// touch, and how long a file or a function may be. It has tests and nothing
// else; docs/architecture.md is the same table for people.
package archtest
