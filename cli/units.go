package cli

import (
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

// sortedPairs returns "a=1, b=2".
func sortedPairs(m map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+"="+m[k])
	}
	return strings.Join(parts, ", ")
}
