package gateway

import (
	"net/http"

	"berth/api"
	"berth/zone"
)

// withIncarnation adds a header with the incarnation of this zone, if it was ever brought back from a backup. It is on refusals
// too: by it the operator of the caller can see what there is to confirm.
func withIncarnation(z *zone.Zone) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if own := z.View().Incarnation; own > 0 {
				w.Header().Set(api.HeaderIncarnation, own.String())
			}
			next.ServeHTTP(w, r)
		})
	}
}

// checkIncarnations refuses a call between zones of which one does not know in which incarnation the other one is: each
// remembers what the other one has forgotten. own is that of this zone, and theirs what its operator has confirmed of the caller.
// It is CodeUnavailable, so that nobody concludes anything from it.
func checkIncarnations(h http.Header, own, theirs api.Incarnation) error {
	from, to := api.ParseIncarnation(h.Get(api.HeaderIncarnation)), api.ParseIncarnation(h.Get(api.HeaderMeant))
	switch {
	case from > theirs:
		return api.Errorf(api.CodeUnavailable, "the calling zone was brought back from a backup, and the operator of this one has not confirmed it: berth zone relink")
	case from < theirs:
		return api.Errorf(api.CodeUnavailable, "the calling node belongs to a zone that was brought back from a backup elsewhere: stop it for good")
	case to < own:
		return api.Errorf(api.CodeUnavailable, "this zone was brought back from a backup: confirm it with berth zone relink")
	case to > own:
		return api.Errorf(api.CodeUnavailable, "this node belongs to a zone that was brought back from a backup elsewhere")
	}
	return nil
}
