package cli

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/rest"
	"berth/filters"
)

// wish holds the flags about the instances of a boot.
type wish struct {
	flavor, name, reservation string
	count, least              int
	metadata                  []string
	groupsOf                  []string // NAME:FLAVOR[:COUNT[:MIN]]
	groupsFile                string
	lifetime, decideWithin    time.Duration
	onPreempt                 string
	preempt                   bool
	hosts                     hostWish
	zones                     rest.ZoneRule
}

// hostWish holds the flags about the hosts of the instances.
type hostWish struct {
	az, image, group, query, near string
	within                        string
	traits, properties            []string
	sameHost, differentHost       []string
	forceHost, ignoreHost         []string
	preemptible                   bool
}

func (w *wish) addFlags(e *env, c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&w.flavor, "flavor", "", "flavor of the instances (required unless there are groups)")
	f.StringVar(&w.name, "name", "", "name of the instances; several are numbered (required)")
	f.IntVar(&w.count, "count", 1, "number of instances wanted; equals --min if only that is given")
	f.IntVar(&w.least, "min", 0, "smallest acceptable number (default: --count, all or nothing)")
	f.StringVar(&w.reservation, "reservation-id", "", "reservation id of your choice; repeating it returns the first answer")
	f.StringArrayVar(&w.metadata, "metadata", nil, "`KEY=VALUE` to store with the instances; may be repeated")
	f.StringArrayVar(&w.groupsOf, "group-of", nil, "one kind of instances as `NAME:FLAVOR[:COUNT[:MIN]]`, in place of --flavor; may be repeated")
	f.StringVar(&w.groupsFile, "groups", "", "`FILE` in YAML or JSON with groups, rules and zones, in place of all flags about them, - for standard input")
	f.Var((*spanValue)(&w.lifetime), "lifetime", "how long the instances run before the zone ends them (default: forever)")
	f.DurationVar(&w.decideWithin, "decide-within", 0, "give up unless the boot is decided within this time")
	f.StringVar(&w.onPreempt, "on-preempt", "", "what becomes of preemptible instances whose room is needed, an `ACTION`: stop, notify or requeue (default: stop)")
	f.BoolVar(&w.preempt, "preempt", false, "end preemptible instances if there is no other room (admins, and projects that the zone allows it)")
	w.hosts.addFlags(e, c)
	f.StringArrayVar(&w.zones.Allowed, "zone", nil, "only in this `ZONE`: the zone itself, or a direct child with all below it; may be repeated")
	f.StringArrayVar(&w.zones.Excluded, "exclude-zone", nil, "not in this `ZONE` or below it; may be repeated")
	f.StringArrayVar(&w.zones.AllowedTags, "zone-tag", nil, "only in zones with this `TAG`; may be repeated")
	f.StringArrayVar(&w.zones.ExcludedTags, "exclude-zone-tag", nil, "not in zones with this `TAG`; may be repeated")
	f.IntVar(&w.zones.MaxSkew, "spread-zones", 0, "give the fullest zone at most `N` more of each kind than the emptiest, 1 or more (default: unlimited)")
	f.IntVar(&w.zones.MinZones, "min-zones", 0, "use at least `N` zones, evenly as far as there is room")
	f.BoolVar(&w.zones.Pack, "pack", false, "place all in one zone, whichever it is")
	e.flagNames(c, "flavor", flavorNames)
	e.flagNames(c, "zone", ownZoneNames)
	e.flagNames(c, "exclude-zone", ownZoneNames)
}

func (h *hostWish) addFlags(e *env, c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&h.az, "az", "", "availability zone of the hosts")
	f.StringArrayVar(&h.traits, "trait", nil, "`TRAIT` that the hosts must have; !TRAIT: must not have, A|B: one of several; may be repeated")
	f.StringVar(&h.image, "image", "", "image that the instances run")
	f.StringArrayVar(&h.properties, "image-property", nil, "`KEY=VALUE` of the image, such as architecture=x86_64; may be repeated")
	f.StringVar(&h.group, "group", "", "server group that the instances join")
	f.StringVar(&h.within, "within", "", "run in the room of this `RESERVATION` of a lease, or of the lease with one; without --flavor in its own size")
	f.StringVar(&h.query, "query", "", "condition that the hosts must meet, as a `JSON` list such as '[\">=\",\"$free_ram_mb\",1024]'")
	f.StringArrayVar(&h.sameHost, "same-host", nil, "only on the host of the server with this `ID`; may be repeated")
	f.StringArrayVar(&h.differentHost, "different-host", nil, "not on the host of the server with this `ID`; may be repeated")
	f.StringVar(&h.near, "near", "", "only hosts whose address is in the network of `ADDRESS[/BITS]` (default: /24)")
	f.StringArrayVar(&h.forceHost, "force-host", nil, "only on this `HOST` of the zone (admins); may be repeated")
	f.StringArrayVar(&h.ignoreHost, "ignore-host", nil, "not on this `HOST` of the zone (admins); may be repeated")
	f.BoolVar(&h.preemptible, "preemptible", false, "use room that nobody needs now, and leave when it is needed; =false opts out where the project's instances are preemptible")
	e.flagNames(c, "az", azNames)
	e.flagNames(c, "group", serverGroupNames)
	e.flagNames(c, "within", leaseReservationNames)
	for _, name := range []string{"same-host", "different-host"} {
		e.flagNames(c, name, serverNames)
	}
	for _, name := range []string{"force-host", "ignore-host"} {
		e.flagNames(c, name, hostNames)
	}
}

