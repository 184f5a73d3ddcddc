package state

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/quota"
	"berth/raftstore/command"
)

// TestWhatABootLacks: of all, of a group, and of zones; in that order.
func TestWhatABootLacks(t *testing.T) {
	type places = []map[api.LinkID]int
	r := func(change func(r *api.Request)) *api.Request {
		r := request("r", 4)
		r.Groups = append(r.Groups, api.Group{Name: "web"})
		change(&r)
		return &r
	}
	for name, c := range map[string]struct {
		r    *api.Request
		held places
		want string
	}{
		"nothing asked":     {r(func(*api.Request) {}), places{{"": 1, "c1": 9}, {}}, ""},
		"zones":             {r(func(r *api.Request) { r.Zones.MinZones = 2 }), places{{"c1": 1}, {"c1": 1}}, "holds instances in 1 zones and needs 2"},
		"enough zones":      {r(func(r *api.Request) { r.Zones.MinZones = 2 }), places{{"c1": 1}, {"": 1}}, ""},
		"packed":            {r(func(r *api.Request) { r.Zones.Pack = true }), places{{"c1": 1}, {"c1": 1}}, ""},
		"packed, in two":    {r(func(r *api.Request) { r.Zones.Pack = true }), places{{"c1": 1}, {"c2": 1}}, "holds instances in 2 zones and must be in one"},
		"skewed":            {r(func(r *api.Request) { r.Zones.MaxSkew = 1 }), places{{"c1": 3, "c2": 1}, {}}, "holds 2 instances of group 0 more in one zone than in another, and may 1"},
		"skewed as allowed": {r(func(r *api.Request) { r.Zones.MaxSkew = 1 }), places{{"c1": 2, "c2": 1}, {}}, ""},
		"by another group":  {r(func(r *api.Request) { r.Zones.MaxSkew = 1 }), places{{"c1": 2, "c2": 1}, {"c2": 2}}, `holds 2 instances of group "web" more in one zone than in another, and may 1`},
		"by none there":     {r(func(r *api.Request) { r.Zones.MaxSkew = 1 }), places{{"c1": 2}, {"c2": 1}}, "holds 2 instances of group 0 more in one zone than in another, and may 1"},
	} {
		assert.Equal(t, c.want, describeZoneShortfall(c.r, c.held), name)
	}
	assert.Zero(t, skewOf(nil, nil))
	s := New()
	b := &Boot{BootTerms: command.BootTerms{Request: *r(func(r *api.Request) { r.Groups[1].Min = 1 }), Min: 2}, Holds: []api.HoldID{"held", "asking", "done", "gone"}}
	held := &Hold{ID: "held", State: api.HoldHeld, Decision: api.DecisionPending, Slots: slots("h1", "a", "b"), Parts: []Part{{Link: "c1", Instances: []PartInstance{{Spec: spec("c"), Group: 1}}}}}
	s.holds.Set(held.Key(), held)
	s.holds.Set(joinKey("", "asking"), &Hold{ID: "asking", State: api.HoldAsking, Decision: api.DecisionPending, Slots: slots("h1", "x")})
	s.holds.Set(joinKey("", "done"), &Hold{ID: "done", State: api.HoldHeld, Decision: api.DecisionAbort, Slots: slots("h1", "y")})
	assert.Equal(t, places{{"": 2}, {"c1": 1}}, s.HeldSlots(b))
	assert.Empty(t, s.DescribeShortfall(b))
	b.Min = 4
	assert.Equal(t, "holds 3 instances and needs 4", s.DescribeShortfall(b))
	b.Min, b.Request.Groups[0].Min = 3, 3
	assert.Equal(t, "holds 2 instances of group 0 and needs 3", s.DescribeShortfall(b))
	b.Request.Groups[0].Min, b.Request.Groups[1].Min = 2, 2
	assert.Equal(t, `holds 1 instances of group "web" and needs 2`, s.DescribeShortfall(b))
	b.Request.Groups[1].Min, b.Refill, b.Request.Zones.MinZones = 0, 1, 3
	first := &Boot{BootTerms: command.BootTerms{Request: b.Request}}
	assert.NotEmpty(t, s.DescribeShortfall(b), "its boot is not known")
	s.boots.Set(first.ID(), first)
	assert.Equal(t, "holds instances in 2 zones and needs 3", s.DescribeShortfall(b))
	there := func(id string, change func(i *api.Instance)) *api.Instance {
		i := api.NewInstance(&api.InstanceTerms{Project: "p", Reservation: "r", Group: "web", Window: api.Window{End: api.Forever}}, spec(id), api.StatusActive)
		i.Link = "c2"
		change(i)
		s.loadInstance(i)
		return i
	}
	there("ends", func(i *api.Instance) { i.Status = api.StatusDeleting })
	there("ended", func(i *api.Instance) { i.Status = api.StatusDeleted })
	there("a parent's", func(i *api.Instance) { i.ChangeTerms(func(t *api.InstanceTerms) { t.Origin = "up" }) })
	there("of no group", func(i *api.Instance) { i.ChangeTerms(func(t *api.InstanceTerms) { t.Group = "other" }) })
	there("another's", func(i *api.Instance) { i.ChangeTerms(func(t *api.InstanceTerms) { t.Reservation = "s" }) })
	assert.Equal(t, places{{}, {}}, s.Survivors(first))
	there("stays", func(*api.Instance) {})
	assert.Equal(t, places{{}, {"c2": 1}}, s.Survivors(first))
	assert.Empty(t, s.DescribeShortfall(b), "with what it has besides")
}

