package saga

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
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

// unsure is a store that cannot confirm what it has.
type unsure struct{ zone.Store }

func (unsure) Linearizable(context.Context) (*state.State, error) {
	return nil, api.Errorf(api.CodeUnavailable, "it does not lead")
}

// TestOnlyAConfirmedLogEnds: a child tells a parent that its log ends before an index only if that is certain. A node
// that is behind has no news.
func TestOnlyAConfirmedLogEnds(t *testing.T) {
	const far = 1 << 40
	up := &api.Link{ID: "up", Role: api.LinkParent}
	s, store := newSaga(t, func(s zone.Store) zone.Store { return s })
	end := store.View().Index()
	assert.Equal(t, api.Changes{Index: end}, s.Changes(t.Context(), up, far, 0, time.Minute), "at once")
	assert.True(t, endsBefore(&api.Changes{Index: end}, far))
	assert.Equal(t, api.Changes{Next: end, Index: end}, s.Changes(t.Context(), up, end, 0, 0), "the end is in the log")
	behind, has := newSaga(t, func(s zone.Store) zone.Store { return unsure{s} })
	assert.Equal(t, api.Changes{Next: far, Index: has.View().Index()}, behind.Changes(t.Context(), up, far, 0, 0))
	assert.False(t, endsBefore(&api.Changes{}, 0), "there is nothing before the beginning")
}
