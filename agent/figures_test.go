package agent

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent/driver/fake"
	"berth/api"
)

// TestFigures: an agent counts what runs, its work with its time, and its calls by what came of them.
func TestFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), fake.New(fake.Options{StartDelay: 2 * time.Second, StopDelay: time.Second})
		a, err := New(config(z, d, 2))
		require.NoError(t, err)
		fresh := a.Figures()
		assert.Zero(t, fresh.Contact)
		assert.Equal(t, 2, fresh.Hosts)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		z.set("host-0001", work("a"), work("b"))
		settle()
		z.set("host-0001", work("a"), stopping("b"))
		settle()
		f := a.Figures()
		assert.Equal(t, map[api.Status]int{api.StatusActive: 1}, f.Instances)
		assert.Equal(t, uint64(2), f.Actions["start"].Count)
		assert.Equal(t, uint64(1), f.Actions["stop"].Count)
		assert.InDelta(t, 4, f.Actions["start"].Sum, .1)
		assert.InDelta(t, 1, f.Actions["stop"].Sum, .1)
		assert.LessOrEqual(t, time.Since(f.Contact), settleTime)
		assert.Positive(t, f.Calls[Call{Path: api.PathAgentRegister}].Count)
		assert.Positive(t, f.Calls[Call{Path: api.PathAgentWork}].Count)
		moved := func() (n uint64) {
			for c, d := range a.Figures().Calls {
				if c.Code == "moved" {
					n += d.Count
				}
			}
			return n
		}
		assert.Zero(t, moved())
		z.do(func() { z.leader = "n2:1" })
		settle()
		assert.Positive(t, moved(), "a redirect is no error of a zone")
		for c := range f.Calls {
			assert.Contains(t, []string{api.PathAgentRegister, api.PathAgentWork, api.PathAgentReport}, c.Path)
		}
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, a.Close())
	})
}

// TestCallsAreCountedByTheirErrors.
func TestCallsAreCountedByTheirErrors(t *testing.T) {
	a, err := New(config(newZone(), fake.New(fake.Options{}), 1))
	require.NoError(t, err)
	began := a.conf.Now().Add(-time.Minute)
	for _, err := range []error{nil, errMoved, api.Errorf(api.CodeConflict, "no"), fmt.Errorf("calling: %w", errMoved), errors.New("x")} {
		a.noteCall("/x", began, err)
	}
	counts := map[Call]uint64{}
	for c, d := range a.Figures().Calls {
		counts[c] = d.Count
		assert.GreaterOrEqual(t, d.Sum, 60*float64(d.Count))
	}
	assert.Equal(t, map[Call]uint64{{"/x", ""}: 1, {"/x", "moved"}: 2, {"/x", api.CodeConflict}: 1, {"/x", api.CodeInternal}: 1}, counts)
}

// TestActionsAreCountedByTheirNames: each lane has its own.
func TestActionsAreCountedByTheirNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZone()
		a, err := New(config(z, fake.New(fake.Options{Stubborn: true}), 1))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		uses := work("a")
		uses.Volumes = []api.InstanceID{"b"}
		for _, list := range [][]api.Workload{
			{work("a"), work("b"), work("c"), work("d")}, {uses, work("b"), powered("c", true, 0), stopping("d")}, {uses, evicted("b", time.Minute)},
			{uses, evicted("b", 0)},
		} {
			z.set("host-0001", list...)
			settle()
		}
		counts := map[string]uint64{}
		for name, d := range a.Figures().Actions {
			counts[name] = d.Count
		}
		assert.Equal(t, map[string]uint64{"start": 4, "attach": 1, "halt": 1, "stop": 2, "notify": 1, "kill": 1}, counts)
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, a.Close())
	})
}
