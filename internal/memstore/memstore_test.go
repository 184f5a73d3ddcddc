package memstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/zone"
)

var _ zone.Store = (*Store)(nil)

func TestACommandMakesANewView(t *testing.T) {
	s := New()
	before := s.View()
	s.Must(t, command.Init{Zone: "zone-1", Name: "root"}, command.NodePut{Node: api.Node{ID: "1"}})
	assert.EqualValues(t, 0, before.Index(), "a view never changes")
	v, err := s.Linearizable(t.Context())
	require.NoError(t, err)
	assert.Same(t, s.View(), v)
	assert.EqualValues(t, 2, v.Index())
	assert.EqualValues(t, Term, s.Term())

	rs, err := s.Propose(t.Context(), command.NodePut{Node: api.Node{ID: "2"}}, command.Init{})
	require.NoError(t, err)
	require.Len(t, rs, 2)
	require.NoError(t, rs[0].Err)
	require.Error(t, rs[1].Err, "there is a zone already")
	assert.EqualValues(t, 3, s.View().Index(), "they were one entry")
}

func TestAFailedProposalChangesNothing(t *testing.T) {
	s, away := New(), errors.New("away")
	s.Fail(away)
	_, err := s.Propose(t.Context(), command.Init{Zone: "zone-1", Name: "root"})
	require.ErrorIs(t, err, away)
	assert.EqualValues(t, 0, s.View().Index())
	s.Fail(nil)
	s.Must(t, command.Init{Zone: "zone-1", Name: "root"})
}

func TestWaitEndsWithTheNextView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		got := make(chan uint64)
		go func() {
			v, err := s.Wait(t.Context(), 0)
			assert.NoError(t, err)
			got <- v.Index()
		}()
		synctest.Wait()
		s.Must(t, command.Init{Zone: "zone-1", Name: "root"})
		assert.EqualValues(t, 1, <-got)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Wait(ctx, 1)
		require.ErrorIs(t, err, context.Canceled)
	})
}