// TestAttemptsOfABoot: what was held and refused, by whom, and that others were first.
func TestAttemptsOfABoot(t *testing.T) {
	s := New()
	b := &Boot{BootTerms: command.BootTerms{Request: request("r", 4)}, Decision: api.DecisionPending}
	assert.Zero(t, b.Tried())
	s.boots.Set(b.ID(), b)
	h := &Hold{ID: "k1", Attempt: 1, Slots: slots("h1", "a", "b"), Refused: []api.InstanceID{"c"}}
	s.noteHold(slotsTaken{owner: owner{ownerLink, b.ID()}, hold: h, wanted: 4})
	now := func() *Boot { b, _ := s.boots.Get(b.ID()); return b }
	assert.Empty(t, now().Attempts, "of a parent")
	s.noteHold(slotsTaken{owner: b.owner(), hold: h, wanted: 4})
	assert.Equal(t, []api.BootAttempt{{Attempt: 1, Wanted: 4, Held: 2, Refused: 1}}, now().Attempts)
	told := &api.BootAttempt{Attempt: 2, Wanted: 9, Contended: true, Zones: []api.ZoneOutcome{{Link: "c1"}, {Link: "c2", Reason: "was"}}}
	s.noteHold(slotsTaken{owner: b.owner(), hold: &Hold{ID: "k2", Attempt: 2}, wanted: 4, outcome: told})
	s.noteHold(slotsTaken{owner: b.owner(), hold: &Hold{ID: "k3", Attempt: 3, Why: api.CodeContended}, wanted: 1})
	assert.Equal(t, []api.HoldID{"k1", "k2", "k3"}, now().Holds)
	assert.Equal(t, []bool{false, true, true}, []bool{now().Attempts[0].Contended, now().Attempts[1].Contended, now().Attempts[2].Contended})
	assert.Equal(t, 9, now().Attempts[1].Wanted)
	answers := []command.PartAnswer{{Link: "c1", Why: api.CodePaused}, {Link: "c2"}}
	s.noteAnswers(partsAnswered{owner: owner{ownerLink, b.ID()}, hold: &Hold{Attempt: 2}, held: 1, answers: answers})
	assert.Zero(t, now().Attempts[1].Held, "of a parent")
	s.noteAnswers(partsAnswered{owner: b.owner(), hold: &Hold{Attempt: 2}, held: 3, refused: 2, answers: answers})
	assert.Equal(t, api.BootAttempt{
		Attempt: 2, Wanted: 9, Contended: true, Held: 3, Refused: 2, Zones: []api.ZoneOutcome{{Link: "c1", Reason: refusedBecause(api.CodePaused)}, {Link: "c2", Reason: "was"}},
	}, now().Attempts[1])
	assert.Empty(t, told.Zones[0].Reason, "of a copy")
	s.noteAnswers(partsAnswered{owner: b.owner(), hold: &Hold{Attempt: 1, Why: api.CodeContended}})
	assert.True(t, now().Attempts[0].Contended)
	assert.Equal(t, 3, now().Tried())
	assert.Equal(t, 3, now().Attempts[2].Attempt)
}

