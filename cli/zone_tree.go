package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

// Bounds of what is asked of the zones of saved contexts.
const (
	treeAskedMax = 8               // contexts that are asked at one time
	treePatience = 5 * time.Second // for what one of them is asked
)

// treeZone is one zone of a tree, as zone tree prints it. Figures are those of its digest: rounded, and
// for a zone with all zones below it.
type treeZone struct {
	Name    string                                 `json:"name"`
	ID      api.ZoneID                             `json:"zone_id"`
	Role    string                                 `json:"role"` // parent, child, or self
	Health  string                                 `json:"health,omitempty"`
	State   string                                 `json:"state,omitempty"`
	Version string                                 `json:"version,omitempty"` // only of zones that were asked themselves
	Context string                                 `json:"context,omitempty"` // by which it was asked
	Classes map[api.ResourceClass]rest.ClassTotals `json:"classes,omitempty"`
	Own     map[api.ResourceClass]treeOwn          `json:"own,omitempty"`     // of its own hosts, exact; only of zones that were asked themselves, by admins
	Partial bool                                   `json:"partial,omitempty"` // something below has not been heard from recently
	Below   bool                                   `json:"below"`             // its children are listed; otherwise it may have some
	Zones   []treeZone                             `json:"zones,omitempty"`
}

// treeOwn is what a zone has of a class on its own hosts.
type treeOwn struct {
	Capacity int64 `json:"capacity"`
	Free     int64 `json:"free"`
}

// roleSelf is the role of the zone that was asked, beside those of links.
const roleSelf = "self"

func zoneTree(e *env) *cobra.Command {
	var contexts bool
	c := &cobra.Command{
		Use:   "tree",
		Short: "Show the zones above and below this one",
		Long: `Show the parent of the zone, the zone itself, and its children, with health, version and
capacity. What is FREE, and of how much, is rounded as in the reports of zones to each other, and
counts all zones below. What is OWN is exact, of the hosts of a zone that was asked itself.

No zone knows the names of those below its children, so these are not shown: "..." stands for
them. With --contexts, every saved context is asked which zone it is of, and the tree goes on
below the children that one of them is of, as far as its token is allowed to see. Only
admins see capacity.`,
		Example: "  berth zone tree\n  berth zone tree --contexts\n  berth zone tree --contexts -o json",
		Args:    exactArgs(),
	}
	c.Flags().BoolVar(&contexts, "contexts", false, "ask the zones of the saved contexts too")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		t := &treeWalk{e: e, by: map[api.ZoneID]treeClient{}, seen: map[api.ZoneID]bool{}}
		defer t.close()
		answered := e.noteWaiting()
		root, parent, err := t.walk(ctx, cl, 0, func(id api.ZoneID) {
			t.seen[id] = true
			if contexts {
				err := t.askContexts(ctx)
				if err != nil {
					e.printNote("contexts cannot be asked: %s", err)
				}
			}
		})
		answered()
		if err != nil {
			return err
		}
		if parent != nil {
			parent.Zones, root = []treeZone{root}, *parent
		}
		body, err := json.Marshal(map[string]treeZone{"tree": root})
		if err != nil {
			return err
		}
		return e.printAnswer(body, func() []table { return treeTables(root, e.format == formatTable || e.format == formatWide) })
	})
	return c
}

// treeClient is a client for the zone of a context.
type treeClient struct {
	context string
	client  *client.Client
}

// treeWalk gathers a tree.
type treeWalk struct {
	e    *env
	by   map[api.ZoneID]treeClient
	seen map[api.ZoneID]bool // listed once
}

func (t *treeWalk) close() {
	for _, c := range t.by {
		c.client.Close()
	}
}

// walk returns a zone with those below it, and its parent, nil for none. met is called with its id
// before those below are looked at.
func (t *treeWalk) walk(ctx context.Context, cl *client.Client, depth int, met func(api.ZoneID)) (own treeZone, parent *treeZone, err error) {
	info, err := cl.ZoneInfo(ctx)
	if err != nil {
		return own, nil, err
	}
	links, err := allZones(ctx, cl)
	if err != nil {
		return own, nil, err
	}
	met(info.ID)
	own = treeZone{Name: info.Name, ID: info.ID, Role: roleSelf, Health: "up", State: string(api.LinkActive), Version: info.Version, Below: true}
	own.count(info.Digest)
	own.Own, err = ownCapacity(ctx, cl, info.Name)
	if err != nil {
		return own, nil, err
	}
	slices.SortFunc(links, func(a, b rest.Zone) int { return strings.Compare(a.Name, b.Name) })
	for i := range links {
		l := &links[i]
		one := treeZone{Name: l.Name, ID: l.Zone, Role: string(l.Role), Health: l.Health, State: zoneStateText(l)}
		if l.Role == api.LinkParent {
			parent = &one // a digest of it says nothing but that it is there
			continue
		}
		one.count(l.Digest)
		own.Zones = append(own.Zones, t.below(ctx, one, depth+1))
	}
	return own, parent, nil
}

