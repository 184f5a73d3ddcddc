package main

import (
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/cli"
	"berth/httpd/rates"
	"berth/identity"
	"berth/internal/turns"
	"berth/node"
	"berth/raftstore"
)

// nodeFlags are the flags of a node.
type nodeFlags struct {
	options   node.Options
	listen    placeFlags
	logs      logFlags
	config    configFlag
	join      string
	key, disk string
	rate      map[string]int64
	peers     []string
}

func (e *env) nodeCommand() *cobra.Command {
	var n nodeFlags
	c := &cobra.Command{
		Use:   "node --dir DIR",
		Short: "Run one node of a zone",
		Long: `Run one node of a zone from its data directory, until it is interrupted.

The first time it starts, an additional node joins its zone with a token of
"berth join-token create --kind node". Its addresses are kept: give them again only to
change them, one node after the other. The node tells the zone, which tells its agents and
the linked zones, and gets a certificate with the new names for its public API.

The public API shows a certificate of the zone's own authority, or yours with --api-cert and --api-key.
These files are read again each minute and on SIGHUP.

With --config, settings are read from a file in YAML whose keys are the flags' names without
dashes in front; a flag that is given too wins. See "berth config check".

A node whose disk hangs, or whose disk or log cannot be trusted any more, ends itself
with exit code 9. The zone continues without it.`,
		Example: `  berth node --dir /var/lib/berth
  berth node --config /etc/berth/node.yaml
  berth node --dir ./west-2 --join-file token.txt --host 10.0.0.6
  berth node --dir ./west-2 --host 10.0.9.6
  berth node --dir ./west-1 --host 10.0.9.5 --peer node-2=10.0.9.6:7602 --peer node-3=10.0.9.7:7602
  berth node --dir ./west-3 --join-file token.txt --host 0.0.0.0 --advertise-host west-3.example`,
		Args: cli.TakeNothing,
		RunE: cli.RunLocally(func(c *cobra.Command, _ []string) error { return e.openAndRun(c, &n) }),
	}
	n.addFlags(c)
	n.config.addFlag(c, e, nodeSettings)
	return c
}

func (n *nodeFlags) addFlags(c *cobra.Command) {
	f, o := c.Flags(), &n.options
	f.StringVar(&o.Dir, "dir", "", "data directory, of berth init or of an earlier join")
	f.StringVar(&n.join, "join-file", "", "file with a join token; used only the first time")
	f.StringVar(&n.key, "plan-key-file", "", planKeyHelp)
	f.StringVar(&n.disk, "disk-key-file", "", diskKeyHelp)
	f.StringVar(&o.APICert.Cert, "api-cert", "", "file with your own certificate for the public API in PEM, followed by those that lead to its root, such as fullchain.pem (default: one of the zone's authority)")
	f.StringVar(&o.APICert.Key, "api-key", "", "file with the key of --api-cert in PEM")
	f.StringVar(&o.Backups.Dir, "backup-dir", "", "folder for backups of the zone, which are written on a schedule; best on another disk (default: no backups)")
	f.DurationVar(&o.Backups.Every, "backup-every", node.BackupEveryDefault, "time between two backups")
	f.IntVar(&o.Backups.Keep, "backup-keep", node.BackupsKeptDefault, "how many backups of the zone are kept, the newest ones")
	f.BoolVar(&o.Insecure, "insecure-dev", false, "require no tokens; only on a loopback address")
	f.IntVar(&o.ConnsPerAddress, "conns-per-address", 0, "connections that one remote address may have to each listener (default: half of those that there are places for)")
	f.StringVar(&o.Trace.Endpoint, "trace-endpoint", "", "`URL` of an OpenTelemetry collector (OTLP over HTTP) that gets traces of calls, such as http://127.0.0.1:4318 (default: no traces)")
	f.Float64Var(&o.Trace.Ratio, "trace-ratio", node.TraceRatioDefault, "part of the traces that is exported, 0 to 1")
	f.StringArrayVar(&n.peers, "peer", nil, "where another node of the zone is, as `NODE=HOST:PORT` of its node listener, when all have moved at once; may be repeated; used at this start alone")
	f.StringToInt64Var(&n.rate, "rate", nil, "class of calls and how many one party may make in a second, such as writes=100; 0 for any number; may be repeated. Classes: "+strings.Join(rates.Classes(), ", "))
	n.listen.addFlags(c)
	n.logs.addFlags(c, "info")
}