// TestWhatABootCounts against quotas: a lease and what is within one count elsewhere.
func TestWhatABootCounts(t *testing.T) {
	r := request("r", 3)
	assert.Equal(t, always(quota.Amounts{quota.Boots: 1}.Plus(quota.Count(familyOf(api.Firm, ""), 3, r.Groups[0].Resources))), useOfBoot(&r))
	lease, within := r, r
	lease.Reserves, within.Within = true, "l"
	for _, other := range []*api.Request{&lease, &within} {
		assert.Equal(t, always(quota.Amounts{quota.Boots: 1}), useOfBoot(other))
		assert.False(t, bootUsesQuota(other))
	}
	s := New()
	terms := &command.BootTerms{Request: r, Metadata: map[string]string{"a": "bc"}}
	assert.Equal(t, always(quota.Amounts{quota.Records: 1, quota.Data: quota.DataOf(terms.Metadata, nil)}), useOfRecord(terms))
	b := &Boot{BootTerms: *terms}
	s.countRecord(b, true)
	assert.Positive(t, s.bootTexts)
	s.countBoot(b, true)
	s.countRecord(b, false)
	assert.Zero(t, s.bootTexts)
	s.countBoot(b, false)
	usage := s.Usage("p")
	assert.True(t, usage.Empty())

	groups := func(gs ...api.Group) *api.Request { return &api.Request{Groups: gs} }
	for _, c := range []struct {
		r     *api.Request
		group int
		want  []int
	}{
		{groups(api.Group{Name: "a"}, api.Group{Name: "b"}), 0, []int{0}},
		{groups(api.Group{Name: "a"}, api.Group{Name: "v", AttachTo: "a"}), 0, []int{0, 1}},
		{groups(api.Group{Name: "a"}, api.Group{Name: "v", AttachTo: "a"}), 1, []int{1, 0}},
		{groups(api.Group{Name: "a"}, api.Group{Name: "v", AttachTo: "a"}, api.Group{Name: "w", AttachTo: "a"}), 1, []int{1, 2, 0}},
		{groups(api.Group{Name: "a"}, api.Group{Name: "b"}, api.Group{Name: "v", AttachTo: "b"}), 0, []int{0}},
		{groups(api.Group{Name: "a"}, api.Group{Name: "b"}, api.Group{Name: "v", AttachTo: "b"}, api.Group{Name: "w", AttachTo: "a"}), 2, []int{2, 1}},
	} {
		assert.Equal(t, c.want, attachedTo(c.r, c.group), "%+v", c)
	}
}

// TestWhichMovesAreRefused: each reason alone.
func TestWhichMovesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world, i *api.Instance, c *command.InstanceMove)
		want   api.Code
	}{
		"it moves": {nil, ""},
		"gone":     {func(_ *world, i *api.Instance, _ *command.InstanceMove) { i.Status = api.StatusDeleted }, api.CodeNotFound},
		"below":    {func(_ *world, i *api.Instance, _ *command.InstanceMove) { i.Host = "" }, api.CodeNotFound},
		"kept":     {func(w *world, _ *api.Instance, _ *command.InstanceMove) { w.s.noteKept("i", true) }, api.CodeConflict},
		"within": {func(_ *world, i *api.Instance, _ *command.InstanceMove) {
			i.ChangeExtras(func(x *api.InstanceExtras) { x.Within = "s" })
		}, api.CodeConflict},
		"to where it is": {func(_ *world, _ *api.Instance, c *command.InstanceMove) { c.From = c.To }, api.CodeInvalid},
		"it has moved":   {func(_ *world, i *api.Instance, _ *command.InstanceMove) { i.Host, i.Status = "h2", api.StatusDeleting }, ""},
		"elsewhere":      {func(_ *world, i *api.Instance, _ *command.InstanceMove) { i.Host = "h3" }, api.CodeConflict},
		"it ends":        {func(_ *world, i *api.Instance, _ *command.InstanceMove) { i.Status = api.StatusDeleting }, api.CodeConflict},
		"it waits":       {func(_ *world, i *api.Instance, _ *command.InstanceMove) { i.Waits = true }, api.CodeConflict},
		"a volume": {func(_ *world, i *api.Instance, _ *command.InstanceMove) {
			i.ChangeTerms(func(t *api.InstanceTerms) { t.Volume = "disk" })
		}, api.CodeConflict},
		"on its way there": {func(_ *world, i *api.Instance, _ *command.InstanceMove) {
			i.ChangeExtras(func(x *api.InstanceExtras) { x.Target = "h2" })
		}, ""},
		"on another way": {func(_ *world, i *api.Instance, _ *command.InstanceMove) {
			i.ChangeExtras(func(x *api.InstanceExtras) { x.Target = "h3" })
		}, api.CodeConflict},
		"an empty slot": {func(_ *world, i *api.Instance, c *command.InstanceMove) { reserve(i); c.Evacuate = true }, ""},
		"a slot, promised": {func(w *world, i *api.Instance, _ *command.InstanceMove) {
			reserve(i)
			w.s.promiseWithin("i", api.Firm, 1)
		}, api.CodeConflict},
		"a slot, lent soon": {func(w *world, i *api.Instance, _ *command.InstanceMove) {
			reserve(i)
			w.s.promiseWithin("i", api.Preemptible, 1)
		}, api.CodeConflict},
		"its host is up":   {func(_ *world, i *api.Instance, c *command.InstanceMove) { c.Evacuate = true; movable(i) }, api.CodeConflict},
		"its host is down": {func(w *world, i *api.Instance, c *command.InstanceMove) { w.down("h1"); c.Evacuate = true; movable(i) }, ""},
		"it may not":       {func(w *world, _ *api.Instance, c *command.InstanceMove) { w.down("h1"); c.Evacuate = true }, api.CodeConflict},
		"it has not begun": {func(w *world, i *api.Instance, c *command.InstanceMove) {
			w.down("h1")
			c.Evacuate, c.Unstarted, i.Status = true, true, api.StatusBuild
		}, ""},
		"it may have begun": {func(w *world, i *api.Instance, c *command.InstanceMove) {
			w.down("h1")
			c.Evacuate, i.Status = true, api.StatusBuild
		}, api.CodeConflict},
		"begun": {func(w *world, _ *api.Instance, c *command.InstanceMove) {
			w.down("h1")
			c.Evacuate, c.Unstarted = true, true
		}, api.CodeConflict},
		"a host that is not": {func(_ *world, i *api.Instance, c *command.InstanceMove) {
			i.Host, c.From, c.Evacuate = "h9", "h9", true
			movable(i)
		}, ""},
	} {
		w := leaseWorld(t)
		i := api.NewInstance(&api.InstanceTerms{Project: "p", Window: api.Window{End: api.Forever}}, spec("i"), api.StatusActive)
		i.Host = "h1"
		move := command.InstanceMove{ID: "i", From: "h1", To: "h2"}
		if c.change != nil {
			c.change(w, i, &move)
		}
		assert.Equal(t, c.want, codeOf(w.s.checkMove(i, true, move)), name)
		assert.Equal(t, api.CodeNotFound, codeOf(w.s.checkMove(nil, false, move)), name)
	}
}

