package main

import (
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/cli"
	"berth/costs"
	"berth/identity"
	"berth/internal/durable"
	"berth/node"
	"berth/raftstore"
)

// processCommands returns the commands that run or prepare a process of a zone.
func processCommands(e *env) []*cobra.Command {
	return []*cobra.Command{e.initCommand(), e.nodeCommand(), e.agentCommand(), e.devCommand(), e.demoCommand(), e.configCommand()}
}

// logFlags choose the level and format of the log.
type logFlags struct {
	level, format string
	now           slog.LevelVar // of the log that newLogger has made
}

func (l *logFlags) addFlags(c *cobra.Command, level string) {
	c.Flags().StringVar(&l.level, "log-level", level, "lowest level to log: debug, info, warn or error")
	c.Flags().StringVar(&l.format, "log-format", "text", "format of the log: text or json")
}

// newLogger returns the log of a process, which goes to the error output.
func (l *logFlags) newLogger(e *env) (*slog.Logger, error) {
	if err := l.setLevel(l.level); err != nil {
		return nil, err
	}
	opts := &slog.HandlerOptions{Level: &l.now}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(e.errOut, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(e.errOut, opts)), nil
	}
	return nil, api.Errorf(api.CodeInvalid, "--log-format must be text or json, not %q", l.format)
}

// setLevel changes the level of the log. It may be called at any time.
func (l *logFlags) setLevel(name string) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(name)); err != nil {
		return api.Errorf(api.CodeInvalid, "--log-level must be debug, info, warn or error, not %q", name)
	}
	l.now.Set(level)
	return nil
}

// planKey reads the operator's own sealing key, if there is one.
func planKey(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	b, err := durable.ReadPrivate(path)
	if err != nil {
		return nil, api.Wrap(api.CodeInvalid, "berth", "the plan key cannot be read: "+err.Error(), err)
	}
	return []byte(strings.TrimRight(string(b), "\r\n")), nil
}

// readKeys reads the plan key and the disk key from their files, nil for each without a file.
func readKeys(plan, disk string) ([]byte, *raftstore.DiskKey, error) {
	p, err := planKey(plan)
	if err != nil {
		return nil, nil, err
	}
	d, err := cli.ReadDiskKey(disk)
	return p, d, err
}

const diskKeyHelp = "file with the key that seals the log, the snapshots and the keys in --dir, 64 hexadecimal digits of openssl rand -hex 32 (default: not sealed)"

const planKeyHelp = "file with the build_plan_encryption_key of the zone, at least 32 bytes (default: random keys)"

const initHelp = `Create the data directory of a new zone's first node, with a new certificate
authority, certificates and keys. The first admin token is printed once and stored
nowhere: save it, and create another one with "berth token create" before it expires.

With --ca-cert and --ca-key the authority is yours, made as the zone makes its own: see "Bring your own
certificates" in docs/operate.md.

Start the node with "berth node"; add more with "berth join-token create --kind node".

With --from-backup, bring back a zone that has lost all of its nodes, from a backup and the
key-encryption key of the zone. It keeps its name, its id and all that the backup has. Its nodes of
before must never run again. Parents and children have to accept it: "berth zone relink" there.`

