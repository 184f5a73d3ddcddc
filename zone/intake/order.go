package intake

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"berth/api"
	"berth/api/rest"
	"berth/filters/query"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// decideMax bounds how long a caller may let a boot be undecided.
const decideMax = time.Hour

// cidrDefault is the network around an IPv4 address that a host must be near.
const cidrDefault = "/24"

// reading is the state of reading one boot body.
type reading struct {
	v       *state.State
	digests zone.Digests // of the children; nil for none
	caller  api.Caller
	order   *BootOrder  // as asked
	groups  []api.Group // those of the order, with what their flavors ask for
	joined  []api.Rule  // of the server groups that the groups join
	kinds   []kind      // whether each group is preemptible
	pairs   bool        // all nodes of the zone know of pairs

	reservation api.ReservationID // that a group has for a flavor; "" for none

	// gone is the error for the first missing object that the body refers to. It is
	// returned only for a new call: a repeat gets its original answer even if, say,
	// the flavor has since been deleted.
	gone error

	unheard error // for the first availability zone or tag that is known neither here nor of any child; as gone, unless a child knows it by now
}

// Source is the caller of a boot and the call that carries it.
type Source struct {
	Caller api.Caller
	Key    string        // the caller's idempotency key; "" for none
	Call   api.RequestID // "" for none

	// Ask reports whether the zones below, asked anew, have a place for an order although no digest has one of the names in it. Nil asks
	// nobody: what no digest has is not there.
	Ask func(*api.Request) bool
}

// Order reads and checks a boot body, and looks up the names in it. References to
// missing objects are refused, unless the zone already has the answer to the same order. What
// digests, nil for none, say of the children tells which availability zones and tags there are.
func Order(z *zone.Zone, digests zone.Digests, from Source, body *rest.BootBody) (*BootOrder, error) {
	s := &body.Server
	if body.Hints != nil {
		if s.Hints != nil {
			return nil, api.Errorf(api.CodeInvalid, "os:scheduler_hints and server.scheduler_hints are two names of one thing; give one of them")
		}
		s.Hints = body.Hints
	}
	rd := &reading{v: z.View(), digests: digests, caller: from.Caller, pairs: z.Form() >= api.FormFifth, order: &BootOrder{Blob: s.Blob, BootTerms: command.BootTerms{
		Name: s.Name, Metadata: s.Metadata, Request: api.Request{
			Reservation: api.ReservationID(s.Reservation), Project: from.Caller.Project, Class: api.Firm,
			OnPreempt: s.OnPreempt, Preempt: s.Preempt,
			Window: api.Window{Start: 0, End: api.Forever}, // starts when it is held, so that a plan selected a moment ago still matches the request
		},
	}}}
	if err := rd.readOrder(s, from.Key); err != nil {
		return nil, err
	}
	return rd.resolve(from)
}

// resolve resolves the names in an order, and fills in the caller.
func (rd *reading) resolve(from Source) (*BootOrder, error) {
	o := rd.order
	o.Preemptible = rd.hintsAsked()
	if err := o.digest(); err != nil {
		return nil, err
	}
	o.Key, o.Call, o.Fixed, o.Request.User = from.Key, from.Call, o.Blob != nil, from.Caller.User
	o.Request.Groups, o.Request.Rules = rd.groups, append(o.Request.Rules, rd.joined...)
	o.Request.Within = cmp.Or(o.Request.Within, rd.reservation)
	rd.resolveClass()
	err := rd.gone
	if err == nil {
		err = o.Request.Validate()
	}
	if err == nil && rd.unheard != nil && !o.isRepeat(rd.v) && (from.Ask == nil || !from.Ask(&o.Request)) {
		err = rd.unheard
	}
	if err != nil && !o.isRepeat(rd.v) {
		return nil, err
	}
	return o, nil // the original answer needs none of the missing objects
}

// inPart prefixes err's message, which starts with a field name, with the path of the
// enclosing object.
func inPart(part string, err error) error {
	if err == nil || part == "" {
		return err
	}
	return api.Errorf(api.CodeOf(err), "%s%s", part, api.MessageOf(err))
}

