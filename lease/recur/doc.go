// Package recur says when a lease that repeats takes place: a subset of the recurrence rules
// of iCalendar (RFC 5545), in the wall-clock time of one zone of the IANA database.
//
// The rule is FREQ=DAILY, WEEKLY or MONTHLY, with INTERVAL, BYDAY and BYMONTHDAY, and ends by
// COUNT or UNTIL: what has no end is refused. Weeks begin on Monday. The first lease gives
// the time of the day and the length, and must be an occurrence itself.
//
// A wall clock jumps. Every date and time of a rule means the first instant at which the
// clock of its zone shows that time or a later one:
//
//   - A time that does not exist, because the clock goes forward over it, is the first
//     instant after the gap.
//   - A time that exists twice is the first of both.
//
// The end is such a time as well: it is the length later on the wall clock, so a lease from
// 22:00 to 06:00 always ends at 06:00, and takes an hour more or less in the nights in which
// the clock changes. If the length were kept instead, leases that fill whole weeks would
// overlap or leave a gap twice a year. An occurrence of which nothing is left, because all
// of it is in a gap, does not take place and is not counted.
//
// The package is pure: reading the database is left to the caller, who passes the location.
package recur
