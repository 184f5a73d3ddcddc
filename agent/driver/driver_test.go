package driver

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"berth/api"
)

func TestReason(t *testing.T) {
	long := strings.Repeat("x", api.FaultMaxBytes)
	for _, c := range []struct{ name, in, want string }{
		{"plain", "no room", "no room"},
		{"one line", "one\n\ttwo  three\n", "one two three"},
		{"not UTF-8", "a\xff\xfeb", "a?b"},
		{"at the limit", long, long},
		{"one past it", long + "x", long},
		{"cut before a character", long[1:] + "é", long[1:]},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Reason(errors.New(c.in))
			assert.Equal(t, c.want, got)
			assert.True(t, utf8.ValidString(got))
		})
	}
	assert.Empty(t, Reason(nil))
}