func (rd *reading) readOrder(s *rest.ServerCreate, key string) error {
	for _, f := range []struct{ name, v string }{{"reservation_id", s.Reservation}, {api.HeaderIdempotencyKey, key}} {
		if f.v != "" && !api.ValidName(f.v) {
			return api.CheckName(f.name, f.v)
		}
	}
	if err := api.CheckName("name", s.Name); err != nil {
		return err
	}
	if err := api.CheckPairs("metadata", s.Metadata, api.MetadataMax); err != nil {
		return err
	}
	if err := rd.readGroups(s); err != nil {
		return err
	}
	if err := rd.readRules(s.Rules); err != nil {
		return err
	}
	if err := rd.readZones(s.Zones); err != nil {
		return err
	}
	if err := rd.keepTogether(); err != nil {
		return err
	}
	var err error
	if rd.order.Request.Lifetime, err = parseSpan("lifetime", s.Lifetime, api.LifetimeMax); err != nil {
		return err
	}
	rd.order.Timeout, err = parseSpan("timeout", s.Timeout, decideMax)
	return err
}

// readZones reads the zones in which a boot may lie. Allowed zones and tags must exist;
// excluded ones need not.
func (rd *reading) readZones(r *rest.ZoneRule) error {
	if r == nil {
		return nil
	}
	rd.order.Request.Zones = api.ZoneRule(*r)
	if err := cmp.Or(checkNamed("zones.allowed", r.Allowed, "all zones"), checkNamed("zones.allowed_tags", r.AllowedTags, "zones with any tags")); err != nil {
		return err
	}
	for _, l := range []struct {
		name string
		list []string
	}{{"allowed", r.Allowed}, {"excluded", r.Excluded}} {
		for _, name := range l.list {
			if strings.Contains(name, "/") {
				return api.Errorf(api.CodeInvalid,
					"zones.%s: a path such as %q names no zone; give the name of this zone or of a direct child, which includes all below it", l.name, name)
			}
		}
	}
	if len(r.Allowed) > api.ZoneNamesMax || slices.ContainsFunc(r.Allowed, func(n string) bool { return !api.ValidName(n) }) {
		return nil // it is refused for that reason
	}
	if no := UnknownZone(rd.v, r.Allowed...); no != "" {
		rd.noteMissing("zones.allowed: %s", no)
	}
	rd.checkTags(r.AllowedTags)
	return nil
}

// parseSpan reads a duration; "" is 0, which stands for none.
func parseSpan(field, text string, most time.Duration) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Millisecond || d > most || d%time.Millisecond != 0 {
		return 0, api.Errorf(api.CodeInvalid, "%s must be a duration from 1ms to %s in whole milliseconds, such as 90m, got %q", field, most, text)
	}
	return d, nil
}

// readGroups reads the groups of a boot, or its only group if the body has no list.
func (rd *reading) readGroups(s *rest.ServerCreate) error {
	if s.Groups == nil {
		return rd.readGroup("", &rest.GroupCreate{
			FlavorRef: s.FlavorRef, ImageRef: s.ImageRef, MinCount: s.MinCount, MaxCount: s.MaxCount, GroupWish: s.GroupWish,
		}, s.NumInstances)
	}
	if n := len(s.Groups); n < 1 || n > api.GroupsMax {
		return api.Errorf(api.CodeInvalid, "groups must have 1 to %d entries, got %d; leave it out to boot one kind of instances", api.GroupsMax, n)
	}
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"flavorRef", s.FlavorRef != ""},
		{"imageRef", s.ImageRef != ""},
		{"min_count", s.MinCount != nil},
		{"max_count", s.MaxCount != nil},
		{"num_instances", s.NumInstances != nil},
		{"image_properties", s.ImageProperties != nil},
		{"traits", s.Traits != nil},
		{"availability_zone", s.AvailabilityZone != ""},
		{"scheduler_hints", s.Hints != nil},
	} {
		if f.given {
			return api.Errorf(api.CodeInvalid, "%s goes into each of the groups, not beside them", f.name)
		}
	}
	seen := map[string]bool{}
	for i := range s.Groups {
		g, part := &s.Groups[i], fmt.Sprintf("groups[%d].", i)
		if err := api.CheckName(part+"name", g.Name); err != nil {
			return err
		}
		if seen[g.Name] {
			return api.Errorf(api.CodeInvalid, "%sname: each group needs a name of its own, %q is there twice", part, g.Name)
		}
		seen[g.Name] = true
		if err := rd.readGroup(part, g, nil); err != nil {
			return err
		}
	}
	return nil
}

