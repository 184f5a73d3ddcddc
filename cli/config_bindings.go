package cli

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/rest"
	"berth/binding"
)

// bindingRuleFlags are the flags that change what a zone says of bindings.
type bindingRuleFlags struct {
	mode             string
	weighers         []string
	headroom         []string
	noWeighers, none bool
	lost, age        time.Duration
	general          bool
}

const (
	flagBindingMode       = "binding-mode"
	flagBindingWeigher    = "binding-weigher"
	flagBindingNoWeighers = "no-binding-weighers"
	flagBindingHeadroom   = "binding-headroom"
	flagBindingNoHeadroom = "no-binding-headroom"
	flagBindingLost       = "binding-lost-after"
	flagBindingAge        = "binding-usage-age"
	flagBindingGeneral    = "binding-general-on-tagged"
)

// bindingModes are the modes, for completion.
var bindingModes = []string{string(api.BindingOff), string(api.BindingPrefer), string(api.BindingStrict)}

func (r *bindingRuleFlags) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&r.mode, flagBindingMode, "", "whether new work of a project stays in one child: off, prefer, strict")
	f.StringArrayVar(&r.weighers, flagBindingWeigher, nil, "`NAME=MULTIPLIER` of a preference among children: "+joinNames(binding.Weighers())+"; the highest sum wins; replaces the present ones; may be repeated")
	f.BoolVar(&r.noWeighers, flagBindingNoWeighers, false, "choose children in the order of their creation")
	f.StringArrayVar(&r.headroom, flagBindingHeadroom, nil, "`CLASS=PERCENT` that stays free in children without a headroom of their own; replaces the present ones; may be repeated")
	f.BoolVar(&r.none, flagBindingNoHeadroom, false, "remove all of --"+flagBindingHeadroom)
	f.DurationVar(&r.lost, flagBindingLost, 0, "silence after which the projects of a child are bound elsewhere, up to 24h; 0 for the default")
	f.DurationVar(&r.age, flagBindingAge, 0, "how old a report of a child may be and still say how full it is, up to 1h; 0 for the default")
	f.BoolVar(&r.general, flagBindingGeneral, false, "let work that asks for no tag go to children that have some; =false for not")
	c.MarkFlagsMutuallyExclusive(flagBindingWeigher, flagBindingNoWeighers)
	c.MarkFlagsMutuallyExclusive(flagBindingHeadroom, flagBindingNoHeadroom)
	mustFlag(c.RegisterFlagCompletionFunc(flagBindingMode, cobra.FixedCompletions(bindingModes, cobra.ShellCompDirectiveNoFileComp)))
}

// changed reports whether any of the flags is given.
func (*bindingRuleFlags) changed(c *cobra.Command) bool {
	return anyChanged(c, flagBindingMode, flagBindingWeigher, flagBindingNoWeighers, flagBindingHeadroom, flagBindingNoHeadroom, flagBindingLost, flagBindingAge, flagBindingGeneral)
}

// apply changes in a rule what is given.
func (r *bindingRuleFlags) apply(c *cobra.Command, to *rest.BindingRule) error {
	if r.mode != "" {
		to.Mode = api.BindingMode(r.mode)
	}
	if len(r.weighers) > 0 || r.noWeighers {
		to.Weighers = nil
	}
	for _, text := range r.weighers {
		name, number, found := strings.Cut(text, "=")
		n, err := strconv.ParseInt(number, 10, 64)
		if !found || err != nil {
			return usageError(c, "--%s must look like %s=10, got %q", flagBindingWeigher, binding.WeigherIdle, text)
		}
		to.Weighers = append(to.Weighers, rest.BindingWeigher{Name: name, Multiplier: n})
	}
	if r.none {
		to.Headroom = nil
	}
	if len(r.headroom) > 0 {
		var err error
		if to.Headroom, err = readPercents(c, flagBindingHeadroom, r.headroom); err != nil {
			return err
		}
	}
	if c.Flags().Changed(flagBindingLost) {
		to.LostAfter = rest.Duration(r.lost)
	}
	if c.Flags().Changed(flagBindingAge) {
		to.UsageAge = rest.Duration(r.age)
	}
	if c.Flags().Changed(flagBindingGeneral) {
		to.GeneralOnTagged = r.general
	}
	return nil
}

// addBindingRule adds the rows of a rule to those of a configuration.
func addBindingRule(t *table, r *rest.BindingRule) {
	weighers := make([]string, len(r.Weighers))
	for n, w := range r.Weighers {
		weighers[n] = w.Name + "=" + strconv.FormatInt(w.Multiplier, 10)
	}
	slices.Sort(weighers)
	t.addRow("BINDINGS", cmp.Or(r.Mode, api.BindingOff))
	t.addRow("BINDING WEIGHERS", cmp.Or(strings.Join(weighers, ", "), string(binding.WeigherCreation)+"=1"))
	t.addRow("BINDING HEADROOM", showPercents(r.Headroom))
	t.addRow("BINDING LOST AFTER", time.Duration(r.LostAfter))
	t.addRow("BINDING USAGE AGE", time.Duration(r.UsageAge))
	t.addRow("GENERAL WORK ON TAGGED ZONES", showBool(r.GeneralOnTagged))
}