// openAndRun runs a node as its flags say.
func (e *env) openAndRun(c *cobra.Command, f *nodeFlags) error {
	o := f.options
	log, err := f.logs.newLogger(e)
	if err != nil {
		return err
	}
	if o.PlanKey, o.DiskKey, err = readKeys(f.key, f.disk); err != nil {
		return err
	}
	if o.Rates, err = rates.Defaults().With(f.rate); err != nil {
		return err
	}
	if o.Peers, err = readPeers(f.peers); err != nil {
		return err
	}
	if err = joinNode(c, o.Dir, f.join, o.DiskKey, &f.listen); err != nil {
		return err
	}
	o.Given, o.Names = f.listen.read(c)
	o.Log, o.Now, o.Version = log, readClock, version
	o.Share = turns.NewPressure(readClock).Share
	o.Fatal = exitBroken(log)
	f.config.logUse(log)
	if o.Insecure {
		log.Warn("tokens are not required: every caller is an administrator; hosts that run commands are refused while this node leads")
	}
	equip(&o)
	o.Level = &f.logs.now
	n, err := node.Open(o)
	if err != nil {
		return err
	}
	return e.runNode(c, n, &f.config, &f.logs, log)
}

// readPeers checks where other nodes of a zone are said to be.
func readPeers(given []string) (map[api.NodeID]string, error) {
	out := map[api.NodeID]string{}
	for _, pair := range given {
		id, addr, _ := strings.Cut(pair, "=")
		if host, port, err := net.SplitHostPort(addr); !api.ValidName(id) || err != nil || host == "" || port == "" || port == "0" {
			return nil, api.Errorf(api.CodeInvalid, "--peer %q: it must be NODE=HOST:PORT, such as node-2=10.0.9.7:7602", pair)
		}
		if _, twice := out[api.NodeID(id)]; twice {
			return nil, api.Errorf(api.CodeInvalid, "--peer %q: node %s is there twice", pair, id)
		}
		out[api.NodeID(id)] = addr
	}
	return out, nil
}

// exitBroken ends the process of a node that cannot go on.
func exitBroken(log *slog.Logger) func(error) {
	return func(err error) {
		lastWords(log, err)
		os.Exit(cli.ExitBroken)
	}
}

// lastWordsMax bounds how long a node that must end itself waits for its log.
const lastWordsMax = time.Second

// lastWords logs why a node must end itself. It returns after lastWordsMax even if logging
// has not succeeded: if the node's disk hangs, its log may hang too.
func lastWords(log *slog.Logger, err error) {
	logged := make(chan struct{})
	go func() {
		log.Error("the node cannot go on", "error", err)
		close(logged)
	}()
	select {
	case <-logged:
	case <-time.After(lastWordsMax):
	}
}

// joinNode creates the directory of an additional node. If it exists, the token is used up, and its
// file may be gone; one of another zone is refused.
func joinNode(c *cobra.Command, dir, tokenFile string, disk *raftstore.DiskKey, l *placeFlags) error {
	if holdsNode(dir) {
		return checkSpentToken(tokenFile, func(t identity.JoinToken) error { return node.CheckNodeToken(dir, t) })
	}
	token, err := readSecret(tokenFile)
	if err != nil || token == "" {
		return err
	}
	p, err := l.firstPlacement(c)
	if err != nil {
		return err
	}
	return node.JoinNode(c.Context(), node.JoinOptions{Dir: dir, Token: token, DiskKey: disk, Placement: p, Now: readClock})
}
