package costs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth/api"
)

// options is what the options of one cost say.
type options struct {
	class     api.ResourceClass   // "" for the default of the cost
	classes   []api.ResourceClass // sorted; nil for every class that IsSpecial
	traits    []string            // sorted
	attribute string
	scale     int64
}

func defaultOptions() options { return options{scale: attributeScale} }

// String spells o so that options that say the same are spelt alike.
func (o options) String() string {
	return fmt.Sprintf("%s %q %q %q %d", o.class, o.classes, o.traits, o.attribute, o.scale)
}

// setOption sets one option that the cost takes, and returns what is wrong with it.
func (o *options) setOption(name, value string) string {
	ok := true
	switch name {
	case "class":
		o.class = api.ResourceClass(value)
		ok = o.class.Valid()
	case "classes":
		o.classes, ok = parseList(value, api.ClassesMax, api.ResourceClass.Valid)
	case "traits":
		o.traits, ok = parseList(value, api.TraitsMax, api.ValidTrait)
	case "attribute":
		o.attribute = value
		ok = value != "" && len(value) <= api.ExtraSpecMaxBytes
	case "scale":
		n, err := strconv.ParseInt(value, 10, 64)
		o.scale, ok = n, err == nil && n >= 1 && n <= ScaleMax
	}
	if !ok {
		return fmt.Sprintf("has the option %s=%q, which it cannot use", name, value)
	}
	return ""
}

// parseList reads 1 to most names between commas, sorted and each once.
func parseList[T ~string](value string, most int, valid func(T) bool) ([]T, bool) {
	var out []T
	for _, s := range strings.Split(value, ",") {
		n := T(strings.TrimSpace(s))
		if !valid(n) {
			return nil, false
		}
		out = append(out, n)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out, len(out) <= most
}
