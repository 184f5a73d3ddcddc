// Package rogue attacks a federation under load with parties that were let in: a tenant, a
// stranger, a child zone, a parent zone, an agent, a node that was removed, and a crowd. Each has the
// certificates or tokens that a real one has, speaks the real protocols over the real listeners,
// and tries all it can, again and again. What must hold meanwhile: the boots of others succeed,
// the state and the log of the zone stay within a budget, and no party learns or changes what is
// another's. The package has tests and nothing else.
//
//	go test ./cluster-test/rogue                  # each attack a few times
//	go test ./cluster-test/rogue -v -for 1m       # for a minute a party, with latencies of others
//	go test ./cluster-test/rogue -v -run /child   # one party
package rogue
