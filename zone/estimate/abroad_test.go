package estimate_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/zone/zonetest"
)

// TestAZoneMayBeClosedToParentsThatPreempt: a parent has nobody ended in a zone that says so, when it
// selects and when it holds. The zone's own boots still may.
func TestAZoneMayBeClosedToParentsThatPreempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		z := w.Zone("low", w.Zone("root", nil), 1)
		up, _ := z.View().Parent()
		z.Soft("s", 1)
		firm := zonetest.Order("firm", 1, 1)
		firm.Request.Preempt = true
		good := offerTo(z, up.Zone, firm.Request)
		z.Propose(func(at command.Stamp) command.Command {
			return command.ConfigSet{Stamp: at, Config: api.ZoneConfig{Preemptibles: api.PreemptRule{Closed: true}}}
		})
		_, err := selectFor(z, up.Zone, firm.Request)
		assert.Equal(t, api.CodeForbidden, api.CodeOf(err), "%v", err)
		ctx, cancel := z.Within(time.Minute)
		defer cancel()
		_, err = z.Lead().Hold(ctx, up, &api.HoldRequest{
			ID: "h", Attempt: 1, Request: firm.Request, Blob: good.Blob, Instances: [][]api.InstanceSpec{zonetest.Specs("a", 1)},
		})
		assert.Equal(t, api.CodeForbidden, api.CodeOf(err), "%v", err)
		assert.Zero(t, z.Evicted())
		assert.Equal(t, api.BootActive, z.Run(firm).State())
		assert.Equal(t, 1, z.Evicted())
	})
}

// TestAParentAsksAsAUserDoes: what no user could ask for here is refused to a parent
// too, when it selects and when it holds, and changes nothing.
func TestAParentAsksAsAUserDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		z := w.Zone("low", w.Zone("root", nil), 4)
		up, _ := z.View().Parent()
		now := z.View().Now().Add(time.Hour)
		longest := strings.Repeat("n", api.InstanceNameMax)
		for name, c := range map[string]struct {
			request func(r *api.Request)
			hold    func(h *api.HoldRequest)
			ok      bool
		}{
			"what it may":            {ok: true},
			"a lifetime":             {request: func(r *api.Request) { r.Lifetime = api.LifetimeMax }, ok: true},
			"the longest name":       {hold: func(h *api.HoldRequest) { h.Instances[0][0].Name = longest }, ok: true},
			"preemptible":            {request: func(r *api.Request) { r.Class = api.Preemptible }, ok: true},
			"that others make room":  {request: func(r *api.Request) { r.Preempt = true }, ok: true},
			"an action when firm":    {request: func(r *api.Request) { r.OnPreempt = api.PreemptStop }},
			"later":                  {request: func(r *api.Request) { r.Window.Start = now }},
			"before all time":        {request: func(r *api.Request) { r.Window.Start = -1 }},
			"beyond the window":      {request: func(r *api.Request) { r.Window.End = now.Add(api.WindowMax) }},
			"no availability zone":   {request: func(r *api.Request) { r.Groups[0].AZ = "a\nb" }},
			"too long a name":        {hold: func(h *api.HoldRequest) { h.Instances[0][0].Name = longest + "n" }},
			"no name":                {hold: func(h *api.HoldRequest) { h.Instances[0][0].Name = "" }},
			"a name with controls":   {hold: func(h *api.HoldRequest) { h.Instances[0][0].Name = "a\x1b]0;b\x07" }},
			"a name that turns":      {hold: func(h *api.HoldRequest) { h.Instances[0][0].Name = "a\u202eb" }},
			"a name of two lines":    {hold: func(h *api.HoldRequest) { h.Instances[0][0].Name = "a\nb" }},
			"a name that is no name": {hold: func(h *api.HoldRequest) { h.Instances[0][0].Name = "a\x00" }},
		} {
			req := zonetest.Order("r-"+strings.ReplaceAll(name, " ", "-"), 1, 1).Request
			good := offerTo(z, up.Zone, req)
			h := api.HoldRequest{ID: api.HoldID(req.Reservation), Attempt: 1, Request: req, Blob: good.Blob, Instances: [][]api.InstanceSpec{zonetest.Specs("a", 1)}}
			if c.request != nil {
				h.Request.Groups = append([]api.Group(nil), req.Groups...)
				c.request(&h.Request)
			}
			if c.hold != nil {
				c.hold(&h)
			}
			before := z.View().Index()
			_, selecting := selectFor(z, up.Zone, h.Request)
			ctx, cancel := z.Within(time.Minute)
			_, holding := z.Lead().Hold(ctx, up, &h)
			cancel()
			if c.ok {
				require.NoError(t, selecting, name)
				assert.NotEqual(t, api.CodeInvalid, api.CodeOf(holding), "%s: %v", name, holding)
				continue
			}
			if c.request != nil {
				assert.Equal(t, api.CodeInvalid, api.CodeOf(selecting), "%s: %v", name, selecting)
			}
			assert.Equal(t, api.CodeInvalid, api.CodeOf(holding), "%s: %v", name, holding)
			assert.Equal(t, before, z.View().Index(), name)
		}
	})
}

// selectFor selects in the name of a zone.
func selectFor(m *zonetest.Member, peer api.ZoneID, req api.Request) (*api.SelectAnswer, error) {
	ctx, cancel := m.Within(time.Minute)
	defer cancel()
	return m.Lead().Select(ctx, peer, &req)
}

func offerTo(m *zonetest.Member, peer api.ZoneID, req api.Request) *api.SelectAnswer {
	m.World.T.Helper()
	a, err := selectFor(m, peer, req)
	require.NoError(m.World.T, err)
	return a
}
