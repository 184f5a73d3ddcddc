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

// Minor returns the minor number of the microversion that a call is made at; -1 as
// long as it is not known.
func Minor(r *http.Request) int {
	if n, ok := r.Context().Value(minorKey{}).(int); ok {
		return n
	}
	return -1
}

// spellVersion spells a microversion of the service.
func (s *Service) spellVersion(minor int) string {
	return strconv.Itoa(s.Major) + "." + strconv.Itoa(minor)
}

// negotiateVersion finds the microversion of a call and names it in the answer.
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

// nameVersion names the microversion of an answer, and says that the answer depends on
// it.
func (s *Service) nameVersion(h http.Header, minor int) {
	h.Set(headerVersion, s.Name+" "+s.spellVersion(minor))
	h.Set("Vary", strings.ToLower(headerVersion))
}

// readVersion reads the microversion that the values of the header ask for. A list may
// name several services, and the last one of this name counts; without any it is the
// oldest.
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

// wholeNumber is what the parts of a microversion look like. One that is too large to
// be read is a number still, and of no microversion.
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
		return 0, api.Errorf(api.CodeInvalid, "Invalid microversion: invalid version string: %s; it must be two numbers such as %s, or latest", text, s.spellVersion(10))
	}
	if err != nil || err2 != nil || major != s.Major || minor < s.Oldest || minor > s.Newest {
		return 0, withStatus(http.StatusNotAcceptable, api.Errorf(api.CodeInvalid,
			"Invalid microversion: Unacceptable version header: %s; this server speaks %s to %s", text, s.spellVersion(s.Oldest), s.spellVersion(s.Newest)))
	}
	return minor, nil
}