// below adds to a child what the context of its zone says, if there is one.
func (t *treeWalk) below(ctx context.Context, one treeZone, depth int) treeZone {
	c, ok := t.by[one.ID]
	if !ok || t.seen[one.ID] || depth > api.DepthMax {
		return one
	}
	ctx, cancel := context.WithTimeout(ctx, treePatience)
	defer cancel()
	t.seen[one.ID] = true
	full, _, err := t.walk(ctx, c.client, depth, func(api.ZoneID) {})
	if err != nil {
		t.e.printNote("context %q: %s", c.context, err)
		return one
	}
	one.Version, one.Context, one.Zones, one.Below = full.Version, c.context, full.Zones, true
	one.Own = full.Own
	if full.Classes != nil {
		one.Classes, one.Partial = full.Classes, full.Partial
	}
	return one
}

// ownCapacity returns the exact capacity of the hosts of a zone; nil for those who may not see it.
func ownCapacity(ctx context.Context, cl *client.Client, zone string) (map[api.ResourceClass]treeOwn, error) {
	c, err := cl.Capacity(ctx, time.Time{}, zone)
	if api.CodeOf(err) == api.CodeForbidden {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	own := map[api.ResourceClass]treeOwn{}
	for _, z := range c.Zones {
		for class, n := range z.Classes {
			if z.Exact {
				own[class] = treeOwn{n.Capacity, n.Free}
			}
		}
	}
	return own, nil
}

// count takes the figures of a digest over.
func (z *treeZone) count(d *rest.Digest) {
	if d == nil {
		return
	}
	z.Classes, z.Partial = d.Classes, d.Partial
	if d.Health != "up" && z.Health == "up" && d.Health != "" {
		z.Health = d.Health
	}
	if z.Health == "down" { // nothing of it can be had
		z.Classes = maps.Clone(d.Classes)
		for class, t := range z.Classes {
			t.Free = 0
			z.Classes[class] = t
		}
	}
}

// allZones returns all pages of the linked zones.
func allZones(ctx context.Context, cl *client.Client) (all []rest.Zone, err error) {
	for o := (client.ListOptions{}); ; {
		p, err := cl.Zones(ctx, o)
		if err != nil {
			return nil, err
		}
		all = append(all, p.Items...)
		if p.Next == "" || len(all) >= pagesMax*api.PageMax {
			return all, nil
		}
		o.Marker = p.Next
	}
}

// askContexts asks each saved context which zone it is of. Of two for one zone, the first by name counts.
func (t *treeWalk) askContexts(ctx context.Context) error {
	f, err := t.e.readSettingsFile()
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(f.contexts))
	found := make([]func(), len(names)) // what is learned of each, in the order of the names
	places := make(chan struct{}, treeAskedMax)
	var wg sync.WaitGroup
	for i, name := range names {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			found[i] = t.askContext(ctx, name, f.contexts[name])
		})
	}
	wg.Wait()
	for _, learn := range found {
		learn()
	}
	return nil
}

// askContext asks one context, and returns what notes the answer.
func (t *treeWalk) askContext(ctx context.Context, name string, settings map[string]string) (learn func()) {
	ctx, cancel := context.WithTimeout(ctx, treePatience)
	defer cancel()
	failed := func(err error) func() {
		return func() { t.e.printNote("context %q: %s", name, err) }
	}
	settings = maps.Clone(settings)
	settings["addr"] = cmp.Or(settings["addr"], addrDefault)
	cfg, err := configOf(settings)
	if err != nil {
		return failed(err)
	}
	cfg.HTTP = t.e.http
	c, err := client.New(cfg)
	if err != nil {
		return failed(err)
	}
	info, err := c.ZoneInfo(ctx)
	if err != nil {
		c.Close()
		return failed(err)
	}
	return func() {
		if _, known := t.by[info.ID]; known {
			c.Close()
			return
		}
		t.by[info.ID] = treeClient{name, c}
	}
}

// treeTables shows a tree, two spaces deeper for each level where a person reads it.
func treeTables(root treeZone, deeper bool) []table {
	t := table{header: []string{"ZONE", "ROLE", "HEALTH", "STATE", "VCPU FREE", "MEMORY_MB FREE", "OWN VCPU FREE", "OWN MEMORY_MB FREE", "VERSION", "CONTEXT"}}
	var add func(z treeZone, level int)
	add = func(z treeZone, level int) {
		indent := ""
		if deeper {
			indent = strings.Repeat("  ", level)
		}
		t.addRow(indent+z.Name, z.Role, z.Health, z.State, z.free(api.VCPU), z.free(api.MemoryMB), z.ownFree(api.VCPU), z.ownFree(api.MemoryMB), z.Version, z.Context)
		for _, b := range z.Zones {
			add(b, level+1)
		}
		if deeper && z.Role == string(api.LinkChild) && !z.Below {
			t.addRow(indent+"  ...", "", "", "", "", "", "", "", "", "")
		}
	}
	add(root, 0)
	return []table{t}
}

// free returns how much of a class is free, of how much.
func (z *treeZone) free(class api.ResourceClass) string {
	n, ok := z.Classes[class]
	switch {
	case !ok && z.Classes != nil:
		return "none"
	case !ok:
		return ""
	}
	return strconv.FormatInt(n.Free, 10) + " of " + strconv.FormatInt(n.Total, 10)
}

// ownFree returns how much of a class is free on the hosts of the zone itself, of how much.
func (z *treeZone) ownFree(class api.ResourceClass) string {
	n, ok := z.Own[class]
	if !ok {
		return ""
	}
	return strconv.FormatInt(n.Free, 10) + " of " + strconv.FormatInt(n.Capacity, 10)
}
