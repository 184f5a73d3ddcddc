package placement

import (
	"regexp"
	"slices"
)

// Patterns of names.
var (
	nameClass  = regexp.MustCompile(`^[A-Z0-9_]+$`)
	nameCustom = regexp.MustCompile(`^CUSTOM_[A-Z0-9_]+$`)
	nameUUID   = regexp.MustCompile(`^[0-9a-fA-F-]{36}$`)
	anyName    = regexp.MustCompile(``)
)

// readGeneration returns the generation in a body. One below 0 never matches.
func readGeneration(v any) (n uint64, possible bool) {
	i, ok := v.(int64)
	return uint64(max(i, 0)), ok && i >= 0 //nolint:gosec // not below 0
}

// readTexts returns the items of an array of strings.
func readTexts(v any) []string {
	items, _ := v.([]any)
	out := make([]string, len(items))
	for i, item := range items {
		out[i], _ = item.(string)
	}
	return out
}

// setOf returns the items in order, each once. It is never nil, because nil in a
// command means no change.
func setOf(items []string) []string {
	return slices.Compact(append([]string{}, slices.Sorted(slices.Values(items))...))
}
