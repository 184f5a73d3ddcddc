package openstack

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"berth/api"
)

// Headers of every OpenStack API.
const (
	headerVersion   = "Openstack-Api-Version"
	headerRequestID = "X-Openstack-Request-Id"
)

type minorKey struct{}

// Minor returns the minor number of a call's microversion; -1 while it is not known
// yet.
func Minor(r *http.Request) int {
	if n, ok := r.Context().Value(minorKey{}).(int); ok {
		return n
	}
	return -1
}

// spellVersion formats a microversion of the service.
func (s *Service) spellVersion(minor int) string {
	return strconv.Itoa(s.Major) + "." + strconv.Itoa(minor)
}

// negotiateVersion determines the microversion of a call and sets it in the answer.
func (d *Dialect) negotiateVersion(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		minor, err := d.service.readVersion(r.Header.Values(headerVersion))
		if err != nil {
			d.Refuse(w, r, err)
			return
		}
		d.service.nameVersion(w.Header(), minor)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), minorKey{}, minor)))
	})
}

// nameVersion sets the microversion in an answer, and that the answer varies with it.
func (s *Service) nameVersion(h http.Header, minor int) {
	h.Set(headerVersion, s.Name+" "+s.spellVersion(minor))
	h.Set("Vary", strings.ToLower(headerVersion))
}

// readVersion reads the requested microversion from the values of the header. A list
// may name several services; the last entry for this service counts. Without one, it is
// the oldest.
func (s *Service) readVersion(headers []string) (minor int, err error) {
	list := strings.Split(strings.Join(headers, ","), ",")
	for _, one := range slices.Backward(list) {
		one = strings.TrimSpace(one)
		end := strings.IndexFunc(one, unicode.IsSpace)
		if end > 0 && strings.EqualFold(one[:end], s.Name) {
			return s.parseVersion(strings.TrimSpace(one[end:]))
		}
	}
	return s.Oldest, nil
}

// wholeNumber matches the parts of a microversion. A number too large to be read is
// still a number, but of no microversion.
var wholeNumber = regexp.MustCompile(`^[+-]?[0-9]+$`)

func (s *Service) parseVersion(text string) (minor int, err error) {
	if text == "latest" {
		return s.Newest, nil
	}
	left, right, dot := strings.Cut(text, ".")
	left, right = strings.TrimSpace(left), strings.TrimSpace(right)
	major, err := strconv.Atoi(left)
	minor, err2 := strconv.Atoi(right)
	if !dot || !wholeNumber.MatchString(left) || !wholeNumber.MatchString(right) {
		return 0, atRoute(api.Errorf(api.CodeInvalid,
			"Invalid microversion: invalid version string: %s; it must be two numbers such as %s, or latest", text, s.spellVersion(10)))
	}
	if err != nil || err2 != nil || major != s.Major || minor < s.Oldest || minor > s.Newest {
		return 0, atRoute(WithStatus(http.StatusNotAcceptable, api.Errorf(api.CodeInvalid,
			"Invalid microversion: Unacceptable version header: %s; this server speaks %s to %s", text, s.spellVersion(s.Oldest), s.spellVersion(s.Newest))))
	}
	return minor, nil
}
