package door

import (
	"context"
	"net/http"
	"strings"

	"berth/api"
)

type callerKey struct{}

// Caller returns the caller that Authenticate has stored in the request.
func Caller(r *http.Request) api.Caller {
	c, _ := r.Context().Value(callerKey{}).(api.Caller)
	return c
}

// Authenticate admits callers with a token of this zone. Every failure gives the same
// answer. A token that is unknown on this node may have been created a moment ago, so
// the leader decides, once a majority has confirmed its state.
func (d *Door) Authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := d.callerOf(r)
		if !ok && !d.Leader() && d.mayBeNew(r) {
			d.passOn(w, r)
			return
		}
		if !ok && d.mayBeNew(r) { // this node may have been deposed without noticing
			if _, err := d.Zone.Latest(r.Context()); err != nil {
				d.Refuse(w, r, err)
				return
			}
			c, ok = d.callerOf(r)
		}
		if !ok {
			d.Refuse(w, r, api.Errorf(api.CodeUnauthenticated,
				"this call needs a valid token: send Authorization: Bearer berth_..."))
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

func (d *Door) callerOf(r *http.Request) (api.Caller, bool) {
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

// Admits reports whether the caller of a request that is under way is still admitted: the
// token may have been revoked or have expired.
func (d *Door) Admits(r *http.Request) bool {
	c, ok := d.callerOf(r)
	return ok && c == Caller(r)
}

// tokenOf returns the token of a request: a bearer token, the password of any user, or
// the header X-Auth-Token.
func tokenOf(r *http.Request) string {
	text, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		text = r.Header.Get("X-Auth-Token")
		if _, password, basic := r.BasicAuth(); basic {
			text = password
		}
	}
	return strings.TrimSpace(text)
}

// mayBeNew reports whether a request carries a well-formed token that is unknown on
// this node.
func (d *Door) mayBeNew(r *http.Request) bool {
	id, _, err := d.Tokens.Parse(tokenOf(r))
	if err != nil {
		return false
	}
	_, known := d.Zone.View().Token(id)
	return !known
}

// Allow admits callers whose role is at least want.
func (d *Door) Allow(want api.UserRole) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c := Caller(r); !c.Allows(want) {
				d.Refuse(w, r, api.Errorf(api.CodeForbidden, "this call needs the role %s; the token has %s", want, c.Role))
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}
