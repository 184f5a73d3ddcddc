package door

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"berth/api"
	"berth/httpd/refusals"
	"berth/httpd/traffic"
	"berth/internal/actor"
)

type callerKey struct{}

// Caller returns the caller that Authenticate has stored in the request.
func Caller(r *http.Request) api.Caller {
	c, _ := r.Context().Value(callerKey{}).(api.Caller)
	return c
}

var errUnauthenticated = api.Errorf(api.CodeUnauthenticated, "this call needs a valid token: send Authorization: Bearer berth_...")

// Authenticate admits callers with a token of this zone. Every failure gives the same
// answer. A token that is unknown on this node may have been created a moment ago, so
// the leader decides, once a majority has confirmed its state.
func (d *Door) Authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := d.checkTrust(r); err != nil {
			d.Refuse(w, r, err)
			return
		}
		c, ok := d.callerOf(r)
		if !ok {
			if c, ok = d.lookAgain(w, r); !ok {
				return
			}
		}
		if d.Admitted != nil {
			d.Admitted(r)
		}
		if id := d.tokenID(r); id != "" {
			d.Uses.Note(api.TokenID(id), api.InstantOf(d.Now()))
		}
		traffic.NoteProject(r.Context(), c.Project)
		ctx := actor.With(context.WithValue(r.Context(), callerKey{}, c), actor.Call{
			By:   api.AuditActor{Kind: api.ActorToken, ID: d.tokenID(r), User: c.User, Project: c.Project},
			Path: r.Method + " " + r.URL.EscapedPath(),
		})
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// lookAgain returns the caller whose token this node does not know, if it was created a moment ago. If not
// ok, the call was answered.
func (d *Door) lookAgain(w http.ResponseWriter, r *http.Request) (c api.Caller, ok bool) {
	err := d.paceStranger(w, r)
	if err == nil && d.mayBeNew(r) {
		if !d.Leader() {
			d.passOn(w, r)
			return c, false
		}
		_, err = d.Zone.Latest(r.Context()) // this node may have been deposed without noticing
		if c, ok = d.callerOf(r); err == nil && ok {
			return c, true
		}
	}
	if err == nil {
		err = errUnauthenticated
	}
	d.Refuse(w, r, err)
	return c, false
}

// TrustMax is how long a node without a leader trusts what it knows of tokens: meanwhile
// some may have been revoked.
const TrustMax = time.Hour

// checkTrust refuses calls of everybody, where this node cannot tell who is who: it has been
// without a leader for too long, or asks for no token and the call is that of a page of another site.
func (d *Door) checkTrust(r *http.Request) error {
	if d.Insecure {
		return d.checkOwnPage(r)
	}
	if d.Cut == nil {
		return nil
	}
	if cut := d.Cut(); cut > TrustMax {
		return api.Errorf(api.CodeUnavailable,
			"this node has heard of no leader for %s, and does not know whether the token was revoked meanwhile; try another node", cut.Round(time.Second))
	}
	return nil
}

// checkOwnPage refuses what a browser sends for a page of another site: it names the site, or the
// name that the site has given to this address. What another node has passed on was looked at there.
func (d *Door) checkOwnPage(r *http.Request) error {
	if r.Header.Get("Origin") != "" {
		return errForeignPage{api.Errorf(api.CodeForbidden, "a zone that asks for no token takes no calls of pages of browsers")}
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = strings.Trim(r.Host, "[]")
	}
	addr, err := netip.ParseAddr(host)
	if here := d.Address != nil && d.Address(r) != ""; here && host != "localhost" && (err != nil || !addr.IsLoopback()) {
		return errForeignPage{api.Errorf(api.CodeForbidden, "a zone that asks for no token is called by a loopback address or as localhost, not as %q", r.Host)}
	}
	return nil
}

// errForeignPage is the refusal of a call of a page of another site.
type errForeignPage struct{ error }

// Unwrap returns the refusal as its caller gets it.
func (e errForeignPage) Unwrap() error { return e.error }

