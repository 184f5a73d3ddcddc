package saga

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/zone"
)

// TestFollowingPaysForWhatItSaves: a child that was quiet is followed without a pause until its share of followSpare is
// used up, and from then on at the pace of its share.
func TestFollowingPaysForWhatItSaves(t *testing.T) {
	const cost = time.Second * followAnswerBytes / followBytesPerSecond
	f, now := &follower{}, time.Now()
	for range 3 {
		now = now.Add(time.Minute)
		n := 0
		for ; f.pay(now, cost) <= 0; n++ {
		}
		assert.Equal(t, int(followSpare/cost), n, "it saves no more than that")
		for range 3 {
			now = now.Add(cost)
			assert.Positive(t, f.pay(now, cost))
		}
		assert.Positive(t, f.pay(now, followSpare), "a large answer has to be paid for")
	}
}

// TestUnusableChangesCountAgainstAChild: a child that gives lists of changes which cannot
// be used is not asked for offers either.
func TestUnusableChangesCountAgainstAChild(t *testing.T) {
	s, store := newSaga(t, func(s zone.Store) zone.Store { return s })
	store.Must(t, command.LinkPut{Link: api.Link{ID: "l", Name: "kid", Role: api.LinkChild, Zone: "k", State: api.LinkActive, Scale: 1}})
	f := &follower{s: s, id: "l", next: 5}
	for range 3 { // so many are too many
		_, err := f.takeChanges(t.Context(), &api.Changes{Next: 4})
		assert.Equal(t, api.CodeInternal, api.CodeOf(err))
	}
	req := api.Request{
		Reservation: "b", Project: "p", User: "u", Class: api.Firm, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: 1, Flavor: "f", Resources: api.Resources{api.VCPU: 1}}},
	}
	a, err := s.estimator.Select(t.Context(), "", &req)
	require.NoError(t, err)
	assert.Equal(t, api.OutcomePaused, a.Zones[1].Outcome)
}