func reserve(i *api.Instance) { i.ChangeTerms(func(t *api.InstanceTerms) { t.Reserved = true }) }

func movable(i *api.Instance) { i.ChangeTerms(func(t *api.InstanceTerms) { t.Movable = true }) }

// TestWhichVolumesAreAttached: each reason alone that keeps a volume from a server, and what is changed.
func TestWhichVolumesAreAttached(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world, vol, to *api.Instance)
		want   api.Code
	}{
		"it is attached":  {nil, ""},
		"no volume":       {func(_ *world, vol, _ *api.Instance) { vol.ChangeTerms(func(t *api.InstanceTerms) { t.Volume = "" }) }, api.CodeNotFound},
		"a volume gone":   {func(_ *world, vol, _ *api.Instance) { vol.Status = api.StatusDeleted }, api.CodeNotFound},
		"a volume below":  {func(_ *world, vol, _ *api.Instance) { vol.Host = "" }, api.CodeNotFound},
		"a server gone":   {func(_ *world, _, to *api.Instance) { to.Status = api.StatusDeleted }, api.CodeNotFound},
		"to a slot":       {func(_ *world, _, to *api.Instance) { reserve(to) }, api.CodeNotFound},
		"to a volume":     {func(_ *world, _, to *api.Instance) { to.ChangeTerms(func(t *api.InstanceTerms) { t.Volume = "disk" }) }, api.CodeNotFound},
		"another project": {func(_ *world, _, to *api.Instance) { to.ChangeTerms(func(t *api.InstanceTerms) { t.Project = "q" }) }, api.CodeNotFound},
		"another zone":    {func(_ *world, _, to *api.Instance) { to.ChangeTerms(func(t *api.InstanceTerms) { t.Origin = "up" }) }, api.CodeNotFound},
		"a server below":  {func(_ *world, _, to *api.Instance) { to.Host = "" }, api.CodeNotFound},
		"again": {func(_ *world, vol, to *api.Instance) {
			vol.ChangeExtras(func(x *api.InstanceExtras) { x.Attached = "s" })
			to.ChangeExtras(func(x *api.InstanceExtras) { x.Volumes = []api.InstanceID{"v"} })
		}, ""},
		"to another": {func(_ *world, vol, _ *api.Instance) {
			vol.ChangeExtras(func(x *api.InstanceExtras) { x.Attached = "x" })
		}, api.CodeConflict},
		"not ready":      {func(_ *world, vol, _ *api.Instance) { vol.Status = api.StatusBuild }, api.CodeConflict},
		"a server ends":  {func(_ *world, _, to *api.Instance) { to.Status = api.StatusDeleting }, api.CodeConflict},
		"a server moves": {func(_ *world, _, to *api.Instance) { to.ChangeExtras(func(x *api.InstanceExtras) { x.Target = "h2" }) }, api.CodeConflict},
		"too many": {func(w *world, _, to *api.Instance) {
			to.ChangeExtras(func(x *api.InstanceExtras) { x.Volumes = make([]api.InstanceID, w.s.limits.attached) })
		}, api.CodeConflict},
		"one less": {func(w *world, _, to *api.Instance) {
			to.ChangeExtras(func(x *api.InstanceExtras) { x.Volumes = make([]api.InstanceID, w.s.limits.attached-1) })
		}, ""},
		"on another host":  {func(_ *world, vol, _ *api.Instance) { vol.Host = "h2" }, api.CodeConflict},
		"the server fails": {func(_ *world, _, to *api.Instance) { to.Status = api.StatusError }, ""},
	} {
		w := leaseWorld(t)
		vol := api.NewInstance(&api.InstanceTerms{Project: "p", Volume: "disk", Window: api.Window{End: api.Forever}}, spec("v"), api.StatusActive)
		to := api.NewInstance(&api.InstanceTerms{Project: "p", Window: api.Window{End: api.Forever}}, spec("s"), api.StatusActive)
		vol.Host, to.Host = "h1", "h1"
		if c.change != nil {
			c.change(w, vol, to)
		}
		w.s.loadInstance(vol)
		w.s.loadInstance(to)
		require.Equal(t, c.want, codeOf(w.s.volumeAttach(command.VolumeAttach{Volume: "v", Instance: "s"})), name)
		assert.Equal(t, api.CodeNotFound, codeOf(w.s.volumeAttach(command.VolumeAttach{Volume: "v", Instance: "none"})), name)
		now, server := w.instance("v"), w.instance("s")
		if c.want != "" {
			assert.Same(t, vol, now, name)
			assert.Same(t, to, server, name)
			continue
		}
		assert.Equal(t, api.InstanceID("s"), now.Attached, name)
		assert.Contains(t, server.Volumes, api.InstanceID("v"), name)
		if name != "it is attached" {
			continue
		}
		assert.Equal(t, []api.InstanceID{"v"}, w.s.VolumesOf(server))
		assert.Equal(t, api.CodeConflict, codeOf(w.s.volumeDetach(command.VolumeDetach{Volume: "v", Instance: "x"})))
		assert.Equal(t, api.CodeNotFound, codeOf(w.s.volumeDetach(command.VolumeDetach{Volume: "s"})))
		for range 2 { // a repeat
			require.NoError(t, w.s.volumeDetach(command.VolumeDetach{Volume: "v", Instance: "s"}).Err)
			assert.Empty(t, w.instance("v").Attached)
			assert.Empty(t, w.instance("s").Volumes)
		}
		require.NoError(t, w.s.volumeAttach(command.VolumeAttach{Volume: "v", Instance: "s"}).Err)
		require.NoError(t, w.s.volumeDetach(command.VolumeDetach{Volume: "v"}).Err, "from whatever it is attached to")
		assert.Empty(t, w.instance("s").Volumes)
	}
}

