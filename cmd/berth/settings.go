package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/agent"
	"berth/agent/driver/process"
	"berth/api"
	"berth/cli"
	"berth/httpd/rates"
	"berth/identity"
	"berth/node"
)

// setting is what is known of a flag of a process, besides what the flag itself says.
type setting struct {
	allowed string                   // for people
	check   func(value string) error // refuses a value, of a list one of its values; nil for none
	reload  bool                     // a process that runs takes it over on SIGHUP
	kept    bool                     // the process remembers it for later starts
}

// settings are all settings of one kind of process, by the name of their flag.
type settings map[string]setting

// The settings of both kinds.
var (
	logSettings = settings{
		"log-level":  {allowed: "debug, info, warn or error", check: oneOf("debug", "info", "warn", "error"), reload: true},
		"log-format": {allowed: "text or json", check: oneOf("text", "json")},
		"dir":        {allowed: "a folder", check: notEmpty},
		"join-file":  {allowed: "a file that only its owner may read"},
	}

	nodeSettings  = joinSettings(logSettings, addressSettings(), ownNodeSettings)
	agentSettings = joinSettings(logSettings, ownAgentSettings)
)

var ownNodeSettings = settings{
	"plan-key-file": {allowed: "a file that only its owner may read", check: func(path string) error {
		_, err := planKey(path)
		return err
	}},
	"disk-key-file": {allowed: "a file that only its owner may read", check: func(path string) error {
		_, err := cli.ReadDiskKey(path)
		return err
	}},
	"api-cert":   {allowed: "a file, together with api-key", reload: true},
	"api-key":    {allowed: "a file that only its owner may read", reload: true},
	"backup-dir": {allowed: "a folder, which is made if it is missing", reload: true},
	"backup-every": {
		allowed: fmt.Sprintf("%v to %v", node.BackupEveryMin, node.BackupEveryMax), check: between(node.BackupEveryMin, node.BackupEveryMax), reload: true,
	},
	"backup-keep":       {allowed: fmt.Sprintf("1 to %d", node.BackupsKeptMax), check: wholeBetween(1, node.BackupsKeptMax), reload: true},
	"insecure-dev":      {allowed: "true or false"},
	"conns-per-address": {allowed: fmt.Sprintf("0 to %d", node.ConnsMax), check: wholeBetween(0, node.ConnsMax)},
	"trace-endpoint":    {allowed: "a URL of http or https, or empty", check: func(url string) error { return node.Trace{Endpoint: url}.Validate() }},
	"trace-ratio": {allowed: "0 to 1", check: func(text string) error {
		ratio, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("the ratio must be a number, not %q", text)
		}
		return node.Trace{Ratio: ratio}.Validate()
	}},
	"peer": {allowed: "NODE=HOST:PORT", check: func(pair string) error {
		_, err := readPeers([]string{pair})
		return err
	}},
	"rate": {allowed: fmt.Sprintf("for each class 0 to %d", rates.PerSecondMax), reload: true, check: func(pair string) error {
		class, text, _ := strings.Cut(pair, "=")
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("the rate %s must be a whole number, not %s", class, text)
		}
		_, err = rates.Defaults().With(map[string]int64{class: n})
		return err
	}},
	"api-name": {allowed: "IP addresses and DNS names", kept: true, check: func(name string) error {
		if !identity.ValidHost(name) {
			return fmt.Errorf("%q is neither an IP address nor a DNS name", name)
		}
		return nil
	}},
}

