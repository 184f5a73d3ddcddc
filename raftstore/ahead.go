package raftstore

import "fmt"

const (
	aheadRecords = 256 // of one batch that is read ahead
	aheadBatches = 8   // that wait
)

// aheadBatch are records that were read ahead, and the error behind them.
type aheadBatch struct {
	records []any
	err     error
}

// readAhead reads records on a goroutine of its own, so that those before them are taken up
// meanwhile. It implements state.Ahead.
func readAhead(read func() (any, error)) (next func() (any, error), stop func()) {
	batches, gone := make(chan aheadBatch, aheadBatches), make(chan struct{})
	go func() {
		defer close(batches)
		for {
			b := readBatch(read)
			select {
			case batches <- b:
			case <-gone:
				return
			}
			if b.err != nil {
				return
			}
			select { // stop makes room in batches, and wants no more
			case <-gone:
				return
			default:
			}
		}
	}()
	var now aheadBatch
	next = func() (any, error) {
		if len(now.records) == 0 && now.err == nil {
			now = <-batches
		}
		if len(now.records) == 0 {
			return nil, now.err
		}
		r := now.records[0]
		now.records = now.records[1:]
		return r, nil
	}
	return next, func() {
		close(gone)
		for range batches { // until it has ended
		}
	}
}

// readBatch reads records up to the first error. A panic is one.
func readBatch(read func() (any, error)) (b aheadBatch) {
	defer func() {
		if p := recover(); p != nil {
			b.err = fmt.Errorf("panic: %v", p)
		}
	}()
	b.records = make([]any, 0, aheadRecords)
	for len(b.records) < aheadRecords && b.err == nil {
		var r any
		if r, b.err = read(); b.err == nil {
			b.records = append(b.records, r)
		}
	}
	return b
}
