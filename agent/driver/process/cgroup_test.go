package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// limited opens a driver with control groups of its own, or skips the test where
// there are none to be had.
func limited(t *testing.T) *Driver {
	t.Helper()
	parent := fmt.Sprintf("berth-test-%d-%s", os.Getpid(), strings.ToLower(t.Name()))
	dir := t.TempDir()
	d := open(t, dir, parent)
	t.Cleanup(func() {
		for _, folder := range d.groups.foldersOf("x") {
			if err := os.Remove(filepath.Dir(folder)); err != nil && !os.IsNotExist(err) {
				t.Error(err)
			}
		}
	})
	if len(d.groups.foldersOf("x")) == 0 {
		t.Skip("no control group can be made here")
	}
	return d
}

// amount reads one file of the groups of an instance.
func amount(t *testing.T, d *Driver, id api.InstanceID, names ...string) string {
	t.Helper()
	for _, folder := range d.groups.foldersOf(id) {
		for _, name := range names {
			if text, err := os.ReadFile(filepath.Join(folder, name)); err == nil {
				return strings.TrimSpace(string(text))
			}
		}
	}
	return ""
}

func TestLimits(t *testing.T) {
	d, w := limited(t), sleeper()
	w.Resources = api.Resources{api.VCPU: 2, api.MemoryMB: 64}
	require.NoError(t, d.Start(t.Context(), "h", w))
	if d.groups.v1["cpu"] != "" {
		assert.Equal(t, "200000", amount(t, d, w.Instance, "cpu.cfs_quota_us"))
		assert.Equal(t, "67108864", amount(t, d, w.Instance, "memory.limit_in_bytes"))
	}
	if len(d.groups.v2has) == len(controllers) {
		assert.Equal(t, "200000 100000", amount(t, d, w.Instance, "cpu.max"))
		assert.Equal(t, "67108864", amount(t, d, w.Instance, "memory.max"))
	}
	if strings.Contains(d.Describe(), "pids") {
		assert.Equal(t, strconv.Itoa(pidsMax), amount(t, d, w.Instance, "pids.max"))
	}
	assert.Contains(t, d.groups.processesIn(w.Instance), d.pid(w.Instance))
	require.NoError(t, d.Stop(t.Context(), w.Instance))
	for _, folder := range d.groups.foldersOf(w.Instance) {
		assert.NoDirExists(t, folder)
	}
	assert.Contains(t, d.Describe(), "cgroup")
}

func TestMemoryLimitIsSaid(t *testing.T) {
	d := limited(t)
	if !strings.Contains(d.Describe(), "memory") {
		t.Skip("memory cannot be limited here")
	}
	w := shellWork(`x=0123456789abcdef; while :; do x=$x$x; done`)
	w.Resources = api.Resources{api.MemoryMB: 16}
	require.NoError(t, d.Start(t.Context(), "h", w))
	assert.Equal(t, "the process was killed: it needed more memory than the instance has",
		untilEnded(t, d, w.Instance).Fault)
	require.NoError(t, d.Stop(t.Context(), w.Instance))
}

func TestGroupFindsWhatHides(t *testing.T) {
	d := limited(t)
	w := shellWork(`(setsid env -i /bin/sleep 1007 &) ; (setsid env -i /bin/sleep 1008 &) ; sleep 0.1; echo up; exec /bin/sleep 1009`)
	require.NoError(t, d.Start(t.Context(), "h", w))
	until(t, "it runs", func() bool { return read(t, d, w.Instance, stdoutFile) != "" })
	hidden := d.groups.processesIn(w.Instance)
	assert.Len(t, hidden, 3)
	require.NoError(t, d.Stop(t.Context(), w.Instance))
	for _, pid := range hidden {
		s, err := readStat(pid)
		assert.True(t, err != nil || s.isOver(), "process %d", pid)
	}
}

