// Package query compiles and evaluates the JSON filter language, in which a user
// says which hosts an instance may take: the hint "query". Its one job is to turn
// a text into a set of rows. It never chooses among hosts, and it never sees what
// a caller must not name: a query reaches hosts through Columns alone, which has
// no ids, and names only if its maker gives them. It is pure; a Query is immutable and safe for concurrent
// use.
//
// An expression is a list: an operator, then its arguments, which are numbers,
// texts, true, false, variables ("$name") or expressions.
//
//	= < > <= >=   the first argument compares so with all others
//	in            the first argument equals at least one of the others
//	and or        all, or any, of the arguments are true
//	not           any of the arguments is false
//
// A comparison with fewer than two arguments is false. One that has no answer on
// a host, because a variable is missing there or has another type than what it
// is compared with, is neither true nor false; nor is its negation. A host passes
// when the whole query is true. DESIGN.md says why.
//
// Variables are $free_ram_mb, $free_disk_gb, $vcpus_free, $ram_mb_total,
// $disk_gb_total, $vcpus_total, $instances, $free.CLASS and $total.CLASS for any
// resource class, $attributes.NAME or $capabilities.NAME for an attribute of the
// host, $host.availability_zone, $host.name in a lease of the hosts' own zone (elsewhere
// no host has it), and $NAME for an attribute whose name is none of those. Amounts are sums over all that
// a slot on the host may draw from; a slot has each class from one of them.
package query
