package saga

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/zone"
)

// TestWhatMayBeRepeated: calls that another zone may answer the next time.
func TestWhatMayBeRepeated(t *testing.T) {
	for err, want := range map[error]bool{
		api.Errorf(api.CodeUnavailable, "x"): true, api.Errorf(api.CodeTimeout, "x"): true, api.Errorf(api.CodeOverloaded, "x"): true,
		fmt.Errorf("calling: %w", context.DeadlineExceeded): true, api.Errorf(api.CodeConflict, "x"): false, errors.New("x"): false, context.Canceled: false,
	} {
		assert.Equal(t, want, mayRepeat(err), "%v", err)
	}
}

// TestWhatMayBePlannedFirst: firm boots of a zone that asks no other, which are no repeat.
func TestWhatMayBePlannedFirst(t *testing.T) {
	m := memstore.New()
	m.Must(t, command.Init{Zone: "z", Name: "zone"})
	s := &Saga{zone: zone.New(zone.Config{Store: m, Now: time.Now, Log: slog.New(slog.DiscardHandler)})}
	for name, c := range map[string]struct {
		change func(c *command.BootCreate)
		want   bool
	}{
		"plain":       {func(*command.BootCreate) {}, true},
		"preemptible": {func(c *command.BootCreate) { c.Request.Class = api.Preemptible }, false},
		"preempting":  {func(c *command.BootCreate) { c.Request.Preempt = true }, false},
		"a lease":     {func(c *command.BootCreate) { c.Request.Reserves = true }, false},
		"within one":  {func(c *command.BootCreate) { c.Request.Within = "r" }, false},
		"an update":   {func(c *command.BootCreate) { c.Request.Replaces = "r" }, false},
	} {
		b := &command.BootCreate{BootTerms: command.BootTerms{Request: api.Request{Reservation: "r", Project: "p", Class: api.Firm}}}
		c.change(b)
		assert.Equal(t, c.want, s.mayPlanFirst(b), name)
	}
	m.Must(t, command.LinkPut{Link: api.Link{ID: "kid", Name: "kid", Role: api.LinkChild, Zone: "kid", State: api.LinkActive, Scale: 1, CA: []byte("ca")}})
	assert.False(t, s.mayPlanFirst(&command.BootCreate{BootTerms: command.BootTerms{Request: api.Request{Reservation: "r", Project: "p", Class: api.Firm}}}), "it has a child")
}
