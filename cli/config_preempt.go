package cli

import (
	"cmp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/rest"
)

// preemptRuleFlags are the flags that change what a zone says of preemptible instances.
type preemptRuleFlags struct {
	grace  time.Duration
	ways   []string
	lists  [3]projectListFlags // in the order of preemptLists
	closed bool
}

// projectListFlags are the flags that change one list of projects.
type projectListFlags struct {
	names []string
	none  bool
}

const (
	flagPreemptGrace  = "preemptible-grace"
	flagPreemptWay    = "preemptible-way"
	flagPreemptClosed = "preemptible-closed-to-parents"
)

// preemptLists are the lists of projects: the flag that changes one, the one that empties it,
// and what the former says.
var preemptLists = [3]struct{ flag, none, help string }{
	{"preemptible-project", "no-preemptible-projects", "`PROJECT` whose boots are preemptible unless they opt out, if project is one of the ways; replaces the present ones, +NAME adds, -NAME removes; may be repeated"},
	{"preemptible-allow", "no-preemptible-allow", "`PROJECT` that may have preemptible instances, all may without any; replaces the present ones, +NAME adds, -NAME removes; may be repeated"},
	{"preemptible-firm", "no-preemptible-firm", "`PROJECT` that may have preemptible instances ended for its firm boots; replaces the present ones, +NAME adds, -NAME removes; may be repeated"},
}

func (r *preemptRuleFlags) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.DurationVar(&r.grace, flagPreemptGrace, 0, "how long before a lease starts its room is closed to preemptible instances, and how long they have to stop, up to 1h; 0 for not at all")
	f.StringArrayVar(&r.ways, flagPreemptWay, nil, "`WAY` in which preemptible instances may be asked for: hint, flavor, image, project; replaces the present ones; may be repeated")
	for n, l := range preemptLists {
		f.StringArrayVar(&r.lists[n].names, l.flag, nil, l.help)
		f.BoolVar(&r.lists[n].none, l.none, false, "empty the list of --"+l.flag)
		c.MarkFlagsMutuallyExclusive(l.flag, l.none)
	}
	f.BoolVar(&r.closed, flagPreemptClosed, false, "let no parent have preemptible instances ended for firm boots; =false lets them again")
}

// changed reports whether any of the flags is given.
func (*preemptRuleFlags) changed(c *cobra.Command) bool {
	for _, l := range preemptLists {
		if anyChanged(c, l.flag, l.none) {
			return true
		}
	}
	return anyChanged(c, flagPreemptGrace, flagPreemptWay, flagPreemptClosed)
}

// apply changes in a rule what is given.
func (r *preemptRuleFlags) apply(c *cobra.Command, to *rest.PreemptRule) error {
	if c.Flags().Changed(flagPreemptGrace) {
		grace := rest.Duration(r.grace)
		to.Grace = &grace
	}
	if len(r.ways) > 0 {
		to.Ways = nil
		for _, w := range r.ways {
			to.Ways = append(to.Ways, api.PreemptWay(w))
		}
	}
	if c.Flags().Changed(flagPreemptClosed) {
		to.Closed = r.closed
	}
	for n, list := range []*[]api.ProjectID{&to.Projects, &to.Allowed, &to.Firm} {
		if err := r.lists[n].apply(c, preemptLists[n].flag, list); err != nil {
			return err
		}
	}
	return nil
}

// check refuses flags that both replace and change a list.
func (r *preemptRuleFlags) check(c *cobra.Command) error {
	for n, l := range preemptLists {
		if err := checkChanges(c, l.flag, "projects", r.lists[n].names); err != nil {
			return err
		}
	}
	return nil
}

// apply changes a list as the flag called name wants it.
func (p *projectListFlags) apply(c *cobra.Command, name string, list *[]api.ProjectID) error {
	if p.none {
		*list = nil
	}
	return changeList(c, name, p.names, list)
}

// addPreemptRule adds the rows of a rule to those of a configuration.
func addPreemptRule(t *table, r *rest.PreemptRule) {
	grace := rest.Duration(api.PreemptGraceDefault)
	if r.Grace != nil {
		grace = *r.Grace
	}
	ways := make([]string, len(r.Ways))
	for n, w := range r.Ways {
		ways[n] = string(w)
	}
	t.addRow("PREEMPTIBLE GRACE", time.Duration(grace))
	t.addRow("PREEMPTIBLE WAYS", strings.Join(ways, ", "))
	t.addRow("PREEMPTIBLE PROJECTS", joinNames(r.Projects))
	t.addRow("PREEMPTIBLE ALLOWED TO", cmp.Or(joinNames(r.Allowed), "all projects"))
	t.addRow("PREEMPTED FOR BOOTS OF", cmp.Or(joinNames(r.Firm), "admins only"))
	t.addRow("PREEMPTED FOR PARENTS", map[bool]string{true: "no", false: "yes"}[r.Closed])
}
