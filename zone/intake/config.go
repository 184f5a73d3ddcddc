package intake

import (
	"context"
	"strings"
	"time"

	"berth/api"
	"berth/costs"
	"berth/filters"
	"berth/raftstore/command"
	"berth/webhook"
	"berth/zone"
)

// Bounds of the configuration.
const (
	planTTLMin   = 10 * time.Second
	hostGraceMin = 4 * time.Second
	hostGraceMax = time.Hour
	tagsMax      = 32
)

// SetConfig replaces the configuration of the zone. What is 0 or "" has its default.
func SetConfig(ctx context.Context, z *zone.Zone, c api.ZoneConfig) error {
	if c.PlanTTL != 0 && (c.PlanTTL < planTTLMin || c.PlanTTL > api.PlanTTLMax) {
		return api.Errorf(api.CodeInvalid, "plan_ttl must be %s to %s", planTTLMin, api.PlanTTLMax)
	}
	if c.HostGrace != 0 && (c.HostGrace < hostGraceMin || c.HostGrace > hostGraceMax) {
		return api.Errorf(api.CodeInvalid, "host_grace must be %s to %s", hostGraceMin, hostGraceMax)
	}
	if len(c.Tags) > tagsMax {
		return api.Errorf(api.CodeInvalid, "at most %d tags are allowed", tagsMax)
	}
	for _, t := range c.Tags {
		if err := api.CheckName("tag", t); err != nil {
			return err
		}
	}
	if c.DefaultAZ != "" {
		if err := api.CheckName("default_availability_zone", c.DefaultAZ); err != nil {
			return err
		}
	}
	if _, err := webhook.ParseNetworks(c.WebhookNetworks); err != nil {
		return err
	}
	if err := checkLeaseRule(&c.Leases); err != nil {
		return err
	}
	_, err := z.Propose(ctx, command.ConfigSet{Stamp: z.Stamp(), Config: c})
	return err
}

// SetScheduler replaces the filters and costs that place instances. Empty lists stand
// for the default.
func SetScheduler(ctx context.Context, z *zone.Zone, s api.Scheduler) error {
	var wrong []string
	if _, err := filters.New(s.Filters); err != nil {
		wrong = append(wrong, api.MessageOf(err))
	}
	if _, err := costs.New(s.Costs); err != nil {
		wrong = append(wrong, api.MessageOf(err))
	}
	if len(wrong) > 0 {
		return api.Errorf(api.CodeInvalid, "%s", strings.Join(wrong, "; "))
	}
	_, err := z.Propose(ctx, command.SchedulerSet{Stamp: z.Stamp(), Scheduler: s})
	return err
}

// leaseRuleMin is the shortest duration of a rule for leases: their times are whole minutes.
const leaseRuleMin = time.Minute

// checkLeaseRule refuses a rule that no lease could follow.
func checkLeaseRule(r *api.LeaseRule) error {
	for _, one := range []struct {
		name string
		is   time.Duration
		most time.Duration
	}{
		{"max_duration", r.Longest, api.LeaseDurationMax},
		{"extension_window", r.Extension, api.LeaseDurationMax},
		{"max_lead", r.Lead, api.LeaseLeadMax},
		{"before_end", max(r.BeforeEnd, 0), api.LeaseDurationMax},
		{"cleaning_time", r.Cleaning, api.CleaningMax},
	} {
		if one.is != 0 && (one.is < leaseRuleMin || one.is > one.most || one.is%time.Minute != 0) {
			return api.Errorf(api.CodeInvalid, "leases.%s must be %s to %s, in whole minutes", one.name, leaseRuleMin, one.most)
		}
	}
	if r.BeforeEnd < -1 {
		return api.Errorf(api.CodeInvalid, "leases.before_end must not be negative; 0s is no such event")
	}
	if len(r.Exempt) > api.LeaseExemptMax {
		return api.Errorf(api.CodeInvalid, "leases.exempt_projects may name at most %d projects, got %d", api.LeaseExemptMax, len(r.Exempt))
	}
	for _, p := range r.Exempt {
		if err := api.CheckName("leases.exempt_projects", string(p)); err != nil {
			return err
		}
	}
	if r.Extension != 0 && r.Longest == 0 {
		return api.Errorf(api.CodeInvalid, "leases.extension_window needs leases.max_duration")
	}
	return nil
}
