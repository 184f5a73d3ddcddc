package placement

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

// version is the minor number of a microversion 1.n.
type version int

// The microversions that this dialect speaks: every one from 1.0 to 1.39.
const (
	versionMin version = 0
	versionMax version = 39
)

// service is the name of this dialect where a header names several.
const service = "placement"

// Headers of the dialect.
const (
	headerVersion   = "Openstack-Api-Version"
	headerRequestID = "X-Openstack-Request-Id"
)

func (v version) String() string { return "1." + strconv.Itoa(int(v)) }

type versionKey struct{}

// versionOf returns the microversion that a call is made at, and whether it is
// known yet.
func versionOf(r *http.Request) (version, bool) {
	v, ok := r.Context().Value(versionKey{}).(version)
	return v, ok
}

// at returns the microversion of a call that was routed.
func at(r *http.Request) version {
	v, _ := versionOf(r)
	return v
}

// negotiate finds the microversion of a call and names it in the answer.
func (d *dialect) negotiate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := asked(r.Header.Values(headerVersion))
		if err != nil {
			d.Refuse(w, r, err)
			return
		}
		name(w.Header(), v)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), versionKey{}, v)))
	})
}

// name names the microversion of an answer, and says that the answer depends on it.
func name(h http.Header, v version) {
	h.Set(headerVersion, service+" "+v.String())
	h.Set("Vary", strings.ToLower(headerVersion))
}

// asked reads the version that the values of the header ask for. A list may name
// several services, and the last one of this name counts; without any it is the
// oldest.
func asked(headers []string) (version, error) {
	list := strings.Split(strings.Join(headers, ","), ",")
	for _, one := range slices.Backward(list) {
		one = strings.TrimSpace(one)
		end := strings.IndexFunc(one, unicode.IsSpace)
		if end > 0 && strings.EqualFold(one[:end], service) {
			return parseVersion(strings.TrimSpace(one[end:]))
		}
	}
	return versionMin, nil
}

// wholeNumber is what the parts of a microversion look like. One that is too large to
// be read is a number still, and of no microversion.
var wholeNumber = regexp.MustCompile(`^[+-]?[0-9]+$`)

func parseVersion(text string) (version, error) {
	if text == "latest" {
		return versionMax, nil
	}
	left, right, dot := strings.Cut(text, ".")
	left, right = strings.TrimSpace(left), strings.TrimSpace(right)
	major, err := strconv.Atoi(left)
	minor, err2 := strconv.Atoi(right)
	if !dot || !wholeNumber.MatchString(left) || !wholeNumber.MatchString(right) {
		return 0, invalid("Invalid microversion: invalid version string: %s; it must be two numbers such as 1.10, or latest", text)
	}
	if err != nil || err2 != nil || major != 1 || minor < int(versionMin) || minor > int(versionMax) {
		e := api.Errorf(api.CodeInvalid, "Invalid microversion: Unacceptable version header: %s; this server speaks %s to %s", text, versionMin, versionMax)
		return 0, &fault{err: e, status: http.StatusNotAcceptable}
	}
	return version(minor), nil
}