// groupFlags are the flags whose values --groups reads from its file.
var groupFlags = []string{
	"flavor", "count", "min", "group-of", "az", "trait", "image", "image-property", "group", "within", "query", "same-host", "preemptible",
	"different-host", "near", "force-host", "ignore-host", "zone", "exclude-zone", "zone-tag", "exclude-zone-tag", "spread-zones", "min-zones", "pack",
}

// serverCreate returns the wish in the form of the API.
func (w *wish) serverCreate(e *env, c *cobra.Command) (rest.ServerCreate, error) {
	var none rest.ServerCreate
	if w.name == "" {
		return none, usageError(c, "%q needs --name", c.CommandPath())
	}
	metadata, err := readPairs(c, "metadata", w.metadata)
	if err != nil {
		return none, err
	}
	s := rest.ServerCreate{Name: w.name, Reservation: w.reservation, Metadata: metadata, OnPreempt: api.PreemptAction(w.onPreempt), Preempt: w.preempt}
	for _, d := range []struct {
		flag string
		v    time.Duration
		to   *string
	}{{"lifetime", w.lifetime, &s.Lifetime}, {"decide-within", w.decideWithin, &s.Timeout}} {
		if !c.Flags().Changed(d.flag) {
			continue
		}
		if d.v < time.Millisecond {
			return none, usageError(c, "--%s must be at least 1ms, got %s", d.flag, d.v)
		}
		*d.to = d.v.String()
	}
	e.noteIdleProperties(w.hosts.properties)
	switch {
	case w.groupsFile != "":
		return s, w.readFile(e, c, &s)
	case len(w.groupsOf) > 0:
		return s, w.setGroups(c, &s)
	}
	return s, w.setSingleKind(c, &s)
}

// setSingleKind sets one kind of instances from the flags.
func (w *wish) setSingleKind(c *cobra.Command, s *rest.ServerCreate) error {
	if w.flavor == "" {
		w.flavor = w.hosts.within // its own flavor
	}
	if w.flavor == "" {
		return usageError(c, "%q needs --flavor", c.CommandPath())
	}
	if w.least > 0 && !c.Flags().Changed("count") {
		w.count = w.least // as in the API
	}
	if w.count < 1 || w.count > api.CountMax {
		return usageError(c, "--count must be 1 to %d, got %d", api.CountMax, w.count)
	}
	if c.Flags().Changed("min") && (w.least < 1 || w.least > w.count) {
		return usageError(c, "--min must be 1 to --count, which is %d, got %d", w.count, w.least)
	}
	s.FlavorRef, s.ImageRef, s.MaxCount = w.flavor, w.hosts.image, &w.count
	if w.least > 0 {
		s.MinCount = &w.least
	}
	var err error
	if s.GroupWish, err = w.hosts.readWish(c); err != nil {
		return err
	}
	return w.setZones(c, s)
}

// setZones sets the zones in which the instances may be.
func (w *wish) setZones(c *cobra.Command, s *rest.ServerCreate) error {
	for _, f := range []struct {
		flag string
		n    int
	}{{"spread-zones", w.zones.MaxSkew}, {"min-zones", w.zones.MinZones}} {
		if c.Flags().Changed(f.flag) && f.n < 1 {
			return usageError(c, "--%s must be 1 or more, got %d; leave it out for no limit", f.flag, f.n)
		}
	}
	if !api.ZoneRule(w.zones).IsZero() {
		s.Zones = &w.zones
	}
	return nil
}

// setGroups sets several kinds of instances; the flags about hosts apply to each of
// them.
func (w *wish) setGroups(c *cobra.Command, s *rest.ServerCreate) error {
	for _, flag := range []string{"flavor", "count", "min"} {
		if c.Flags().Changed(flag) {
			return usageError(c, "--%s cannot be combined with --group-of", flag)
		}
	}
	hosts, err := w.hosts.readWish(c)
	if err != nil {
		return err
	}
	for _, text := range w.groupsOf {
		parts := strings.Split(text, ":")
		if len(parts) < 2 || len(parts) > 4 {
			return usageError(c, "--group-of must look like web:small:3:2, got %q", text)
		}
		g := rest.GroupCreate{Name: parts[0], FlavorRef: parts[1], ImageRef: w.hosts.image, GroupWish: hosts}
		for i, to := range []**int{&g.MaxCount, &g.MinCount} {
			if len(parts) <= 2+i {
				break
			}
			n, err := strconv.Atoi(parts[2+i])
			if err != nil || n < 1 {
				return usageError(c, "--group-of must look like web:small:3:2, got %q", text)
			}
			*to = &n
		}
		s.Groups = append(s.Groups, g)
	}
	return w.setZones(c, s)
}

