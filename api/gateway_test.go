package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGatewaysAreChecked(t *testing.T) {
	longest := strings.Repeat("a", addressMaxBytes-len(":7601")) + ":7601"
	for _, good := range []string{"127.0.0.1:7601", "[2001:db8::1]:1", "gw-1.west.example:65535", "gw_1:7601", longest} {
		assert.True(t, ValidAddress(good), good)
	}
	for _, bad := range []string{
		"", ":", "a", "a:", ":1", "a:0", "a:65536", "a:-1", "a:+1", "a:01", "a b:1", "a/b:1", "a:1/x", "u@a:1", "a:b:1",
		"[::1:1", "::1]:1", "[a]:1", "[1.2.3.4]:1", "[fe80::1%eth0]:1", "ä:1", "a\x00:1", "a\n:1", "a:1\n", longest + "1", "a%:1", "a?:1",
	} {
		assert.False(t, ValidAddress(bad), "%q", bad)
	}
	most := slices.Repeat([]string{"a:1"}, GatewaysMax)
	require.NoError(t, CheckGateways(most))
	require.Error(t, CheckGateways(append(most, "a:1")))
	require.Error(t, CheckGateways(nil))
	require.Error(t, CheckGateways([]string{"a:1", "a"}))
}
