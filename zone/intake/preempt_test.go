package intake

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
)

// setRule changes the rule of the zone, and adds the flavor idle, which is preemptible.
func (w *world) setRule(tb testing.TB, rule api.PreemptRule) {
	tb.Helper()
	at := w.zone.Stamp()
	_, known := w.store.View().Flavor("idle")
	w.store.Must(tb, command.ConfigSet{Stamp: at, Config: api.ZoneConfig{Preemptibles: rule}}, command.FlavorPut{Stamp: at, Replace: known, Flavor: api.Flavor{
		ID: "idle", Name: "idle", Resources: api.Resources{api.VCPU: 1}, ExtraSpecs: map[string]string{api.SpecPreemptible: "True"},
	}})
}

func flag(yes bool) *rest.Flag { return new(rest.Flag(yes)) }

// asks returns a body of one group of a flavor, with a hint, and with an image that is preemptible.
func asks(flavor string, hint *rest.Flag, image string) *rest.ServerCreate {
	return web(func(s *rest.ServerCreate) {
		s.FlavorRef = flavor
		if hint != nil {
			s.Hints = &rest.SchedulerHints{Preemptible: hint}
		}
		if image != "" {
			s.ImageProperties = map[string]string{api.SpecPreemptible: image}
		}
	})
}

func TestWhichBootsArePreemptible(t *testing.T) {
	all := api.PreemptWays()
	for name, c := range map[string]struct {
		rule api.PreemptRule
		body *rest.ServerCreate
		way  api.PreemptWay // "" for a firm boot
		says string         // of a refusal
	}{
		"firm":                        {body: asks("small", nil, "")},
		"hint":                        {body: asks("small", flag(true), ""), way: api.PreemptByHint},
		"hint goes before the flavor": {body: asks("idle", flag(true), ""), way: api.PreemptByHint},
		"hint that asks for nothing":  {body: asks("small", flag(false), "")},
		"flavor":                      {body: asks("idle", nil, ""), way: api.PreemptByFlavor},
		"flavor against the hint":     {body: asks("idle", flag(false), ""), says: "scheduler_hints.preemptible is false, but the flavor says blazar:preemptible=true"},
		"image does not count":        {body: asks("small", nil, "true")},
		"image":                       {rule: api.PreemptRule{Ways: all}, body: asks("small", nil, "TRUE"), way: api.PreemptByImage},
		"image that is firm":          {rule: api.PreemptRule{Ways: all}, body: asks("small", nil, "false")},
		"image that says neither":     {rule: api.PreemptRule{Ways: all}, body: asks("small", nil, "maybe"), says: `image_properties: blazar:preemptible must be true or false, got "maybe"`},
		"flavor goes before image":    {rule: api.PreemptRule{Ways: all}, body: asks("idle", nil, "true"), way: api.PreemptByFlavor},
		"flavor does not count":       {rule: api.PreemptRule{Ways: []api.PreemptWay{api.PreemptByHint}}, body: asks("idle", nil, "")},
		"hint does not count": {
			rule: api.PreemptRule{Ways: []api.PreemptWay{api.PreemptByFlavor, api.PreemptByImage}}, body: asks("small", flag(true), ""),
			says: "does not count in this zone: preemptible instances are asked for by flavor, image; an admin of the zone can change that with berth operator config set --preemptible-way",
		},
		"project does not count": {rule: api.PreemptRule{Projects: []api.ProjectID{"p1"}}, body: asks("small", nil, "")},
		"project":                {rule: api.PreemptRule{Ways: all, Projects: []api.ProjectID{"p1"}}, body: asks("small", nil, ""), way: api.PreemptByProject},
		"all projects":           {rule: api.PreemptRule{Ways: all, Projects: []api.ProjectID{"*"}}, body: asks("small", nil, ""), way: api.PreemptByProject},
		"all but this":           {rule: api.PreemptRule{Ways: all, Projects: []api.ProjectID{"*", "!p1"}}, body: asks("small", nil, "")},
		"project that opts out":  {rule: api.PreemptRule{Ways: []api.PreemptWay{api.PreemptByProject}, Projects: []api.ProjectID{"*"}}, body: asks("small", flag(false), "")},
		"project that may not":   {rule: api.PreemptRule{Ways: all, Projects: []api.ProjectID{"*"}, Allowed: []api.ProjectID{"p2"}}, body: asks("small", nil, "")},
		"project that asks and may not": {
			rule: api.PreemptRule{Allowed: []api.ProjectID{"p2"}}, body: asks("small", flag(true), ""),
			says: "the project p1 may not have preemptible instances in this zone; an admin of the zone can change that with berth operator config set --preemptible-allow",
		},
		"groups that disagree": {
			body: grouped(nil, rest.GroupCreate{Name: "a", FlavorRef: "idle"}, rest.GroupCreate{Name: "b", FlavorRef: "small"}),
			says: `all groups of a boot are preemptible or none is: "a" is, by its flavor, and "b" is not`,
		},
		"one of the groups opts out": {
			rule: api.PreemptRule{Ways: all, Projects: []api.ProjectID{"p1"}},
			body: grouped(nil, rest.GroupCreate{Name: "a", FlavorRef: "small", GroupWish: asks("", flag(false), "").GroupWish}, rest.GroupCreate{Name: "b", FlavorRef: "small"}),
			says: `"b" is, by its project, and "a" is not`,
		},
		"groups that agree by other ways": {
			body: grouped(nil, rest.GroupCreate{Name: "a", FlavorRef: "idle"}, rest.GroupCreate{Name: "b", FlavorRef: "small", GroupWish: asks("", flag(true), "").GroupWish}),
			way:  api.PreemptByHint,
		},
	} {
		w := newWorld(t)
		w.setRule(t, c.rule)
		o, err := w.order(member, c.body)
		if c.says != "" {
			require.ErrorContains(t, err, c.says, name)
			continue
		}
		require.NoError(t, err, name)
		class := map[bool]api.Class{true: api.Firm, false: api.Preemptible}[c.way == ""]
		assert.Equal(t, []any{class, c.way}, []any{o.Request.Class, o.Request.Way}, name)
	}
}

