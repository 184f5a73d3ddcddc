package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
)

// treeFake is a fake of the zone with an id, and with children by id.
func treeFake(t *testing.T, id, name string, children ...string) *fakeZone {
	t.Helper()
	z := newFakeZone(t)
	z.on("GET /zones/info", answer{http.StatusOK, fmt.Sprintf(`{"zone": {"id": %q, "name": %q, "version": "v-%s", "digest": %s}}`, id, name, id, digestWith(10)), nil})
	var links []string
	for _, c := range children {
		links = append(links, fmt.Sprintf(`{"id": "l-%s", "name": "%s", "role": "child", "zone_id": %q, "state": "active", "health": "up", "digest": %s}`, c, "to-"+c, c, digestWith(5)))
	}
	z.on("GET /capacity", answer{http.StatusOK, fmt.Sprintf(`{"capacity": {"zones": [{"name": %q, "exact": true, "heard": true, "classes": {"VCPU": {"capacity": 9, "free": 3}}}]}}`, name), nil})
	z.on("GET /zones", answer{http.StatusOK, `{"zones": [` + strings.Join(links, ",") + `]}`, nil})
	return z
}

func digestWith(cpus int) string {
	return fmt.Sprintf(`{"zone_id": "", "health": "up", "classes": {"VCPU": {"total": %d, "free": 1}}}`, cpus)
}

// tree returns what zone tree prints as JSON.
func (s *saver) tree(flags string) treeZone {
	s.t.Helper()
	var body struct{ Tree treeZone }
	require.NoError(s.t, json.Unmarshal([]byte(s.done("", "zone tree -o json "+flags)), &body))
	return body.Tree
}

// TestZoneTreeGoesOnByContexts: without contexts the tree ends at the children. With them it goes on below each of
// which there is one, once, whatever other zones claim to have below them.
func TestZoneTreeGoesOnByContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		home, west := treeFake(t, "z0", "home", "z1", "z2"), treeFake(t, "z1", "west", "z3", "z0")
		gone := newFakeZone(t)
		gone.Close()
		s := newSaver(t)
		s.done("", "context add home --addr "+home.URL)
		s.done("berth_id_w\n", "context add wild --token-file - --addr "+west.URL)
		s.done("", "context add wilder --addr "+west.URL)
		s.done("", "context use home")

		plain := s.tree("")
		assert.Equal(t, []any{"home", "self", "v-z0", true}, []any{plain.Name, plain.Role, plain.Version, plain.Below})
		require.Len(t, plain.Zones, 2)
		assert.Equal(t, []any{"to-z1", "", false, int64(5)}, []any{plain.Zones[0].Name, plain.Zones[0].Version, plain.Zones[0].Below, plain.Zones[0].Classes[api.VCPU].Total})
		assert.Equal(t, treeOwn{9, 3}, plain.Own[api.VCPU])
		assert.Empty(t, west.asked("GET"), "nobody else is asked")

		full := s.tree("--contexts")
		require.Len(t, full.Zones, 2)
		one := full.Zones[0]
		assert.Equal(t, []any{"to-z1", "v-z1", "wild", true, int64(10)}, []any{one.Name, one.Version, one.Context, one.Below, one.Classes[api.VCPU].Total})
		assert.Equal(t, treeOwn{9, 3}, one.Own[api.VCPU])
		assert.Empty(t, one.Zones[1].Own, "it was not asked itself")
		require.Len(t, one.Zones, 2)
		assert.Equal(t, []any{"to-z0", false, 0}, []any{one.Zones[0].Name, one.Zones[0].Below, len(one.Zones[0].Zones)}, "a ring ends")
		assert.Equal(t, []any{"to-z3", false}, []any{one.Zones[1].Name, one.Zones[1].Below})
		for _, call := range west.asked("GET /zones") {
			assert.Contains(t, []string{"berth_id_w", ""}, call.token, "each context has its own token")
		}

		s.done("", "context add gone --addr "+gone.URL)
		r := s.berth("", "zone tree --contexts")
		require.Zero(t, r.exit)
		assert.Contains(t, r.errOut, `context "gone": `, "one that does not answer is named, and the others are shown")
		assert.Regexp(t, `(?m)^home +self .* 1 of 10 .* 3 of 9 `, r.out)
		assert.Regexp(t, `(?m)^    to-z3 +child `, r.out)
		assert.Regexp(t, `(?m)^      \.\.\. `, r.out)
	})
}

// TestZoneTreeIsBounded: links are followed as deep as a tree may be, and no further.
func TestZoneTreeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSaver(t)
		for i := range api.DepthMax + 3 {
			id := fmt.Sprint("z", i)
			s.done("", "context add "+id+" --addr "+treeFake(t, id, id, fmt.Sprint("z", i+1)).URL)
		}
		s.done("", "context use z0")
		depth := 0
		for z := s.tree("--contexts"); z.Below; depth++ {
			require.Len(t, z.Zones, 1)
			z = z.Zones[0]
		}
		assert.Equal(t, api.DepthMax+1, depth, "the zone itself, and as many below it as links may be deep")
	})
}

// TestNothingIsFreeInAZoneThatIsDown: its figures are the last that it told.
func TestNothingIsFreeInAZoneThatIsDown(t *testing.T) {
	told := &rest.Digest{Health: "up", Classes: map[api.ResourceClass]rest.ClassTotals{api.VCPU: {Total: 9, Free: 7}}}
	for health, want := range map[string]string{"up": "7 of 9", "down": "0 of 9"} {
		z := treeZone{Health: health}
		z.count(told)
		assert.Equal(t, want, z.free(api.VCPU), health)
	}
	assert.EqualValues(t, 7, told.Classes[api.VCPU].Free)
}
