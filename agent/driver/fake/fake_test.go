package fake

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"berth/agent/driver"
	"berth/agent/driver/drivertest"
	"berth/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func work(id string) api.Workload { return api.Workload{Instance: api.InstanceID(id)} }

func TestConduct(t *testing.T) {
	drivertest.Run(t, func(*testing.T) drivertest.Rig {
		d := New(Options{FailStart: func(_ api.HostID, w api.Workload) error {
			if w.Name == "broken" {
				return errors.New("it cannot be started")
			}
			return nil
		}})
		n := 0
		named := func(name string) func() api.Workload {
			return func() api.Workload {
				n++
				return api.Workload{Instance: api.InstanceID(fmt.Sprint("i", n)), Name: name}
			}
		}
		return drivertest.Rig{
			Driver: d, Work: named("good"), Broken: named("broken"),
			End: func(t *testing.T, id api.InstanceID, code int) {
				t.Helper()
				require.True(t, d.Exit(id, code))
			},
			Rewind: func(*testing.T, api.InstanceID) {},
			Notice: func(_ *testing.T, id api.InstanceID) (time.Time, bool) {
				n, ok := d.Notice(id)
				return n.Deadline, ok
			},
		}
	})
}

func TestExit(t *testing.T) {
	ctx := t.Context()
	d := New(Options{})
	require.NoError(t, d.Start(ctx, "h", work("b")))
	require.NoError(t, d.Start(ctx, "h", work("a")))
	require.NoError(t, d.Start(ctx, "h", work("a")))
	assert.Equal(t, 2, d.Starts(), "a repeat is none")

	assert.True(t, d.Exit("a", 0))
	assert.False(t, d.Exit("a", 0), "it has ended")
	assert.False(t, d.Exit("c", 0), "it never ran")
	assert.True(t, d.Exit("b", 3))
	<-d.Changed()
	assert.Empty(t, d.Changed(), "one value stands for both")
	require.EqualError(t, d.Start(ctx, "h", work("b")), "exit code 3")
	got, err := d.List(ctx)
	require.NoError(t, err)
	assert.Equal(t, []driver.State{
		{Host: "h", Instance: "a", Status: api.StatusShutoff},
		{Host: "h", Instance: "b", Status: api.StatusError, Fault: "exit code 3"},
	}, got)
}

func TestInjectedFailures(t *testing.T) {
	ctx := t.Context()
	d := New(Options{FailEvery: 3, FailStop: func(id api.InstanceID) error {
		if id == "i2" {
			return errors.New("stuck")
		}
		return nil
	}})
	for i := 1; i <= 6; i++ {
		err := d.Start(ctx, "h", work(fmt.Sprint("i", i)))
		assert.Equal(t, i%3 == 0, errors.Is(err, ErrInjected), "start %d", i)
	}
	require.EqualError(t, d.Stop(ctx, "i2"), "stuck")
	require.NoError(t, d.Stop(ctx, "i3"))
	got, err := d.List(ctx)
	require.NoError(t, err)
	assert.Len(t, got, 5)
	assert.Equal(t, api.StatusError, got[4].Status)

	d = New(Options{FailStart: func(h api.HostID, _ api.Workload) error { return fmt.Errorf("%s is full", h) }})
	require.EqualError(t, d.Start(ctx, "h", work("a")), "h is full")
	require.EqualError(t, d.Start(ctx, "h", work("a")), "h is full", "it is remembered")
}

func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(Options{StartDelay: time.Second, StopDelay: 2 * time.Second})
		begin := time.Now()
		done := make(chan error, 2)
		for range 2 { // the second waits for the first and finds it done
			go func() { done <- d.Start(t.Context(), "h", work("a")) }()
		}
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		assert.Equal(t, time.Second, time.Since(begin))
		assert.Equal(t, 1, d.Starts())

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, d.Stop(ctx, "a"), context.DeadlineExceeded)
		require.ErrorIs(t, d.Stop(ctx, "a"), context.DeadlineExceeded, "ctx is over")
		list, err := d.List(t.Context())
		require.NoError(t, err)
		assert.Len(t, list, 1, "a stop that did not end forgets nothing")
		require.NoError(t, d.Stop(t.Context(), "a"))
		assert.Equal(t, 4*time.Second, time.Since(begin))
	})
}

func BenchmarkStart(b *testing.B) {
	d := New(Options{})
	ids := make([]api.Workload, b.N)
	for i := range ids {
		ids[i] = work(strconv.Itoa(i))
	}
	b.ResetTimer()
	for i := range ids {
		if err := d.Start(b.Context(), "h", ids[i]); err != nil {
			b.Fatal(err)
		}
	}
}
