package raftstore

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkPropose measures acknowledged commands on disk, fsync included.
func BenchmarkPropose(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		for _, clients := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("nodes=%d/clients=%d", nodes, clients), func(b *testing.B) {
				var lead *node
				if nodes == 1 {
					lead = solo(b, nil)
				} else {
					lead = trio(b, nil, nil)[0]
				}
				var left atomic.Int64
				left.Store(int64(b.N))
				first := lead.raft.LastIndex()
				b.ResetTimer()
				var wg sync.WaitGroup
				for c := range clients {
					wg.Go(func() {
						cmd := put(fmt.Sprint("k", c), "10.0.0.1:8774")
						for left.Add(-1) >= 0 {
							lead.must(cmd)
						}
					})
				}
				wg.Wait()
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
				b.ReportMetric(float64(b.N)/float64(lead.raft.LastIndex()-first), "commands/entry")
			})
		}
	}
}

// BenchmarkLinearizable measures confirmed reads on the leader of three nodes.
func BenchmarkLinearizable(b *testing.B) {
	for _, clients := range []int{1, 256} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			lead := trio(b, nil, nil)[0]
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			var wg sync.WaitGroup
			for range clients {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if _, err := lead.Linearizable(b.Context()); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
