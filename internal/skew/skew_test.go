package skew

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestOf: the clock was asked at 0, showed theirs, and the answer was there at got.
func TestOf(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		theirs, got time.Duration
		want        Skew
		far         bool
	}{
		{0, 0, Skew{}, false},
		{-Far, 0, Skew{Far, 0}, false},
		{-Far - 1, 0, Skew{Far + 1, 0}, true},
		{Far, 0, Skew{-Far, 0}, false},
		{Far + 1, 0, Skew{-Far - 1, 0}, true},
		{time.Second, 2 * time.Second, Skew{0, time.Second}, false},
		{-Far, 2 * time.Second, Skew{Far + time.Second, time.Second}, false},
		{-Far - 1, 2 * time.Second, Skew{Far + time.Second + 1, time.Second}, true},
		{time.Hour, -time.Second, Skew{-time.Hour - time.Second/2, 0}, true}, // the clock was set back meanwhile
	} {
		s := Of(at, at.Add(c.theirs), at.Add(c.got))
		assert.Equal(t, c.want, s, "%v", c)
		assert.Equal(t, c.far, s.IsFar(), "%v", c)
	}
}

// TestBest: a worse measurement replaces a better one only when that is old.
func TestBest(t *testing.T) {
	var b Best
	now := time.Unix(1_000_000, 0)
	_, known := b.Skew(now)
	assert.False(t, known)
	exact, rough := Skew{time.Second, time.Millisecond}, Skew{0, time.Second}
	kept := func(want Skew) {
		t.Helper()
		got, known := b.Skew(now)
		assert.True(t, known)
		assert.Equal(t, want, got)
	}
	b.Note(rough, now)
	kept(rough)
	b.Note(exact, now)
	kept(exact)
	now = now.Add(Window)
	b.Note(rough, now)
	kept(exact)
	now = now.Add(1)
	b.Note(rough, now)
	kept(rough)
	now = now.Add(2 * Window)
	kept(rough)
	now = now.Add(1)
	_, known = b.Skew(now)
	assert.False(t, known)
	b.Note(exact, now)
	kept(exact)
	now = now.Add(-time.Hour) // the clock was set back
	_, known = b.Skew(now)
	assert.False(t, known)
	b.Note(rough, now)
	kept(rough)
}
