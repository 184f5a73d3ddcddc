package openstack

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// MediaJSON is the media type of bodies and answers.
const MediaJSON = "application/json"

const mediaHTML = "text/html"

// mediaRange is one part of the header Accept, such as text/*;q=0.5.
var mediaRange = regexp.MustCompile(`^\s*(\*/\*|[\w!#$%&'*+.^|~-]+/[\w!#$%&'*+.^|~-]+)\s*((?:;[^,;]*)*)$`)

// bestOffer returns the offer that the Accept headers prefer, the first one of equal
// weight, or "" if they accept none. Without a header, or with one that accepts
// everything, it is JSON. Unreadable headers are ignored.
func bestOffer(accept []string, offers ...string) string {
	text := strings.Join(accept, ",")
	if text == "" || text == "*/*" {
		return MediaJSON
	}
	out, most := "", 0.0
	for _, o := range offers {
		q, ok := weighOffer(text, o)
		if !ok {
			return offers[0]
		}
		if q > most {
			out, most = o, q
		}
	}
	return out
}

// weighOffer returns the weight that an Accept header gives to an offer, 0 for none,
// and whether the header can be read. Its most specific range decides.
func weighOffer(text, offer string) (q float64, ok bool) {
	family, _, _ := strings.Cut(offer, "/")
	exact := 0
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		m := mediaRange.FindStringSubmatch(part)
		if m == nil {
			return 0, false
		}
		weight, plain := readParameters(m[2])
		n := 0
		switch strings.ToLower(m[1]) {
		case offer:
			n = 3
		case family + "/*":
			n = 2
		case "*/*":
			n = 1
		}
		if plain && n > exact {
			q, exact = weight, n
		}
	}
	return q, true
}

// readParameters reads the parameters of a media range: its weight, and whether no
// other parameter narrows it.
func readParameters(text string) (weight float64, plain bool) {
	weight, plain = 1, true
	for p := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		switch {
		case name == "":
		case strings.EqualFold(name, "q"):
			if f, err := strconv.ParseFloat(value, 64); err == nil {
				weight = f
			}
			return weight, plain // the rest belongs to the weight
		default:
			plain = false
		}
	}
	return weight, plain
}

// writeAnswer writes a whole answer.
func writeAnswer(w http.ResponseWriter, status int, media string, body []byte) {
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails only if the caller is gone
}

// Answer writes v as JSON.
func Answer(w http.ResponseWriter, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	writeAnswer(w, status, MediaJSON, b)
	return nil
}

// Locate sets the Location of an answer: the path below the mount of the new resource.
func (d *Dialect) Locate(w http.ResponseWriter, r *http.Request, path string) {
	w.Header().Set("Location", d.URL(r, path))
}

// URL returns the address of a path below the mount, as the caller addresses this server.
func (d *Dialect) URL(r *http.Request, path string) string {
	return baseURL(r) + d.service.Mount + path
}
