package intake

import (
	"cmp"
	"context"
	"strings"
	"time"

	"berth/api"
	"berth/api/rest"
	"berth/binding"
	"berth/costs"
	"berth/filters"
	"berth/raftstore/command"
	"berth/raftstore/state"
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

// checkPreemptibles checks the rule for preemptible instances of a new configuration.
func checkPreemptibles(r *api.PreemptRule) error {
	if err := cmp.Or(checkNamed("allowed_projects", r.Allowed, "all projects"), checkNamed("ways", r.Ways, "hint and flavor")); err != nil {
		return err
	}
	return r.Validate()
}

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
	networks, err := webhook.ParseNetworks(c.WebhookNetworks)
	if err != nil {
		return err
	}
	if err = checkLeaseRule(&c.Leases); err != nil {
		return err
	}
	if err = checkLeaseService(&c.Leases.Check, networks); err != nil {
		return err
	}
	if err = checkPreemptibles(&c.Preemptibles); err != nil {
		return inPart("preemptibles.", err)
	}
	if _, err = binding.RuleOf(&c.Bindings); err != nil {
		return inPart("bindings.", err)
	}
	if err = c.Fanout.Validate(); err != nil {
		return inPart("fanout.", err)
	}
	if err = api.ValidatePublicAttributes(c.PublicAttributes); err != nil {
		return inPart("public_attributes: ", err)
	}
	if err = api.CheckRemoveDead(c.RemoveDeadAfter); err != nil {
		return err
	}
	_, err = z.Change(ctx, command.ConfigSet{Stamp: z.Stamp(), Config: c}, func(v *state.State) error {
		if c.DefaultAZ == v.Config.DefaultAZ {
			return nil
		}
		return checkAZs(v, azWithDefault(v, c.DefaultAZ))
	})
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

// LeaseCheck returns the external service of leases that an operator wants, nil for none. wrap
// wraps the token that it is shown at an address.
func LeaseCheck(z *zone.Zone, c *rest.LeaseCheck, wrap func(url, token string) ([]byte, error)) (api.LeaseCheck, error) {
	if c == nil {
		return api.LeaseCheck{}, nil
	}
	out := api.LeaseCheck{URL: c.URL, Timeout: time.Duration(c.Timeout), Open: c.FailOpen}
	if c.URL == "" {
		return out, api.Errorf(api.CodeInvalid, "leases.check.url is needed")
	}
	now := &z.View().Config.Leases.Check
	switch {
	case c.Token != nil && len(*c.Token) > api.LeaseCheckTokenMaxBytes:
		return out, api.Errorf(api.CodeInvalid, "leases.check.token has %d characters; at most %d are allowed", len(*c.Token), api.LeaseCheckTokenMaxBytes)
	case c.Token != nil && strings.ContainsFunc(*c.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return out, api.Errorf(api.CodeInvalid, "leases.check.token must be printable characters of ASCII without spaces")
	case c.Token != nil && *c.Token != "":
		var err error
		if out.Token, err = wrap(c.URL, *c.Token); err != nil {
			return out, err
		}
	case c.Token != nil || !c.HasToken:
	case len(now.Token) == 0:
		return out, api.Errorf(api.CodeInvalid, "leases.check.has_token keeps a token, and there is none: give leases.check.token")
	case now.URL != c.URL:
		return out, api.Errorf(api.CodeInvalid, "leases.check.token is kept for the same url only: give it again")
	default:
		out.Token = now.Token
	}
	return out, nil
}

// checkLeaseService refuses an external service that cannot be called.
func checkLeaseService(c *api.LeaseCheck, allowed webhook.Networks) error {
	if c.URL == "" {
		return nil
	}
	if c.Timeout != 0 && (c.Timeout < api.LeaseCheckTimeoutMin || c.Timeout > api.LeaseCheckTimeoutMax) {
		return api.Errorf(api.CodeInvalid, "leases.check.timeout must be %s to %s", api.LeaseCheckTimeoutMin, api.LeaseCheckTimeoutMax)
	}
	if strings.Contains(c.URL, "?") {
		return api.Errorf(api.CodeInvalid, "leases.check.url must not have a query: the names of calls are added to it")
	}
	if err := allowed.CheckURL(c.URL); err != nil {
		return api.Errorf(api.CodeInvalid, "leases.check.url: %s", api.MessageOf(err))
	}
	return nil
}
