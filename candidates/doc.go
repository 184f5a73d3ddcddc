// Package candidates says which sets of providers can together serve a request,
// and which providers match a description, on a view of the table alone.
//
// A candidate belongs to one tree, its anchor: what it takes comes from providers
// of that tree and from sharing providers that the tree reaches. Candidates are
// made one by one as they are asked for, trees in order of the ids of their roots,
// so whoever stops early pays for what was taken. The order depends on ids and on
// the query alone. The search gives up after a bounded amount of fruitless work,
// and says so in Work.
//
// The rules are those of allocation candidates in the placement API; see
// DESIGN.md.
//
// The package is pure and safe for concurrent use. It never claims anything, and
// never prefers one candidate to another.
package candidates
