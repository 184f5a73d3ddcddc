package buildplan_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/buildplan"
	"berth/capacity"
	"berth/costs"
	"berth/filters"
	"berth/internal/script"
)

// talk is the state of one conversation.
type talk struct {
	t     *testing.T
	table *capacity.Table
	costs costs.Set
	rules []api.Rule // of the next request
	world *filters.World
}

// TestConversations plays testdata/*.txt. The commands are
//
//	host ID vcpu=N mem=N [disk=N] [pool=P] [gap=MS] [in=AGGREGATE] [down] [disabled] [needs-command]
//	part ID vcpu=N mem=N [disk=N] [parent=ID] [in=AGGREGATE] [shares]
//	claim ID START END CLASS vcpu=N mem=N     END may be "forever"
//	now INSTANT
//	costs NAME=WEIGHT ...
//	rule POLICY GROUP ... [max=N]                of the requests that follow; alone, no rule any more
//	select START END CLASS [spare=N] [disk=N] GROUP ...   a GROUP is COUNTxVCPU/MEM[/FLAVOR]; each slot wants the disk
//	lease START END [disk=N] GROUP ...           plans and claims room, all of it or none; a GROUP may also be MIN-MAXxwhole
//	fits START END CLASS [disk=N] [limit=N] GROUP
//	merge [skew=N] [zones=N] [pack] COUNT OFFER ... [/ COUNT OFFER ...]
//
// An OFFER is the weights of one source with commas, or - for none.
func TestConversations(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			k := &talk{t: t, table: capacity.NewTable(), costs: costs.Default(), world: &filters.World{HasCommand: hasCommand}}
			script.Run(t, f, k.answer)
		})
	}
}

func (k *talk) answer(c script.Command) (string, error) {
	switch c.Name {
	case "host", "part":
		k.provider(c)
	case "claim":
		return "", k.table.Claim(api.HostID(c.Arg(0)), api.Claim{
			Window: k.window(c, 1), Class: api.Class(c.Arg(3)), Resources: k.resources(c),
		})
	case "now":
		k.table.Advance(api.Instant(c.Int(k.t, 0)))
	case "costs":
		return "", k.weigh(c)
	case "rule":
		k.rule(c)
	case "select":
		return k.plan(c), nil
	case "lease":
		return k.lease(c)
	case "fits":
		return fmt.Sprintln(fitsOf(k.scene(c), k.request(c), k.value(c, "limit"))), nil
	case "merge":
		return k.merge(c), nil
	default:
		require.Fail(k.t, "unknown command", "%s: %s", c.Pos, c.Name)
	}
	return "", nil
}

func (k *talk) number(c script.Command, s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	require.NoError(k.t, err, c.Pos)
	return n
}

func (k *talk) value(c script.Command, key string) int64 {
	s, ok := c.Value(key)
	if !ok {
		return 0
	}
	return k.number(c, s)
}

func (k *talk) window(c script.Command, i int) api.Window {
	w := api.Window{Start: api.Instant(c.Int(k.t, i)), End: api.Forever}
	if c.Arg(i+1) != "forever" {
		w.End = api.Instant(c.Int(k.t, i+1))
	}
	return w
}

func (k *talk) resources(c script.Command) api.Resources {
	r := api.Resources{api.VCPU: k.value(c, "vcpu"), api.MemoryMB: k.value(c, "mem")}
	if n := k.value(c, "disk"); n > 0 {
		r[api.DiskGB] = n
	}
	return r
}

func (k *talk) provider(c script.Command) {
	s := capacity.Spec{
		ID: api.HostID(c.Arg(0)), Up: true, Enabled: true, Pool: api.PoolShared, Passive: c.Name == "part",
		Gap:       time.Duration(k.value(c, "gap")) * time.Millisecond,
		Inventory: map[api.ResourceClass]api.Inventory{},
	}
	for class, n := range k.resources(c) {
		if n > 0 || !s.Passive {
			s.Inventory[class] = api.Inventory{Total: n}
		}
	}
	if id, ok := c.Value("parent"); ok {
		s.Parent = api.HostID(id)
	}
	if id, ok := c.Value("in"); ok {
		s.Aggregates = []string{id}
	}
	if p, ok := c.Value("pool"); ok {
		s.Pool = api.Pool(p)
	}
	for _, a := range c.Args {
		s.Up = s.Up && a != "down"
		s.Enabled = s.Enabled && a != "disabled"
		s.NeedsCommand = s.NeedsCommand || a == "needs-command"
		if a == "shares" {
			s.Traits = []string{api.TraitShares}
		}
	}
	k.table.Put(s)
	k.table.Bump(s.ID)
}

func (k *talk) weigh(c script.Command) error {
	var weights []api.CostWeight
	for _, a := range c.Args {
		name, weight, _ := strings.Cut(a, "=")
		weights = append(weights, api.CostWeight{Name: name, Weight: k.number(c, weight)})
	}
	cs, err := costs.New(weights)
	if err == nil {
		k.costs = cs
	}
	return err
}

func (k *talk) scene(c script.Command) *buildplan.Inputs {
	return &buildplan.Inputs{View: k.table.View(), World: k.world, Filters: filters.Default(), Costs: k.costs, Spare: int(k.value(c, "spare"))}
}

