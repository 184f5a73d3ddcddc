package api

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestValidatePublicAttributes(t *testing.T) {
	names := make([]string, PublicAttributesMax)
	for i := range names {
		names[i] = fmt.Sprint("a", i)
	}
	assert.NoError(t, ValidatePublicAttributes(nil))
	assert.NoError(t, ValidatePublicAttributes(names))
	assert.NoError(t, ValidatePublicAttributes([]string{strings.Repeat("x", ExtraSpecMaxBytes)}))
	for _, bad := range [][]string{append(names, "more"), {""}, {"a", "b", "a"}, {strings.Repeat("x", ExtraSpecMaxBytes+1)}} {
		assert.Equal(t, CodeInvalid, CodeOf(ValidatePublicAttributes(bad)), "%.40q", bad)
	}
}

func TestRounding(t *testing.T) {
	assert.Equal(t, []int64{0, 7, 8, 8, 16}, []int64{RoundDown(0), RoundDown(7), RoundDown(8), RoundDown(9), RoundDown(17)})
	assert.Equal(t, []int64{0, 7, 8, 10, 20}, []int64{RoundUp(0), RoundUp(7), RoundUp(8), RoundUp(9), RoundUp(17)})
	assert.Equal(t, []int64{0, 1, 2, 4, 8, 8}, []int64{RoundUpToPower(0), RoundUpToPower(1), RoundUpToPower(2), RoundUpToPower(3), RoundUpToPower(5), RoundUpToPower(8)})
	assert.Equal(t, int64(1<<62), RoundUpToPower(math.MaxInt64))
	assert.Equal(t, int64(math.MaxInt64), RoundUp(math.MaxInt64))
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 1<<60).Draw(t, "n")
		up, down, power := RoundUp(n), RoundDown(n), RoundUpToPower(n)
		assert.True(t, down <= n && n <= up && n <= power)
		assert.Less(t, up-down, n/4+1, "within a quarter")
		assert.Less(t, power/2, n, "within a factor of two")
		assert.Equal(t, up, RoundUp(up), "rounding twice changes nothing")
		assert.Equal(t, down, RoundDown(down))
	})
}
