// Package capacity holds the inventories of resource providers and the claims on them: the
// timeline of each provider, and the columnar table that answers what fits where and when.
// It must never know of requests, zones or plans.
//
// A Table is the writer's working copy; a View is an immutable snapshot of it.
// Every provider is a row; hosts are those that can take slots, and all others are
// passive. Columns are kept in chunks of chunkHosts rows. A write copies only the
// blocks of a chunk that it touches, and only if a view may still see them, so
// taking a view costs a copy of the chunk pointers and readers never wait.
//
// Each class of each chunk has bounds of what is free for every 64 rows, one word of a Set. They
// are exact, and kept where something is written, so that a question about all rows looks at
// those of a word only if its bounds do not decide. See Free.
//
// Rules, per provider and resource class:
//
//   - At every instant from now on, firm use <= capacity.
//   - At this instant, firm use + preemptible use <= capacity.
//
// They hold whenever a claim is admitted. Lowering an inventory, Restore and the
// passing of time (a firm claim begins in the room of a preemptible) may leave a
// provider over-full; then nothing more is admitted in that room until use has
// fallen to the capacity again.
//
// Two windows conflict iff a.Start < b.End+gap and b.Start < a.End+gap, where
// gap is the provider's cleaning time. Each claim is kept over [Start, End+gap), and
// each question is asked over [Start, End+gap): those two half-open spans meet
// iff the rule holds, so no other code needs to know of the gap.
//
// A claim counts from now on only: its past is dropped. A preemptible counts from the
// moment it is claimed until its end; the future of its window is not reserved.
//
// A claim that is not preemptible closes its room to preemptibles for its grace before it starts:
// then no preemptible is admitted to it. A preempting claim is a firm one that may have room which
// preemptibles use now; whoever has it waits until that is free.
//
// A claim within another, on the same provider, uses room of the outer claim only. Its
// window is within that of the outer claim, and at every instant all claims within fit into
// the outer one. The outer claim must be made before and released after them. Between them there
// is no gap: the room is its owner's all the time. A preemptible within another has room that no
// claim within needs from now on, and is in the way of none.
//
// A claim is replaced in place by Extend and Shrink: between the two, its provider is charged
// for both, at each instant and of each class the greater, and the gap of one never counts
// beside the other. The claims within it stay where they are: they fit into both, and are within
// the one that is left.
//
// A claim of a whole host takes everything that the host and its tree have, and keeps all else
// out at every instant of its window. It is counted in hidden columns, and so are claims of
// nothing, so that a host is known to be idle.
//
// Besides amounts the table keeps what filters and costs read of a host: masks of traits,
// aggregates and availability zones, columns of attributes, and the number of claims that
// have not been released, even if their windows have passed.
//
// # Trees and sharing
//
// A passive provider may have a parent: a host or another passive one. Hosts are
// always roots. A provider shares what it has if it has the trait
// api.TraitShares; it gives to every tree of which a member has an aggregate in
// common with it, but is not a sharer of its own tree.
//
// A claim is on one provider. A slot is on a host and may become claims on
// several: each class of it comes whole from one provider, whose units allow the
// amount and who has the room over the whole window. Who gives what:
//
//  1. The host, every class that it can.
//  2. Of the tree below it, again and again, whoever can give the most of the
//     classes that are still needed; of equals the first, depth first and by id.
//  3. The sharers by id, each every class that it can that is still needed.
//
// No class decides whether another can be given, so a slot fits iff for each class
// somebody can give it. It does not count whether a provider that gives is itself
// a host that is up or enabled: only that of the host with the slot does.
//
// A host that draws from others is compound. Each root that has descendants or
// sharers keeps the list of them, its reach, which is made anew after a change of
// a parent, of aggregates or of sharing, before anybody looks. Questions about sets
// of rows go down the columns for all hosts first; of compound hosts only those
// that fell short are looked at again, against a set of the rows that could give.
// Where there is none, nothing is done for them.
//
// The package is pure: no clock, no lock, no I/O. One goroutine may use a Table
// at a time; any number may use a View.
package capacity
