package federation

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
)

// TestRelinkConfirmsWhatWasShown: only a later incarnation, and the one that the operator was shown. A dry run changes nothing.
func TestRelinkConfirmsWhatWasShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	parent, child := w.add("p", nil), w.add("c", nil)
	child.isBelow(parent)
	link := parent.linkTo(child).ID
	relink := func(q rest.Relink) (*rest.Relinked, error) { return parent.Relink(t.Context(), link, q) }
	_, err := relink(rest.Relink{DryRun: true})
	refusedAs(t, api.CodeConflict, err)
	require.ErrorContains(t, err, "nothing to confirm")

	now := api.Incarnation(1_700_000_000)
	var asked []string
	(*peers)(parent).returned = func(l *api.Link) (api.Incarnation, error) {
		asked = l.Endpoints
		return now, nil
	}
	shown, err := relink(rest.Relink{DryRun: true, Gateways: []string{"new:7601"}})
	require.NoError(t, err)
	assert.Equal(t, now, shown.Incarnation)
	assert.Equal(t, api.Instant(1_700_000_000_000), shown.At)
	assert.Equal(t, []string{"new:7601"}, asked)
	assert.Zero(t, parent.linkTo(child).Incarnation, "nothing was changed")
	_, err = relink(rest.Relink{Incarnation: now - 1})
	refusedAs(t, api.CodeConflict, err)
	_, err = relink(rest.Relink{Incarnation: now, Gateways: []string{"new:7601"}})
	require.NoError(t, err)
	assert.Equal(t, now, parent.linkTo(child).Incarnation)
	assert.Equal(t, []string{"new:7601"}, parent.linkTo(child).Endpoints)
	assert.NotZero(t, parent.linkTo(child).Reconcile)

	was := now
	now = api.Incarnation(time.Now().Add(api.IncarnationAheadMax + time.Hour).Unix())
	_, err = relink(rest.Relink{Incarnation: now})
	refusedAs(t, api.CodeConflict, err)
	require.ErrorContains(t, err, "yet to come")
	now = api.IncarnationMax + 1
	_, err = relink(rest.Relink{DryRun: true})
	refusedAs(t, api.CodeConflict, err)
	assert.Equal(t, was, parent.linkTo(child).Incarnation)

	now = was - 1
	_, err = relink(rest.Relink{DryRun: true})
	refusedAs(t, api.CodeConflict, err)
	require.ErrorContains(t, err, "an earlier life")
	_, err = relink(rest.Relink{DryRun: true, Gateways: []string{"no address"}})
	refusedAs(t, api.CodeInvalid, err)
	(*peers)(parent).returned = func(*api.Link) (api.Incarnation, error) { return 0, errors.New("nobody there") }
	_, err = relink(rest.Relink{DryRun: true})
	refusedAs(t, api.CodeUnavailable, err)
	_, err = parent.Relink(t.Context(), "unknown", rest.Relink{DryRun: true})
	refusedAs(t, api.CodeNotFound, err)
}