// TestWhatIsInAGroup: on own hosts and to stay, by name.
func TestWhatIsInAGroup(t *testing.T) {
	s := New()
	add := func(id string, change func(i *api.Instance)) {
		i := api.NewInstance(&api.InstanceTerms{Project: "p", Reservation: "r", Group: "g", Window: api.Window{End: api.Forever}}, api.InstanceSpec{ID: api.InstanceID(id), Name: "z" + id}, api.StatusActive)
		i.Host = "h1"
		change(i)
		s.loadInstance(i)
	}
	add("1", func(*api.Instance) {})
	add("2", func(i *api.Instance) { i.Name = "a" })
	add("3", func(i *api.Instance) { i.Host = "" })
	add("4", func(i *api.Instance) { i.Status = api.StatusDeleted })
	add("5", func(i *api.Instance) { i.Status = api.StatusDeleting })
	add("6", func(i *api.Instance) { i.ChangeTerms(func(t *api.InstanceTerms) { t.Group = "other" }) })
	add("7", func(i *api.Instance) { i.ChangeTerms(func(t *api.InstanceTerms) { t.Reservation = "s" }) })
	add("8", func(i *api.Instance) { i.ChangeTerms(func(t *api.InstanceTerms) { t.Origin = "up" }) })
	assert.Equal(t, []api.InstanceID{"2", "1"}, idsOf(s.inGroup(api.Tenant{Project: "p"}, "r", "g")))

	s.loadGroup(&api.ServerGroup{ID: "g1", Project: "p", Name: "n"})
	g, ok := s.ServerGroup("p", "g1")
	assert.True(t, ok)
	assert.NotNil(t, g.Members, "none is a list")
	assert.Empty(t, g.Members)
	_, ok = s.ServerGroup("q", "g1")
	assert.False(t, ok)
	add("9", func(i *api.Instance) {
		i.ChangeTerms(func(t *api.InstanceTerms) { t.Rules = []string{"g1", "other", "g1"} })
	})
	add("10", func(i *api.Instance) {
		i.ChangeTerms(func(t *api.InstanceTerms) { t.Rules = []string{"g1"} })
		i.Status = api.StatusDeleted
	})
	add("11", func(i *api.Instance) {
		i.ChangeTerms(func(t *api.InstanceTerms) { t.Rules, t.Origin = []string{"g1"}, "up" })
	})
	g, _ = s.ServerGroup("p", "g1")
	assert.Equal(t, []api.InstanceID{"9"}, g.Members)
	bound := s.boundBy(api.Tenant{Project: "p"}, "g1")
	assert.Equal(t, []api.InstanceID{"9"}, idsOf(bound))
	s.letGo(bound, []string{"g1"})
	now, _ := s.Instance("9")
	assert.Equal(t, []string{"other"}, now.Rules)
	assert.Equal(t, []string{"g1", "other", "g1"}, bound[0].Rules, "views are not changed")
}

