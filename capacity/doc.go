// Package capacity holds what hosts have and what is promised of it: the
// inventory of each host, its timeline of claims, and the columnar table that
// answers "what fits where, when".
//
// A Table is the writer's working copy; a View is an immutable snapshot of it.
// Columns are kept in chunks of ChunkHosts hosts. A write copies only the blocks
// of a chunk that it touches, and only if a view may still see them, so taking a
// view costs a copy of the chunk pointers and readers never wait.
//
// Rules, per host and resource class:
//
//   - At every instant from now on, firm use <= capacity.
//   - At this instant, firm use + preemptible use <= capacity.
//
// They hold whenever a claim is admitted. Lowering an inventory, Restore and the
// passing of time (a firm claim begins in the room of a preemptible) may leave a
// host over-full; then nothing more is admitted in that room until use has
// fallen to the capacity again.
//
// Two windows conflict iff a.Start < b.End+gap and b.Start < a.End+gap, where
// gap is the host's cleaning time. Each claim is kept over [Start, End+gap), and
// each question is asked over [Start, End+gap): those two half-open spans meet
// iff the rule holds, so no other code needs to know of the gap.
//
// A claim counts from now on only: what lies before now is folded away. A
// preemptible counts from the moment it is claimed until its end; whatever its
// window says of the future is not reserved.
//
// Beside amounts the table keeps what filters and costs read of a host: masks of
// traits, aggregates and availability zones, columns of attributes, and how many
// claims are made and not released, whether their windows have passed or not.
//
// The package is pure: no clock, no lock, no I/O. One goroutine may use a Table
// at a time; any number may use a View.
package capacity
