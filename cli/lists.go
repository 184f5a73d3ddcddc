package cli

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"berth/api"
)

// checkChanges refuses a flag with texts that both replace and change a list.
func checkChanges(c *cobra.Command, flag, things string, texts []string) error {
	changes := 0
	for _, text := range texts {
		if strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-") {
			changes++
		}
	}
	if changes != 0 && changes != len(texts) {
		return usageError(c, "--%s takes either %s that replace the present ones, or +NAME and -NAME", flag, things)
	}
	return nil
}

// changeList changes a list as the texts of a flag want it: they replace it, or +NAME adds one and
// -NAME removes one.
func changeList[T ~string](c *cobra.Command, flag string, texts []string, list *[]T) error {
	if len(texts) == 0 {
		return nil
	}
	var next []T
	if strings.ContainsAny(texts[0][:min(1, len(texts[0]))], "+-") {
		next = slices.Clone(*list)
	}
	for _, text := range texts {
		name, removes := strings.CutPrefix(text, "-")
		one := T(strings.TrimPrefix(name, "+"))
		at := slices.Index(next, one)
		switch {
		case removes && at < 0:
			return usageError(c, "--%s: %s is not in the list: %s", flag, string(one), cmp.Or(joinNames(next), "it is empty"))
		case removes:
			next = slices.Delete(next, at, at+1)
		case at < 0:
			next = append(next, one)
		}
	}
	*list = next
	return nil
}

// readPercents reads texts such as VCPU=10.
func readPercents(c *cobra.Command, flag string, texts []string) (map[api.ResourceClass]int64, error) {
	out := make(map[api.ResourceClass]int64, len(texts))
	for _, text := range texts {
		class, number, found := strings.Cut(text, "=")
		n, err := strconv.ParseInt(strings.TrimSuffix(number, "%"), 10, 64)
		if _, twice := out[api.ResourceClass(class)]; !found || err != nil || twice {
			return nil, usageError(c, "--%s must look like VCPU=10, once for each class, got %q", flag, text)
		}
		out[api.ResourceClass(class)] = n
	}
	return out, nil
}

// showPercents returns "MEMORY_MB 5%, VCPU 10%".
func showPercents(h map[api.ResourceClass]int64) string {
	var out []string
	for class, n := range h { // in any order: sorted below
		out = append(out, string(class)+" "+strconv.FormatInt(n, 10)+"%")
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