// TestSecretsOfOneByte are rewrapped like all others.
func TestSecretsOfOneByte(t *testing.T) {
	s := New()
	s.CAKey, s.Change = []byte{1}, &CAChange{Key: []byte{2}}
	s.Epochs = []command.Epoch{{Wrapped: []byte{3}}}
	s.Config.Leases.Check.Token = []byte{4}
	s.setWebhook(&api.Webhook{Project: "p", Name: "a", Secret: []byte{5}})
	assert.Equal(t, [][]byte{{1}, {2}, {3}, {4}, {5}}, s.wrapped())
	var all []command.Rewrap
	for _, old := range s.wrapped() {
		all = append(all, command.Rewrap{Old: old, New: []byte{old[0] + 10}})
	}
	s.KEKDue = 3
	assert.Equal(t, api.CodeConflict, codeOf(s.kekUse(command.KEKUse{ID: []byte("k"), Due: 2, Secrets: all})))
	for n := range all {
		some := append(append([]command.Rewrap{}, all[:n]...), all[n+1:]...)
		assert.Equal(t, api.CodeConflict, codeOf(s.kekUse(command.KEKUse{ID: []byte("k"), Due: 3, Secrets: some})), "without %d", n)
	}
	require.NoError(t, s.kekUse(command.KEKUse{ID: []byte("k"), Due: 3, Secrets: all}).Err)
	assert.Equal(t, [][]byte{{11}, {12}, {13}, {14}, {15}}, s.wrapped())
	assert.Equal(t, []any{"k", uint64(0)}, []any{string(s.KEK), s.KEKDue})
	s.Change, s.Config.Leases.Check.Token = &CAChange{}, nil
	assert.Equal(t, [][]byte{{11}, {13}, {15}}, s.wrapped())
}

// TestServersLearnOfTheirVolumes: the host of a server is shown anew when a volume of it changes.
func TestServersLearnOfTheirVolumes(t *testing.T) {
	w := leaseWorld(t)
	vol := api.NewInstance(&api.InstanceTerms{Project: "p", Volume: "disk", Window: api.Window{End: api.Forever}}, spec("v"), api.StatusActive)
	to := api.NewInstance(&api.InstanceTerms{Project: "p", Window: api.Window{End: api.Forever}}, spec("s"), api.StatusActive)
	vol.Host, to.Host = "h2", "h1"
	vol.ChangeExtras(func(x *api.InstanceExtras) { x.Attached = "s" })
	to.ChangeExtras(func(x *api.InstanceExtras) { x.Volumes = []api.InstanceID{"v"} })
	w.s.loadInstance(vol)
	w.s.loadInstance(to)
	work := func(id string) uint64 {
		h, _ := w.s.hosts.Get(id)
		return h.Work
	}
	w.s.index++
	w.s.setStatus(vol, api.StatusError, "broken")
	assert.Equal(t, w.s.index, work("h1"))
	assert.Less(t, work("h2"), w.s.index)
	w.s.index++
	w.s.setStatus(w.instance("v"), api.StatusDeleting, "")
	assert.Equal(t, []uint64{w.s.index, w.s.index}, []uint64{work("h1"), work("h2")})
	assert.Empty(t, w.instance("s").Volumes)
	w.s.index++
	w.s.touchServer("none")
	w.s.setStatus(w.instance("v"), api.StatusDeleted, "")
	assert.Equal(t, []uint64{w.s.index - 1, w.s.index}, []uint64{work("h1"), work("h2")})
}

