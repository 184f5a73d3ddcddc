//go:build !chaos

package main

import (
	"time"

	"berth/agent"
	"berth/node"
)

// equip does nothing: only binaries built with the tag "chaos" have faults.
func equip(*node.Options) {}

// equipAgent does nothing either.
func equipAgent(*agent.Config) {}

// readClock is the clock of every process of this binary.
func readClock() time.Time { return time.Now() }
