package native

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
)

// TestAZoneIsWrittenOff: a paused zone is written off with all that depends on it, and a dry run says what
// that is and changes nothing.
func TestAZoneIsWrittenOff(t *testing.T) {
	w := newWorld(t)
	off := func(zone, body string) call {
		return call{method: "POST", target: "/zones/" + zone + "/write-off", token: admin, body: body}
	}
	loses := func(zone, body string) rest.Losses {
		t.Helper()
		var got struct{ Losses rest.Losses }
		w.answered(t, off(zone, body), 200, &got)
		return got.Losses
	}
	w.refused(t, off("none", `{}`), api.CodeNotFound, `"none"`)
	w.refused(t, off("east", `{}`), api.CodeConflict, "pause it first")
	w.refused(t, off("east", `{"dry_run":true}`), api.CodeConflict, "pause it first")
	for _, zone := range []string{"east", "up"} {
		w.answered(t, call{method: "PUT", target: "/zones/" + zone, token: admin, body: `{"zone":{"state":"paused"}}`}, 200, nil)
	}
	w.refused(t, off("east", `{"end_work":true}`), api.CodeInvalid, "is a child")

	before := w.zone.View().Index()
	want := rest.Losses{Zone: "east", Role: api.LinkChild, Instances: 1, Unlinked: true, DryRun: true}
	assert.Equal(t, want, loses("east", `{"dry_run":true}`))
	assert.Equal(t, before, w.zone.View().Index(), "a dry run writes nothing")
	want.DryRun = false
	assert.Equal(t, want, loses("east", `{}`))
	w.refused(t, call{method: "GET", target: "/zones/east", token: admin}, api.CodeNotFound, `"east"`)
	far, _ := w.zone.View().Instance("id-far")
	assert.Equal(t, api.StatusDeleted, far.Status)
	w.refused(t, off("east", `{}`), api.CodeNotFound, `"east"`)

	assert.Equal(t, rest.Losses{Zone: "up", Role: api.LinkParent, Holds: 1, Unlinked: true}, loses("up", `{}`))
}

// TestWorkOfAParentEndsFirst: what a parent has here refuses the write-off, or ends and then leaves the link.
func TestWorkOfAParentEndsFirst(t *testing.T) {
	w := newWorld(t)
	off := func(body string) call {
		return call{method: "POST", target: "/zones/up/write-off", token: admin, body: body}
	}
	w.store.Must(
		t,
		command.HoldDecide{Stamp: w.zone.Stamp(), ID: "hold-up", Origin: "link-up", Decision: api.DecisionCommit},
		command.LinkSet{Stamp: w.zone.Stamp(), ID: "link-up", State: new(api.LinkPaused)},
	)
	w.refused(t, off(`{}`), api.CodeConflict, "end_work")
	var got struct{ Losses rest.Losses }
	w.answered(t, off(`{"end_work":true}`), 200, &got)
	assert.Equal(t, rest.Losses{Zone: "up", Role: api.LinkParent, Ending: 1}, got.Losses)
	w.answered(t, call{method: "GET", target: "/zones/up", token: admin}, 200, nil)

	w.store.Must(t, command.InstanceReport{Stamp: w.zone.Stamp(), Agent: "agent-1", Items: []api.InstanceReport{
		{Host: "host-id-2", Instance: "id-up", Status: api.StatusDeleted},
	}})
	w.answered(t, off(`{}`), 200, &got)
	assert.True(t, got.Losses.Unlinked)
}

// TestTheClockOfALinkedZoneIsShown, to admins, where it is known.
func TestTheClockOfALinkedZoneIsShown(t *testing.T) {
	w := newWorld(t)
	show := func(zone, token string) *rest.Clock {
		t.Helper()
		var got struct{ Zone rest.Zone }
		w.answered(t, call{method: "GET", target: "/zones/" + zone, token: token}, 200, &got)
		return got.Zone.Clock
	}
	assert.Equal(t, &rest.Clock{Offset: rest.Duration(-2 * time.Second), Error: rest.Duration(time.Millisecond), Far: true}, show("east", admin))
	assert.Nil(t, show("east", member))
	assert.Nil(t, show("up", admin))
}

// TestAnUnconfirmedZoneIsShown: admins see which zone was brought back from a backup and is to be confirmed.
func TestAnUnconfirmedZoneIsShown(t *testing.T) {
	w := newWorld(t)
	show := func(zone, token string) api.Incarnation {
		t.Helper()
		var got struct{ Zone rest.Zone }
		w.answered(t, call{method: "GET", target: "/zones/" + zone, token: token}, 200, &got)
		return got.Zone.Unconfirmed
	}
	assert.Zero(t, show("east", admin))
	w.returned = 1_800_000_000
	assert.Equal(t, w.returned, show("east", admin))
	assert.Zero(t, show("up", admin))
}
