package sysinfo

import (
	"testing"
	"time"

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
	all, err := SizeOf(t.TempDir())
	require.NoError(t, err)
	assert.Equal(t, Size{CPUs(), mem, disk}, all)
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
	_, err = SizeOf("/no/such/folder")
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

func TestMachineTime(t *testing.T) {
	busy, idle, err := MachineTime()
	require.NoError(t, err)
	assert.Positive(t, busy)
	assert.GreaterOrEqual(t, idle, time.Duration(0))
	for text, ok := range map[string]bool{
		"cpu  1 2 4 100 200 8 16 32 5 5\ncpu0 9 9 9\n": true,
		"cpu  1 2 4 100 200 8 16 32":                   true,
		"cpu  1 2 4 100 200 8 16\n":                    false,
		"cpu  1 2 4 100 200 8 16 x\n":                  false,
		"cpu  1 2 4 100 -1 8 16 32\n":                  false,
		"cpu0 1 2 4 100 200 8 16 32\n":                 false,
		"":                                             false,
	} {
		busy, idle, err := machineTime([]byte(text))
		assert.Equal(t, ok, err == nil, text)
		if ok {
			assert.Equal(t, 630*time.Millisecond, busy)
			assert.Equal(t, 3*time.Second, idle)
		}
	}
}
