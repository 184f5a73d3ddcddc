package cli

import (
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/rest"
)

// leaseRuleFlags are the flags that change what a zone allows of its leases.
type leaseRuleFlags struct {
	longest, extension, lead, beforeEnd, cleaning time.Duration
	exempt                                        []string
	noExempt                                      bool
	check                                         leaseCheckFlags
}

const (
	flagLeaseLongest   = "lease-max-duration"
	flagLeaseExtension = "lease-extension-window"
	flagLeaseLead      = "lease-max-lead"
	flagLeaseBeforeEnd = "lease-before-end"
	flagLeaseCleaning  = "lease-cleaning-time"
	flagLeaseExempt    = "lease-exempt"
	flagLeaseNoExempt  = "no-lease-exempt"
)

func (r *leaseRuleFlags) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.DurationVar(&r.longest, flagLeaseLongest, 0, "how long a lease may be; exactly as long is allowed, 0 for no limit")
	f.DurationVar(&r.extension, flagLeaseExtension, 0, "how long before its end a lease may be extended beyond that, 0 for never")
	f.DurationVar(&r.lead, flagLeaseLead, 0, "how far ahead a lease may start, 0 for a hundred years")
	f.DurationVar(&r.beforeEnd, flagLeaseBeforeEnd, 0, "how long before its end those who follow a lease are told, unless it says itself; 0 for not at all")
	f.DurationVar(&r.cleaning, flagLeaseCleaning, 0, "how long a host of leases stays free after each lease, 0 for not at all; a host takes a change when nothing is claimed of it")
	f.StringArrayVar(&r.exempt, flagLeaseExempt, nil, "`PROJECT` whose leases may be of any length, replaces the present ones; may be repeated")
	f.BoolVar(&r.noExempt, flagLeaseNoExempt, false, "remove all such projects")
	c.MarkFlagsMutuallyExclusive(flagLeaseExempt, flagLeaseNoExempt)
	r.check.addFlags(c)
}

// changed reports whether any of the flags is given.
func (r *leaseRuleFlags) changed(c *cobra.Command) bool {
	return anyChanged(c, flagLeaseLongest, flagLeaseExtension, flagLeaseLead, flagLeaseBeforeEnd, flagLeaseCleaning, flagLeaseExempt, flagLeaseNoExempt) || r.check.changed(c)
}

// apply changes in a rule what is given.
func (r *leaseRuleFlags) apply(e *env, c *cobra.Command, to *rest.LeaseRule) error {
	for name, one := range map[string]struct {
		to   *rest.Duration
		from time.Duration
	}{
		flagLeaseLongest: {&to.Longest, r.longest}, flagLeaseExtension: {&to.Extension, r.extension}, flagLeaseLead: {&to.Lead, r.lead},
		flagLeaseCleaning: {&to.Cleaning, r.cleaning},
	} {
		if c.Flags().Changed(name) {
			*one.to = rest.Duration(one.from)
		}
	}
	if c.Flags().Changed(flagLeaseBeforeEnd) {
		before := rest.Duration(r.beforeEnd)
		to.BeforeEnd = &before
	}
	if len(r.exempt) > 0 || r.noExempt {
		to.Exempt = nil
		for _, p := range r.exempt {
			to.Exempt = append(to.Exempt, api.ProjectID(p))
		}
	}
	return r.check.apply(e, c, to)
}

// addLeaseRule adds the rows of a rule to those of a configuration.
func addLeaseRule(t *table, r *rest.LeaseRule) {
	span := func(d rest.Duration, none string) string {
		if d == 0 {
			return none
		}
		return time.Duration(d).String()
	}
	before := rest.Duration(api.DefaultBeforeEnd)
	if r.BeforeEnd != nil {
		before = *r.BeforeEnd
	}
	t.addRow("LEASE MAX DURATION", span(r.Longest, "none"))
	t.addRow("LEASE EXTENSION WINDOW", span(r.Extension, "none"))
	t.addRow("LEASE EXEMPT PROJECTS", joinNames(r.Exempt))
	t.addRow("LEASE MAX LEAD", span(r.Lead, api.LeaseLeadMax.String()))
	t.addRow("LEASE BEFORE END", span(before, "none"))
	t.addRow("LEASE CLEANING TIME", span(r.Cleaning, "none"))
	addLeaseCheck(t, r.Check)
}