// readGroup reads one group. part is its path in the body.
func (rd *reading) readGroup(part string, g *rest.GroupCreate, num *int) error {
	out := api.Group{Name: g.Name, Flavor: api.FlavorID(g.FlavorRef), Image: api.Image{Ref: g.ImageRef, Properties: g.ImageProperties}}
	joins := ""
	if err := readCounts(g, num, &out); err != nil {
		return inPart(part, err)
	}
	if g.Traits != nil {
		out.Traits = sortTraits(*g.Traits)
	}
	az, host, forced := strings.Cut(g.AvailabilityZone, ":")
	if out.AZ = az; az != "" {
		if err := api.CheckName("availability_zone", az); err != nil {
			return inPart(part, err)
		}
	}
	if forced && !rd.caller.Allows(api.RoleAdmin) {
		return api.Errorf(api.CodeForbidden, "%savailability_zone with a host needs the role admin", part)
	}
	if forced {
		if err := rd.forceHost(part, host); err != nil {
			return err
		}
		out.Hints.ForceHosts = []string{host}
	}
	rd.checkAZ(part, az)
	var hint *rest.Flag
	if g.Hints != nil {
		if err := rd.readHints(part+"scheduler_hints.", g.Hints, &out.Hints); err != nil {
			return err
		}
		joins, hint = g.Hints.Group, g.Hints.Preemptible
	}
	if g.Volume != nil {
		return rd.readVolume(part, g, out, joins)
	}
	asked := out
	f, ok := rd.flavorFor(&out)
	if !ok { // the first answer needs no flavor
		f = &api.Flavor{}
		rd.noteMissing("%sflavorRef: there is no flavor %q in this zone%s; see GET /flavors", part, g.FlavorRef, near(g.FlavorRef, flavorNames(rd.v)))
	}
	rd.checkHosts(part, &out.Hints)
	rd.kinds = append(rd.kinds, rd.kindOf(part, hint, f, g))
	full := withFlavor(out, f)
	rd.order.Request.Groups, rd.order.Joins, rd.groups = append(rd.order.Request.Groups, asked), append(rd.order.Joins, joins), append(rd.groups, full)
	if !ok {
		return nil
	}
	return inPart(part, full.Validate())
}

// forceHost checks the host that an availability zone names after a colon.
func (rd *reading) forceHost(part, host string) error {
	if !api.ValidName(host) {
		return api.CheckName(part+"availability_zone: the host", host)
	}
	if _, ok := rd.v.HostByName(host); !ok {
		rd.noteMissing("%savailability_zone: there is no host %q in this zone", part, host)
	}
	return nil
}

// noteMissing records a missing object that the body names, unless another was missing
// before.
func (rd *reading) noteMissing(format string, args ...any) {
	if rd.gone == nil {
		rd.gone = api.Errorf(api.CodeInvalid, format, args...)
	}
}

func sortTraits(t rest.Traits) api.Traits {
	out := api.Traits{Required: slices.Sorted(slices.Values(t.Required)), Forbidden: slices.Sorted(slices.Values(t.Forbidden))}
	for _, list := range t.AnyOf {
		out.AnyOf = append(out.AnyOf, slices.Sorted(slices.Values(list)))
	}
	return out
}

