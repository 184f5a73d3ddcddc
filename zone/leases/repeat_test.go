package leases_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/zonetest"
)

// create makes a lease with a key.
func create(m *zonetest.Member, who api.Caller, t api.LeaseTerms, key string) (api.LeaseID, error) {
	ctx, cancel := m.Within(2 * time.Minute)
	defer cancel()
	return m.Lead().Create(ctx, who, t, key)
}

// TestARepeatIsTheFirstLease: a call with the key of an earlier one returns that lease, however late it is, and writes nothing; for
// other terms it is refused; the key of another project is another one.
func TestARepeatIsTheFirstLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		terms := zonetest.LeaseOf("l", 2*time.Minute, time.Hour, 2)
		first, err := create(root, zonetest.Caller, terms, "key")
		require.NoError(t, err)
		w.Unchanged(func() {
			again, err := create(root, zonetest.Caller, terms, "key")
			require.NoError(t, err, "although there is no room for another one")
			assert.Equal(t, first, again)
			for name, differ := range map[string]func(*api.LeaseTerms, *api.Caller){
				"name":   func(t *api.LeaseTerms, _ *api.Caller) { t.Name = "other" },
				"amount": func(t *api.LeaseTerms, _ *api.Caller) { t.Reservations = nil },
				"start":  func(t *api.LeaseTerms, _ *api.Caller) { t.Window.Start = t.Window.Start.Add(time.Minute) },
				"user":   func(_ *api.LeaseTerms, c *api.Caller) { c.User = "v" },
			} {
				other, who := terms, zonetest.Caller
				differ(&other, &who)
				_, err = create(root, who, other, "key")
				assert.Equal(t, api.CodeConflict, api.CodeOf(err), name)
				assert.ErrorContains(t, err, "the idempotency key was used", name)
			}
			_, err = create(root, zonetest.Caller, terms, "-")
			assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
		})
		none := terms
		none.Reservations = nil
		others, err := create(root, api.Caller{User: "u", Project: "q", Role: api.RoleMember}, none, "key")
		require.NoError(t, err)
		assert.NotEqual(t, first, others)
		keyless := map[api.LeaseID]bool{}
		for range 2 {
			id, err := create(root, zonetest.Caller, none, "")
			require.NoError(t, err)
			keyless[id] = true
		}
		assert.Len(t, keyless, 2)

		await.Sleep(5 * time.Minute) // its start is over
		again, err := create(root, zonetest.Caller, terms, "key")
		require.NoError(t, err)
		assert.Equal(t, first, again)
		for _, key := range []string{"", "another"} {
			_, err = create(root, zonetest.Caller, terms, key)
			assert.Equal(t, api.CodeInvalid, api.CodeOf(err), "%q: it would start in the past: %v", key, err)
		}
	})
}

// TestARepeatOfNow: a lease that starts now is the same a minute later, and its event before the end follows it; one that starts
// at another time is not.
func TestARepeatOfNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		now := func() api.LeaseTerms {
			l := zonetest.LeaseOf("l", 0, time.Hour, 2)
			l.Window.End = api.InstantOf(time.Date(2000, 1, 1, 9, 0, 0, 0, time.UTC))
			l.BeforeEnd = l.Window.Start.Add(time.Hour)
			return l
		}
		first, err := create(root, zonetest.Caller, now(), "key")
		require.NoError(t, err)
		await.Sleep(3 * time.Minute)
		again, err := create(root, zonetest.Caller, now(), "key")
		require.NoError(t, err)
		assert.Equal(t, first, again)
		l, _ := root.View().Lease(first)
		assert.Equal(t, l.Terms.Window.Start.Add(time.Hour), l.Terms.BeforeEnd)
		later := now()
		later.Window.Start = later.Window.Start.Add(time.Minute)
		_, err = create(root, zonetest.Caller, later, "key")
		assert.Equal(t, api.CodeConflict, api.CodeOf(err))
	})
}

