package estimate_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/dice"
	"berth/raftstore/command"
	"berth/zone/zonetest"
)

// layouts are two ways to describe the same hosts by attributes that are not public.
var layouts = [2]func(host int) map[string]string{
	func(int) map[string]string {
		return map[string]string{"rack": "r1", "serial": "SN-1", "price": "3", "ip": "192.0.2.1"}
	},
	func(host int) map[string]string {
		return map[string]string{"rack": fmt.Sprint("r", host), "serial": fmt.Sprint("SN-", host), "price": strconv.Itoa(host), "ip": fmt.Sprint("192.0.2.", host)}
	},
}

// TestHiddenAttributesChangeNoAnswer plays twenty questions, and twenty more: a parent asks two zones that differ in nothing
// but attributes that are not public, and cannot tell them apart.
func TestHiddenAttributesChangeNoAnswer(t *testing.T) {
	rnd := dice.Rand(t)
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		var kids [2]*zonetest.Member
		for n := range kids {
			kids[n] = w.Zone(fmt.Sprint("kid", n), root, 4, 4, 8, 16)
			describeHosts(kids[n], layouts[n])
		}
		w.Settle()
		offered := 0
		for q := range 1000 {
			req := guess(rnd, q)
			first, second := answerTo(kids[0], req), answerTo(kids[1], req)
			require.Equal(t, first.Weights, second.Weights, "%+v", req.Groups[0])
			require.Equal(t, first.Refusals, second.Refusals, "%+v", req.Groups[0])
			require.Len(t, second.Blob, len(first.Blob))
			offered += len(first.Weights[0])
		}
		assert.Positive(t, offered, "some questions are answered with slots")
		kids[0].Configure(func(c *api.ZoneConfig) { c.PublicAttributes = []string{"rack"} })
		kids[1].Configure(func(c *api.ZoneConfig) { c.PublicAttributes = []string{"rack"} })
		req := zonetest.Order("q", 1, 32).Request
		req.Groups[0].Hints.Query = `["=","$rack","r1"]`
		assert.NotEqual(t, len(answerTo(kids[0], &req).Weights[0]), len(answerTo(kids[1], &req).Weights[0]), "what is public can be asked for")
	})
}

// guess returns a question of somebody who wants to know the hosts of a zone.
func guess(rnd *rand.Rand, n int) *api.Request {
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	req := zonetest.Order(fmt.Sprint("q", n), 1, 1+rnd.IntN(32)).Request
	g := &req.Groups[0]
	g.Resources = api.Resources{api.VCPU: 1 + rnd.Int64N(16)}
	name := pick("rack", "serial", "price", "ip", "host.name", "attributes.rack", "capabilities.price")
	value := pick("r1", "r2", "SN-1", "SN-2", "1", "3", "192.0.2.1", "a")
	switch rnd.IntN(5) {
	case 0:
		g.Hints.Query = fmt.Sprintf("[%q,%q,%q]", pick("=", "<", ">", "in"), "$"+name, value)
	case 1:
		g.Hints.Query = fmt.Sprintf(`["not",["=",%q,%q]]`, "$"+name, value)
	case 2:
		g.Hints.Query = fmt.Sprintf(`["or",["=",%q,%q],["<","$vcpus_free",%d]]`, "$"+name, value, rnd.IntN(20))
	case 3:
		g.ExtraSpecs = map[string]string{pick("rack", "capabilities:serial", "price"): pick("r1", "<in> SN", "s!= r1", ">= 2")}
	case 4:
		req.Rules = []api.Rule{{Policy: api.AntiAffinity, Max: 1 + rnd.IntN(2), Groups: []int{0}}}
	}
	return &req
}

// describeHosts gives the hosts of a zone attributes, by their number.
func describeHosts(m *zonetest.Member, of func(host int) map[string]string) {
	for n, h := range m.View().AllHosts() {
		m.Do(command.HostSet{Stamp: m.Lead().Stamp(), ID: h.ID, Overrides: of(n + 1)})
	}
}

// answerTo is what the zone answers its parent.
func answerTo(m *zonetest.Member, req *api.Request) *api.SelectAnswer {
	up, _ := m.View().Parent()
	ctx, cancel := m.Within(time.Minute)
	defer cancel()
	a, err := m.Lead().Select(ctx, up.Zone, req)
	require.NoError(m.World.T, err)
	return a
}
