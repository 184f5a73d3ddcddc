// Package preempt chooses which preemptible instances leave when room is missing. It must
// never know why the room is needed, or what becomes of those that leave.
//
// A gang is all candidates of one boot. The order of the choice, first to last:
//
//  1. The fewest gangs. If one gang can free all that is missing, one is taken. Otherwise the gang
//     that frees the largest part is taken, again and again, until one can free the rest.
//  2. The least run time lost: the sum, over those that leave, of the time since their start.
//  3. The youngest: the latest start.
//  4. The lowest id, or key of the gang.
//
// The part that a gang frees is the sum, over everything that is missing, of what it frees of it
// divided by what was missing at first, in units of 2^-32 and rounded up.
//
// Of the gangs taken, those that are not needed in the end are dropped, and then each victim that is
// not needed: in both cases the opposite of the order above, so that those with the most run time stay.
// Neither a gang nor a victim can be left out of what remains.
//
// The package is pure.
package preempt
