package zone_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/actor"
	"berth/internal/memstore"
	"berth/internal/requestid"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// noting is a store of a form that notes what is proposed to it.
type noting struct {
	*memstore.Store
	form api.Form
	all  []command.Command
}

func (s *noting) Form() api.Form { return s.form }

func (s *noting) Propose(ctx context.Context, cmds ...command.Command) ([]state.Result, error) {
	s.all = append(s.all, cmds...)
	return s.Store.Propose(ctx, cmds...)
}

func open(t *testing.T, form api.Form) (*zone.Zone, *noting) {
	t.Helper()
	s := &noting{memstore.New(), form, nil}
	s.Must(t, command.Init{Zone: "z", Name: "zone"})
	return zone.New(zone.Config{Store: s, Now: time.Now, Log: slog.New(slog.DiscardHandler)}), s
}

// TestWhoProposesIsNoted before the commands that are audited, with all that is known of the call, once all nodes read that.
func TestWhoProposesIsNoted(t *testing.T) {
	by := api.AuditActor{Kind: api.ActorToken, ID: "t", User: "ada", Project: "ops"}
	for _, size := range []int{5, api.AuditCallMaxBytes, api.AuditCallMaxBytes + 1} {
		ctx := actor.With(requestid.With(t.Context(), "req-1"), actor.Call{By: by, Path: strings.Repeat("x", size)})
		want := command.Audit{Actor: by, Request: "req-1", Call: strings.Repeat("x", min(size, api.AuditCallMaxBytes)), Count: 2}
		z, s := open(t, api.FormFifth)
		_, err := z.ProposeAll(ctx, command.QuotaDelete{Project: "p"}, command.Tick{})
		require.NoError(t, err)
		require.Len(t, s.all, 3)
		got := s.all[0].(command.Audit)
		assert.NotZero(t, got.At)
		got.Stamp = command.Stamp{}
		assert.Equal(t, want, got)

		require.NoError(t, z.Audit(ctx, "a backup"))
		got = s.all[3].(command.Audit)
		assert.NotZero(t, got.At)
		got.Stamp, want.Count, want.Target = command.Stamp{}, 0, "a backup"
		assert.Equal(t, want, got)
		_, err = z.ProposeAll(ctx, command.Tick{})
		require.NoError(t, err)
		assert.Len(t, s.all, 5, "nobody has to know who ticks")
	}
	z, s := open(t, api.FormFifth-1)
	_, err := z.ProposeAll(t.Context(), command.QuotaDelete{Project: "p"})
	require.NoError(t, err)
	require.NoError(t, z.Audit(t.Context(), "a backup"))
	assert.Len(t, s.all, 1, "a node could not read it")
}

// TestARefusalIsOfNow: what refuses in an old state is asked again in the newest one, and nothing is proposed if that refuses as well, or
// nobody can say what it is.
func TestARefusalIsOfNow(t *testing.T) {
	none := errors.New("there is none")
	for name, c := range map[string]struct {
		behind, deposed bool
		refuses         int
		want            bool
	}{
		"found":            {false, false, 0, true},
		"found then":       {true, false, 1, true},
		"not found":        {false, false, 2, false},
		"nobody knows":     {true, true, 1, false},
		"not found at all": {true, false, 2, false},
	} {
		s := memstore.New()
		s.Must(t, command.Init{Zone: "z", Name: "zone"})
		past := memstore.NewPast(s, s.View(), c.deposed)
		s.Must(t, command.Tick{Stamp: command.Stamp{At: 5}})
		z := zone.New(zone.Config{Store: past, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		before, asked := s.View().Index(), 0
		_, err := z.Change(t.Context(), command.Tick{Stamp: command.Stamp{At: 9}}, func(*state.State) error {
			if asked++; asked <= c.refuses {
				return none
			}
			return nil
		})
		assert.Equal(t, c.want, err == nil, name)
		assert.Equal(t, c.want, s.View().Index() > before, name)

		past = memstore.NewPast(s, s.View(), c.deposed)
		if c.behind {
			s.Must(t, command.Tick{Stamp: command.Stamp{At: 11}})
		}
		z = zone.New(zone.Config{Store: past, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		asked = 0
		err = z.Confirmed(t.Context(), func(ctx context.Context) error {
			return z.Confirmed(ctx, func(context.Context) error { // one within another is no other
				if asked++; asked <= c.refuses {
					return api.Errorf(api.CodeNotFound, "there is none")
				}
				return nil
			})
		})
		assert.Equal(t, c.want, err == nil, name)
		if c.refuses > 0 {
			assert.Equal(t, map[bool]int{true: 2, false: 1}[c.behind && !c.deposed], asked, name)
		}
	}
	z, _ := open(t, api.FormFifth)
	asked := 0
	err := z.Confirmed(t.Context(), func(ctx context.Context) error {
		asked++
		z.NoteLogged(ctx)
		return api.Errorf(api.CodeNotFound, "the log says so")
	})
	assert.Equal(t, api.CodeNotFound, api.CodeOf(err))
	assert.Equal(t, 1, asked)
}

// digests knows one digest of an age.
type digests time.Duration

func (d digests) Digest(api.ZoneID) (api.Digest, time.Duration, bool) {
	return api.Digest{Classes: map[api.ResourceClass]api.ClassTotals{api.VCPU: {Total: 4}}}, time.Duration(d), d >= 0
}

// TestWhatIsSeenOfAChild: its use as long as that is fresh, and that it is away once it has been silent for too long.
func TestWhatIsSeenOfAChild(t *testing.T) {
	_, s := open(t, api.FormNewest)
	v := s.View()
	rule := &v.Config.Bindings
	for age, known := range map[time.Duration]bool{-1: false, 0: true, rule.UsageAgeMost(): true, rule.UsageAgeMost() + 1: false} {
		got := zone.SeeChild(v, digests(age), 1000, &api.Link{ID: "l", State: api.LinkActive})
		assert.Equal(t, known, got.Usage != nil, "%s", age)
		assert.False(t, got.Away)
	}
	const since = api.Instant(1000)
	for now, away := range map[api.Instant]bool{since: false, since.Add(rule.LostAfterAll()) - 1: false, since.Add(rule.LostAfterAll()): true} {
		got := zone.SeeChild(v, digests(0), now, &api.Link{ID: "l", State: api.LinkActive, SilentSince: since})
		assert.Equal(t, away, got.Away, "%d", now)
	}
}