var ownAgentSettings = settings{
	"driver": {allowed: "process or fake; not changed after the first start", check: oneOf("process", "fake"), kept: true},
	"name":   {allowed: "a name; not changed after the first start", check: validName, kept: true},
	"hosts": {
		allowed: fmt.Sprintf("1 to %d; not changed after the first start", api.HostsPerAgentMax), check: wholeBetween(1, api.HostsPerAgentMax), kept: true,
	},
	"prefix": {allowed: "a name; not changed after the first start", check: validName, kept: true},
	"shape":  {allowed: "pairs of name=amount", check: validShape, kept: true},
	"reserve": {allowed: "pairs of name=amount, or empty", kept: true, check: func(value string) error {
		if value == "" {
			return nil
		}
		return validShape(value)
	}},
	"pool": {
		allowed: "on_demand, reservable or shared", check: oneOf(string(api.PoolOnDemand), string(api.PoolReservable), string(api.PoolShared)), kept: true,
	},
	"attribute": {allowed: "texts of key=value", kept: true, check: func(pair string) error {
		_, err := agent.ParseAttributes([]string{pair})
		return err
	}},
	"trait": {allowed: "standard traits, and CUSTOM_ ones", kept: true, check: func(name string) error {
		if !api.ValidTrait(name) {
			return fmt.Errorf("%q is not a trait: traits have letters A to Z, digits and _, such as CUSTOM_SSD", name)
		}
		return nil
	}},
	"user": {allowed: "a user of this machine, or empty; not together with users", kept: true, check: func(name string) error {
		if name == "" {
			return nil
		}
		_, err := process.FindUser(name)
		return err
	}},
	"users": {allowed: "FIRST-LAST, or empty; not together with user", kept: true, check: func(value string) error {
		if value == "" {
			return nil
		}
		_, err := process.ParseUsers(value)
		return err
	}},
	"output-max": {allowed: "a size from 1M to 1T", kept: true, check: func(value string) error {
		_, err := (&agentFlags{outputMax: value, diskEvery: process.DiskDefault}).checkCaps()
		return err
	}},
	"disk-every":   {allowed: fmt.Sprintf("%v to %v", process.DiskLeast, process.DiskMost), check: between(process.DiskLeast, process.DiskMost), kept: true},
	"cgroup":       {allowed: "a control group, or empty", kept: true},
	"metrics-addr": {allowed: "host:port, or empty"},
}

// addressSettings are those of the listeners of a node. Together they are checked by checkPlaces.
func addressSettings() settings {
	out := settings{}
	for _, flag := range node.AddressFlags() {
		allowed := "host:port; port 0 for any"
		if flag == "host" || flag == "advertise-host" {
			allowed = "an IP address or a DNS name"
		}
		out[flag] = setting{allowed: allowed, kept: true, check: func(value string) error {
			given := map[string]string{"advertise-host": "berth.example", flag: value} // so that wildcards can be advertised
			_, err := node.DefaultPlacement().Change(given, nil)
			return err
		}}
	}
	return out
}

// checkPlaces refuses addresses that cannot be used together, for a node that has none yet.
func checkPlaces(c *cobra.Command) error {
	f, given := c.Flags(), map[string]string{}
	for _, name := range node.AddressFlags() {
		if flag := f.Lookup(name); flag != nil && flag.Changed {
			given[name] = flag.Value.String()
		}
	}
	if dir := f.Lookup("dir").Value.String(); len(given) == 0 || dir != "" && holdsNode(dir) {
		return nil // it remembers others, which node.Open looks at
	}
	_, err := node.DefaultPlacement().Change(given, nil)
	return err
}

func joinSettings(all ...settings) settings {
	out := settings{}
	for _, some := range all {
		maps.Copy(out, some)
	}
	return out
}

func oneOf(names ...string) func(string) error {
	return func(value string) error {
		if !slices.Contains(names, value) {
			last := len(names) - 1
			return fmt.Errorf("must be %s or %s, not %q", strings.Join(names[:last], ", "), names[last], value)
		}
		return nil
	}
}

func between(least, most time.Duration) func(string) error {
	return func(value string) error {
		if d, err := time.ParseDuration(value); err != nil || d < least || d > most {
			return fmt.Errorf("must be %v to %v, not %s", least, most, value)
		}
		return nil
	}
}

func wholeBetween(least, most int) func(string) error {
	return func(value string) error {
		if n, err := strconv.Atoi(value); err != nil || n < least || n > most {
			return fmt.Errorf("must be %d to %d, not %s", least, most, value)
		}
		return nil
	}
}

func notEmpty(value string) error {
	if value == "" {
		return errors.New("must not be empty")
	}
	return nil
}

func validName(value string) error {
	if value != "" && !api.ValidName(value) {
		return fmt.Errorf("must be a name of at most %d bytes, not %q", api.NameMaxBytes, value)
	}
	return nil
}

func validShape(value string) error {
	_, err := agent.ParseShape(value)
	return err
}
