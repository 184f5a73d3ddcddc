package state

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/script"
	"berth/raftstore/command"
)

// TestConversations plays testdata/*.txt. Every command of the log is applied
// twice: the second time it must change nothing, be it refused or not. A line is
// the name of a command, what it is about, and key=value pairs; ids are parted
// by commas. "wait n" lets n milliseconds pass, and the words under "show" print
// what readers see.
func TestConversations(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			w := newWorld(t)
			script.Run(t, f, func(c script.Command) (string, error) {
				defer checkIndexes(t, w.s)
				return w.play(t, c)
			})
		})
	}
}

func (w *world) play(t *testing.T, c script.Command) (string, error) {
	t.Helper()
	switch c.Name {
	case "form": // of entries from here on
		w.form = api.Form(c.Int(t, 0)) //nolint:gosec // a digit
		return "", nil
	case "wait":
		w.now += api.Instant(c.Int(t, 0))
		return "", nil
	case "show":
		return w.show(t, c)
	case "host":
		w.host(c.Arg(0), c.Int(t, 1))
		return "", nil
	case "child":
		w.link(c.Arg(0), api.LinkChild)
		return "", nil
	case "parent":
		w.link(c.Arg(0), api.LinkParent)
		return "", nil
	}
	cmd, err := w.parse(t, c)
	if err != nil {
		return "", err
	}
	r := w.do(cmd)
	before := facts(t, w.s)
	w.do(cmd)
	require.Equal(t, before, facts(t, w.s), "%s: the second time changed something", c.Pos)
	if r.Err != nil {
		return "", fmt.Errorf("%s: %w", api.CodeOf(r.Err), r.Err)
	}
	return tellHold(r.Hold) + tellBoot(r.Boot), nil
}

func (w *world) parse(t *testing.T, c script.Command) (command.Command, error) {
	t.Helper()
	id, st := c.Arg(0), w.stamp()
	v := func(key string) string { s, _ := c.Value(key); return s }
	has := func(word string) bool { return slices.Contains(c.Args, word) }
	origin, holdID := api.LinkID(v("origin")), api.HoldID(id)
	switch c.Name {
	case "boot":
		b := create(st, id, int(c.Int(t, 1)), int(c.Int(t, 2)))
		b.Key = v("key")
		if d := v("digest"); d != "" {
			b.Digest = []byte(d)
		}
		wish(t, c, &b.Request)
		return b, nil
	case "hold":
		return w.parseHold(t, c, st), nil
	case "answer":
		a := answer(c.Arg(1), list(v("held"))...)
		a.Committed = has("committed")
		return command.HoldParts{Stamp: st, ID: holdID, Origin: origin, Answers: []command.PartAnswer{a}}, nil
	case "decide":
		return bootDecide(st, id, api.Decision(c.Arg(1))), nil
	case "told": // of a hold that a parent asked for
		return command.HoldDecide{Stamp: st, ID: holdID, Origin: origin, Decision: api.Decision(c.Arg(1)), Forced: has("forced"), Lifted: groupsIn(v("lifted"))}, nil
	case "ack":
		return command.PartAck{
			Stamp: st, ID: holdID, Origin: origin, Link: api.LinkID(c.Arg(1)), Decision: api.Decision(c.Arg(2)), Lost: has("lost"),
			Lifted: len(list(v("lifted"))),
		}, nil
	case "release":
		return command.BootRelease{Stamp: st, Project: "p", Reservation: api.ReservationID(id)}, nil
	case "report":
		r := reports(st, c.Arg(0), c.Arg(1), api.Status(c.Arg(2)), list(c.Arg(3))...)
		for i := range r.Items {
			r.Items[i].Fault = v("fault")
		}
		return r, nil
	case "move":
		return command.InstanceMove{
			Stamp: st, ID: api.InstanceID(id), From: api.HostID(c.Arg(1)), To: api.HostID(c.Arg(2)), Evacuate: has("evacuate"),
			With: idsIn(v("with")),
		}, nil
	case "group": // of rules with that id
		return command.GroupPut{Stamp: st, Group: api.ServerGroup{ID: api.ServerGroupID(id), Project: "p", Name: id, Policy: api.Policy(c.Arg(1))}}, nil
	case "ungroup":
		return command.GroupDelete{Stamp: st, Project: "p", ID: api.ServerGroupID(id)}, nil
	case "up", "down":
		return command.HostsState{Stamp: st, State: api.HostState(c.Name), Hosts: []api.HostID{api.HostID(id)}}, nil
	case "maintain":
		reason := v("reason")
		return command.HostSet{Stamp: st, ID: api.HostID(id), Maintenance: &reason}, nil
	case "forget":
		return command.HostDelete{Stamp: st, ID: api.HostID(id)}, nil
	case "delete":
		return command.InstanceDelete{Stamp: st, ID: api.InstanceID(id)}, nil
	case "ended":
		return command.InstanceTold{Stamp: st, IDs: answer("", list(v("told"))...).Held, Gone: answer("", list(v("gone"))...).Held}, nil
	case "follow": // id=STATUS@index ...
		f := command.InstanceChanges{Stamp: st, Link: api.LinkID(id), After: uint64(c.Int(t, 1)), Next: uint64(c.Int(t, 2))}
		for _, a := range c.Args[3:] {
			name, rest, _ := strings.Cut(a, "=")
			status, index, _ := strings.Cut(rest, "@")
			n, err := strconv.ParseUint(index, 10, 64)
			require.NoError(t, err, c.Pos)
			f.Items = append(f.Items, api.InstanceChange{ID: api.InstanceID(name), Status: api.Status(status), Index: n})
		}
		return f, nil
	case "prune":
		return command.Prune{Stamp: st, Before: w.now, BeforeAbroad: w.now, Limit: 100}, nil
	}
	return nil, errors.New("no such command")
}