func TestWhatBecomesOfPreemptibleBoots(t *testing.T) {
	w := newWorld(t)
	w.setRule(t, api.PreemptRule{})
	for _, action := range []api.PreemptAction{api.PreemptStop, api.PreemptNotify, api.PreemptRequeue} {
		s := asks("idle", nil, "")
		s.OnPreempt = action
		o, err := w.order(member, s)
		require.NoError(t, err)
		assert.Equal(t, action, o.Request.OnPreempt)
	}
	s := asks("idle", nil, "")
	s.OnPreempt = "wait"
	_, err := w.order(member, s)
	refused(t, err, api.CodeInvalid, "on_preempt must be stop, notify or requeue")
	s = asks("small", nil, "")
	s.OnPreempt = api.PreemptStop
	_, err = w.order(member, s)
	refused(t, err, api.CodeInvalid, "on_preempt is for preemptible instances alone")
}

func TestWhoMayPreempt(t *testing.T) {
	w := newWorld(t)
	w.setRule(t, api.PreemptRule{Ways: api.PreemptWays(), Projects: []api.ProjectID{"*"}})
	s := asks("small", nil, "")
	s.Preempt = true
	_, err := w.order(member, s)
	refused(t, err, api.CodeForbidden, "preempt needs the role admin")
	o, err := w.order(admin, s)
	require.NoError(t, err)
	assert.Equal(t, []any{true, api.Firm}, []any{o.Request.Preempt, o.Request.Class}, "it is firm in a list of projects too")
	w.setRule(t, api.PreemptRule{Firm: []api.ProjectID{"p1"}})
	_, err = w.order(member, s)
	require.NoError(t, err)
	s = asks("idle", nil, "")
	s.Preempt = true
	_, err = w.order(member, s)
	refused(t, err, api.CodeInvalid, "preempt is for firm instances")
}

