package zone_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/internal/dice"
	"berth/raftstore/command"
	"berth/zone/zonetest"
)

// seeds is how many random lives of a federation are tried; the seed is in the
// name of the subtest.
const seeds = 40

// TestRandomFaults boots, deletes and releases in a tree of five zones while calls
// go wrong, leaders change, links break and proposals fail. When the faults end,
// every reservation is whole or gone.
func TestRandomFaults(t *testing.T) {
	for _, seed := range dice.Seeds(t, zonetest.Few(seeds, 6)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomLife(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func randomLife(t *testing.T, rnd *rand.Rand) {
	t.Helper()
	w := zonetest.NewWorld(t)
	root := w.Zone("root", nil, 2)
	mid := w.Zone("mid", root, 1, 2)
	w.Zone("leaf", mid, 3)
	w.Zone("twig", mid, 2)
	w.Zone("other", root, 4)

	callDice := rand.New(rand.NewPCG(rnd.Uint64(), 2)) // calls hold w.mu, proposals that of their log
	w.When(func(zonetest.Call) zonetest.Fault {
		if callDice.IntN(5) > 0 {
			return ""
		}
		return []zonetest.Fault{zonetest.Refused, zonetest.Vanished, zonetest.Silenced, zonetest.CutOff, zonetest.Repeated, zonetest.Ghost}[callDice.IntN(6)]
	})
	for _, m := range w.Zones {
		logDice := rand.New(rand.NewPCG(rnd.Uint64(), 3))
		m.Log.When(func(command.Kind, int) zonetest.Mishap {
			if logDice.IntN(12) > 0 {
				return ""
			}
			return []zonetest.Mishap{zonetest.NotLeader, zonetest.Unapplied, zonetest.Unconfirmed, zonetest.Doubled, zonetest.Delayed}[logDice.IntN(5)]
		})
	}
	var booted []string
	for step := range 40 {
		m := w.Zones[rnd.IntN(len(w.Zones))]
		switch rnd.IntN(8) {
		case 0, 1, 2:
			res := fmt.Sprint("r", step)
			most := 1 + rnd.IntN(6)
			root.Boot(zonetest.Order(res, 1+rnd.IntN(most), most))
			booted = append(booted, res)
		case 3:
			m.Boot(zonetest.Order(fmt.Sprint("own", step), 1, 1+rnd.IntN(2)))
		case 4:
			m.Elect()
		case 5:
			o := w.Zones[rnd.IntN(len(w.Zones))]
			w.Sever(m.Name, o.Name, rnd.IntN(3) == 0)
		case 6:
			if len(booted) > 0 {
				root.Release(booted[rnd.IntN(len(booted))])
			}
		case 7:
			if mine := zonetest.AllInstances(root.View()); len(mine) > 0 {
				root.Delete(mine[rnd.IntN(len(mine))].ID)
			}
		}
		await.Sleep(time.Duration(rnd.IntN(6000)) * time.Millisecond)
	}
	w.Calm()
	w.Settle()
	for _, res := range booted {
		b, ok := root.View().Boot("p", api.ReservationID(res))
		require.True(t, ok)
		assert.True(t, b.State().Outcome(), "%s: %s", res, b.State())
	}
}
