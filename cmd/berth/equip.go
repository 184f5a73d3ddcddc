//go:build !chaos

package main

import (
	"berth/agent"
	"berth/node"
)

// equip does nothing: only binaries built with the tag "chaos" have faults.
func equip(*node.Options) {}

// equipAgent does nothing either.
func equipAgent(*agent.Config) {}