// TestARepeatKnowsItsBootWhateverTheRule: the rule of the zone is no part of what makes two boots the
// same, the hint is.
func TestARepeatKnowsItsBootWhateverTheRule(t *testing.T) {
	for name, body := range map[string]*rest.ServerCreate{
		"hint": asks("small", flag(true), ""), "flavor": asks("idle", nil, ""), "project": asks("small", nil, ""),
	} {
		w := newWorld(t)
		w.setRule(t, api.PreemptRule{Ways: api.PreemptWays(), Projects: []api.ProjectID{"p1"}})
		body.OnPreempt = api.PreemptRequeue
		from := Source{Caller: member, Key: "k"}
		first, err := Order(w.zone, nil, from, &rest.BootBody{Server: *body})
		require.NoError(t, err, name)
		require.Equal(t, api.Preemptible, first.Request.Class)
		_, err = w.zone.Propose(t.Context(), first.Command(w.zone.Stamp()))
		require.NoError(t, err)
		w.setRule(t, api.PreemptRule{Ways: []api.PreemptWay{api.PreemptByImage}, Allowed: []api.ProjectID{"p2"}})
		again, err := Order(w.zone, nil, from, &rest.BootBody{Server: *body})
		require.NoError(t, err, name)
		assert.Equal(t, first.Digest, again.Digest, name)
		from.Key = "another"
		_, err = Order(w.zone, nil, from, &rest.BootBody{Server: *body})
		require.Error(t, err, name)
	}
	w := newWorld(t)
	seen := map[string]string{}
	for name, hint := range map[string]*rest.Flag{"none": nil, "true": flag(true), "false": flag(false)} {
		d := w.digestOf(t, member, &rest.BootBody{Server: *asks("small", hint, "")})
		assert.Empty(t, seen[d], "%s looks like", name)
		seen[d] = name
	}
}

// TestPreemptiblesAreNotInReservations: a project whose boots are preemptible boots firm in its own lease.
func TestPreemptiblesAreNotInReservations(t *testing.T) {
	w := newWorld(t)
	w.setRule(t, api.PreemptRule{Ways: api.PreemptWays(), Projects: []api.ProjectID{"*"}})
	reserve := func(s *rest.ServerCreate) *rest.ServerCreate {
		if s.Hints == nil {
			s.Hints = &rest.SchedulerHints{}
		}
		s.Hints.Reservation = "r"
		return s
	}
	rd := func(s *rest.ServerCreate) (*reading, error) {
		rd := &reading{v: w.store.View(), caller: member, order: &BootOrder{BootTerms: command.BootTerms{Name: "a", Request: api.Request{
			Project: "p1", Class: api.Firm, Window: api.Window{End: api.Forever},
		}}}}
		err := rd.readOrder(s, "")
		rd.gone = nil // there is no such lease
		if err == nil {
			_, err = rd.resolve(Source{Caller: member})
		}
		return rd, err
	}
	got, err := rd(reserve(asks("small", nil, "")))
	require.NoError(t, err)
	assert.Equal(t, api.Firm, got.order.Request.Class, "its room is its own")
	for _, s := range []*rest.ServerCreate{asks("small", flag(true), ""), asks("idle", nil, "")} {
		_, err = rd(reserve(s))
		refused(t, err, api.CodeInvalid, "preemptible instances cannot be booted within a reservation")
	}
}

func TestFlagsInHints(t *testing.T) {
	for text, want := range map[string]bool{`true`: true, `false`: false, `"true"`: true, `"True"`: true, `"FALSE"`: false} {
		var f rest.Flag
		require.NoError(t, json.Unmarshal([]byte(text), &f), text)
		assert.Equal(t, want, bool(f), text)
	}
	for _, text := range []string{`1`, `"yes"`, `[true]`, `""`, `{}`} {
		var f rest.Flag
		refused(t, json.Unmarshal([]byte(text), &f), api.CodeInvalid, "it must be true or false")
	}
}
