package api

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ResourceClass names a kind of resource: a standard one or CUSTOM_*.
type ResourceClass string

// Standard resource classes and their units.
const (
	VCPU     ResourceClass = "VCPU"      // virtual processors
	MemoryMB ResourceClass = "MEMORY_MB" // mebibytes of memory
	DiskGB   ResourceClass = "DISK_GB"   // gibibytes of local disk
)

// standardOrder are the classes that are the same everywhere; all others are CUSTOM_*.
var standardOrder = []ResourceClass{
	VCPU, MemoryMB, DiskGB, "PCI_DEVICE", "SRIOV_NET_VF", "NUMA_SOCKET", "NUMA_CORE", "NUMA_THREAD",
	"NUMA_MEMORY_MB", "IPV4_ADDRESS", "VGPU", "VGPU_DISPLAY_HEAD", "NET_BW_EGR_KILOBIT_PER_SEC",
	"NET_BW_IGR_KILOBIT_PER_SEC", "PCPU", "MEM_ENCRYPTION_CONTEXT", "FPGA", "PGPU",
	"NET_PACKET_RATE_KILOPACKET_PER_SEC", "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC",
	"NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
}

var standard = func() map[ResourceClass]bool {
	out := map[ResourceClass]bool{}
	for _, c := range standardOrder {
		out[c] = true
	}
	return out
}()

// CustomPrefix is the prefix of every class that is not standard.
const CustomPrefix = "CUSTOM_"

// Valid reports whether c is a standard resource class or a custom one; see ValidCustom.
func (c ResourceClass) Valid() bool { return standard[c] || ValidCustom(string(c)) }

// Resources are amounts by class. A class that is absent is 0; stored values
// are in [1, AmountMax]. It is treated as immutable once it has been shared.
type Resources map[ResourceClass]int64

// Classes returns the classes in order, so that no choice depends on map order.
func (r Resources) Classes() []ResourceClass {
	out := slices.AppendSeq(make([]ResourceClass, 0, len(r)), maps.Keys(r))
	slices.Sort(out)
	return out
}

// Validate returns an invalid-input error for a malformed class or an amount
// outside [1, AmountMax], or for more than ClassesMax classes.
func (r Resources) Validate() error {
	if len(r) > ClassesMax {
		return Errorf(CodeInvalid, "at most %d resource classes are allowed, got %d", ClassesMax, len(r))
	}
	for _, c := range r.Classes() {
		if !c.Valid() {
			return Errorf(CodeInvalid, "resource class %q must be a standard one, or CUSTOM_ and upper case letters, digits and _", string(c))
		}
		if r[c] < 1 || r[c] > AmountMax {
			return Errorf(CodeInvalid, "amount of %s must be 1 to %d, got %d", c, AmountMax, r[c])
		}
	}
	return nil
}

// Equal reports whether both hold the same amounts, absent and 0 being equal.
func (r Resources) Equal(o Resources) bool {
	for c, n := range r {
		if o[c] != n {
			return false
		}
	}
	for c, n := range o {
		if r[c] != n {
			return false
		}
	}
	return true
}

// String returns "VCPU=2,MEMORY_MB=512" with the classes in order.
func (r Resources) String() string {
	var b strings.Builder
	for i, c := range r.Classes() {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s=%d", c, r[c])
	}
	return b.String()
}

// Ratio is an allocation ratio in ten-thousandths: 16.0 is 160000. It is exact,
// so that capacity is the same on every node. Range [1, RatioMax].
type Ratio int64

// RatioOne is the ratio 1.0.
const RatioOne Ratio = 10_000

// MarshalJSON writes a decimal number with at most four places.
func (r Ratio) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(r)/float64(RatioOne), 'f', -1, 64), nil
}

// UnmarshalJSON reads a decimal number and rounds it to four places.
func (r *Ratio) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil || math.IsNaN(f) || f < 0 || f > float64(RatioMax)/float64(RatioOne) {
		return Errorf(CodeInvalid, "allocation_ratio must be a number from 0.0001 to %d", RatioMax/RatioOne)
	}
	n := Ratio(math.Round(f * float64(RatioOne)))
	if n == 0 && f != 0 { // 0 stands for the default, which was not intended
		return Errorf(CodeInvalid, "allocation_ratio must be a number from 0.0001 to %d", RatioMax/RatioOne)
	}
	*r = n
	return nil
}