// TestAClaimThatNoInventoryHas is refused as such.
func TestAClaimThatNoInventoryHas(t *testing.T) {
	w := leaseWorld(t)
	a := &allotment{seen: map[api.ProviderID]declaration{}}
	claim := func(of string, class api.ResourceClass, n int64) error {
		return w.s.checkShare(a, api.Share{Provider: api.ProviderID(of), Resources: api.Resources{class: n}}).Err
	}
	require.NoError(t, claim("h1", api.VCPU, 1))
	require.ErrorContains(t, claim("h1", "MEMORY_MB", 1), "it has none")
	require.ErrorContains(t, claim("h1", api.VCPU, 5), "hands out 1 to 4")
	require.ErrorContains(t, claim("h1", "CUSTOM_X", 1), "no resource class")
	require.ErrorContains(t, claim("none", api.VCPU, 1), "no provider")
	a.seen["h2"] = declaration{}
	err := claim("h2", api.VCPU, 1)
	require.ErrorContains(t, err, "taken away and claimed")
	assert.Equal(t, api.CodeInUse, api.CodeOf(err))
}

// TestASeriesThatEndsIsShown until the last of its leases is gone, to its own project alone.
func TestASeriesThatEndsIsShown(t *testing.T) {
	w := leaseWorld(t)
	w.link("kid", api.LinkChild)
	c := w.seriesOf("x", 2)
	r := w.ok(c)
	assert.Equal(t, []any{api.SeriesCreating, 2}, []any{r.Series.Status, r.Series.Waiting})
	again := c
	again.Stamp = w.stamp()
	assert.Same(t, r.Series, w.unchanged(again).Series)
	h := hold(w.stamp(), "k", string(c.Leases[0].Order.Request.Reservation), nil, part("kid", string(c.Leases[0].Order.Instances[0].ID)))
	h.Request = c.Leases[0].Order.Request
	w.ok(h)
	w.refused(api.CodeNotFound, command.SeriesDelete{Stamp: w.stamp(), Project: "q", ID: "x"})
	w.refused(api.CodeNotFound, command.SeriesDelete{Stamp: w.stamp(), Project: "p", ID: "y"})
	r = w.ok(command.SeriesDelete{Stamp: w.stamp(), Project: "p", ID: "x"})
	if r.Series != nil {
		assert.Equal(t, api.SeriesDeleting, r.Series.Status)
	}
	assert.Equal(t, r.Series != nil, len(w.s.SeriesLeases("x")) > 0)
	checkIndexes(t, w.s)
}

// TestTextsOfABootAreShared with those of its holds, also behind one that is forgotten.
func TestTextsOfABootAreShared(t *testing.T) {
	s := New()
	of := func(id string) []command.Slot { return slots("h1", strings.Clone(id)) }
	s.holds.Set(joinKey("", "k"), &Hold{ID: "k", Slots: of("i1")})
	b := &Boot{BootTerms: command.BootTerms{Instances: specs(strings.Clone("i0"), strings.Clone("i1"))}, Holds: []api.HoldID{"gone", "k"}}
	s.shareBoot(b)
	h, _ := s.Hold("", "k")
	assert.Same(t, unsafe.StringData(string(h.Slots[0].Instance.ID)), unsafe.StringData(string(b.Instances[1].ID)))
	assert.Equal(t, "i0", string(b.Instances[0].ID))
}

