package main

import (
	"context"

	"berth/api/client"
	"berth/bench/load"
	"berth/bench/zones"
)

// federate starts the federation that berth bench measures.
func federate(ctx context.Context, f load.Federation, callers int) (*client.Client, func() error, error) {
	r, err := zones.Start(ctx, f, callers, "", readClock)
	if err != nil {
		return nil, nil, err
	}
	return r.Root, r.Stop, nil
}
