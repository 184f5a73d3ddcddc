package dev

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/await"
	"berth/internal/script"
)

// pods is a zone without hosts above two groups of three zones: Pod1 to Pod3 for general work, Pod4 to
// Pod6 for CAD.
func pods() Spec {
	none, cad := 0, map[string]string{"resource": "CAD"}
	top := Spec{Name: "Top", Hosts: &none}
	for n := 1; n <= 6; n++ {
		pod := Spec{Name: fmt.Sprint("Pod", n)}
		if n > 3 {
			pod.Attributes = cad
		}
		top.Children = append(top.Children, pod)
	}
	return top
}

// boundTalk is a conversation with the zone Top of a federation, by its admin and by a member of the
// project acme.
type boundTalk struct {
	*running

	top    *Zone
	member *client.Client
}

// TestTwoGroupsOfThreeZones is the example that bindings were designed for, over the doors of seven
// zones: a project is bound to a general zone and to one for CAD, fills both with boots, is bound to
// the next ones, and leaves one that goes into maintenance.
func TestTwoGroupsOfThreeZones(t *testing.T) {
	virtually(t, func(t *world) {
		r := start(t, t.TempDir(), pods(), 1) // each pod has room for two of the flavor medium
		w := &boundTalk{running: r, top: r.zone("Top")}
		made, err := r.client("Top").CreateToken(t.Context(), rest.TokenSpec{User: "ada", Project: "acme", Roles: []api.UserRole{api.RoleMember}})
		require.NoError(t, err)
		w.member = r.as(w.top, made.Token)
		script.Run(t.T, "testdata/two-groups.txt", w.answer)
	})
}

// answer answers a command:
//
//	METHOD PATH BODY   of the admin; of a PUT the status is all
//	boot NAME FLAVOR   of the member: one server, with this name as the id of its reservation
//	together NAME FLAVOR the same, with a volume
//	volume NAME FLAVOR of the member: 10 GiB for work of this flavor
//	attach VOLUME BOOT of the member
//	where BOOT...      where servers are
//	explain BOOT       what the explanation for the member says of bindings
//
// In requests and answers {PodN} is the id of the link of a child, {N} that of the binding that began as
// the Nth, and {TN} the Nth moment at which one began or ended.
func (w *boundTalk) answer(c script.Command) (string, error) {
	await.Sleep(time.Second) // each has a moment of its own
	switch c.Name {
	case http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete:
		meant := w.names(false)
		status, body := w.raw(w.top, c.Name, meant.Replace(c.Arg(0)), meant.Replace(strings.Join(c.Args[1:], " ")))
		if c.Name == http.MethodPut && status == http.StatusOK {
			body = ""
		}
		return fmt.Sprint(status, w.said(body)), nil
	case "boot":
		return w.bootOne(rest.ServerCreate{Name: c.Arg(0), FlavorRef: c.Arg(1)})
	case "together":
		return w.bootOne(rest.ServerCreate{Name: c.Arg(0), Groups: []rest.GroupCreate{
			{Name: "server", FlavorRef: c.Arg(1)}, {Name: "data", Volume: &rest.GroupVolume{VolumeSpec: rest.VolumeSpec{Size: 10}, AttachTo: "server"}},
		}})
	case "volume":
		return w.makeVolume(c.Arg(0), c.Arg(1))
	case "attach":
		if err := w.attach(c.Arg(0), c.Arg(1)); err != nil {
			return w.named(fmt.Sprintf("%s: %s", api.CodeOf(err), api.MessageOf(err))), nil
		}
		return "attached", nil
	case "where":
		var out []string
		for _, name := range c.Args {
			for _, s := range w.servers(w.member, name) {
				out = append(out, name+" "+s.Zone)
			}
		}
		return strings.Join(out, "\n"), nil
	case "explain":
		e, err := w.member.Explain(w.t.Context(), c.Arg(0))
		require.NoError(w.t, err)
		b, err := json.Marshal(e.Bindings)
		return string(b), err
	}
	return "", errors.New("no such command")
}

