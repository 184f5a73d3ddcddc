package reservation

import (
	"berth/api"
	"berth/api/rest"
	"berth/httpd/openstack"
)

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
	s, _ := v.(string)
	i, ok := rest.LeaseDate(s).Instant()
	if !ok {
		return 0, invalidDate(v)
	}
	return i, nil
}