// readCounts reads the wanted and the minimum number of instances.
func readCounts(g *rest.GroupCreate, num *int, out *api.Group) error {
	if g.MaxCount != nil && num != nil && *g.MaxCount != *num {
		return api.Errorf(api.CodeInvalid, "max_count and num_instances are two names of one number; give one of them")
	}
	most := cmp.Or(g.MaxCount, num)
	out.Count = 1
	switch {
	case most != nil:
		out.Count = *most
	case g.MinCount != nil:
		out.Count = *g.MinCount
	}
	out.Min = out.Count
	if g.MinCount != nil {
		out.Min = *g.MinCount
	}
	mostName := "max_count"
	if num != nil {
		mostName = "num_instances"
	}
	if g.MinCount != nil && (out.Min < 1 || out.Min > api.CountMax) {
		return api.Errorf(api.CodeInvalid, "min_count must be 1 to %d, got %d", api.CountMax, out.Min)
	}
	if out.Count < 1 || out.Count > api.CountMax {
		return api.Errorf(api.CodeInvalid, "%s must be 1 to %d, got %d", mostName, api.CountMax, out.Count)
	}
	if out.Min > out.Count {
		return api.Errorf(api.CodeInvalid, "min_count %d must not exceed max_count %d", out.Min, out.Count)
	}
	return nil
}

// readHints reads the hints of one group. part is its path in the body.
func (rd *reading) readHints(part string, h *rest.SchedulerHints, out *api.Hints) error {
	if len(h.ForceHosts)+len(h.IgnoreHosts) > 0 && !rd.caller.Allows(api.RoleAdmin) {
		return api.Errorf(api.CodeForbidden, "%sforce_hosts and ignore_hosts need the role admin", part)
	}
	if err := cmp.Or(checkNamed(part+"force_hosts", h.ForceHosts, "any host"), checkNamed(part+"same_host", h.SameHost, "any host")); err != nil {
		return err
	}
	out.SameHost, out.DifferentHost, out.IgnoreHosts = h.SameHost, h.DifferentHost, h.IgnoreHosts
	out.ForceHosts = append(out.ForceHosts, h.ForceHosts...)
	if h.Group != "" {
		if err := api.CheckName(part+"group", h.Group); err != nil {
			return err
		}
	}
	if err := rd.readReservation(part, h.Reservation); err != nil {
		return err
	}
	text, err := queryText(h.Query)
	if err == nil {
		var q *query.Query
		if q, err = query.Compile(text); err == nil {
			out.Query = q.String()
		}
	}
	if err != nil {
		return inPart(part, err)
	}
	out.Near, err = nearNetwork(h)
	return inPart(part, err)
}

// checkNamed refuses a list that is there and empty, if what is not in it is excluded: read as no list it would
// exclude nothing. all says what leaving the field out stands for.
func checkNamed[T any](field string, list []T, all string) error {
	if list == nil || len(list) > 0 {
		return nil
	}
	return api.Errorf(api.CodeInvalid, "%s: an empty list names nothing; leave the field out for %s", field, all)
}

// queryText returns the text of a query, which the JSON body has inline or in a string.
func queryText(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || raw[0] != '"' {
		return string(raw), nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", api.Errorf(api.CodeInvalid, "query must be a list, or a text that holds one")
	}
	return text, nil
}

// nearNetwork returns the network that hosts must lie in, "" for any.
func nearNetwork(h *rest.SchedulerHints) (string, error) {
	if h.NearHostIP == "" {
		if h.CIDR != "" {
			return "", api.Errorf(api.CodeInvalid, "cidr needs build_near_host_ip")
		}
		return "", nil
	}
	ip, err := netip.ParseAddr(h.NearHostIP)
	if err != nil || ip.Zone() != "" {
		return "", api.Errorf(api.CodeInvalid, "build_near_host_ip must be an address such as 192.0.2.7, got %q", h.NearHostIP)
	}
	if h.CIDR == "" && !ip.Is4() {
		return "", api.Errorf(api.CodeInvalid, "cidr must be given with an IPv6 address")
	}
	bits := cmp.Or(h.CIDR, cidrDefault)
	p, err := netip.ParsePrefix(ip.String() + bits)
	if err != nil {
		return "", api.Errorf(api.CodeInvalid, "cidr must be a length such as /24 that the address can have, got %q", h.CIDR)
	}
	return p.Masked().String(), nil
}