// noteRefusal counts a refusal of a caller that is not known, and of a change that its caller may not make. It
// logs why a plan was refused, which its caller is not told.
func (d *Door) noteRefusal(r *http.Request, err error) {
	if d.Refusals == nil {
		return
	}
	var page errForeignPage
	switch code := api.CodeOf(err); {
	case errors.As(err, &page):
		d.noteStranger(r, refusals.ForeignPage)
	case errors.Is(err, errUnauthenticated):
		d.noteStranger(r, d.whyUnknown(r))
	case code == api.CodeUnauthenticated:
		d.noteStranger(r, refusals.JoinToken)
	case code == api.CodePlanRefused:
		d.Refusals.NoteRefusal(r.Context(), refusals.API, err, "path", r.URL.Path)
	case code == api.CodeForbidden && r.Method != http.MethodGet && r.Method != http.MethodHead:
		d.Refusals.NoteAuthorization(refusals.API)
	}
}

func (d *Door) noteStranger(r *http.Request, why refusals.Reason) {
	var address string
	if d.Address != nil {
		address = d.Address(r)
	}
	d.Refusals.NoteAuthentication(r.Context(), refusals.API, why, "address", address, "path", r.URL.Path)
}

// whyUnknown returns why the token of a request is not valid. It goes into the log, never to the caller.
func (d *Door) whyUnknown(r *http.Request) refusals.Reason {
	text := tokenOf(r)
	if text == "" {
		return refusals.TokenMissing
	}
	id, hash, err := d.Tokens.Parse(text)
	if err != nil {
		return refusals.TokenMalformed
	}
	t, ok := d.Zone.View().Token(id)
	switch {
	case !ok:
		return refusals.TokenUnknown
	case !d.Tokens.Check(t.Hash, hash):
		return refusals.TokenWrong
	}
	return refusals.TokenExpired
}

func (d *Door) callerOf(r *http.Request) (api.Caller, bool) {
	if d.Insecure {
		return api.Caller{User: "admin", Project: "admin", Role: api.RoleAdmin}, true
	}
	id, hash, err := d.Tokens.Parse(tokenOf(r))
	if err != nil {
		return api.Caller{}, false
	}
	v := d.Zone.View()
	t, ok := v.Token(id)
	if !ok || !d.Tokens.Check(t.Hash, hash) || api.InstantOf(d.Now()) >= t.Expires {
		return api.Caller{}, false
	}
	return v.CallerOf(t), true
}

// tokenID returns the public half of the token of a request, "" if it needs none.
func (d *Door) tokenID(r *http.Request) string {
	if d.Insecure {
		return ""
	}
	id, _, _ := d.Tokens.Parse(tokenOf(r)) // it was read before
	return string(id)
}

// lookEvery is how often a call that waits looks whether its caller is still admitted.
const lookEvery = time.Second

// WhileAdmitted returns the context of a call that waits. It ends with the call, or at most
// lookEvery after its caller is admitted no more; then lost returns the refusal to answer with.
// The caller must call stop.
func (d *Door) WhileAdmitted(r *http.Request) (ctx context.Context, lost func() error, stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	go func() {
		t := time.NewTicker(lookEvery)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				if !d.Admits(r) {
					cancel()
				}
			}
		}
	}()
	return ctx, func() error {
		if d.Admits(r) {
			return nil
		}
		return errUnauthenticated
	}, cancel
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

// Allow admits callers whose built-in role is at least want, or who have a role that allows a group.
func (d *Door) Allow(want api.UserRole, g api.RouteGroup) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c := Caller(r); !c.May(want, g) {
				d.Refuse(w, r, api.Errorf(api.CodeForbidden, "this call needs the role %s%s; the token has %s", want, orOneWith(g), cmp.Or(c.Role, "others")))
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

func orOneWith(g api.RouteGroup) string {
	if g == "" {
		return ""
	}
	return ", or one that allows " + string(g)
}