// Inventory is the amount of one class that a host has, and the units in which it can be
// allocated. Zero MaxUnit means the capacity; zero MinUnit, StepSize mean 1; zero
// AllocationRatio means 1.0.
type Inventory struct {
	Total           int64 `cbor:"1,keyasint"`
	Reserved        int64 `cbor:"2,keyasint,omitempty"`
	MinUnit         int64 `cbor:"3,keyasint,omitempty"`
	MaxUnit         int64 `cbor:"4,keyasint,omitempty"`
	StepSize        int64 `cbor:"5,keyasint,omitempty"`
	AllocationRatio Ratio `cbor:"6,keyasint,omitempty"`
}

// Normal returns the inventory with its defaults filled in.
func (v Inventory) Normal() Inventory {
	v.MinUnit = cmp.Or(v.MinUnit, 1)
	v.StepSize = cmp.Or(v.StepSize, 1)
	v.AllocationRatio = cmp.Or(v.AllocationRatio, RatioOne)
	v.MaxUnit = cmp.Or(v.MaxUnit, v.Capacity())
	return v
}

// Validate returns an invalid-input error unless 0 <= Reserved <= Total <=
// AmountMax and units are not negative. A MinUnit above MaxUnit is valid: nothing can be
// claimed then.
func (v Inventory) Validate(c ResourceClass) error {
	switch {
	case v.Total < 0 || v.Total > AmountMax:
		return Errorf(CodeInvalid, "total of %s must be 0 to %d, got %d", c, AmountMax, v.Total)
	case v.Reserved < 0 || v.Reserved > v.Total:
		return Errorf(CodeInvalid, "reserved of %s must be 0 to its total %d, got %d", c, v.Total, v.Reserved)
	case v.MinUnit < 0 || v.MaxUnit < 0 || v.StepSize < 0:
		return Errorf(CodeInvalid, "min_unit, max_unit and step_size of %s must not be negative", c)
	case v.AllocationRatio < 0 || v.AllocationRatio > RatioMax:
		return Errorf(CodeInvalid, "allocation_ratio of %s is out of range", c)
	}
	return nil
}

// Capacity returns floor((Total - Reserved) * AllocationRatio).
func (v Inventory) Capacity() int64 {
	return (v.Total - v.Reserved) * int64(cmp.Or(v.AllocationRatio, RatioOne)) / int64(RatioOne)
}

// Admits reports whether one allocation may have this amount: in [MinUnit, MaxUnit], and
// MinUnit itself or a multiple of StepSize.
func (v Inventory) Admits(amount int64) bool {
	n := v.Normal()
	return amount >= n.MinUnit && amount <= n.MaxUnit && (amount == n.MinUnit || amount%n.StepSize == 0)
}

// InventoryFields is a set of fields of an inventory.
type InventoryFields uint8

// The fields of an inventory.
const (
	FieldTotal InventoryFields = 1 << iota
	FieldReserved
	FieldMinUnit
	FieldMaxUnit
	FieldStepSize
	FieldAllocationRatio
)

// Has reports whether a field is in the set.
func (f InventoryFields) Has(field InventoryFields) bool { return f&field != 0 }

// Pool is the kind of work that a host takes.
type Pool string

// The pools.
const (
	PoolOnDemand   Pool = "on_demand"  // boots only
	PoolReservable Pool = "reservable" // leases and preemptibles only
	PoolShared     Pool = "shared"     // everything
)

// Valid reports whether p is one of the pools.
func (p Pool) Valid() bool { return p == PoolOnDemand || p == PoolReservable || p == PoolShared }

// Class is the firmness of a claim.
type Class string

// The classes.
const (
	Firm        Class = "firm"
	Preemptible Class = "preemptible"
	// Preempting is the class of firm claims that may have room which preemptible ones use now:
	// whoever has one waits until they are gone. No request has it; see Request.ClaimClass.
	Preempting Class = "preempting"
)

// Valid reports whether c is a class that a request may have.
func (c Class) Valid() bool { return c == Firm || c == Preemptible }
