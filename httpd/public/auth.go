package public

import (
	"context"
	"net/http"
	"strings"

	"berth/api"
)

type callerKey struct{}

// caller returns who makes the call; authenticate has put it there.
func caller(r *http.Request) api.Caller {
	c, _ := r.Context().Value(callerKey{}).(api.Caller)
	return c
}

// authenticate admits callers with a bearer token of this zone. Every way to
// fail gives the same answer. A token that is not known here may have been made a
// moment ago: the leader has the last word on it.
func (d *door) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := d.callerOf(r)
		if !ok && !d.Leader() && d.mayBeNew(r) {
			d.pass(w, r)
			return
		}
		if !ok {
			d.refuse(w, r, api.Errorf(api.CodeUnauthenticated,
				"this call needs a valid token: send Authorization: Bearer berth_..."))
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

func (d *door) callerOf(r *http.Request) (api.Caller, bool) {
	if d.Insecure {
		return api.Caller{User: "admin", Project: "admin", Role: api.RoleAdmin}, true
	}
	id, hash, err := d.Tokens.Parse(tokenOf(r))
	if err != nil {
		return api.Caller{}, false
	}
	t, ok := d.Zone.View().Token(id)
	if !ok || !d.Tokens.Check(t.Hash, hash) || api.InstantOf(d.Now()) >= t.Expires {
		return api.Caller{}, false
	}
	c := api.Caller{User: t.User, Project: t.Project, Role: api.RoleReader}
	for _, role := range t.Roles {
		if one := (api.Caller{Role: role}); one.Allows(c.Role) {
			c.Role = role
		}
	}
	return c, true
}

// tokenOf returns the bearer token that a request carries.
func tokenOf(r *http.Request) string {
	text, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		text = r.Header.Get("X-Auth-Token")
	}
	return strings.TrimSpace(text)
}

// mayBeNew reports whether a request carries a token that is well formed and not
// known here.
func (d *door) mayBeNew(r *http.Request) bool {
	id, _, err := d.Tokens.Parse(tokenOf(r))
	if err != nil {
		return false
	}
	_, known := d.Zone.View().Token(id)
	return !known
}

// allow admits callers whose role is at least want.
func (d *door) allow(want api.UserRole) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c := caller(r); !c.Allows(want) {
				d.refuse(w, r, api.Errorf(api.CodeForbidden, "this call needs the role %s; the token has %s", want, c.Role))
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}
