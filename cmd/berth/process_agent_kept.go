package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/node"
)

// fixedSettings are the flags of an agent that name its hosts, and so cannot change, with what to do.
var fixedSettings = map[string]string{
	"driver": "its hosts and their instances are of that driver",
	"name":   "its host has that name",
	"hosts":  "its hosts are that many",
	"prefix": "the names of its hosts begin so",
}

// freeSettings are the flags of an agent that it keeps, and that change when they are given again.
var freeSettings = []string{
	"shape", "reserve", "pool", "attribute", "trait", "user", "users", "output-max", "disk-every", "cgroup",
}

// useRemembered sets the flags that were not given to what they were at earlier starts, and refuses
// those that cannot change.
func (a *agentFlags) useRemembered(c *cobra.Command) error {
	f := c.Flags()
	isEmpty := func(v string) bool { return v == "" } // which ends what there was
	a.attributes, a.traits = slices.DeleteFunc(a.attributes, isEmpty), slices.DeleteFunc(a.traits, isEmpty)
	home, _, err := node.LoadAgent(a.dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && home.Settings == nil {
		return nil // the first start
	}
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(fixedSettings)) {
		kept := home.Settings[name]
		if now := valuesOf(c, name); f.Changed(name) && kept != nil && !slices.Equal(now, kept) {
			return api.Errorf(api.CodeConflict,
				"--%s was %q at earlier starts of the agent in %s and cannot become %q: %s. Leave --%s out, or let another agent join into a directory of its own",
				name, strings.Join(kept, ","), a.dir, strings.Join(now, ","), fixedSettings[name], name)
		}
	}
	for name, kept := range home.Settings {
		if f.Lookup(name) == nil || f.Changed(name) || excludes(c, name) {
			continue // of a later release, or given
		}
		if err := setValues(c, name, kept); err != nil {
			return api.Wrap(api.CodeInvalid, "berth", "--"+name+" of earlier starts cannot be used: "+err.Error(), err)
		}
	}
	return nil
}

// excludes reports whether a flag was given in whose place the one called name was before.
func excludes(c *cobra.Command, name string) bool {
	f := c.Flags()
	return name == "user" && f.Changed("users") || name == "users" && f.Changed("user")
}

// remember keeps the settings for later starts, and logs which have changed.
func (a *agentFlags) remember(c *cobra.Command, home *node.AgentHome, log *slog.Logger) error {
	f, now := c.Flags(), map[string][]string{}
	for name := range fixedSettings {
		now[name] = valuesOf(c, name)
	}
	for _, name := range freeSettings {
		values := valuesOf(c, name)
		if before, kept := home.Settings[name]; f.Changed(name) || kept && slices.Equal(before, values) {
			now[name] = values
		}
	}
	if maps.EqualFunc(now, home.Settings, slices.Equal) {
		return nil // a full disk must not prevent the start
	}
	if home.Settings != nil {
		for _, name := range freeSettings {
			if before, values := home.Settings[name], now[name]; !slices.Equal(before, values) {
				log.Info("a setting of the agent has changed", "flag", name, "before", strings.Join(before, ","), "now", strings.Join(values, ","))
			}
		}
	}
	return node.KeepSettings(a.dir, now)
}

// listValue is the value of a flag that may be repeated.
type listValue interface {
	Replace(values []string) error
	GetSlice() []string
}

// valuesOf returns the values of a flag; an empty one is none.
func valuesOf(c *cobra.Command, name string) []string {
	value := c.Flags().Lookup(name).Value
	values := []string{value.String()}
	if l, ok := value.(listValue); ok {
		values = slices.Clone(l.GetSlice())
	}
	return append([]string{}, slices.DeleteFunc(values, func(v string) bool { return v == "" })...)
}

// setValues sets a flag that was not given.
func setValues(c *cobra.Command, name string, values []string) error {
	value := c.Flags().Lookup(name).Value
	if l, ok := value.(listValue); ok {
		return l.Replace(values)
	}
	return value.Set(strings.Join(values, ""))
}