func (k *talk) request(c script.Command) *api.Request {
	req := &api.Request{Window: k.window(c, 0), Class: api.Class(c.Arg(2)), Rules: k.rules}
	for _, a := range c.Args[3:] {
		if strings.Contains(a, "=") {
			continue
		}
		count, rest, _ := strings.Cut(a, "x")
		parts := append(strings.SplitN(rest, "/", 3), "")
		req.Groups = append(req.Groups, api.Group{
			Count: int(k.number(c, count)), Flavor: api.FlavorID(parts[2]),
			Resources: k.resources(c),
		})
		r := req.Groups[len(req.Groups)-1].Resources
		r[api.VCPU], r[api.MemoryMB] = k.number(c, parts[0]), k.number(c, parts[1])
	}
	return req
}

func (k *talk) plan(c script.Command) string {
	var out strings.Builder
	plan := buildplan.Select(k.scene(c), k.request(c))
	for i, g := range plan.Groups {
		fmt.Fprintf(&out, "group %d slots%s alternates%s\n", i, spell(g.Slots), spell(g.Alternates))
		fmt.Fprintf(&out, "  considered %d offering %d refused %v\n",
			g.Refusals.Considered, g.Refusals.Offering, g.Refusals.Filters)
		for _, a := range g.Refusals.Advice {
			fmt.Fprintf(&out, "  advice %+v\n", a)
		}
	}
	return out.String()
}

// lease plans a lease and claims its slots.
func (k *talk) lease(c script.Command) (string, error) {
	groups := c.Args[2:]
	c.Args = append(c.Args[:2:2], "firm")
	req := k.request(c)
	req.Reserves = true
	for _, a := range groups {
		count, rest, _ := strings.Cut(a, "x")
		least, most, ranged := strings.Cut(count, "-")
		g := api.Group{Name: fmt.Sprint("g", len(req.Groups)), Whole: rest == "whole", Min: int(k.number(c, least))}
		if g.Count = g.Min; ranged {
			g.Count = int(k.number(c, most))
		}
		if cpus, mem, _ := strings.Cut(rest, "/"); !g.Whole {
			g.Resources = k.resources(c)
			g.Resources[api.VCPU], g.Resources[api.MemoryMB] = k.number(c, cpus), k.number(c, mem)
		}
		req.Groups = append(req.Groups, g)
	}
	require.NoError(k.t, req.Validate(), c.Pos)
	plan := buildplan.Select(k.scene(c), req)
	var out strings.Builder
	for i, g := range plan.Groups {
		if len(g.Slots) < req.Groups[i].Min {
			return fmt.Sprintf("refused: group %d has %d of %d, %v\n", i, len(g.Slots), req.Groups[i].Min, g.Refusals.Filters), nil
		}
	}
	for i, g := range plan.Groups {
		fmt.Fprintf(&out, "group %d", i)
		for _, s := range g.Slots {
			claim := api.Claim{Class: api.Firm, Window: req.Window, Resources: req.Groups[i].Resources}
			var err error
			if req.Groups[i].Whole {
				_, _, err = k.table.PlaceWhole(s.Host, claim)
			} else {
				_, err = k.table.Place(s.Host, claim)
			}
			require.NoError(k.t, err, c.Pos)
			fmt.Fprintf(&out, " %s", s.Host)
		}
		out.WriteString("\n")
	}
	return out.String(), nil
}

func (k *talk) rule(c script.Command) {
	if len(c.Args) == 0 {
		k.rules = nil
		return
	}
	r := api.Rule{Policy: api.Policy(c.Arg(0)), Max: int(k.value(c, "max"))}
	for _, a := range c.Args[1:] {
		if !strings.Contains(a, "=") {
			r.Groups = append(r.Groups, int(k.number(c, a)))
		}
	}
	k.rules = append(k.rules, r)
}

func (k *talk) merge(c script.Command) string {
	req := &api.Request{Zones: api.ZoneRule{MaxSkew: int(k.value(c, "skew")), MinZones: int(k.value(c, "zones"))}, Rules: k.rules}
	var offers [][][]int64
	fresh := true
	for _, a := range c.Args {
		switch {
		case a == "pack":
			req.Zones.Pack = true
		case a == "/":
			fresh = true
		case strings.Contains(a, "="):
		case fresh:
			req.Groups, offers = append(req.Groups, api.Group{Count: int(k.number(c, a))}), append(offers, nil)
			fresh = false
		default:
			var weights []int64
			for _, w := range strings.Split(strings.Trim(a, "-"), ",") {
				if w != "" {
					weights = append(weights, k.number(c, w))
				}
			}
			last := len(offers) - 1
			offers[last] = append(offers[last], weights)
		}
	}
	var out strings.Builder
	for i, m := range buildplan.Merge(req, offers, nil, nil) {
		fmt.Fprintf(&out, "group %d order %v weights %v taken %v costs %v\n", i, m.Order, m.Weights, m.Taken, m.Costs)
	}
	return out.String()
}

func spell(slots []buildplan.Slot) string {
	if len(slots) == 0 {
		return " none"
	}
	var out strings.Builder
	for _, s := range slots {
		fmt.Fprintf(&out, " %s@%d:%d", s.Host, s.Generation, s.Weight)
	}
	return out.String()
}
