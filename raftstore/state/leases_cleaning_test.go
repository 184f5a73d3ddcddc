package state

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/raftstore/command"
)

func (w *world) setCleaning(d time.Duration) {
	w.ok(command.ConfigSet{Stamp: w.stamp(), Config: api.ZoneConfig{Leases: api.LeaseRule{Cleaning: d}}})
}

func (w *world) cleaning(id string) time.Duration {
	h, _ := w.s.Host(api.HostID(id))
	assert.Equal(w.tb, h.Cleaning, specIn(w.s, h.ID).Gap, "the table has the time of the record")
	return h.Cleaning
}

func TestHostsOfLeasesAreCleaned(t *testing.T) {
	w := leaseWorld(t)
	onDemand := api.PoolOnDemand
	w.ok(command.HostSet{Stamp: w.stamp(), ID: "h2", Pool: &onDemand})
	before := w.generation("h1")
	w.setCleaning(10 * time.Minute)
	assert.Equal(t, 10*time.Minute, w.cleaning("h1"))
	assert.Equal(t, before+1, w.generation("h1"))
	assert.Zero(t, w.cleaning("h2"), "leases cannot use it")

	window := api.Window{Start: start + 10*minute, End: start + 20*minute}
	w.makeLease("l", "h1", window, "s1", "s2", "s3", "s4")
	for _, c := range []struct {
		start api.Instant
		code  api.Code
	}{{window.End, api.CodeNoCapacity}, {window.End + 9*minute, api.CodeNoCapacity}, {window.End + 10*minute, ""}} {
		later := api.Window{Start: c.start, End: c.start + minute}
		assert.Equal(t, c.code, api.CodeOf(w.s.Hosts().Fits("h1", api.Claim{Class: api.Firm, Resources: api.Resources{"VCPU": 1}, Window: later})))
		earlier := api.Window{Start: start, End: window.Start - (c.start - window.End)}
		if earlier.End > start {
			assert.Equal(t, c.code, api.CodeOf(w.s.Hosts().Fits("h1", api.Claim{Class: api.Firm, Resources: api.Resources{"VCPU": 1}, Window: earlier})))
		}
	}

	w.setCleaning(time.Minute)
	assert.Equal(t, 10*time.Minute, w.cleaning("h1"), "its claims were admitted with that")
	twin := loaded(t, saved(t, w.s))
	assert.Equal(t, 10*time.Minute, specIn(twin, "h1").Gap)
	w.ok(command.LeaseDelete{Stamp: w.stamp(), Project: "p", ID: "l"})
	assert.Equal(t, time.Minute, w.cleaning("h1"), "nothing is claimed of it any more")

	w.ok(command.HostSet{Stamp: w.stamp(), ID: "h1", Pool: &onDemand})
	assert.Zero(t, w.cleaning("h1"))
	shared := api.PoolShared
	w.ok(command.HostSet{Stamp: w.stamp(), ID: "h2", Pool: &shared})
	assert.Equal(t, time.Minute, w.cleaning("h2"))
	w.ok(hostPut(w.stamp(), "a1", "h3", 4))
	assert.Equal(t, time.Minute, w.cleaning("h3"), "a new one has it at once")
}
