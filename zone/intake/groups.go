package intake

import (
	"context"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// CreateServerGroup makes a server group of a project and returns its id.
func CreateServerGroup(ctx context.Context, z *zone.Zone, project api.ProjectID, s rest.ServerGroupSpec) (api.ServerGroupID, error) {
	g := api.ServerGroup{ID: api.ServerGroupID(api.NewUUID()), Name: s.Name, Project: project, Policy: s.Policy}
	if err := api.CheckName("server group name", g.Name); err != nil {
		return "", err
	}
	var err error
	if g.Max, err = checkPolicy("", g.Policy, s.Max); err != nil {
		return "", err
	}
	_, err = z.Change(ctx, command.GroupPut{Stamp: z.Stamp(), Group: g}, func(v *state.State) error { return v.CheckGroupQuota(project) })
	return g.ID, err
}

// DeleteServerGroup deletes a server group of a project, by its id or name.
func DeleteServerGroup(ctx context.Context, z *zone.Zone, project api.ProjectID, ref string) error {
	g, err := ServerGroup(z.View(), project, ref)
	if err != nil {
		return err
	}
	_, err = z.Propose(ctx, command.GroupDelete{Stamp: z.Stamp(), Project: g.Project, ID: g.ID})
	return err
}

// checkPolicy returns the limit of members per host under p, or an error if p is not a
// policy. Its message begins with part and the name of the field.
func checkPolicy(part string, p api.Policy, most int) (int, error) {
	if p == api.AntiAffinity && most == 0 {
		most = 1
	}
	return most, inPart(part, p.Validate(most))
}
