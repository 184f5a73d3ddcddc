package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"berth/api"
)

// CgroupDefault is the usual parent of the instances' control groups.
const CgroupDefault = "berth"

// Limits of instances in addition to their resources.
const (
	pidsMax     = 4096    // processes and threads of one instance
	cpuPeriodUs = 100_000 // period of the processor limit
)

// controllers are those that limit instances.
var controllers = []string{"cpu", "memory", "pids"}

// groups are the control groups for instances: one below the version 2 tree, which can
// kill all of an instance at once, and one below each version 1 tree whose controller
// version 2 does not have.
type groups struct {
	v2    string            // folder of the instances' groups; "" if there is none
	v2has []string          // controllers of v2
	v1    map[string]string // controller to folder
	owner string            // id of the driver, the end of each group's name
}

// leafName returns the name of an instance's groups. Another driver on this machine may
// have had the same instance, or have it now.
func (g groups) leafName(id api.InstanceID) string {
	if g.owner == "" {
		return string(id)
	}
	return string(id) + "." + g.owner
}

// findGroups creates the folder parent in each tree where it has permission.
func findGroups(mountinfo, parent string) groups {
	g := groups{v1: map[string]string{}}
	if parent == "" {
		return g
	}
	v2, v1 := findMounts(mountinfo)
	if v2 != "" {
		folder := filepath.Join(v2, parent)
		if canMakeGroups(folder) {
			g.v2, g.v2has = folder, enableControllers(v2, folder)
		}
	}
	for _, c := range controllers {
		if slices.Contains(g.v2has, c) || v1[c] == "" {
			continue
		}
		folder := filepath.Join(v1[c], parent)
		if canMakeGroups(folder) {
			g.v1[c] = folder
		}
	}
	return g
}

// canMakeGroups makes a folder if need be, and reports whether there can be groups in it: another user may have made it. Instances do
// not list the names of others there.
func canMakeGroups(folder string) bool {
	if os.MkdirAll(folder, 0o755) != nil || unix.Access(folder, unix.W_OK|unix.X_OK) != nil {
		return false
	}
	_ = os.Chmod(folder, passable) // another user's is listed as that one wants
	return true
}

// findMounts finds the mount points of control groups in the text of
// /proc/self/mountinfo: "... <root> <mount point> ... - <type> <source> <options>".
func findMounts(mountinfo string) (v2 string, v1 map[string]string) {
	v1 = map[string]string{}
	for l := range strings.Lines(mountinfo) {
		left, right, ok := strings.Cut(l, " - ")
		mount, kind := strings.Fields(left), strings.Fields(right)
		if !ok || len(mount) < 5 || len(kind) < 3 {
			continue
		}
		switch kind[0] {
		case "cgroup2":
			v2 = mount[4]
		case "cgroup":
			for o := range strings.SplitSeq(kind[2], ",") {
				v1[o] = mount[4]
			}
		}
	}
	return v2, v1
}

// enableControllers enables the controllers of the tree at root for the children of folder
// and returns those that are available there.
func enableControllers(root, folder string) (has []string) {
	text, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return nil
	}
	offered := strings.Fields(string(text))
	for _, c := range controllers {
		if !slices.Contains(offered, c) {
			continue
		}
		ok := true
		for at := root; ok; at = filepath.Join(at, nextFolder(at, folder)) {
			ok = writeFile(at, "cgroup.subtree_control", "+"+c) == nil
			if at == folder {
				break
			}
		}
		if ok {
			has = append(has, c)
		}
	}
	return has
}

// nextFolder returns the first element of the way from at to folder below it.
func nextFolder(at, folder string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(folder, at+"/"), "/")
	return first
}

func writeFile(folder, name, text string) error {
	return os.WriteFile(filepath.Join(folder, name), []byte(text), 0)
}

// String describes the limits that the groups can enforce.
func (g groups) String() string {
	var says []string
	if len(g.v2has) > 0 {
		says = append(says, strings.Join(g.v2has, ", ")+" limited by cgroup v2")
	}
	var old []string
	for _, c := range controllers {
		if g.v1[c] != "" {
			old = append(old, c)
		}
	}
	if len(old) > 0 {
		says = append(says, strings.Join(old, ", ")+" limited by cgroup v1")
	}
	if len(says) == 0 {
		says = append(says, "no limits, for want of cgroup controllers")
	}
	if g.v2 != "" {
		says = append(says, "killed as one by cgroup v2")
	}
	return strings.Join(says, "; ")
}