// parseHold reads: hold ID BOOT host:id,id ... part:LINK:id,id ... spare=host,host.
func (w *world) parseHold(t *testing.T, c script.Command, st command.Stamp) command.Hold {
	t.Helper()
	h := hold(st, c.Arg(0), c.Arg(1), nil)
	for _, a := range c.Args[2:] {
		switch words := strings.Split(a, ":"); {
		case words[0] == "part":
			h.Parts = append(h.Parts, part(words[1], list(words[2])...))
		case len(words) == 2 && !strings.Contains(a, "="):
			h.Slots = append(h.Slots, slots(words[0], list(words[1])...)...)
		}
	}
	h.Request.Groups[0].Count = h.Count()
	wish(t, c, &h.Request)
	origin, _ := c.Value("origin")
	plan, _ := c.Value("plan")
	h.Origin, h.Plan, h.Commit = api.LinkID(origin), api.PlanID(plan), slices.Contains(c.Args, "commit")
	if s, ok := c.Value("spare"); ok {
		var hosts []api.HostID
		for _, id := range list(s) {
			hosts = append(hosts, api.HostID(id))
		}
		h.Spares = [][]api.HostID{hosts}
	}
	if s, ok := c.Value("ttl"); ok {
		ms, err := strconv.Atoi(s)
		require.NoError(t, err, c.Pos)
		h.Expires = w.now + api.Instant(ms)
	}
	return h
}

// wish reads: rule=POLICY, rule=POLICY:MAX or rule=POLICY:MAX:SERVERGROUP, least=N of
// the group, life=MILLISECONDS, zones=N, and the word movable.
func wish(t *testing.T, c script.Command, r *api.Request) {
	t.Helper()
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		require.NoError(t, err, c.Pos)
		return n
	}
	if s, ok := c.Value("rule"); ok {
		words := append(strings.Split(s, ":"), "0", "")
		rule := api.Rule{Policy: api.Policy(words[0]), Max: number(words[1]), Groups: []int{0}}
		if len(words) > 4 {
			rule.ID = api.ServerGroupID(words[2])
		}
		r.Rules = []api.Rule{rule}
	}
	if s, ok := c.Value("least"); ok {
		r.Groups[0].Min = number(s)
	}
	if s, ok := c.Value("life"); ok {
		r.Lifetime = time.Duration(number(s)) * time.Millisecond
	}
	if s, ok := c.Value("zones"); ok {
		r.Zones.MinZones = number(s)
	}
	if slices.Contains(c.Args, "movable") {
		r.Groups[0].ExtraSpecs = map[string]string{api.SpecEvacuate: "true"}
	}
}

