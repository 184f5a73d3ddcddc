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
	"berth/raftstore/command"
)

// seeds is how many random lives of a federation are tried; the seed is in the
// name of the subtest.
const seeds = 40

// TestRandomFaults boots, deletes and releases in a tree of five zones while calls
// go wrong, leaders change, links break and proposals fail. When the faults end,
// every reservation is whole or gone.
func TestRandomFaults(t *testing.T) {
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomLife(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func randomLife(t *testing.T, dice *rand.Rand) {
	t.Helper()
	w := newWorld(t)
	root := w.zone("root", nil, 2)
	mid := w.zone("mid", root, 1, 2)
	w.zone("leaf", mid, 3)
	w.zone("twig", mid, 2)
	w.zone("other", root, 4)

	callDice := rand.New(rand.NewPCG(dice.Uint64(), 2)) // calls hold w.mu, proposals that of their log
	w.when(func(call) fault {
		if callDice.IntN(5) > 0 {
			return ""
		}
		return []fault{refused, vanished, silenced, cutOff, repeated, ghost}[callDice.IntN(6)]
	})
	for _, m := range w.zones {
		logDice := rand.New(rand.NewPCG(dice.Uint64(), 3))
		m.log.when(func(command.Kind, int) mishap {
			if logDice.IntN(12) > 0 {
				return ""
			}
			return []mishap{notLeader, unapplied, unconfirmed, doubled, delayed}[logDice.IntN(5)]
		})
	}
	var booted []string
	for step := range 40 {
		m := w.zones[dice.IntN(len(w.zones))]
		switch dice.IntN(8) {
		case 0, 1, 2:
			res := fmt.Sprint("r", step)
			most := 1 + dice.IntN(6)
			root.boot(order(res, 1+dice.IntN(most), most))
			booted = append(booted, res)
		case 3:
			m.boot(order(fmt.Sprint("own", step), 1, 1+dice.IntN(2)))
		case 4:
			m.elect()
		case 5:
			o := w.zones[dice.IntN(len(w.zones))]
			w.sever(m.name, o.name, dice.IntN(3) == 0)
		case 6:
			if len(booted) > 0 {
				root.release(booted[dice.IntN(len(booted))])
			}
		case 7:
			if mine := all(root.view()); len(mine) > 0 {
				root.delete(mine[dice.IntN(len(mine))].ID)
			}
		}
		time.Sleep(time.Duration(dice.IntN(6000)) * time.Millisecond)
	}
	w.calm()
	w.settle()
	for _, res := range booted {
		b, ok := root.view().Boot("p", api.ReservationID(res))
		require.True(t, ok)
		assert.True(t, b.State().Outcome(), "%s: %s", res, b.State())
	}
}