// checkHosts records instances that are not the caller's, and hosts that are not in
// this zone.
func (rd *reading) checkHosts(part string, h *api.Hints) {
	for _, l := range []struct {
		name string
		ids  []api.InstanceID
	}{{"same_host", h.SameHost}, {"different_host", h.DifferentHost}} {
		for _, id := range l.ids {
			i, ok := rd.v.Instance(id)
			if !ok || !i.Live() || i.Origin != "" || i.Project != rd.caller.Project {
				rd.noteMissing("%sscheduler_hints.%s: there is no server %q in this project", part, l.name, string(id))
			}
		}
	}
	for _, l := range []struct {
		name  string
		hosts []string
	}{{"force_hosts", h.ForceHosts}, {"ignore_hosts", h.IgnoreHosts}} {
		for _, name := range l.hosts {
			if _, ok := rd.v.HostByName(name); !ok {
				rd.noteMissing("%sscheduler_hints.%s: there is no host %q in this zone", part, l.name, name)
			}
		}
	}
}

// readRules reads the rules of the body, and adds those of the server groups in its
// hints.
func (rd *reading) readRules(rules []rest.RuleCreate) error {
	named, members := rd.serverGroups()
	if n := len(rules) + len(named); n > api.RulesMax {
		return api.Errorf(api.CodeInvalid, "rules may have at most %d entries, server groups in hints among them, got %d", api.RulesMax, n)
	}
	for i := range rules {
		if err := rd.readRule(fmt.Sprintf("rules[%d].", i), &rules[i]); err != nil {
			return err
		}
	}
	for _, ref := range named {
		rule := api.Rule{ID: api.ServerGroupID(ref), Groups: members[ref]}
		if g, err := ServerGroup(rd.v, rd.caller.Project, ref); err == nil {
			rule.ID, rule.Policy, rule.Max = g.ID, g.Policy, g.Max
		} else {
			rd.noteMissing("scheduler_hints.group: there is no server group %q in this project; see GET /server-groups", ref)
		}
		rd.addRule(rule)
	}
	return nil
}

// serverGroups returns the names by which the groups of an order join server groups, in
// their order in the body, and the groups that do.
func (rd *reading) serverGroups() ([]string, map[string][]int) {
	var named []string
	members := map[string][]int{}
	for n, ref := range rd.order.Joins {
		if ref == "" {
			continue
		}
		if members[ref] == nil {
			named = append(named, ref)
		}
		members[ref] = append(members[ref], n)
	}
	return named, members
}

// addRule adds the rule of a server group, or adds the groups to the existing rule if
// the body named the server group in two ways.
func (rd *reading) addRule(rule api.Rule) {
	for i := range rd.joined {
		if r := &rd.joined[i]; r.ID == rule.ID {
			r.Groups = slices.Compact(slices.Sorted(slices.Values(append(r.Groups, rule.Groups...))))
			return
		}
	}
	rd.joined = append(rd.joined, rule)
}

func (rd *reading) readRule(part string, r *rest.RuleCreate) error {
	most, err := checkPolicy(part, r.Policy, r.Max)
	if err != nil {
		return err
	}
	if err := checkNamed(part+"groups", r.Groups, "all groups"); err != nil {
		return err
	}
	out := api.Rule{Policy: r.Policy, Max: most}
	for _, name := range r.Groups {
		n := slices.IndexFunc(rd.groups, func(g api.Group) bool { return g.Name == name && name != "" })
		switch {
		case n < 0:
			return api.Errorf(api.CodeInvalid, "%sgroups: this boot has no group %q", part, name)
		case slices.Contains(out.Groups, n):
			return api.Errorf(api.CodeInvalid, "%sgroups: %q is there twice", part, name)
		}
		out.Groups = append(out.Groups, n)
	}
	slices.Sort(out.Groups)
	if len(r.Groups) == 0 {
		for n := range rd.groups {
			out.Groups = append(out.Groups, n)
		}
	}
	rd.order.Request.Rules = append(rd.order.Request.Rules, out)
	return nil
}
