package reservation

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/door"
	"berth/httpd/openstack"
	"berth/zone/leases"
)

// Bounds of a question for availability, in minutes.
const (
	findAheadDefault = 14 * 24 * 60 // from the earliest start to the latest end, unless the caller says otherwise
	lengthMost       = int64(api.LeaseDurationMax / time.Minute)
)

// The parameters of GET /availability, which are the fields of POST /availability too.
const (
	fieldEarliest     = "earliest"
	fieldLatest       = "latest"
	fieldMinutes      = "minutes"
	fieldZones        = "zones"
	fieldReservations = "reservations"
)

// findAvailability is GET /availability: its parameters are the fields of the body of POST.
func (d *dialect) findAvailability(w http.ResponseWriter, r *http.Request) error {
	q, err := openstack.Params(r, func(name string) bool {
		return slices.Contains([]string{fieldEarliest, fieldLatest, fieldMinutes, fieldZones, fieldReservations}, name)
	})
	if err != nil {
		return err
	}
	body, err := bodyOfQuery(q)
	if err != nil {
		return err
	}
	return d.answerAvailability(w, r, body)
}

// bodyOfQuery returns the body that parameters stand for.
func bodyOfQuery(q url.Values) (map[string]any, error) {
	body := map[string]any{}
	for name, values := range q {
		switch {
		case name == fieldZones:
			var zones []any
			for _, z := range values {
				zones = append(zones, z)
			}
			body[name] = zones
		case len(values) > 1:
			return nil, openstack.BadQuery("%s is given more than once", name)
		case name == fieldReservations:
			v, err := openstack.ParseValue(values[0])
			if err != nil {
				return nil, err
			}
			body[name] = v
		case name != "read":
			body[name] = values[0]
		}
	}
	return body, nil
}

// askAvailability is POST /availability, for questions that are too long for a query.
func (d *dialect) askAvailability(w http.ResponseWriter, r *http.Request) error {
	body, err := openstack.ReadFields(r)
	if err != nil {
		return err
	}
	return d.answerAvailability(w, r, body)
}

func (d *dialect) answerAvailability(w http.ResponseWriter, r *http.Request, body map[string]any) error {
	s, err := d.newTerms(d.Zone.View()).readSearch(body)
	if err != nil {
		return err
	}
	f, err := d.leases.Find(r.Context(), door.Caller(r), s)
	if err != nil {
		return err
	}
	d.View(w)
	return openstack.Answer(w, http.StatusOK, map[string]rest.Availability{"availability": showFound(f)})
}

// readSearch reads a question for availability.
func (t *terms) readSearch(body map[string]any) (leases.Search, error) {
	var out leases.Search
	f := newFields("", body)
	f.require(fieldMinutes, fieldReservations)
	if f.left[fieldEarliest] == nil {
		f.left[fieldEarliest] = string(rest.LeaseNow)
	}
	from := t.date(f, fieldEarliest)
	minutes, _ := f.whole(fieldMinutes, 1, lengthMost)
	length := time.Duration(minutes) * time.Minute
	latest := from.Add(max(length, findAheadDefault*time.Minute))
	if at := t.dateOrNull(f, fieldLatest); at != nil {
		latest = *at
	}
	zones := f.zones(fieldZones)
	items, _ := f.list(fieldReservations, api.ReservationsMax)
	if err := f.done(); err != nil {
		return out, err
	}
	if err := t.checkZones(zones); err != nil {
		return out, err
	}
	out.Terms = api.LeaseTerms{Name: "availability", Window: api.Window{Start: from, End: from.Add(length)}, Zones: zones}
	if out.Terms.Window.End > latest {
		return out, invalidError("%s must be at least %d minutes after %s", fieldLatest, minutes, fieldEarliest)
	}
	out.Until = latest.Add(api.RoomUnit - length)
	for i, item := range items {
		r, err := t.readReservation("reservations["+strconv.Itoa(i)+"]", item, nil)
		if err != nil {
			return out, err
		}
		out.Terms.Reservations = append(out.Terms.Reservations, r)
	}
	return out, nil
}

// showFound returns the answer to a question for availability.
func showFound(f *leases.Found) rest.Availability {
	out := rest.Availability{
		Windows: make([]rest.LeaseWindow, 0, len(f.Windows)), Until: rest.LeaseTime(f.Until), Complete: f.Complete, Estimate: f.Estimate,
		Reservations: make([]rest.AvailableReservation, 0, len(f.Reservations)), Zones: make([]rest.RoomZone, 0, len(f.Zones)),
		Instead: make([]rest.AvailabilityInstead, 0, len(f.Instead)),
	}
	if f.Earliest > 0 {
		at := rest.LeaseTime(f.Earliest)
		out.Earliest = &at
	}
	if f.Refusal != nil {
		text := api.MessageOf(f.Refusal)
		out.Reason = &text
	}
	for _, w := range f.Windows {
		out.Windows = append(out.Windows, windowOf(w))
	}
	for i, got := range f.Reservations {
		r := &f.Terms.Reservations[i]
		out.Reservations = append(out.Reservations, rest.AvailableReservation{
			Type: r.Type, Min: r.Min, Max: r.Max, WouldGet: got.Offered, Places: placesOf(got.Places),
		})
	}
	for _, z := range f.Zones {
		one := rest.RoomZone{Zone: z.Zone, Outcome: z.Outcome, Reason: z.Reason}
		if z.Until > 0 {
			at := rest.LeaseTime(z.Until)
			one.Until = &at
		}
		out.Zones = append(out.Zones, one)
	}
	for _, i := range f.Instead {
		out.Instead = append(out.Instead, rest.AvailabilityInstead{Change: i.Change, LeaseWindow: windowOf(i.Window), Amounts: i.Amounts})
	}
	return out
}

func windowOf(w api.Window) rest.LeaseWindow {
	return rest.LeaseWindow{Start: rest.LeaseTime(w.Start), End: rest.LeaseTime(w.End)}
}
