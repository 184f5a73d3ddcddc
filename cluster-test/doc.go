// Package clustertest tests whole zones from outside: real processes of the one
// binary, started by its commands, called over TLS, and killed with SIGKILL. It
// has tests and nothing else.
//
//	go test ./cluster-test                       # all of it, about a minute
//	BERTH_SEED=7 go test ./cluster-test -run Kill -v # the same moments again
//	go test ./cluster-test -run Kill -rounds 100 # many more of them
//	go test ./cluster-test -race                 # the processes are built with -race too
//	go test ./cluster-test -artifacts            # keep the logs also of what passes
//	go test ./cluster-test -short                # of each kind of fault a few, drawn
//
// A test that fails prints the end of the log of each of its processes, the folder with
// data and logs, and the command that runs it again. Everything started by a test ends
// with it: nodes, agents, and the instances of an agent's process driver.
package clustertest
