package foreign

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/quota"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/intake"
	"berth/zone/zonetest"
)

// limit sets limits of the project of these tests.
func limit(m *zonetest.Member, l quota.Limits) {
	m.Propose(func(at command.Stamp) command.Command { return command.QuotaSet{Stamp: at, Project: "p", Set: l} })
}

// used returns what the project has of an item now.
func used(m *zonetest.Member, i quota.Item) int64 {
	v := m.View()
	return v.Usage("p").At(v.Now())[i]
}

// requireRefused asks for a boot that must be refused before it is recorded.
func requireRefused(t *testing.T, m *zonetest.Member, o *intake.BootOrder, code api.Code) {
	t.Helper()
	_, err := m.Lead().Boot(m.World.Ctx, o)
	require.Equal(t, code, api.CodeOf(err), "%v", err)
}

// soft asks for preemptible instances that are booted again when they had to leave.
func soft(res string, n int) *intake.BootOrder {
	o := zonetest.Order(res, n, n)
	o.Request.Class, o.Request.OnPreempt = api.Preemptible, api.PreemptRequeue
	return o
}

// urgent asks for instances for which preemptible ones leave.
func urgent(res string, n int) *intake.BootOrder {
	o := zonetest.Order(res, n, n)
	o.Request.Preempt = true
	return o
}

// untilReleased waits until nothing of a boot is left.
func untilReleased(m *zonetest.Member, res string) {
	m.World.T.Helper()
	m.Until(res+" is gone", func(v *state.State) bool {
		b, ok := v.Boot("p", api.ReservationID(res))
		return ok && b.State() == api.BootReleased
	})
}

// usedOn returns how many processors of a host are used.
func usedOn(m *zonetest.Member, host api.HostID) int64 {
	h, ok := m.View().Host(host)
	require.True(m.World.T, ok, host)
	return h.Used[api.VCPU]
}

// near checks that something happened at a time, up to a few seconds later.
func near(t *testing.T, at time.Time, what string) {
	t.Helper()
	late := time.Since(at)
	assert.GreaterOrEqual(t, late, time.Duration(0), "%s too early", what)
	assert.Less(t, late, 10*time.Second, "%s too late", what)
}
