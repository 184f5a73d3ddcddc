package door

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"berth/api"
	"berth/httpd/rates"
	"berth/internal/budget"
	"berth/internal/turns"
)

// ClassOf returns the class of a call of the public API. role is the lowest that may make it.
func ClassOf(method string, read api.Read, role api.UserRole) rates.Class {
	switch {
	case role == api.RoleAdmin:
		return rates.Admins
	case method == http.MethodGet || method == http.MethodHead || read != api.ReadLog:
		return rates.Reads
	case role == "":
		return rates.Joins
	case method == http.MethodDelete:
		return rates.Releases
	}
	return rates.Writes
}

// Pace refuses calls that are made too often, by user, project and address, before their body is
// read.
func (d *Door) Pace(class rates.Class) func(http.Handler) http.Handler {
	return d.PaceBy(func(*http.Request) rates.Class { return class })
}

// PaceBy is Pace for a dialect whose routes are known later.
func (d *Door) PaceBy(class func(r *http.Request) rates.Class) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			parties := d.address(r)
			held := []budget.Party{{Scope: budget.Strangers, ID: ListenerAPI}, {Scope: budget.Stranger, ID: idOf(parties)}}
			if c := Caller(r); c.Project != "" {
				user := string(c.Project) + "/" + cmp.Or(string(c.User), "/"+c.Service)
				parties = append(parties, rates.Party{Kind: rates.User, ID: user}, rates.Party{Kind: rates.Project, ID: string(c.Project)})
				held = []budget.Party{{Scope: budget.User, ID: user}}
			}
			if over := d.Rates.Take(d.Now(), class(r), parties...); over != nil {
				d.Refuse(w, r, TooOften(w, over))
				return
			}
			if err := HoldFor(r, held...); err != nil {
				d.Refuse(w, r, err)
				return
			}
			turn, err := d.takeTurn(r, class(r))
			if err != nil {
				w.Header().Set("Retry-After", "1")
				d.Refuse(w, r, err)
				return
			}
			defer turn.Leave()
			next.ServeHTTP(w, r)
		})
	}
}

// idOf returns the id of the address among parties, "" if it is not known.
func idOf(parties []rates.Party) string {
	if len(parties) == 0 {
		return ""
	}
	return parties[0].ID
}

// HoldFor lets parties hold what a call holds, or returns the refusal to answer with.
func HoldFor(r *http.Request, parties ...budget.Party) error {
	account := budget.Of(r.Context())
	for _, p := range parties {
		if err := account.For(p); err != nil {
			return err
		}
	}
	return nil
}

// Limits of the turns of calls.
const (
	callsAtOnce = 256                   // of all projects together, on one node
	callLasts   = 20 * time.Millisecond // after which a call waits for others, or is many: it takes no room from then on
	turnWait    = 10 * time.Second      // for a turn
)

// NewTurns returns the turns of calls of one node. share is how much of what may be done at once should be done
// now, while several projects make calls; nil for all.
func NewTurns(now func() time.Time, share func() float64) *turns.Turns {
	return turns.New(turns.Config{AtOnce: callsAtOnce, Lasts: callLasts, Share: share, Now: now})
}

// takeTurn waits for the turn of a call. Projects have their turns one after the other, for each class by itself, so that
// one with many calls does not delay the others, nor its own releases. Calls of admins, and of callers without a project, do
// not wait.
func (d *Door) takeTurn(r *http.Request, class rates.Class) (*turns.Turn, error) {
	project := Caller(r).Project
	if d.Turns == nil || project == "" || class != rates.Reads && class != rates.Writes && class != rates.Releases {
		return nil, nil //nolint:nilnil // it needs none
	}
	ctx, stop := context.WithTimeout(r.Context(), turnWait)
	defer stop()
	turn, ok := d.Turns.Take(ctx, turns.Queue{Party: string(project), Kind: string(class)})
	if !ok {
		return nil, api.Errorf(api.CodeOverloaded, "the zone has more to do than it can, and this call has waited for %s; try again later", turnWait)
	}
	return turn, nil
}

// PaceMethods is Pace for a dialect whose calls have the class that their method says.
func (d *Door) PaceMethods(next http.Handler) http.Handler {
	return d.PaceBy(func(r *http.Request) rates.Class {
		return ClassOf(r.Method, api.ReadLog, api.RoleMember)
	})(next)
}

// address returns the address of a request as a party, nothing if it is not known.
func (d *Door) address(r *http.Request) []rates.Party {
	if d.Address == nil {
		return nil
	}
	if a := d.Address(r); a != "" {
		return []rates.Party{{Kind: rates.Address, ID: a}}
	}
	return nil
}

// paceStranger counts a call without a token that this node knows. It refuses one too many
// before anybody is asked about its token.
func (d *Door) paceStranger(w http.ResponseWriter, r *http.Request) error {
	if over := d.Rates.Take(d.Now(), rates.Strangers, d.address(r)...); over != nil {
		return TooOften(w, over)
	}
	return nil
}

// TooOften returns the refusal of a call that came too early, and sets Retry-After.
func TooOften(w http.ResponseWriter, over *rates.Over) error {
	wait := max((over.Wait+time.Second-1)/time.Second, 1)
	w.Header().Set("Retry-After", strconv.FormatInt(int64(wait), 10))
	return api.Errorf(api.CodeOverloaded, "too many calls: each %s may make %d of the class %s in a second; try again in %d s",
		over.Party.Kind, over.PerSecond, over.Class, wait)
}
