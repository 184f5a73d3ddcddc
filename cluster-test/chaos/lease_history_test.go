//go:build chaos

package chaos

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/cluster-test/check"
)

// leaseLog is the history of all calls about leases of a campaign.
type leaseLog struct {
	rec  *check.Recorder
	file *os.File
	next atomic.Int64
}

func newLeaseLog(t *testing.T, dir string) *leaseLog {
	t.Helper()
	file, err := os.Create(filepath.Join(dir, "leases.json"))
	require.NoError(t, err)
	began := time.Now()
	return &leaseLog{rec: check.NewRecorder(func() int64 { return int64(time.Since(began)) }, file), file: file}
}

// calls returns the calls of one client, at the zone that leases.
func (l *leaseLog) calls() check.LeaseCalls {
	return check.LeaseCalls{To: l.rec, Zone: "root", Client: int(l.next.Add(1))}
}

// judge holds that there is an order of all calls that explains their answers.
func (l *leaseLog) judge(t *testing.T, dir string) check.HistorySummary {
	t.Helper()
	ops, err := l.rec.Close()
	require.NoError(t, err)
	require.NoError(t, l.file.Close())
	sum, bad := check.History(ops, check.HistoryOptions{Dir: dir})
	for _, v := range bad {
		assert.Fail(t, "a promise was broken", v.String())
	}
	t.Logf("calls about leases: %+v", sum)
	return sum
}