// TestALeaseIsDecidedElsewhere: a call whose lease is undecided after a minute says so, with its id; one whose lease is deleted
// meanwhile says that.
func TestALeaseIsDecidedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		w.Zone("kid", root, 2)
		w.When(func(c zonetest.Call) zonetest.Fault {
			if c.Op == "hold" || c.Op == "holds" {
				return zonetest.Vanished
			}
			return ""
		})
		root.Log.When(func(k command.Kind, _ int) zonetest.Mishap {
			if k == command.KindBootDecide {
				return zonetest.NotLeader
			}
			return ""
		})
		terms := zonetest.LeaseOf("l", time.Hour, time.Hour, 4)
		began := time.Now()
		id, err := create(root, zonetest.Caller, terms, "key")
		assert.Equal(t, api.CodeTimeout, api.CodeOf(err), "%v", err)
		assert.ErrorContains(t, err, "not decided yet")
		assert.Equal(t, time.Minute, time.Since(began))
		assert.Equal(t, root.View().Leases("")[0].Terms.ID, id)
		codes := make(chan error, 1)
		w.Go(func() {
			_, err := create(root, zonetest.Caller, terms, "key")
			codes <- err
		})
		synctest.Wait()
		ctx, cancel := root.Within(time.Second)
		defer cancel()
		require.NoError(t, root.Lead().Delete(ctx, zonetest.Caller, id))
		err = <-codes
		assert.Equal(t, api.CodeConflict, api.CodeOf(err))
		assert.ErrorContains(t, err, "the lease was deleted meanwhile")
		w.Calm()
		root.Until("nothing is left of it", func(v *state.State) bool { return len(v.Leases("")) == 0 })
	})
}

// TestAnUpdateThatIsNotDecided: one that waits for a zone for a minute says that it is not decided.
func TestAnUpdateThatIsNotDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 4)
		id, err := root.Lease(zonetest.LeaseOf("l", time.Hour, time.Hour, 2))
		require.NoError(t, err)
		root.Log.When(func(k command.Kind, _ int) zonetest.Mishap {
			if k == command.KindHold || k == command.KindBootDecide {
				return zonetest.NotLeader
			}
			return ""
		})
		l, _ := root.View().Lease(id)
		later, began := l.Terms.Window.End.Add(time.Hour), time.Now()
		err = root.Lead().Update(w.Ctx, zonetest.Caller, id, api.LeaseChange{End: &later})
		assert.Equal(t, api.CodeTimeout, api.CodeOf(err), "%v", err)
		assert.Equal(t, time.Minute, time.Since(began))
		ctx, cancel := root.Within(time.Second)
		defer cancel()
		assert.Equal(t, api.CodeConflict, api.CodeOf(root.Lead().Update(ctx, zonetest.Caller, id, api.LeaseChange{End: &later})), "another one is under way")
		root.Log.When(nil)
		root.Until("it is updated", func(v *state.State) bool {
			l, _ := v.Lease(id)
			return l.Terms.Window.End == later
		})
		w.Settle()
	})
}

// TestWhoMayChangeALease: its project, and an operator of any project; nobody else finds it.
func TestWhoMayChangeALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		id, err := root.Lease(zonetest.LeaseOf("l", time.Hour, time.Hour, 2))
		require.NoError(t, err)
		renamed := "renamed"
		for name, c := range map[string]struct {
			who  api.Caller
			id   api.LeaseID
			code api.Code
		}{
			"its project":          {zonetest.Caller, id, ""},
			"another project":      {api.Caller{User: "u", Project: "q", Role: api.RoleMember}, id, api.CodeNotFound},
			"an operator":          {api.Caller{User: "o", Project: "ops", Role: api.RoleAdmin}, id, ""},
			"none":                 {zonetest.Caller, "none", api.CodeNotFound},
			"none, by an operator": {api.Caller{User: "o", Project: "ops", Role: api.RoleAdmin}, "none", api.CodeNotFound},
		} {
			_, err = root.Lead().PlanUpdate(w.Ctx, c.who, c.id, api.LeaseChange{Name: &renamed})
			assert.Equal(t, c.code, api.CodeOf(err), "%s plans", name)
			err = root.Lead().Update(w.Ctx, c.who, c.id, api.LeaseChange{Name: &renamed})
			assert.Equal(t, c.code, api.CodeOf(err), "%s updates", name)
			if c.code != "" {
				assert.Equal(t, c.code, api.CodeOf(root.Lead().Delete(w.Ctx, c.who, c.id)), "%s deletes", name)
			}
		}
		require.NoError(t, root.Lead().Delete(w.Ctx, api.Caller{User: "o", Project: "ops", Role: api.RoleAdmin}, id))
		assert.Empty(t, root.View().Leases(""))
	})
}
