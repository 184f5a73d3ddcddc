package api

import "strconv"

// Form is a version number of the formats that Berth writes for others to read: log
// entries, snapshots, and bodies between zones. Forms count up from FormFirst over all
// releases. A release reads every form up to the newest that it knows; a node records that
// form in the members table, and nothing is written in a form that a member of the zone
// cannot read. A field added after FormFirst has the tag form:"N", and is empty in older
// forms.
type Form uint8

// The forms. Append only.
const (
	FormFirst  Form = 1
	FormSecond Form = 2 // silence of links, needs of hosts, codes of decisions
	FormThird  Form = 3 // events of a zone
	FormFourth Form = 4 // leases
	FormFifth  Form = 5 // packed lists in entries, many decisions in one call, fan-out by price, changes of work for agents
	FormNewest      = FormFifth
)

// String returns the number in the format of HeaderForm.
func (f Form) String() string { return strconv.Itoa(int(f)) }

// ParseForm reads HeaderForm. An absent or malformed one is FormFirst.
func ParseForm(s string) Form {
	n, err := strconv.ParseUint(s, 10, 8)
	if err != nil {
		return FormFirst
	}
	return max(Form(n), FormFirst)
}
