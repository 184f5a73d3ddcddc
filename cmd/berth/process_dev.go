package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"berth/agent"
	"berth/api"
	"berth/cli"
	"berth/dev"
)

// devShape has the resources of a simulated host of a development federation.
const devShape = "vcpus=64,memory_mb=262144,disk_gb=2000"

func (e *env) devCommand() *cobra.Command {
	var (
		o                   dev.Options
		logs                logFlags
		zones, ready, shape string
	)
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole federation in one process, for trying it out",
		Long: `Run a whole federation in one process on loopback, with real Raft files, real gateways
with mutual TLS, real gossip, and simulated hosts. Without --zones it is a root with
two children, one of which has a child itself. Ctrl-C stops it.

The file for --zones is YAML. A zone has a name and optionally nodes (1, 3 or 5), hosts,
attributes and traits of its hosts, and children, which are zones again. Single hosts
may differ:

  name: root
  hosts: 10
  attributes: {price: "3"}
  special:
    - {number: 2, attributes: {price: "9"}, traits: [CUSTOM_GPU]}
  children:
    - {name: west, hosts: 4}`,
		Example: `  berth dev
  berth dev --nodes 3 --data-dir ./federation --ready-file ready.json
  berth dev --zones tree.yaml --hosts 100`,
		Args: cli.TakeNothing,
		RunE: cli.RunLocally(func(c *cobra.Command, _ []string) error {
			var err error
			if o.Tree, err = e.readTree(zones); err != nil {
				return err
			}
			if o.Shape, err = agent.ParseShape(shape); err != nil {
				return err
			}
			if o.Log, err = logs.newLogger(e); err != nil {
				return err
			}
			if o.Dir == "" {
				if o.Dir, err = os.MkdirTemp("", "berth-dev-"); err != nil {
					return fmt.Errorf("making a data directory: %w", err)
				}
				defer func() { _ = os.RemoveAll(o.Dir) }() // a temporary directory that stays harms nobody
			}
			o.Now, o.Version = readClock, version
			o.Log = slog.New(untilDone{o.Log.Handler(), c.Context()})
			return e.runDev(c.Context(), o, ready)
		}),
	}
	f := c.Flags()
	f.StringVar(&zones, "zones", "", "file with another tree of zones, - for standard input")
	f.IntVar(&o.Nodes, "nodes", 1, "number of nodes of each zone without its own: 1, 3 or 5")
	f.StringVar(&o.Dir, "data-dir", "", "directory for all data (default: a temporary one)")
	f.IntVar(&o.Hosts, "hosts", dev.HostsDefault, "number of simulated hosts of each zone without its own")
	f.StringVar(&shape, "shape", devShape, "resources of each simulated host")
	f.DurationVar(&o.StartDelay, "start-delay", dev.StartDelayDefault, "how long a simulated host takes to start or stop an instance")
	f.StringVar(&ready, "ready-file", "", "file to write when all zones are up, in JSON")
	f.BoolVar(&o.Insecure, "insecure-dev", false, "require no tokens")
	logs.addFlags(c, "error")
	return c
}

// untilDone drops log records after ctx has ended: while a whole federation stops, every
// zone complains about the others.
type untilDone struct {
	slog.Handler
	ctx context.Context //nolint:containedctx // only its end is read
}

// Enabled implements slog.Handler.
func (h untilDone) Enabled(ctx context.Context, l slog.Level) bool {
	return h.ctx.Err() == nil && h.Handler.Enabled(ctx, l)
}

// WithAttrs implements slog.Handler.
func (h untilDone) WithAttrs(as []slog.Attr) slog.Handler {
	return untilDone{h.Handler.WithAttrs(as), h.ctx}
}

// WithGroup implements slog.Handler.
func (h untilDone) WithGroup(name string) slog.Handler {
	return untilDone{h.Handler.WithGroup(name), h.ctx}
}

// wrongType finds the words of Go for a value of a wrong type.
var wrongType = regexp.MustCompile(`cannot unmarshal (.+?) into Go struct field \w+\.(\w+) of type (\S+)`)

