package raftstore

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"berth/raftstore/command"
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

// BenchmarkRestore measures a restore of about 64 MiB of small records, on disk.
func BenchmarkRestore(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			var lead *node
			if nodes == 1 {
				lead = solo(b, nil)
			} else {
				lead = trio(b, nil, nil)[0]
			}
			addr := strings.Repeat("x", 80)
			for i := range 512 {
				var cmds []command.Command
				for j := range 1024 {
					cmds = append(cmds, put(fmt.Sprint("node-", i, "-", j), addr))
				}
				lead.must(cmds...)
			}
			backup, _ := lead.backup()
			b.SetBytes(int64(len(backup)))
			b.ResetTimer()
			for range b.N {
				if err := lead.restore(backup); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
