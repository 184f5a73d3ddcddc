package capacity_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// leaseAt is a claim of a lease over [start, end) with a grace of 10.
func leaseAt(amount int64, start, end api.Instant) api.Claim {
	c := claim(amount, api.Preempting, start, end)
	c.Consumer, c.Grace = "lease", 10*time.Millisecond
	return c
}

// From its closing on, the room of a lease is closed to preemptibles and open to firm claims.
func TestClosing(t *testing.T) {
	table := hosts(4, "h")
	require.NoError(t, table.Claim("h", leaseAt(3, 100, 200)))
	soft, firm := claim(2, api.Preemptible, 0, api.Forever), claim(2, api.Firm, 0, 100)
	for _, c := range []struct {
		at   api.Instant
		open bool
	}{{0, true}, {89, true}, {90, false}, {99, false}, {100, false}, {199, false}, {200, true}} {
		table.Advance(c.at)
		soft.Window.Start = c.at
		assert.Equal(t, c.open, table.Fits("h", soft) == nil, "at %d", c.at)
		assert.Equal(t, c.at < 100, table.Fits("h", firm) == nil, "firm at %d", c.at)
	}
}

// A lease is granted over preemptibles, and what exceeds the host is known.
func TestExcess(t *testing.T) {
	table := hosts(4, "h")
	require.NoError(t, table.Claim("h", claim(3, api.Preemptible, 0, api.Forever)))
	assert.Equal(t, api.CodeNoCapacity, api.CodeOf(table.Fits("h", claim(2, api.Firm, 0, 50))))
	require.NoError(t, table.Claim("h", leaseAt(2, 100, 200)))
	vcpu := api.Resources{api.VCPU: 1, api.DiskGB: 1}
	assert.Empty(t, table.Excess("h", vcpu, 99))
	assert.Equal(t, api.Resources{api.VCPU: 1}, table.Excess("h", vcpu, 100))
	assert.Empty(t, table.Excess("h", api.Resources{api.DiskGB: 1}, 100))
	assert.Empty(t, table.Excess("none", vcpu, 100))
	assert.False(t, table.IsOverClosed("h", vcpu))
	table.Advance(90)
	assert.True(t, table.IsOverClosed("h", vcpu))
	assert.False(t, table.IsOverClosed("none", vcpu))
	assert.False(t, table.Overfull("h", vcpu))
	table.Advance(100)
	assert.True(t, table.Overfull("h", vcpu))
	require.NoError(t, table.Claim("h", leaseAt(2, 100, 150)))
	assert.Equal(t, api.Resources{api.VCPU: 3}, table.Excess("h", vcpu, 100))
	table.Release("h", claim(3, api.Preemptible, 0, api.Forever))
	assert.False(t, table.Overfull("h", vcpu))
}

// Preemptibles within a claim are in nobody's way, and what exceeds the claim is known.
func TestExcessWithin(t *testing.T) {
	table := hosts(4, "h")
	outer := leaseAt(3, 0, 200)
	require.NoError(t, table.Claim("h", outer))
	soft := claim(2, api.Preemptible, 0, 200)
	soft.Within = &outer
	require.NoError(t, table.Claim("h", soft))
	assert.Equal(t, api.CodeNoCapacity, api.CodeOf(table.Fits("h", soft)))
	assert.Empty(t, table.ExcessWithin("h", outer))
	own := claim(3, api.Preempting, 0, 200)
	own.Within = &outer
	require.NoError(t, table.Claim("h", own))
	assert.Equal(t, api.Resources{api.VCPU: 2}, table.ExcessWithin("h", outer))
	assert.Empty(t, table.ExcessWithin("none", outer))
	table.Release("h", soft)
	assert.Empty(t, table.ExcessWithin("h", outer))
	assert.False(t, table.Overfull("h", api.Resources{api.VCPU: 1}), "what is within uses nothing more")
}

// An update of a lease moves its closing.
func TestClosingOfAnUpdate(t *testing.T) {
	table := hosts(4, "h")
	from, to := leaseAt(3, 100, 200), leaseAt(4, 50, 200)
	require.NoError(t, table.Claim("h", from))
	require.NoError(t, table.Extend("h", from, to))
	table.Advance(40)
	soft := claim(1, api.Preemptible, 40, api.Forever)
	require.Error(t, table.Fits("h", soft), "the new start is near")
	table.Shrink("h", to, from)
	assert.NoError(t, table.Fits("h", soft), "it was not decided so")
	require.NoError(t, table.Extend("h", from, to))
	table.Shrink("h", from, to)
	require.Error(t, table.Fits("h", soft))
	table.Release("h", to)
	require.NoError(t, table.Fits("h", soft))
	table.Advance(95)
	assert.NoError(t, table.Fits("h", claim(4, api.Preemptible, 95, api.Forever)), "nothing is left of either closing")
}

// A gap ends when a lease closes the room that one more preemptible would have.
func TestGapColumn(t *testing.T) {
	table := hosts(4, "h", "idle")
	r := api.Resources{api.VCPU: 2}
	assert.Nil(t, table.View().GapColumn(r), "nothing is to come")
	require.NoError(t, table.Claim("h", leaseAt(3, 100, 200)))
	v := table.View()
	row, _ := v.Row("h")
	idle, _ := v.Row("idle")
	assert.Equal(t, api.Instant(90), v.GapColumn(r)[row])
	assert.Equal(t, api.Forever, v.GapColumn(r)[idle])
	assert.Nil(t, v.GapColumn(api.Resources{api.VCPU: 1}), "there is room beside the lease")
	require.NoError(t, table.Claim("h", claim(1, api.Preemptible, 0, api.Forever)))
	v = table.View()
	assert.Equal(t, api.Instant(90), v.GapColumn(api.Resources{api.VCPU: 1})[row])
	assert.Equal(t, api.Forever, v.RoomUntil(row, r), "what is there may stay")
	table.Advance(95)
	v = table.View()
	assert.Equal(t, api.Instant(95), v.GapColumn(r)[row])
}