// readFile sets groups, rules and zones from a file.
func (w *wish) readFile(e *env, c *cobra.Command, s *rest.ServerCreate) error {
	for _, flag := range groupFlags {
		if c.Flags().Changed(flag) {
			return usageError(c, "--%s cannot be combined with --groups; set it in the file", flag)
		}
	}
	b, err := ReadYAML(e.in, w.groupsFile)
	if err != nil {
		return exitError(exitUsage, "", "reading the groups: %w", err)
	}
	var file struct {
		Groups []rest.GroupCreate `json:"groups"`
		Rules  []rest.RuleCreate  `json:"rules"`
		Zones  *rest.ZoneRule     `json:"zones"`
	}
	if err := strictYAML(b, &file); err != nil {
		return exitError(exitUsage, "it must contain groups, and may contain rules and zones; see: berth boot --help", "%s: %w", w.groupsFile, err)
	}
	if len(file.Groups) == 0 {
		return exitError(exitUsage, "it must contain groups; see: berth boot --help", "%s contains no groups", w.groupsFile)
	}
	s.Groups, s.Rules, s.Zones = file.Groups, file.Rules, file.Zones
	return nil
}

// noteIdleProperties says which properties of an image choose no host: a name may be mistyped.
func (e *env) noteIdleProperties(pairs []string) {
	known := append(filters.ImageProperties(), api.SpecPreemptible)
	for _, pair := range pairs {
		if key, _, _ := strings.Cut(pair, "="); !slices.Contains(known, key) {
			e.printNote("--image-property %s chooses no host; those that do are %s", stripControls(key), strings.Join(filters.ImageProperties(), ", "))
		}
	}
}

// readWish returns the flags about hosts in the form of the API.
func (h *hostWish) readWish(c *cobra.Command) (rest.GroupWish, error) {
	w := rest.GroupWish{AvailabilityZone: h.az}
	var err error
	if w.ImageProperties, err = readPairs(c, "image-property", h.properties); err != nil {
		return w, err
	}
	if len(h.traits) > 0 {
		w.Traits = traitsOf(h.traits)
	}
	hints := rest.SchedulerHints{
		Reservation: api.ReservationID(h.within), Group: h.group, SameHost: instanceIDs(h.sameHost), DifferentHost: instanceIDs(h.differentHost), ForceHosts: h.forceHost, IgnoreHosts: h.ignoreHost,
	}
	if h.query != "" {
		if !json.Valid([]byte(h.query)) {
			return w, usageError(c, "--query must be JSON, got %q", h.query)
		}
		hints.Query = json.RawMessage(h.query)
	}
	if h.near != "" {
		address, bits, network := strings.Cut(h.near, "/")
		if hints.NearHostIP = address; network {
			hints.CIDR = "/" + bits
		}
	}
	if c.Flags().Changed("preemptible") {
		hints.Preemptible = new(rest.Flag(h.preemptible))
	}
	for _, flag := range []string{"within", "group", "query", "preemptible", "same-host", "different-host", "near", "force-host", "ignore-host"} {
		if c.Flags().Changed(flag) {
			w.Hints = &hints
		}
	}
	return w, nil
}

// traitsOf reads traits in the form of the flag.
func traitsOf(given []string) *rest.Traits {
	t := &rest.Traits{}
	for _, g := range given {
		not, is := strings.CutPrefix(g, "!")
		switch {
		case is:
			t.Forbidden = append(t.Forbidden, not)
		case strings.Contains(g, "|"):
			t.AnyOf = append(t.AnyOf, strings.Split(g, "|"))
		default:
			t.Required = append(t.Required, g)
		}
	}
	return t
}

func instanceIDs(given []string) []api.InstanceID {
	var out []api.InstanceID
	for _, g := range given {
		out = append(out, api.InstanceID(g))
	}
	return out
}

// readPairs reads flags of the form key=value.
func readPairs(c *cobra.Command, flag string, given []string) (map[string]string, error) {
	if len(given) == 0 {
		return nil, nil
	}
	m := map[string]string{}
	for _, g := range given {
		k, v, ok := strings.Cut(g, "=")
		if !ok || k == "" {
			return nil, usageError(c, "--%s must look like key=value, got %q", flag, g)
		}
		if _, twice := m[k]; twice {
			return nil, usageError(c, "--%s gives %q twice", flag, k)
		}
		m[k] = v
	}
	return m, nil
}