// plainTypes says what is wrong with a value without the words of Go.
func plainTypes(text string) string {
	return wrongType.ReplaceAllStringFunc(text, func(found string) string {
		m := wrongType.FindStringSubmatch(found)
		want, got := "a "+m[3], "a "+m[1]
		if strings.HasPrefix(m[3], "int") {
			want = "a whole number"
		}
		switch {
		case strings.HasPrefix(m[1], "[]"):
			got = "a list"
		case strings.HasPrefix(m[1], "map"):
			got = "a map"
		}
		return strings.ToLower(m[2]) + " must be " + want + ", not " + got
	})
}

// readTree reads a tree of zones; without a path it returns the default one.
func (e *env) readTree(path string) (dev.Spec, error) {
	if path == "" {
		return dev.DefaultTree(), nil
	}
	b, err := cli.ReadYAML(e.in, path)
	if err != nil {
		return dev.Spec{}, api.Wrap(api.CodeInvalid, "berth.dev", "the zones file cannot be read: "+err.Error(), err)
	}
	var s dev.Spec
	if err := yaml.UnmarshalWithOptions(b, &s, yaml.Strict()); err != nil {
		return dev.Spec{}, api.Wrap(api.CodeInvalid, "berth.dev", "the zones file does not describe a zone: "+plainTypes(err.Error()), err)
	}
	return s, s.Validate()
}

// readyZone is one zone in the ready file.
type readyZone struct {
	Name    string `json:"name"`
	Path    string `json:"path"`
	API     string `json:"api"`
	Gateway string `json:"gateway"`
	Token   string `json:"token"`
}

// readyFile is the content of --ready-file.
type readyFile struct {
	PID   int         `json:"pid"`
	Zones []readyZone `json:"zones"` // the root first
}

func (e *env) runDev(ctx context.Context, o dev.Options, ready string) error {
	if ready != "" { // one of an earlier run would report this one as up
		if err := os.Remove(ready); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the ready file of an earlier run: %w", err)
		}
		defer func() { _ = os.Remove(ready) }() // it may be gone already
	}
	e.printNote("starting the federation in %s ...", o.Dir)
	f, err := dev.Start(ctx, o)
	if err != nil {
		return err
	}
	list := readyFile{PID: os.Getpid()}
	for _, z := range f.Zones {
		list.Zones = append(list.Zones, readyZone{z.Name, z.Path, z.API(), "https://" + z.Gateway(), z.Token})
	}
	if err := e.announceDev(list, ready); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { e.printNote("stopping the federation ...") })()
	return f.Wait()
}

// asTyped returns how the program was called, so that what is printed can be pasted: its path if it was
// called by one.
func asTyped(arg string) string {
	if strings.ContainsRune(arg, os.PathSeparator) && !strings.HasSuffix(arg, ".test") {
		return arg
	}
	return "berth"
}

// announceDev prints the addresses of all zones.
func (e *env) announceDev(list readyFile, ready string) error {
	e.printLine("zone                 api                      gateway")
	for _, z := range list.Zones {
		e.printLine("%-20s %-24s %s", z.Path, z.API, z.Gateway)
	}
	root, berth := list.Zones[0], asTyped(os.Args[0])
	e.printLine("")
	e.printLine("Try, in another terminal:")
	e.printLine("  export BERTH_ADDR=%s BERTH_TOKEN=%s", root.API, root.Token)
	e.printLine("  %s boot --flavor small --name web --count 100", berth)
	e.printLine("  %s server list", berth)
	e.printLine("  %s zone tree", berth)
	e.printLine("")
	if len(list.Zones) > 1 {
		e.printLine("The other zones have tokens of their own:")
		for _, z := range list.Zones[1:] {
			e.printLine("  export BERTH_ADDR=%s BERTH_TOKEN=%s  # %s", z.API, z.Token, z.Path)
		}
		e.printLine("")
	}
	e.printLine("Ctrl-C stops the federation.")
	if ready == "" {
		return nil
	}
	b, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the ready file: %w", err)
	}
	tmp := filepath.Join(filepath.Dir(ready), "."+filepath.Base(ready)+".tmp")
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the ready file: %w", err)
	}
	if err := os.Rename(tmp, ready); err != nil {
		return fmt.Errorf("writing the ready file: %w", err)
	}
	return nil
}