// foldersOf returns the groups of one instance, the version 2 one first.
func (g groups) foldersOf(id api.InstanceID) []string {
	var all []string
	if g.v2 != "" {
		all = append(all, filepath.Join(g.v2, g.leafName(id)))
	}
	for _, c := range controllers {
		if g.v1[c] != "" {
			all = append(all, filepath.Join(g.v1[c], g.leafName(id)))
		}
	}
	return all
}

// createGroups creates the groups of an instance and sets its limits.
func (g groups) createGroups(id api.InstanceID, may api.Resources) error {
	for _, folder := range g.foldersOf(id) {
		if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("making a control group: %w", err)
		}
	}
	cpu, memory := may[api.VCPU], may[api.MemoryMB]<<20
	quota := strconv.FormatInt(cpu*cpuPeriodUs, 10)
	period := strconv.Itoa(cpuPeriodUs)
	bytes := strconv.FormatInt(memory, 10)
	limits := []struct {
		controller   string
		set, v2      bool
		file, amount string
		optional     bool // for kernels without accounting of swap
	}{
		{"cpu", cpu > 0, true, "cpu.max", quota + " " + period, false},
		{"cpu", cpu > 0, false, "cpu.cfs_period_us", period, false},
		{"cpu", cpu > 0, false, "cpu.cfs_quota_us", quota, false},
		{"memory", memory > 0, true, "memory.max", bytes, false},
		{"memory", memory > 0, true, "memory.swap.max", "0", true},
		{"memory", memory > 0, false, "memory.limit_in_bytes", bytes, false},
		{"memory", memory > 0, false, "memory.memsw.limit_in_bytes", bytes, true},
		{"pids", true, true, "pids.max", strconv.Itoa(pidsMax), false},
		{"pids", true, false, "pids.max", strconv.Itoa(pidsMax), false},
	}
	for _, l := range limits {
		folder := g.v1[l.controller]
		if l.v2 && slices.Contains(g.v2has, l.controller) {
			folder = g.v2
		} else if l.v2 {
			folder = ""
		}
		if !l.set || folder == "" {
			continue
		}
		if err := writeFile(filepath.Join(folder, g.leafName(id)), l.file, l.amount); err != nil && !l.optional {
			return fmt.Errorf("limiting %s to %s: %w", l.file, l.amount, err)
		}
	}
	return nil
}

// joinGroups puts a process into the groups of an instance.
func (g groups) joinGroups(id api.InstanceID, pid int) error {
	for _, folder := range g.foldersOf(id) {
		if err := writeFile(folder, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("joining a control group: %w", err)
		}
	}
	return nil
}

// processesIn returns the processes in any group of an instance.
func (g groups) processesIn(id api.InstanceID) []int {
	var all []int
	for _, folder := range g.foldersOf(id) {
		text, err := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
		if err != nil {
			continue // no such group, so no process is in it
		}
		for _, f := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(f); err == nil && pid > 0 {
				all = append(all, pid)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// killGroup ends everything in the version 2 group of an instance, if there is one.
func (g groups) killGroup(id api.InstanceID) {
	if g.v2 != "" {
		_ = writeFile(filepath.Join(g.v2, g.leafName(id)), "cgroup.kill", "1") // survivors are found and killed one by one
	}
}

// ranOutOfMemory reports whether the kernel killed a process of the instance for exceeding
// its memory limit.
func (g groups) ranOutOfMemory(id api.InstanceID) bool {
	for folder, file := range map[string]string{g.v2: "memory.events", g.v1["memory"]: "memory.oom_control"} {
		if folder == "" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, g.leafName(id), file))
		if err != nil {
			continue
		}
		for l := range strings.Lines(string(text)) {
			if n, ok := strings.CutPrefix(strings.TrimSpace(l), "oom_kill "); ok && n != "0" {
				return true
			}
		}
	}
	return false
}

// removeGroups removes the groups of an instance, which must be empty.
func (g groups) removeGroups(id api.InstanceID) error {
	var errs []error
	for _, folder := range g.foldersOf(id) {
		if err := os.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("removing a control group: %w", err))
		}
	}
	return errors.Join(errs...)
}
