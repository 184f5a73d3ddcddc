package watch

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestFeed: a reader is woken for the keys that it wants, once for any number, and takes each
// once; the zero key stands for everything.
func TestFeed(t *testing.T) {
	var l List[int]
	even := func(k int) bool { return k%2 == 0 }
	f, remove := l.AddFeed(even)
	l.Wake(1, 3)
	assert.Empty(t, f.Woken())
	l.Wake(2, 3, 4, 2)
	l.Wake(4, 6)
	assert.Len(t, f.Woken(), 1)
	<-f.Woken()
	keys, all := f.Take()
	assert.Equal(t, []int{2, 4, 6}, keys)
	assert.False(t, all)
	keys, all = f.Take()
	assert.Empty(t, keys)
	assert.False(t, all)

	l.Wake(2)
	keys, _ = f.Take()
	assert.Equal(t, []int{2}, keys, "it is woken again after it was taken")
	l.Wake(4, 0, 6)
	keys, all = f.Take()
	assert.Empty(t, keys)
	assert.True(t, all)

	<-f.Woken()
	remove()
	l.Wake(2, 0)
	assert.Empty(t, f.Woken())
	assert.Empty(t, l.feeds)
}

// TestFeedIsBounded: a reader that does not come is told of FeedMax keys, and of everything
// from one more on.
func TestFeedIsBounded(t *testing.T) {
	var l List[int]
	f, remove := l.AddFeed(func(int) bool { return true })
	defer remove()
	for k := range FeedMax {
		l.Wake(k + 1)
	}
	keys, all := f.Take()
	assert.Len(t, keys, FeedMax)
	assert.False(t, all)
	for k := range FeedMax + 1 {
		l.Wake(k + 1)
	}
	keys, all = f.Take()
	assert.Empty(t, keys)
	assert.True(t, all)
	l.Wake(1)
	keys, all = f.Take()
	assert.Equal(t, []int{1}, keys)
	assert.False(t, all)
}
