package placement

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Media types.
const (
	mediaJSON = "application/json"
	mediaHTML = "text/html"
)

// cached is the microversion from which answers say when they were last modified.
const cached version = 15

// mediaRange is one part of the header Accept, such as text/*;q=0.5.
var mediaRange = regexp.MustCompile(`^\s*(\*/\*|[\w!#$%&'*+.^|~-]+/[\w!#$%&'*+.^|~-]+)\s*((?:;[^,;]*)*)$`)

// best returns which of the offers the headers Accept like best, the first one of
// those that they like the same, or "" if they accept none. Without a header, or
// one that accepts everything, it is JSON; a header that cannot be read says
// nothing.
func best(accept []string, offers ...string) string {
	text := strings.Join(accept, ",")
	if text == "" || text == "*/*" {
		return mediaJSON
	}
	out, most := "", 0.0
	for _, o := range offers {
		q, ok := liking(text, o)
		if !ok {
			return offers[0]
		}
		if q > most {
			out, most = o, q
		}
	}
	return out
}

// liking returns how much a header Accept likes an offer, 0 for not at all, and
// whether it can be read. The most exact of the ranges that it has decides.
func liking(text, offer string) (q float64, ok bool) {
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
		weight, plain := parameters(m[2])
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

// parameters reads those of a media range: its weight, and whether it has none
// that narrow it.
func parameters(text string) (weight float64, plain bool) {
	weight, plain = 1, true
	for p := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		switch {
		case name == "":
		case strings.EqualFold(name, "q"):
			if f, err := strconv.ParseFloat(value, 64); err == nil {
				weight = f
			}
			return weight, plain // what follows is of the weight
		default:
			plain = false
		}
	}
	return weight, plain
}

// write writes a whole answer.
func write(w http.ResponseWriter, status int, media string, body []byte) {
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the caller is gone; nobody is left to tell
}

// answer writes v as JSON.
func answer(w http.ResponseWriter, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	write(w, status, mediaJSON, b)
	return nil
}

// fresh says when what is answered was last modified, if the microversion of the
// call has that.
func fresh(w http.ResponseWriter, r *http.Request, modified time.Time) {
	if at(r) >= cached {
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("Last-Modified", modified.UTC().Format(http.TimeFormat))
	}
}

// located says where what was made can be found: at a path below Mount.
func located(w http.ResponseWriter, r *http.Request, path string) {
	w.Header().Set("Location", base(r)+Mount+path)
}
