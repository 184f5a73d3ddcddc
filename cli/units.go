package cli

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"berth/api"
)

// mebibytes has the size of the units that --ram and --disk may end with.
var mebibytes = map[byte]float64{'M': 1, 'G': 1 << 10, 'T': 1 << 20}

// ParseSize reads a size such as "512M", "0.5G" or "1T" and returns it in units of
// unitMiB mebibytes; a bare number counts those units. Units are powers of 1024. The
// result must be a whole number, 1 to api.AmountMax.
func ParseSize(text string, unitMiB float64) (int64, bool) {
	digits := strings.TrimSuffix(strings.TrimSuffix(text, "B"), "i")
	factor := 1.0
	if n := len(digits); n > 0 {
		if m, ok := mebibytes[digits[n-1]]; ok {
			factor, digits = m/unitMiB, digits[:n-1]
		} else if digits != text {
			return 0, false // "5iB" has no unit
		}
	}
	if strings.ContainsAny(digits, "eExXpPnN_") {
		return 0, false // no exponents, no names
	}
	f, err := strconv.ParseFloat(digits, 64)
	f *= factor
	if err != nil || f != math.Trunc(f) || f < 1 || f > api.AmountMax {
		return 0, false
	}
	return int64(f), true
}

// points is a flag value of points of cost, one of which is the worth of 1 MiB of memory. It is
// given as that much memory, such as 64G or -512M; a bare number counts points.
type points int64

// roundPoints returns points, not negative, rounded and in the form that a flag takes: "512M" or "1.5G".
func roundPoints(n int64) string {
	for i, unit := range []string{"T", "G"} {
		if size := int64(1) << (20 - 10*i); n >= size {
			return strings.TrimSuffix(strconv.FormatFloat(float64(n)/float64(size), 'f', 1, 64), ".0") + unit
		}
	}
	return strconv.FormatInt(n, 10) + "M"
}

func (p *points) Set(text string) error {
	if n, err := strconv.ParseInt(strings.TrimSuffix(text, "M"), 10, 64); err == nil {
		*p = points(n)
		return nil
	}
	digits, negative := strings.CutPrefix(text, "-")
	n, ok := ParseSize(digits, 1)
	if !ok {
		return errors.New("must be the worth of some memory, such as 64G, -1T or 0")
	}
	if *p = points(n); negative {
		*p = -*p
	}
	return nil
}

func (p *points) String() string { return showPoints(int64(*p)) }

func (*points) Type() string { return "SIZE" }

// showPoints formats points as the memory that they are the worth of, as Set reads it.
func showPoints(n int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"T", 1 << 20}, {"G", 1 << 10}} {
		if n != 0 && n%unit.size == 0 && max(n, -n) <= api.AmountMax {
			return strconv.FormatInt(n/unit.size, 10) + unit.name
		}
	}
	if n == 0 {
		return "0"
	}
	return strconv.FormatInt(n, 10) + "M"
}

// sortedPairs returns "a=1, b=2".
func sortedPairs(m map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+"="+m[k])
	}
	return strings.Join(parts, ", ")
}
