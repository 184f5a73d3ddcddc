// Package chaos breaks federations of real processes in every way that is known
// to happen, while clients use them, and judges what is left: nothing that was
// acknowledged may be lost, no reservation may stay stuck or mixed, no zone may
// have learnt another zone's hosts. It has tests and nothing else, and they need
// the tag "chaos", because the processes they start are built to be broken.
//
//	go test -tags chaos ./cluster-test/chaos -v               # about eight minutes
//	go test -tags chaos ./cluster-test/chaos -v -scale 7      # an hour
//	go test -tags chaos ./cluster-test/chaos -v -run Power    # one campaign
//	go test -tags chaos ./cluster-test/chaos -v -run Federation -kinds "wrong clock,slow disk"
//	BERTH_SEED=7 go test -tags chaos ./cluster-test/chaos -v  # the same draws again
//	go test -tags chaos ./cluster-test/chaos -v -run Preemptibles -preempt 10m
//
// A campaign that did too little fails like one that found something: see gates.
// What each run did is printed at its end, and with -ledger FILE added to a table.
package chaos
