package wire

import (
	"net/http"
	"net/url"
	"unicode/utf8"

	"berth/api"
)

// checkText refuses a body with text that the decoder would silently replace.
func checkText(b []byte) error {
	if err := api.CheckJSONText(b); err != nil {
		return api.Errorf(api.CodeInvalid, "the body cannot be taken: %s", api.MessageOf(err))
	}
	return nil
}

// checkAddress refuses a request whose path, query or idempotency key is not UTF-8 once
// unescaped. A query that cannot be unescaped is left to the handler.
func checkAddress(r *http.Request) error {
	q, _ := url.ParseQuery(r.URL.RawQuery) // the part that can be read
	switch {
	case !utf8.ValidString(r.URL.Path):
		return api.Errorf(api.CodeInvalid, "the path is not valid UTF-8")
	case !validQuery(q):
		return api.Errorf(api.CodeInvalid, "the query string is not valid UTF-8")
	case !utf8.ValidString(r.Header.Get(api.HeaderIdempotencyKey)):
		return api.Errorf(api.CodeInvalid, "the header %s is not valid UTF-8", api.HeaderIdempotencyKey)
	}
	return nil
}

func validQuery(q url.Values) bool {
	for name, values := range q {
		for _, s := range append(values, name) {
			if !utf8.ValidString(s) {
				return false
			}
		}
	}
	return true
}

// Text refuses, with refuse, requests whose path, query or idempotency key is not
// UTF-8. Handlers check the bodies.
func Text(refuse func(w http.ResponseWriter, r *http.Request, err error)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := checkAddress(r); err != nil {
				refuse(w, r, err)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}
