package intake

import (
	"context"
	"time"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// Token returns the requested token, created at now, without id and hash.
func Token(now time.Time, s rest.TokenSpec) (api.Token, error) {
	for _, f := range []struct{ name, v string }{{"user_id", string(s.User)}, {"project_id", string(s.Project)}} {
		if err := api.CheckName(f.name, f.v); err != nil {
			return api.Token{}, err
		}
	}
	if len(s.Roles) == 0 || len(s.Roles) > 3 {
		return api.Token{}, api.Errorf(api.CodeInvalid, "roles must name at least one of %s, %s, %s, each once", api.RoleReader, api.RoleMember, api.RoleAdmin)
	}
	for _, role := range s.Roles {
		if !(api.Caller{Role: role}).Allows(api.RoleReader) {
			return api.Token{}, api.Errorf(api.CodeInvalid, "role %q must be %s, %s or %s", role, api.RoleReader, api.RoleMember, api.RoleAdmin)
		}
	}
	if s.TTL < 0 {
		return api.Token{}, api.Errorf(api.CodeInvalid, "ttl must not be negative; leave it out for a token that does not expire")
	}
	t := api.Token{
		User: s.User, Project: s.Project, Roles: s.Roles, Created: api.InstantOf(now), Expires: api.Forever,
	}
	if s.TTL > 0 {
		t.Expires = t.Created.Add(time.Duration(s.TTL))
	}
	return t, nil
}

// joinTTLDefault is the default lifetime of a join token.
const joinTTLDefault = 15 * time.Minute

// JoinTTL returns the lifetime of a join token of a kind, for a name; a ttl of 0 asks
// for the default.
func JoinTTL(kind api.JoinKind, name string, ttl time.Duration) (time.Duration, error) {
	if kind != api.JoinNode && kind != api.JoinAgent {
		return 0, api.Errorf(api.CodeInvalid, "kind must be %q or %q; a zone is admitted by POST /zones", api.JoinNode, api.JoinAgent)
	}
	if err := api.CheckName("name", name); err != nil {
		return 0, err
	}
	if ttl == 0 {
		ttl = joinTTLDefault
	}
	if ttl < 0 || ttl > api.JoinTokenTTLMax {
		return 0, api.Errorf(api.CodeInvalid, "ttl must be more than 0s and at most %s", api.JoinTokenTTLMax)
	}
	return ttl, nil
}

// DeleteToken revokes a token.
func DeleteToken(ctx context.Context, z *zone.Zone, id api.TokenID) error {
	_, err := z.Change(ctx, command.TokenDelete{Stamp: z.Stamp(), ID: id}, func(v *state.State) error {
		if _, ok := v.Token(id); !ok {
			return api.Errorf(api.CodeNotFound, "no token %q", string(id))
		}
		return nil
	})
	return err
}
