// Package buildplan turns a request and a view into a plan or into reasons, and
// merges the plans of a zone's children with its own.
//
// Select places the slots of a request one by one on the cheapest host, each as if the
// earlier ones were taken. A plan is therefore an order, and only prefixes of its groups are
// valid; Merge keeps to that by taking heads only. Layer is the part of a plan that a zone
// seals; the envelope is in buildplan/seal. DESIGN.md in this folder has the reasons.
//
// The package is pure: equal views and requests give equal plans on every node,
// in every run. All of it is safe for concurrent use.
package buildplan
