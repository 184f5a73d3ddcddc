package api

// Form numbers what Berth writes for others to read: log entries, snapshots, and bodies
// between zones. Forms count up from FormFirst over all releases. A release reads every
// form up to the newest that it knows; a node records that in the members table, and
// nothing is written in a form that a member of the zone does not read. A field that
// came after FormFirst bears the tag form:"N", and is empty in older forms.
type Form uint8

// The forms. Append only.
const (
	FormFirst  Form = 1
	FormSecond Form = 2 // silence of links, needs of hosts, codes of decisions
	FormNewest      = FormSecond
)
