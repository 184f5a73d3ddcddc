package intake

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"berth/api"
	"berth/api/rest"
	"berth/quota"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// SetQuota changes limits of a project, or the defaults of the zone for "". A nil limit is
// taken away; limits that are not named stay.
func SetQuota(ctx context.Context, z *zone.Zone, p api.ProjectID, limits map[string]*int64) error {
	if err := checkQuotaProject(p); err != nil {
		return err
	}
	if len(limits) == 0 {
		return api.Errorf(api.CodeInvalid, "limits must name at least one quota, such as %s", quota.Hosts)
	}
	c := command.QuotaSet{Project: p, Set: quota.Limits{}}
	named := quota.Limits{}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		i, n := quota.Item(name), limits[name]
		if n == nil {
			named[i], c.Unset = quota.Unlimited, append(c.Unset, i)
		} else {
			named[i], c.Set[i] = *n, *n
		}
	}
	if err := named.Validate(); err != nil {
		return err
	}
	c.Stamp = z.Stamp()
	_, err := z.Propose(ctx, c)
	return err
}

// DeleteQuota deletes the limits of a project, which has the defaults then.
func DeleteQuota(ctx context.Context, z *zone.Zone, p api.ProjectID) error {
	_, err := z.Change(ctx, command.QuotaDelete{Stamp: z.Stamp(), Project: p}, func(v *state.State) error {
		if p == "" || len(v.Quota(p)) == 0 {
			return api.Errorf(api.CodeNotFound, "project %q has no limits of its own", string(p))
		}
		return nil
	})
	return err
}

func checkQuotaProject(p api.ProjectID) error {
	if p == "" {
		return nil // the defaults
	}
	return api.CheckName("project", string(p))
}

// Quota returns what a project may have, what it has now and the most that it will have, or
// the defaults of the zone for "".
func Quota(v *state.State, p api.ProjectID, now api.Instant) rest.Quota {
	own := v.Quota(p)
	if p == "" {
		own = v.LimitsOf("")
	}
	out := rest.Quota{Project: p, Limits: map[string]int64{}, Use: []rest.QuotaUse{}}
	for i, n := range own {
		out.Limits[string(i)] = n
	}
	if p == "" {
		return out
	}
	u := v.Usage(p)
	has, limits := u.At(now), v.LimitsOf(p)
	items := slices.Concat(quota.Families(), u.Items(), slices.Collect(maps.Keys(limits)))
	slices.SortFunc(items, cmp.Compare)
	for _, i := range slices.Compact(items) {
		_, mine := own[i]
		one := rest.QuotaUse{Name: string(i), Limit: quota.Unlimited, Default: !mine, Used: has[i]}
		if n, ok := limits[i]; ok {
			one.Limit = n
		}
		peak, at := u.Peak(i, api.Window{Start: now, End: api.Forever})
		if one.Peak = peak; peak > 0 {
			one.PeakAt = at
		}
		out.Use = append(out.Use, one)
	}
	return out
}

// Quotas returns a page of the quotas of a zone: on the first one the defaults, and then
// projects by name.
func Quotas(v *state.State, page state.Page, now api.Instant) []rest.Quota {
	var out []rest.Quota
	if page.Marker == "" {
		out = append(out, Quota(v, "", now))
		page.Limit--
	}
	for _, p := range v.QuotaProjects(page) {
		out = append(out, Quota(v, p, now))
	}
	return out
}
