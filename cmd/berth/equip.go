//go:build !chaos

package main

import (
	"berth/agent"
	"berth/node"
)

// equip does nothing: faults are in binaries that are built with the tag "chaos".
func equip(*node.Options) {}

// equipAgent does nothing either.
func equipAgent(*agent.Config) {}
