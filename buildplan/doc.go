// Package buildplan turns a request and a view into a plan or into reasons, and
// merges the plans of a zone's children with its own.
//
// Select places the slots of a request one by one on the cheapest host, each as
// if the earlier ones were taken. A plan is therefore an order, and only a
// prefix of each group of it means anything; Merge keeps to that by taking
// nothing but heads. Layer is what a zone seals of a plan; the envelope is
// buildplan/seal's. See DESIGN.md in this folder for why.
//
// The package is pure: equal views and requests give equal plans on every node,
// in every run. All of it is safe for concurrent use.
package buildplan
