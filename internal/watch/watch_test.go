package watch

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWakeReachesThoseConcerned(t *testing.T) {
	var l List[string]
	l.Wake("nobody")
	l.Wake("")
	a1, removeA1 := l.Add("a")
	a2, removeA2 := l.Add("a")
	b, removeB := l.Add("b")

	l.Wake("a", "a", "c")
	assert.Len(t, a1, 1, "one value for any number of times")
	assert.Len(t, a2, 1)
	assert.Empty(t, b)

	<-a1
	removeA2()
	<-a2
	l.Wake("")
	assert.Len(t, a1, 1)
	assert.Empty(t, a2, "removed")
	assert.Len(t, b, 1, "the zero key stands for everything")

	removeA1()
	removeB()
	assert.Empty(t, l.waiting, "nothing is left of those who went")
}
