// Package candidates finds the sets of providers that can together serve a request, and the
// providers that match a description, on a view of the table alone.
//
// A candidate belongs to one tree, its anchor: it uses providers of that tree and sharing
// providers that the tree reaches. Candidates are made on demand, trees in order of the ids
// of their roots, so a caller who stops early saves the rest of the work. The order depends
// on ids and on the query alone. The search gives up after a bounded amount of fruitless
// work, and reports it in Work.
//
// The rules are those of allocation candidates in the placement API; see
// DESIGN.md.
//
// The package is pure and safe for concurrent use. It never claims anything, and
// never prefers one candidate to another.
package candidates