func TestMounts(t *testing.T) {
	v2, v1 := findMounts(`31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
nonsense
1 2 - cgroup cgroup
`)
	assert.Equal(t, "/sys/fs/cgroup/unified", v2)
	assert.Equal(t, "/sys/fs/cgroup/cpu,cpuacct", v1["cpu"])
	assert.Equal(t, "/sys/fs/cgroup/memory", v1["memory"])
	assert.Empty(t, v1["pids"])
}

// TestGroupsOfVersion2 checks what is written, on plain folders that look like a
// version 2 tree with every controller.
func TestGroupsOfVersion2(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "cgroup.controllers"), []byte("cpuset cpu io memory pids\n"), 0o600))
	for _, folder := range []string{root, filepath.Join(root, "berth")} {
		require.NoError(t, os.MkdirAll(folder, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "cgroup.subtree_control"), nil, 0o600))
	}
	g := findGroups("1 2 0:3 / "+root+" rw - cgroup2 cgroup2 rw\n", "berth")
	assert.Equal(t, controllers, g.v2has)
	assert.Equal(t, "cpu, memory, pids limited by cgroup v2; killed as one by cgroup v2", g.String())
	folder := filepath.Join(root, "berth", "i")
	require.NoError(t, os.Mkdir(folder, 0o700))
	for _, name := range []string{"cpu.max", "memory.max", "pids.max", "cgroup.procs"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), nil, 0o600))
	}
	require.NoError(t, g.createGroups("i", api.Resources{api.VCPU: 3, api.MemoryMB: 1}))
	require.NoError(t, g.joinGroups("i", 42))
	for name, want := range map[string]string{
		"cpu.max": "300000 100000", "memory.max": "1048576", "pids.max": "4096", "cgroup.procs": "42",
	} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		assert.Equal(t, want, string(text), name)
	}
	assert.Equal(t, []int{42}, g.processesIn("i"))
	assert.False(t, g.ranOutOfMemory("i"))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "memory.events"), []byte("oom 1\noom_kill 1\n"), 0o600))
	assert.True(t, g.ranOutOfMemory("i"))
}

func TestParseStat(t *testing.T) {
	text, err := os.ReadFile("/proc/self/stat")
	require.NoError(t, err)
	s, err := parseStat(text)
	require.NoError(t, err)
	assert.Positive(t, s.start)
	assert.False(t, s.isOver())
	assert.Positive(t, s.memory)
	assert.Positive(t, s.code)
	assert.Less(t, s.envStart, s.envEnd)

	s, err = parseStat([]byte("7 (a) Z 1 (b)) Z 1 5 6 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0"))
	require.NoError(t, err)
	assert.Equal(t, stat{state: 'Z', group: 5, session: 6, start: 99}, s)
	for _, bad := range []string{"", "7 (a)", "7 (a) R 1 2 3", "7 (a) R 1 x 6 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0"} {
		_, err := parseStat([]byte(bad))
		assert.Error(t, err, bad)
	}
}

// TestMarkedWhileItBecomesAnother looks at a process that becomes another program
// again and again: never is it surely without its mark.
func TestMarkedWhileItBecomesAnother(t *testing.T) {
	script := filepath.Join(t.TempDir(), "again")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\nexec \"$0\"\n"), 0o700))
	cmd := exec.Command(script)
	cmd.Env = []string{"A=b"}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for range 20_000 {
		yes, sure := hasMark(cmd.Process.Pid, "A=b")
		require.True(t, yes || !sure)
		yes, _ = hasMark(cmd.Process.Pid, "A=c")
		require.False(t, yes)
	}
}

// TestNotMarked looks at processes that have no environment: one was given none, and
// a thread of the kernel cannot have one.
func TestNotMarked(t *testing.T) {
	cmd := exec.Command("/bin/sleep", "1000")
	cmd.Env = []string{}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for _, pid := range []int{cmd.Process.Pid, 2} {
		until(t, "it is known", func() bool {
			yes, sure := hasMark(pid, "A=b")
			require.False(t, yes)
			return sure
		})
	}
}
