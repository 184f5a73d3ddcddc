package agent

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"berth/api"
	"berth/internal/sysinfo"
)

// Names of the drivers, as used in registrations.
const (
	driverProcess = "process"
	driverFake    = "fake"
)

// Inventory is the inventory of a host by resource class.
type Inventory = map[api.ResourceClass]api.Inventory

// Machine describes the machine that this agent runs on: its processors, its
// memory (MEMORY_MB) and the file system of dir (DISK_GB), of which reserve is
// kept for the machine itself. The host takes work of every pool and runs
// processes. It returns an invalid-input error for an invalid name, or if reserve
// exceeds the resources of the machine.
func Machine(name, dir string, reserve api.Resources) (api.AgentHost, error) {
	if err := api.CheckName("host name", name); err != nil {
		return api.AgentHost{}, err
	}
	has, err := sysinfo.SizeOf(dir)
	if err != nil {
		return api.AgentHost{}, err
	}
	totals := api.Resources{api.VCPU: has.CPUs, api.MemoryMB: has.MemoryMB, api.DiskGB: has.DiskGB}
	inventory := Inventory{}
	for c, n := range totals {
		inventory[c] = api.Inventory{Total: n, Reserved: reserve[c]}
	}
	for _, c := range reserve.Classes() {
		if reserve[c] < 0 || reserve[c] > totals[c] {
			return api.AgentHost{}, api.Errorf(api.CodeInvalid,
				"reserve of %s must be 0 to the machine's %d, got %d", c, totals[c], reserve[c])
		}
	}
	return api.AgentHost{
		Name: name, Inventory: inventory, Driver: driverProcess, Pool: api.PoolShared, Attributes: detectHost(driverProcess),
		Traits: []string{api.TraitVolumes},
	}, nil
}

// Attributes that an agent detects.
const (
	attributeArch       = "arch"            // of the machine, with the names that images use: x86_64, aarch64 ...
	attributeHypervisor = "hypervisor_type" // the name of the driver
	attributeOS         = "os"              // linux
)

// arches has the names of processors that differ between images and Go.
var arches = map[string]string{
	"386": "i686", "amd64": "x86_64", "arm": "armv7l", "arm64": "aarch64", "loong64": "loongarch64",
	"mips64le": "mips64el", "mipsle": "mipsel",
}

// detectHost returns the attributes that follow from this machine and the driver.
func detectHost(driver string) map[string]string {
	arch := arches[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	return map[string]string{attributeArch: arch, attributeHypervisor: driver, attributeOS: runtime.GOOS, api.AttributeVolumes: api.VolumesUnbounded}
}

// ParseAttributes reads attributes, each a text such as "price=3.5"; the value may be
// empty and may contain =. It returns an invalid-input error for a missing or repeated
// key, for a key or value of more than api.ExtraSpecMaxBytes bytes, and for more than
// api.AttributesMax attributes.
func ParseAttributes(pairs []string) (map[string]string, error) {
	attributes := make(map[string]string, len(pairs))
	for _, p := range pairs {
		key, value, ok := strings.Cut(p, "=")
		if !ok || key == "" {
			return nil, api.Errorf(api.CodeInvalid, `attribute %q must be key=value, such as "price=3.5"`, p)
		}
		if _, twice := attributes[key]; twice {
			return nil, api.Errorf(api.CodeInvalid, "attribute %s is given twice", key)
		}
		attributes[key] = value
	}
	return attributes, api.CheckPairs("attributes", attributes, api.AttributesMax)
}

// Describe adds attributes and traits to h. An attribute given here replaces the one of h.
// New checks both.
func Describe(h *api.AgentHost, attributes map[string]string, traits []string) {
	all := maps.Clone(h.Attributes)
	if all == nil {
		all = make(map[string]string, len(attributes))
	}
	maps.Copy(all, attributes)
	h.Attributes = all
	h.Traits = slices.Compact(slices.Sorted(slices.Values(slices.Concat(h.Traits, traits))))
}

// checkFacts returns an invalid-input error unless h's attributes and traits are
// within their limits.
func checkFacts(h api.AgentHost) error {
	if err := api.CheckPairs("attributes of host "+h.Name, h.Attributes, api.AttributesMax); err != nil {
		return err
	}
	if len(h.Traits) > api.TraitsMax {
		return api.Errorf(api.CodeInvalid, "host %s may have at most %d traits, got %d", h.Name, api.TraitsMax, len(h.Traits))
	}
	for _, t := range h.Traits {
		if !api.ValidTrait(t) {
			return api.Errorf(api.CodeInvalid, "trait %q of host %s must be 1 to %d characters of A-Z 0-9 _", t, h.Name, api.ExtraSpecMaxBytes)
		}
	}
	return nil
}

// shortNames of the standard classes, for shapes.
var shortNames = map[string]api.ResourceClass{
	"vcpus": api.VCPU, "memory_mb": api.MemoryMB, "disk_gb": api.DiskGB,
}

// ParseShape reads an inventory from text such as
// "vcpus=64,memory_mb=262144,disk_gb=2000,CUSTOM_FPGA=2": names are vcpus,
// memory_mb, disk_gb or CUSTOM_*, and amounts 1 to api.AmountMax. It returns an
// invalid-input error that names the wrong part.
func ParseShape(shape string) (Inventory, error) {
	inventory := Inventory{}
	for part := range strings.SplitSeq(shape, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return nil, api.Errorf(api.CodeInvalid,
				`shape %q must be name=amount pairs, such as "vcpus=64,memory_mb=262144,disk_gb=2000"`, shape)
		}
		class, known := shortNames[name]
		if !known {
			class = api.ResourceClass(name)
		}
		if !known && (!class.Valid() || !strings.HasPrefix(name, "CUSTOM_")) {
			return nil, api.Errorf(api.CodeInvalid, "shape names %q; it may name vcpus, memory_mb, disk_gb and CUSTOM_*", name)
		}
		amount, err := strconv.ParseInt(value, 10, 64)
		if err != nil || amount < 1 || amount > api.AmountMax {
			return nil, api.Errorf(api.CodeInvalid, "shape's amount of %s must be a whole number from 1 to %d, got %q",
				name, int64(api.AmountMax), value)
		}
		if _, twice := inventory[class]; twice {
			return nil, api.Errorf(api.CodeInvalid, "shape names %s twice", name)
		}
		inventory[class] = api.Inventory{Total: amount}
	}
	if len(inventory) > api.ClassesMax {
		return nil, api.Errorf(api.CodeInvalid, "shape may name at most %d classes, got %d", api.ClassesMax, len(inventory))
	}
	return inventory, nil
}

// FakeHosts describes n hosts of one shape that take work of every pool and run
// nothing: prefix-0001, prefix-0002 and so on. It returns an empty slice for
// n < 1.
func FakeHosts(prefix string, n int, shape Inventory) []api.AgentHost {
	hosts := make([]api.AgentHost, max(n, 0))
	for i := range hosts {
		hosts[i] = api.AgentHost{
			Name:      fmt.Sprintf("%s-%04d", prefix, i+1),
			Inventory: maps.Clone(shape),
			Driver:    driverFake,
			Pool:      api.PoolShared,

			Attributes: detectHost(driverFake),
			Traits:     []string{api.TraitVolumes},
		}
	}
	return hosts
}
