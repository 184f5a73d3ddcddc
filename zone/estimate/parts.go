package estimate

import (
	"runtime"
	"sync"
)

// runParts is buildplan.Inputs.Split with a goroutine for each processor. A panic in one of them
// is one of the caller.
func runParts(n int, part func(from, to int)) {
	parts := min(runtime.GOMAXPROCS(0), n)
	faults := make([]any, parts)
	run := func(i int) {
		defer func() { faults[i] = recover() }()
		part(n*i/parts, n*(i+1)/parts)
	}
	var wg sync.WaitGroup
	for i := 1; i < parts; i++ {
		wg.Go(func() { run(i) })
	}
	if parts > 0 {
		run(0)
	}
	wg.Wait()
	for _, fault := range faults {
		if fault != nil {
			panic(fault)
		}
	}
}
