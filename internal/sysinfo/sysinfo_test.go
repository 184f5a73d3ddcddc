package sysinfo

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestThisMachine(t *testing.T) {
	assert.Positive(t, CPUs())
	mem, err := MemoryMB()
	require.NoError(t, err)
	assert.Positive(t, mem)
	disk, err := DiskGB(t.TempDir())
	require.NoError(t, err)
	assert.GreaterOrEqual(t, disk, int64(0))
	boot, err := BootID()
	require.NoError(t, err)
	assert.NotEmpty(t, boot)
	again, err := BootID()
	require.NoError(t, err)
	assert.Equal(t, boot, again)
	used, err := ProcessTime()
	require.NoError(t, err)
	assert.Positive(t, used)
}

func TestDiskOfNowhere(t *testing.T) {
	_, err := DiskGB("/no/such/folder")
	assert.ErrorContains(t, err, "/no/such/folder")
}

func TestMemoryMB(t *testing.T) {
	for text, want := range map[string]int64{
		"MemTotal:       24684092 kB\nMemFree: 1 kB\n": 24105,
		"MemFree: 1 kB\nMemTotal: 1024 kB\n":           1,
		"MemTotal: 1023 kB":                            0,
		"MemFree: 1 kB\n":                              -1,
		"MemTotal: many kB\n":                          -1,
		"MemTotal: 12\n":                               -1,
		"":                                             -1,
	} {
		got, err := memoryMB([]byte(text))
		if want < 0 {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
}
