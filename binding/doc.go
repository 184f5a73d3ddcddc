// Package binding says which child zone the new work of a project goes to: it filters and weighs the
// children of a zone, and says why one must be left that a project is bound to. It must never know
// how a binding is recorded, or whether the child has the room in the end.
//
// What is known of a child is a hint, and unknown usage counts as room. The filters drop a child in
// this order, and the first that drops it is the reason:
//
//	all                it is paused, or has been silent for too long
//	availability_zone  it does not offer the one that is asked for
//	affinity_tag       it lacks a tag that is asked for, or has tags and none is asked for
//	maintenance        it is under maintenance
//	headroom           less than its headroom would be left of a class
//
// The weighers give each child that is left a value, and the highest total wins:
//
//	creation_order  the older, the higher
//	idle_capacity   the smallest free part of a class that is asked for
//	price           the cheaper, the higher
//
// The values of a weigher are spread over [0, Unit] between the lowest and the highest child; they are
// all 0 if these are equal. A total is the sum of the values times their multipliers. Of equal totals
// the older child is first, then the one with the lower id.
//
// The package is pure.
package binding
