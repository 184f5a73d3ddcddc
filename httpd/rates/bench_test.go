package rates

import (
	"strconv"
	"testing"
	"time"
)

// BenchmarkTake is one call of a user: three buckets, of many parties.
func BenchmarkTake(b *testing.B) {
	l := New(Rates{Writes: PerSecondMax})
	users := make([]Party, 1000)
	for n := range users {
		users[n] = Party{User, strconv.Itoa(n)}
	}
	now := begin
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		now = now.Add(time.Microsecond)
		l.Take(now, Writes, Party{Address, "192.0.2.1"}, users[n%len(users)], both)
	}
}
