package intake

import (
	"cmp"
	"context"
	"slices"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// scaleMax and offsetMax bound what a link does to weights.
const (
	scaleMax  = 1_000_000
	offsetMax = 1_000_000_000_000
)

// CheckLink refuses what a link cannot be.
func CheckLink(c *rest.ZoneSpec) error {
	if c.Name != nil {
		if err := CheckZoneName(*c.Name); err != nil {
			return err
		}
	}
	if c.Offset != nil && (*c.Offset < -offsetMax || *c.Offset > offsetMax) {
		return api.Errorf(api.CodeInvalid, "weight_offset must be %d to %d", -offsetMax, offsetMax)
	}
	if c.Scale != nil && (*c.Scale < 1 || *c.Scale > scaleMax) {
		return api.Errorf(api.CodeInvalid, "weight_scale must be 1 to %d", scaleMax)
	}
	if c.State != nil && *c.State != api.LinkActive && *c.State != api.LinkPaused {
		return api.Errorf(api.CodeInvalid, "state must be %q or %q", api.LinkActive, api.LinkPaused)
	}
	if c.Gateways != nil {
		if err := api.CheckGateways(c.Gateways); err != nil {
			return err
		}
	}
	share := api.LinkShare{Held: c.ShareHeld, Committed: c.ShareCommitted}
	if err := share.Validate(); err != nil {
		return err
	}
	terms := api.LinkTerms{Headroom: c.Headroom}
	if c.AZ != nil {
		terms.AZ = *c.AZ
	}
	if c.Tags != nil {
		terms.Tags = slices.Sorted(slices.Values(*c.Tags))
	}
	return terms.Validate()
}

// CheckZoneName refuses what a linked zone cannot be called.
func CheckZoneName(name string) error {
	return checkFree("zone", name, "boot", "detail", "info", "link", "select")
}

// ChangeLink changes a link, by the name or id of either, and returns what it is then.
func ChangeLink(ctx context.Context, z *zone.Zone, ref string, c rest.ZoneSpec) (*api.Link, error) {
	if err := CheckLink(&c); err != nil {
		return nil, err
	}
	l, err := Link(z.View(), ref)
	if err != nil {
		return nil, err
	}
	set := command.LinkSet{
		Stamp: z.Stamp(), ID: l.ID, Name: c.Name, Offset: c.Offset, Scale: c.Scale, State: c.State, Endpoints: c.Gateways,
		AZ: c.AZ, Maintenance: c.Maintenance, Headroom: c.Headroom, ShareHeld: c.ShareHeld, ShareCommitted: c.ShareCommitted,
	}
	if c.Tags != nil {
		set.Tags = append([]string{}, *c.Tags...) // not nil
		slices.Sort(set.Tags)
	}
	if c.HasTerms() && l.Role != api.LinkChild {
		return nil, api.Errorf(api.CodeInvalid, "zone %q is the parent: availability_zone, tags, maintenance and headroom are of children", l.Name)
	}
	if c.HasShare() && l.Role != api.LinkParent {
		return nil, api.Errorf(api.CodeInvalid, "zone %q is a child: share_held and share_committed are of the parent", l.Name)
	}
	res, err := z.Change(ctx, set, func(v *state.State) error {
		if err := cmp.Or(checkTags(v, l.ID, set.Tags), checkNameOfChild(v, l.ID, set.Name)); err != nil {
			return err
		}
		return checkAZOfChild(v, l.ID, set.AZ)
	})
	return res.Link, err
}

// DeleteLink ends a link.
func DeleteLink(ctx context.Context, z *zone.Zone, ref string) error {
	l, err := Link(z.View(), ref)
	if err != nil {
		return err
	}
	_, err = z.Propose(ctx, command.LinkDelete{Stamp: z.Stamp(), ID: l.ID})
	return err
}

// WriteOffLink ends a link to a zone that is gone for good, with all that depends on it, and returns what
// is lost. A dry run finds out, and changes nothing.
func WriteOffLink(ctx context.Context, z *zone.Zone, ref string, w rest.WriteOff) (rest.Losses, error) {
	v, err := z.Latest(ctx)
	if err != nil {
		return rest.Losses{}, err
	}
	l, err := Link(v, ref)
	if err != nil {
		return rest.Losses{}, err
	}
	if w.EndWork && l.Role == api.LinkChild {
		return rest.Losses{}, api.Errorf(api.CodeInvalid, "zone %q is a child: end_work is about what a parent has here", l.Name)
	}
	c := command.LinkWriteOff{Stamp: z.Stamp(), ID: l.ID, EndWork: w.EndWork}
	var lost state.Losses
	if w.DryRun {
		if err = command.CheckForm(c, z.Form()); err == nil {
			lost, err = state.NewDraft(v).WriteOff(c)
		}
	} else {
		var res state.Result
		if res, err = z.Propose(ctx, c); err == nil {
			lost = *res.Losses
		}
	}
	if err != nil {
		return rest.Losses{}, err
	}
	return rest.Losses{
		Zone: l.Name, Role: l.Role, Parts: lost.Parts, Instances: lost.Instances, Holds: lost.Holds, Ending: lost.Ending,
		Unlinked: lost.Unlinked, DryRun: w.DryRun,
	}, nil
}