func list(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// idsIn is list for instances.
func idsIn(s string) []api.InstanceID {
	var out []api.InstanceID
	for _, id := range list(s) {
		out = append(out, api.InstanceID(id))
	}
	return out
}

// groupsIn is list for server groups.
func groupsIn(s string) []api.ServerGroupID {
	var out []api.ServerGroupID
	for _, id := range list(s) {
		out = append(out, api.ServerGroupID(id))
	}
	return out
}

func (w *world) show(t *testing.T, c script.Command) (string, error) {
	t.Helper()
	id := c.Arg(1)
	switch c.Arg(0) {
	case "host":
		h, ok := w.s.Host(api.HostID(id))
		require.True(t, ok, c.Pos)
		return fmt.Sprintf("used %d of %d, %d instances, generation %d", h.Used[api.VCPU], h.Inventory[api.VCPU].Total, h.Instances, h.Generation), nil
	case "boot":
		return tellBoot(w.boot(id)), nil
	case "hold":
		h, ok := w.s.Hold(api.LinkID(c.Arg(2)), api.HoldID(id))
		require.True(t, ok, c.Pos)
		return tellHold(h), nil
	case "instances":
		var out []string
		for _, i := range w.s.InstancesPage(InstanceQuery{Page: Page{Limit: 100}}) {
			line := fmt.Sprintf("%s %s on %s%s %s", i.ID, i.Status, i.Host, i.Link, i.Fault)
			if i.Target != "" {
				line += "goes to " + string(i.Target)
			}
			out = append(out, strings.TrimSpace(line))
		}
		return strings.Join(out, "\n"), nil
	case "changes":
		ch := w.s.Changes(api.LinkID(id), uint64(c.Int(t, 2)), int(c.Int(t, 3)))
		var out strings.Builder
		for _, i := range ch.Items {
			fmt.Fprintln(&out, strings.TrimSpace(fmt.Sprintf("%d %s %s %s", i.Index, i.ID, i.Status, i.Fault)))
		}
		fmt.Fprintf(&out, "next %d more %v", ch.Next, ch.More)
		return out.String(), nil
	case "link":
		l, ok := w.s.Link(api.LinkID(id))
		require.True(t, ok, c.Pos)
		return fmt.Sprintf("next %d", l.ChangesNext), nil
	case "members":
		hosts, links := w.s.Members(api.Tenant{Origin: api.LinkID(c.Arg(2)), Project: "p"}, id)
		return fmt.Sprintf("%v %v", hosts, links), nil
	case "over":
		return fmt.Sprintf("%v, next in %d ms", idsOf(w.s.Expired(w.now)), w.s.NextExpiry()-w.now), nil
	case "due":
		return w.due(), nil
	}
	return "", errors.New("no such thing")
}

// due tells what the leader's loops would find.
func (w *world) due() string {
	var out []string
	for _, b := range w.s.UndecidedBoots() {
		out = append(out, "decide "+string(b.Request.Reservation))
	}
	for _, h := range w.s.UntoldHolds() {
		for _, p := range h.Parts {
			if !h.PartAcked(p.Link) {
				line := fmt.Sprintf("tell %s of %s: %s", p.Link, h.ID, h.DecisionFor(p))
				if lifted := h.DecisionAt(p).Lifted; len(lifted) > 0 {
					line += fmt.Sprint(", lifted ", lifted)
				}
				out = append(out, line)
			}
		}
	}
	for _, h := range w.s.PreparedHolds() {
		out = append(out, fmt.Sprintf("ask %s what became of %s", h.Origin, h.ID))
	}
	for _, i := range w.s.UnendedInstances() {
		out = append(out, fmt.Sprintf("tell %s to end %s", i.Link, i.ID))
	}
	return strings.Join(out, "\n")
}

func tellHold(h *Hold) string {
	if h == nil {
		return ""
	}
	a := h.Answer()
	s := fmt.Sprintf("hold %s %s, %s: held %v refused %v", a.ID, a.State, h.Decision, a.Held, a.Refused)
	if h.Forced {
		s += " by force"
	}
	return s + "\n"
}

var statuses = []api.Status{
	api.StatusBuild, api.StatusActive, api.StatusShutoff, api.StatusError, api.StatusDeleting, api.StatusDeleted,
}

func tellBoot(b *Boot) string {
	if b == nil {
		return ""
	}
	s := fmt.Sprintf("boot %s %s, %s", b.Request.Reservation, b.State(), b.Decision)
	n := b.Counts
	for i, count := range []int{n.Build, n.Active, n.Shutoff, n.Error, n.Deleting, n.Deleted} {
		if count != 0 {
			s += fmt.Sprintf(", %d %s", count, statuses[i])
		}
	}
	for _, a := range b.Attempts {
		s += fmt.Sprintf(" [wanted %d held %d refused %d]", a.Wanted, a.Held, a.Refused)
	}
	return s + "\n"
}
