package saga

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/requestid"
	"berth/raftstore/command"
	"berth/zone"
	"berth/zone/estimate"
)

// TestABootThatIsGivenUpIsLogged: once, where it was asked for, with its reservation and the id of its call.
func TestABootThatIsGivenUpIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet, store := newSaga(t, func(s zone.Store) zone.Store { return s })
		var out bytes.Buffer
		log := slog.New(requestid.NewHandler(slog.NewJSONHandler(&out, nil)))
		z := zone.New(zone.Config{Store: store, Now: time.Now, Log: log})
		s := New(Config{Zone: z, Estimator: estimate.New(estimate.Config{Zone: z, Keys: ring{}, Digests: silence{}}), Digests: silence{}})
		req := api.Request{
			Reservation: "b", Project: "p", User: "u", Class: api.Firm, Window: api.Window{End: api.Forever},
			Groups: []api.Group{{Count: 3, Min: 3, Flavor: "f", Resources: api.Resources{api.VCPU: 1}}}, // there is room for two
		}
		_, err := quiet.zone.Propose(t.Context(), command.BootCreate{Stamp: z.Stamp(), BootTerms: command.BootTerms{
			Digest: []byte("d"), Name: "b", Request: req, Min: 3,
			Instances: []api.InstanceSpec{{ID: "1", Name: "b-1"}, {ID: "2", Name: "b-2"}, {ID: "3", Name: "b-3"}},
		}})
		require.NoError(t, err)
		ctx := requestid.With(t.Context(), "req-7")
		require.NoError(t, s.settleOwner(ctx, bootOwner{"p", "b", 0}, nil))
		b, ok := z.View().Boot("p", "b")
		require.True(t, ok)
		require.Equal(t, api.BootFailed, b.State())
		require.NoError(t, s.settleOwner(ctx, bootOwner{"p", "b", 0}, nil), "a repeat")
		var line map[string]any
		require.NoError(t, json.Unmarshal(out.Bytes(), &line), "one line: %s", out.String())
		assert.Equal(t, "INFO", line["level"])
		assert.Equal(t, "boot was given up", line["msg"])
		assert.Equal(t, "b", line["reservation"])
		assert.Equal(t, "p", line["project"])
		assert.Equal(t, "req-7", line["request_id"])
		assert.Equal(t, string(api.CodeNoCapacity), line["code"])
		assert.NotEmpty(t, line["reason"])
	})
}

// TestGivenUpBootsHaveFewLines: whoever asks for what cannot be fills no disk.
func TestGivenUpBootsHaveFewLines(t *testing.T) {
	var g givenUp
	at := api.Instant(1_000_000)
	for range givenUpMax {
		n, ok := g.takeLine(at)
		assert.True(t, ok)
		assert.Zero(t, n)
	}
	for range 2 {
		_, ok := g.takeLine(at.Add(givenUpEvery - time.Millisecond))
		assert.False(t, ok)
	}
	n, ok := g.takeLine(at.Add(givenUpEvery))
	assert.True(t, ok)
	assert.Equal(t, 2, n)
	n, ok = g.takeLine(at.Add(givenUpEvery))
	assert.True(t, ok)
	assert.Zero(t, n)
}
