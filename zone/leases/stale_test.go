package leases_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/zone"
	"berth/zone/estimate"
	"berth/zone/leases"
)

// during is a service that allows every lease, and does something while it is asked.
type during func()

func (during) Asks() bool { return true }

func (during) CheckCreate(context.Context, api.Caller, *api.LeaseTerms, [][]rest.CheckedPlace) error {
	return nil
}

func (d during) CheckUpdate(context.Context, api.Caller, *api.LeaseTerms, *api.LeaseTerms, [][]rest.CheckedPlace) error {
	d()
	return nil
}

// TestAnUpdateOutlivesEvents: an update is made although the lease moves on by itself meanwhile, of which its
// caller knows nothing; not when it is over then, and not for ever.
func TestAnUpdateOutlivesEvents(t *testing.T) {
	for name, c := range map[string]struct {
		steps []time.Duration // what passes during each check
		code  api.Code
		tries int
	}{
		"nothing happens": {nil, "", 1},
		"it starts":       {[]time.Duration{10 * time.Minute}, "", 2},
		"two events":      {[]time.Duration{10 * time.Minute, 60 * time.Minute}, "", 3},
		"it ends":         {[]time.Duration{2 * time.Hour}, api.CodeInvalid, 1},
	} {
		t.Run(name, func(t *testing.T) {
			clock := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
			m := memstore.NewOfForm(api.FormNewest)
			z := zone.New(zone.Config{Store: m, Now: func() time.Time { return clock }, Log: slog.New(slog.DiscardHandler)})
			m.Must(t, command.Init{Stamp: z.Stamp(), Zone: "z", Name: "zone"})
			tries := 0
			l := leases.New(z, estimate.New(estimate.Config{Zone: z}), nil).WithCheck(during(func() {
				if tries++; tries <= len(c.steps) {
					clock = clock.Add(c.steps[tries-1])
					m.Must(t, command.Tick{Stamp: z.Stamp()})
				}
			}))
			who := api.Caller{User: "u", Project: "p", Role: api.RoleMember}
			now := api.InstantOf(clock)
			window := api.Window{Start: now.Add(5 * time.Minute), End: now.Add(90 * time.Minute)}
			id, err := l.Create(t.Context(), who, api.LeaseTerms{Name: "l", Window: window, BeforeEnd: now.Add(30 * time.Minute)}, "")
			require.NoError(t, err)
			end := window.End.Add(time.Hour)
			err = l.Update(t.Context(), who, id, api.LeaseChange{End: &end})
			assert.Equal(t, c.code, api.CodeOf(err), "%v", err)
			assert.Equal(t, c.tries, tries)
			got, _ := m.View().Lease(id)
			if c.code == "" {
				assert.Equal(t, end, got.Terms.Window.End)
			} else {
				assert.Equal(t, window.End, got.Terms.Window.End)
			}
		})
	}
}
