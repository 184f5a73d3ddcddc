package intake

import (
	"cmp"
	"context"
	"slices"
	"time"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// Token returns the token that a caller requests, created at now, without id and hash. Nobody but an
// admin gives more than he has, or anything in another project.
func Token(v *state.State, who api.Caller, now time.Time, s rest.TokenSpec) (api.Token, error) {
	owner := struct{ name, v string }{"user_id", string(s.User)}
	if s.Service != "" {
		if s.User != "" {
			return api.Token{}, api.Errorf(api.CodeInvalid, "a token has a user_id or a service")
		}
		owner.name, owner.v = "service", s.Service
	}
	for _, f := range []struct{ name, v string }{owner, {"project_id", string(s.Project)}} {
		if err := api.CheckName(f.name, f.v); err != nil {
			return api.Token{}, err
		}
	}
	if n := len(s.Roles); n == 0 || n > api.TokenRolesMax {
		return api.Token{}, api.Errorf(api.CodeInvalid, "roles must name at least one of %s, %s, %s and the roles of the zone, and at most %d",
			api.RoleReader, api.RoleMember, api.RoleAdmin, api.TokenRolesMax)
	}
	if s.Project != who.Project && !who.Allows(api.RoleAdmin) {
		return api.Token{}, api.Errorf(api.CodeForbidden, "a token of another project needs the role %s", api.RoleAdmin)
	}
	for _, role := range s.Roles {
		if err := checkGiven(v, who, role); err != nil {
			return api.Token{}, err
		}
	}
	t := api.Token{User: s.User, Service: s.Service, Project: s.Project, Roles: s.Roles, Created: api.InstantOf(now), Expires: api.Forever}
	switch {
	case s.TTL < 0:
		return api.Token{}, api.Errorf(api.CodeInvalid, "ttl must not be negative; leave it out for %s, and say never_expires for a token that does not expire", api.TokenTTLDefault)
	case s.Never && s.TTL > 0:
		return api.Token{}, api.Errorf(api.CodeInvalid, "a token has a ttl, or never_expires")
	case !s.Never:
		t.Expires = t.Created.Add(cmp.Or(time.Duration(s.TTL), api.TokenTTLDefault))
	}
	return t, nil
}

// checkGiven refuses a role that there is not, and one that its giver has not.
func checkGiven(v *state.State, who api.Caller, role api.UserRole) error {
	made, ok := v.Role(role)
	switch {
	case !ok && !role.IsBuiltIn():
		return api.Errorf(api.CodeInvalid, "role %q must be %s, %s, %s or a role of the zone", role, api.RoleReader, api.RoleMember, api.RoleAdmin)
	case role.IsBuiltIn() && who.Role != "" && who.Allows(role), ok && who.MayGive(made):
		return nil
	}
	return api.Errorf(api.CodeForbidden, "role %q allows what your token does not; an admin can give it", string(role))
}

// SetRole makes or replaces a role. Nobody but an admin makes one that allows what he may not do himself.
func SetRole(ctx context.Context, z *zone.Zone, who api.Caller, name api.UserRole, s rest.RoleSpec) (*api.Role, error) {
	r := api.Role{Name: name, Allow: slices.Compact(slices.Sorted(slices.Values(s.Allow)))}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	_, err := z.Change(ctx, command.RoleSet{Stamp: z.Stamp(), Role: r}, func(v *state.State) error {
		if old, ok := v.Role(name); !who.MayGive(&r) || ok && !who.MayGive(old) {
			return errNotGiven(name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	made, ok := z.View().Role(name)
	if !ok {
		return nil, api.Errorf(api.CodeConflict, "the role was deleted meanwhile")
	}
	return made, nil
}

func errNotGiven(name api.UserRole) error {
	return api.Errorf(api.CodeForbidden, "role %q allows what your token does not; an admin can change it", string(name))
}

// DeleteRole deletes a role that no token has.
func DeleteRole(ctx context.Context, z *zone.Zone, who api.Caller, name api.UserRole) error {
	_, err := z.Change(ctx, command.RoleDelete{Stamp: z.Stamp(), Name: name}, func(v *state.State) error {
		old, ok := v.Role(name)
		switch {
		case !ok:
			return api.Errorf(api.CodeNotFound, "no role %q", string(name))
		case !who.MayGive(old):
			return errNotGiven(name)
		}
		return nil
	})
	return err
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

// CheckTerms checks the terms of a join token of a kind.
func CheckTerms(kind api.JoinKind, t api.AgentTerms) error {
	switch {
	case kind != api.JoinAgent && !t.IsZero():
		return api.Errorf(api.CodeInvalid, "host_prefix, hosts_max, host_capacity and disabled are for agents")
	case t.HostsMax < 0 || t.HostsMax > api.HostsPerAgentMax:
		return api.Errorf(api.CodeInvalid, "hosts_max must be at most %d, or 0 for that limit", api.HostsPerAgentMax)
	case t.HostPrefix != "":
		if err := api.CheckName("host_prefix", t.HostPrefix); err != nil {
			return err
		}
	}
	return t.HostCapacity.Validate()
}

// DeleteToken revokes a token; for who is no admin, one of the own project.
func DeleteToken(ctx context.Context, z *zone.Zone, who api.Caller, id api.TokenID) error {
	_, err := z.Change(ctx, command.TokenDelete{Stamp: z.Stamp(), ID: id}, func(v *state.State) error {
		if t, ok := v.Token(id); !ok || t.Project != who.Project && !who.Allows(api.RoleAdmin) {
			return api.Errorf(api.CodeNotFound, "no token %q", string(id))
		}
		return nil
	})
	return err
}

// DeleteOwnToken revokes a token of its caller. One of anybody else is not there.
func DeleteOwnToken(ctx context.Context, z *zone.Zone, who api.Caller, id api.TokenID) error {
	_, err := z.Change(ctx, command.TokenDelete{Stamp: z.Stamp(), ID: id}, func(v *state.State) error {
		if t, ok := v.Token(id); !ok || !who.Owns(t) {
			return api.Errorf(api.CodeNotFound, "no token %q", string(id))
		}
		return nil
	})
	return err
}

// RecordUses records when tokens were last used.
func RecordUses(ctx context.Context, z *zone.Zone, used []api.TokenUse) error {
	for some := range slices.Chunk(used, api.TokenUsesMax) {
		if _, err := z.Propose(ctx, command.TokensUsed{Stamp: z.Stamp(), Used: some}); err != nil {
			return err
		}
	}
	return nil
}