// TestALateSlotIsNamedOnce, though it waits for its host and for all that give it a share.
func TestALateSlotIsNamedOnce(t *testing.T) {
	w := leaseWorld(t)
	add := func(id string, change func(i *api.Instance)) {
		i := api.NewInstance(&api.InstanceTerms{Reserved: true, Window: api.Window{Start: w.s.now, End: api.Forever}}, spec(id), api.StatusBuild)
		i.Host = "h1"
		i.ChangeExtras(func(x *api.InstanceExtras) {
			x.Shares = []api.Share{{Provider: "pool", Resources: api.Resources{api.VCPU: 1}}}
		})
		change(i)
		w.s.loadInstance(i)
	}
	add("b", func(*api.Instance) {})
	add("a", func(*api.Instance) {})
	add("an instance", func(i *api.Instance) {
		i.ChangeTerms(func(t *api.InstanceTerms) { t.Reserved = false })
		i.Waits = true
	})
	add("begun", func(i *api.Instance) { i.Status = api.StatusActive })
	assert.Equal(t, []api.InstanceID{"a", "b"}, idsOf(w.s.LateSlots(w.s.now)))
	assert.Empty(t, w.s.LateSlots(w.s.now-1))
}

// TestWhyAShareIsFull: others of the parent that are not decided, or an older attempt of the same request, may give room back.
func TestWhyAShareIsFull(t *testing.T) {
	h := &Hold{ID: "k", Origin: "up", Request: request("r", 1)}
	h.Request.Attempt = 2
	for name, c := range map[string]struct {
		change      func(o *Hold)
		less, whole api.Code
	}{
		"another request":   {func(o *Hold) { o.Request.Reservation = "s" }, api.CodeContended, api.CodeContended},
		"an older attempt":  {func(o *Hold) { o.Attempt = 1 }, api.CodeContended, api.CodeContended},
		"this attempt":      {func(o *Hold) { o.Attempt = 2 }, api.CodeOverQuota, api.CodeNoCapacity},
		"of another parent": {func(o *Hold) { o.Origin = "" }, api.CodeOverQuota, api.CodeContended},
		"without slots":     {func(o *Hold) { o.Request.Reservation, o.Slots = "s", nil }, api.CodeOverQuota, api.CodeNoCapacity},
	} {
		s := New()
		o := &Hold{ID: "o", Origin: "up", Request: request("r", 1), Attempt: 2, Decision: api.DecisionPending, Slots: slots("h1", "x")}
		c.change(o)
		s.holds.Set(o.Key(), o)
		if o.Origin == "" {
			s.open.Insert(o.Key())
		} else {
			s.prepared.Insert(o.Key())
		}
		assert.Equal(t, c.less, s.whyOver(h, share{100, 99}), name)
		assert.Equal(t, c.less, s.whyOver(h, share{99, 100}), name)
		assert.Equal(t, c.whole, s.whyOver(h, share{100, 100}), name)
	}
}

// TestClaimsOfInstances: each field, and what waits, is reserved or is overdue.
func TestClaimsOfInstances(t *testing.T) {
	s := New()
	i := api.NewInstance(&api.InstanceTerms{
		Resources: api.Resources{api.VCPU: 2}, Window: api.Window{Start: 3, End: 9}, Class: api.Firm, Whole: true, Grace: 7,
	}, spec("i"), api.StatusActive)
	want := api.Claim{Consumer: "i", Resources: i.Resources, Window: i.Window, Class: api.Firm, Whole: true, Grace: 7}
	assert.Equal(t, want, s.ClaimOf(i))
	waits, slot, late := *i, *i, *i
	waits.Waits, late.Overdue = true, true
	reserve(&slot)
	want.Class = api.Preempting
	assert.Equal(t, want, s.ClaimOf(&waits))
	assert.Equal(t, want, s.ClaimOf(&slot))
	want.Class, want.Whole, want.Window.End = api.Preemptible, false, api.Forever
	assert.Equal(t, want, s.ClaimOf(&late))
}

// TestHoldsFollowTheirSlot into the one that takes its place, and no other slot does.
func TestHoldsFollowTheirSlot(t *testing.T) {
	s := New()
	h := &Hold{ID: "k", Decision: api.DecisionPending, Request: request("r", 2), Slots: slots("h1", "a", "b")}
	h.Slots[0].Within, h.Slots[1].Within = "old", "other"
	s.holds.Set(h.Key(), h)
	s.open.Insert(h.Key())
	s.promiseWithin("old", api.Firm, 2)
	s.promiseWithin("old", api.Preemptible, 1)
	s.moveHolds("old", "new")
	now, _ := s.Hold("", "k")
	assert.Equal(t, []api.InstanceID{"new", "other"}, []api.InstanceID{now.Slots[0].Within, now.Slots[1].Within})
	assert.Equal(t, api.InstanceID("old"), h.Slots[0].Within, "views are not changed")
	firm, _ := s.promised.Get("new")
	soft, _ := s.lent.Get("new")
	assert.Equal(t, []int{2, 1}, []int{firm, soft})
	assert.False(t, s.isOccupied("old"))
}
