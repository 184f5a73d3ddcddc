package reservation

import (
	"time"

	"berth/api"
	"berth/httpd/openstack"
)

// The forms of dates, all in UTC.
const (
	dateForm   = "2006-01-02 15:04"           // in requests
	instants   = "2006-01-02T15:04:05.000000" // of leases and events; the stock client needs the fraction
	recordForm = "2006-01-02 15:04:05"        // when a record was made and changed
)

// dateNow is the date of this minute in requests.
const dateNow = "now"

// invalidDate refuses a date; v is the value as it was sent.
func invalidDate(v any) error {
	shown := openstack.Show(v)
	if s, ok := v.(string); ok {
		shown = openstack.Cut(s)
	}
	return invalidError("%s is an invalid date. Required format: %%Y-%%m-%%d %%H:%%M", shown)
}

// parseDate reads a date of a request.
func parseDate(v any) (api.Instant, error) {
	s, ok := v.(string)
	if !ok || len(s) != len(dateForm) {
		return 0, invalidDate(v)
	}
	t, err := time.Parse(dateForm, s)
	if err != nil || t.Year() < 1970 {
		return 0, invalidDate(v)
	}
	return api.InstantOf(t), nil
}

// showInstant formats a date of a lease or an event.
func showInstant(i api.Instant) string { return i.Time().Format(instants) }

// showRecord formats when a record was made or changed; nil for never.
func showRecord(i api.Instant) *string {
	if i == 0 {
		return nil
	}
	s := i.Time().Format(recordForm)
	return &s
}