// bootOne boots and tells the outcome, and where it is.
func (w *boundTalk) bootOne(s rest.ServerCreate) (string, error) {
	s.Reservation = s.Name
	id, err := w.member.Boot(w.t.Context(), s, "")
	if err != nil {
		return "", err
	}
	b, err := w.member.Reservation(w.t.Context(), id, 20*time.Second)
	if err != nil {
		return "", err
	}
	out := string(b.State)
	for _, z := range b.Zones {
		out += " " + z.Zone
	}
	return out, nil
}

// makeVolume makes a volume and tells where it is.
func (w *boundTalk) makeVolume(name, flavor string) (string, error) {
	v := rest.VolumeCreate{Name: name}
	v.Size = 10
	if flavor == "cad" {
		v.ExtraSpecs = map[string]string{"resource": "CAD"}
	}
	made, err := w.member.CreateVolume(w.t.Context(), v, "")
	return made.Volume.Zone, err
}

// attach attaches the volume of a name, once it is made, to the server of a boot.
func (w *boundTalk) attach(volume, boot string) error {
	var id api.InstanceID
	await.True(w.t, "the volume is made", func() bool {
		all, err := w.member.Volumes(w.t.Context(), client.VolumeQuery{}, client.ListOptions{})
		require.NoError(w.t, err)
		at := slices.IndexFunc(all.Items, func(v rest.Volume) bool { return v.Name == volume })
		require.GreaterOrEqual(w.t, at, 0, volume)
		id = all.Items[at].ID
		return all.Items[at].Status != api.VolumeCreating
	})
	return w.member.AttachVolume(w.t.Context(), id, w.servers(w.member, boot)[0].ID)
}

// names returns what puts names for ids and times, or, with back, ids for names.
func (w *boundTalk) names(ofIDs bool) *strings.Replacer {
	v := w.top.Nodes[0].Node.Store().View()
	var pairs []string
	add := func(name, id string) {
		if ofIDs {
			name, id = id, name
		}
		pairs = append(pairs, name, id)
	}
	for _, l := range v.Children() {
		add("{"+l.Name+"}", string(l.ID))
	}
	all := slices.Clone(v.Bindings())
	slices.SortFunc(all, func(a, b *api.Binding) int { return cmp.Compare(a.Start, b.Start) })
	var moments []string
	for i, b := range all {
		add(fmt.Sprintf("{%d}", i+1), string(b.ID))
		moments = append(moments, textOf(b.Start))
		if !b.Active() {
			moments = append(moments, textOf(b.End))
		}
	}
	slices.Sort(moments)
	for i, m := range slices.Compact(moments) {
		add(fmt.Sprintf("{T%d}", i+1), m)
	}
	return strings.NewReplacer(pairs...)
}

// textOf returns a moment as both dialects write it.
func textOf(at api.Instant) string { return at.Time().Format("2006-01-02T15:04:05.000Z") }

// What else differs each time: other moments, ids and reservations that a zone has drawn.
var (
	otherMoment = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)
	otherID     = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	drawn       = regexp.MustCompile(`r-[0-9a-f]{12}`)
)

// named puts names for all that differs each time.
func (w *boundTalk) named(text string) string {
	text = otherMoment.ReplaceAllString(w.names(true).Replace(text), "TIME")
	return drawn.ReplaceAllString(otherID.ReplaceAllString(text, "UUID"), "DRAWN")
}

// said returns the body of an answer, of a list one line for each element. Those of Tricircle's dialect,
// which lists by id, are in the order of their names.
func (w *boundTalk) said(body string) string {
	if body == "" {
		return ""
	}
	var lists map[string][]json.RawMessage
	if json.Unmarshal([]byte(body), &lists) != nil {
		return "\n" + w.named(body)
	}
	assert.Len(w.t, lists, 1)
	var out string
	for name, items := range lists {
		var lines []string
		for _, i := range items {
			lines = append(lines, w.named(string(i)))
		}
		if strings.HasPrefix(name, "pod") {
			slices.Sort(lines)
		}
		out = "\n" + name + "\n" + strings.Join(lines, "\n")
	}
	return out
}
