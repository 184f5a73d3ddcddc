// Package quota sums what a project has over time and holds it against limits, at every
// instant of a window. It must never know what is counted, or where it is.
//
// A Usage is a step function of time for each item, kept as a persistent tree: adding and
// removing cost O(log n) and leave the old value as it is, so a copy costs nothing, and the
// peak over any window is found in O(log n). Equal contents are equal trees, whatever the
// order in which they were added.
//
// Windows are half-open: what ends at an instant does not count at it. An update is checked
// against the usage without what it replaces.
package quota