func (e *env) initCommand() *cobra.Command {
	var (
		o      node.InitOptions
		listen placeFlags
		key    string
		disk   string
		until  string
		weight map[string]int64
		ca     caFlags
		from   backupFlags
	)
	c := &cobra.Command{
		Use:   "init --dir DIR --name ZONE",
		Short: "Create the data directory of a new zone's first node",
		Long:  initHelp,
		Example: `  berth init --dir /var/lib/berth --name west
  berth init --dir /var/lib/berth --from-backup west-20261127T060000Z.backup --kek kek
  berth init --dir ./west --name west --host 10.0.0.5 --api-name berth.west.example --cost fill_first=1`,
		Args: cli.TakeNothing,
		RunE: cli.RunLocally(func(c *cobra.Command, _ []string) error {
			var err error
			if o.PlanKey, o.DiskKey, err = readKeys(key, disk); err != nil {
				return err
			}
			if o.TokenTTL, err = cli.ParseExpiry(until); err != nil {
				return err
			}
			if o.Placement, err = listen.firstPlacement(c); err != nil {
				return err
			}
			o.Now = readClock()
			if o.Costs, err = readCosts(weight); err != nil {
				return err
			}
			if o.CA, err = ca.read(o.Now); err != nil {
				return err
			}
			if from.file != "" {
				return e.initFromBackup(o, from, disk)
			}
			if o.Name == "" {
				return api.Errorf(api.CodeInvalid, "--name is missing: the name of the new zone")
			}
			token, err := node.Init(o)
			if err != nil {
				return err
			}
			e.tellReady(&o, disk, token)
			return nil
		}),
	}
	f := c.Flags()
	f.StringVar(&o.Dir, "dir", "", "data directory; created if it is missing")
	f.StringVar(&o.Name, "name", "", "name of the zone")
	f.StringVar((*string)(&o.Node), "node", "", "id of the first node (default: node-1; with --from-backup one that no node has had)")
	f.StringVar(&key, "plan-key-file", "", planKeyHelp)
	f.StringVar(&disk, "disk-key-file", "", diskKeyHelp)
	f.StringVar(&until, "token-expires", api.TokenTTLFirst.String(), "after which `TIME` the first admin token expires, such as 720h, or never")
	f.StringToInt64Var(&weight, "cost", nil, "cost and its weight, such as spread=1 (the default) or fill_first=1; may be repeated")
	ca.addFlags(c)
	listen.addFlags(c)
	from.addFlags(c)
	cli.RequireFlags(c, "dir")
	return c
}

// tellReady prints what to do with a new zone.
func (e *env) tellReady(o *node.InitOptions, disk, token string) {
	e.printNote("zone %q is ready in %s; start it with: %s", o.Name, o.Dir, startLine(o.Dir, disk))
	e.printNote("the first admin token follows; it is shown once and stored nowhere")
	e.printLine("%s", token)
}

// startLine is what starts a node in dir, with its disk key in a file, "" for none.
func startLine(dir, disk string) string {
	line := "berth node --dir " + dir
	if disk != "" {
		line += " --disk-key-file " + disk
	}
	return line
}

// readCosts returns the costs of a new zone, in their own order.
func readCosts(weights map[string]int64) ([]api.CostWeight, error) {
	var out []api.CostWeight
	for _, name := range costs.Names() {
		if w, ok := weights[name]; ok {
			out = append(out, api.CostWeight{Name: name, Weight: w})
			delete(weights, name)
		}
	}
	for name := range weights {
		return nil, api.Errorf(api.CodeInvalid, "--cost: unknown cost %q, must be one of %s", name, strings.Join(costs.Names(), ", "))
	}
	return out, nil
}

// checkSpentToken checks a token that a process with a directory does not need any more, if it is there.
func checkSpentToken(file string, check func(identity.JoinToken) error) error {
	text, err := readSecret(file)
	if err != nil || text == "" {
		return nil //nolint:nilerr // it may be gone
	}
	t, err := identity.ParseJoinToken(text)
	if err != nil {
		return nil //nolint:nilerr // nobody reads it any more
	}
	return check(t)
}

// holdsNode reports whether dir is the directory of a node that has joined.
func holdsNode(dir string) bool {
	_, err := os.Stat(dir + "/node.json")
	return err == nil
}

// readSecret reads a one-line secret from a file; "" for no file.
func readSecret(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	b, err := durable.ReadPrivate(path)
	if err != nil {
		return "", api.Wrap(api.CodeInvalid, "berth", "the token cannot be read: "+err.Error(), err)
	}
	return strings.TrimSpace(string(b)), nil
}
