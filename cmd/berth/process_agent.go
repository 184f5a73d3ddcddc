package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"berth/agent"
	"berth/agent/driver"
	"berth/agent/driver/fake"
	"berth/agent/driver/process"
	"berth/api"
	"berth/cli"
	"berth/identity"
	"berth/node"
)

// agentFlags are the flags of an agent.
type agentFlags struct {
	dir, join, driver, name, shape, reserve, pool, prefix string
	hosts                                                 int
	cgroup, user, users, outputMax, metrics               string
	diskEvery                                             time.Duration
	attributes, traits                                    []string
	logs                                                  logFlags
	config                                                configFlag
}

func (e *env) agentCommand() *cobra.Command { return new(agentFlags).newCommand(e) }

func (a *agentFlags) newCommand(e *env) *cobra.Command {
	c := &cobra.Command{
		Use:   "agent --dir DIR",
		Short: "Run the agent of a host",
		Long: `Run the agent of a host. It connects to its zone, reports the resources of the machine,
and starts and stops instances as the zone requires.

With --driver process each instance is a real process, whose command comes from the
flavor; only operators of the zone define flavors. Give it users with --users, or one with
--user, so that instances cannot read the agent's key. With --driver fake the agent serves
any number of simulated hosts over one connection.

Filters and costs read the attributes and traits given with --attribute and --trait.
The attributes arch, os and hypervisor_type are always reported; values given here
override them. The attribute ip is the address of the host, for boots with --near.

The first time, an agent joins with a token of "berth join-token create --kind agent".
What it is given then, it keeps for later starts. --driver, --name, --hosts and --prefix
cannot change, because they name its hosts; what else is given again changes, and an
empty value ends it. --log-level and --log-format are not kept.

With --config, settings are read from a file in YAML whose keys are the flags' names without
dashes in front; a flag that is given too wins, and the file wins over what was kept. See
"berth config check".`,
		Example: `  berth agent --dir /var/lib/berth-agent --join-file token.txt
  berth agent --dir ./agent --join-file token.txt --driver fake --hosts 1000 --shape vcpus=64,memory_mb=262144,disk_gb=2000
  berth agent --config /etc/berth/agent.yaml
  berth agent --dir /var/lib/berth-agent --users 200000-209999
  berth agent --dir /var/lib/berth-agent --attribute ip=10.0.0.7 --attribute price=3.5 --trait CUSTOM_SSD`,
		Args: cli.TakeNothing,
		RunE: cli.RunLocally(func(c *cobra.Command, _ []string) error { return a.runAgent(c, e) }),
	}
	f := c.Flags()
	f.StringVar(&a.dir, "dir", "", "directory of the agent: its certificate, and the instances' folders")
	f.StringVar(&a.join, "join-file", "", "file with a join token; used only the first time")
	f.StringVar(&a.driver, "driver", "process", "driver of the instances: process or fake")
	f.StringVar(&a.name, "name", "", "name of the host (default: the machine's host name)")
	f.StringVar(&a.reserve, "reserve", "memory_mb=512", "resources reserved for the machine itself (process driver)")
	f.StringVar(&a.shape, "shape", "vcpus=64,memory_mb=262144,disk_gb=2000", "resources of each simulated host (fake driver)")
	f.IntVar(&a.hosts, "hosts", 1, "number of simulated hosts (fake driver)")
	f.StringVar(&a.prefix, "prefix", "host", "prefix of the names of simulated hosts: PREFIX-0001 and so on (fake driver)")
	f.StringVar(&a.pool, "pool", string(api.PoolShared), "pool of the hosts: on_demand, reservable or shared")
	f.StringArrayVar(&a.attributes, "attribute", nil, "attribute of the hosts as key=value; may be repeated")
	f.StringArrayVar(&a.traits, "trait", nil, "trait of the hosts, such as CUSTOM_SSD; may be repeated")
	f.StringVar(&a.user, "user", "", "`USER` as whom instances run, which keeps them from the agent's key; needs an agent that runs as root (process driver)")
	f.StringVar(&a.users, "users", "", "`FIRST-LAST`: numbers of users of which each instance gets one for itself, which keeps instances from each other too; needs an agent that runs as root (process driver)")
	f.StringVar(&a.outputMax, "output-max", "64M", "`SIZE` of what is kept of each output of an instance, 1M to 1T; a bare number is MiB (process driver)")
	f.DurationVar(&a.diskEvery, "disk-every", process.DiskDefault, "time between two looks at whether instances have more in their folders than their DISK_GB, 1s to 1h (process driver)")
	f.StringVar(&a.cgroup, "cgroup", process.CgroupDefault, "control group for limits, empty for none (process driver)")
	f.StringVar(&a.metrics, "metrics-addr", "", "`ADDRESS` at which the agent serves /metrics and /healthz to whoever calls, such as 127.0.0.1:7605 (default: none)")
	a.logs.addFlags(c, "info")
	a.config.addFlag(c, e, agentSettings)
	c.MarkFlagsMutuallyExclusive("user", "users")
	return c
}

func (a *agentFlags) runAgent(c *cobra.Command, e *env) error {
	ctx := c.Context()
	log, err := a.logs.newLogger(e)
	if err != nil {
		return err
	}
	a.config.logUse(log)
	if err = a.useRemembered(c); err != nil {
		return err
	}
	if _, err = a.checkCaps(); err != nil {
		return err // before a token is used up
	}
	home, wallet, err := a.joinOrOpenHome(ctx)
	if err != nil {
		return err
	}
	hosts, closeDriver, err := a.openDriver(ctx, log)
	if err != nil {
		return err
	}
	defer closeDriver()
	if err = a.remember(c, home, log); err != nil {
		return err
	}
	want := identity.Subject{Zone: home.Zone, Role: identity.RoleNode}
	conf := agent.Config{
		Home: homeOf(a.dir), Version: version,
		Addresses: home.Addresses, Hosts: hosts, Dir: filepath.Join(a.dir, "state"), Log: log, Now: readClock, Rand: rand.Float64,
		Keep: func(addresses []string) error { return node.KeepAddresses(a.dir, addresses) },
		TLS:  identity.ClientTLS(wallet.Of(identity.RoleAgent), api.ALPNHTTP, wallet.Pins, want, readClock), Wallet: wallet,
	}
	equipAgent(&conf)
	ag, err := agent.New(conf)
	if err != nil {
		return err
	}
	stopMetrics, err := serveAgent(a.metrics, a.dir, ag, log)
	if err != nil {
		return errors.Join(err, ag.Close())
	}
	log.InfoContext(ctx, "agent started", "version", version, "dir", a.dir, "hosts", len(hosts), "zone_addresses", home.Addresses, "metrics", a.metrics)
	told := newSupervised(log, answers(func() { ag.Figures() }), func() string { return fmt.Sprintf("serves %d hosts", len(hosts)) })
	stopFollowing := newReload(c, e, kindOf(true), &a.config, &a.logs, log, told, nil).follow()
	err = told.run(ctx, func() error { return ag.Run(ctx) })
	stopFollowing()
	stopMetrics()
	return errors.Join(err, ag.Close())
}

// homeOf names a folder of this machine, other than any copy of it there or elsewhere; "" if the system does not tell.
func homeOf(dir string) string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	info, err := os.Stat(dir)
	if err != nil {
		return ""
	}
	at, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(boot, "%d %d", at.Dev, at.Ino))
	return hex.EncodeToString(sum[:16])
}

// joinOrOpenHome returns the addresses and credentials of the agent, which joins its zone
// first if it never has.
func (a *agentFlags) joinOrOpenHome(ctx context.Context) (*node.AgentHome, *identity.Wallet, error) {
	home, wallet, err := node.LoadAgent(a.dir)
	if err == nil {
		err = checkSpentToken(a.join, func(t identity.JoinToken) error { return node.CheckAgentToken(a.dir, t) })
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return home, wallet, err
	}
	token, err := readSecret(a.join)
	if err != nil {
		return nil, nil, err
	}
	if token == "" {
		return nil, nil, api.Errorf(api.CodeInvalid, "%s is not the directory of an agent; give --join-file with a token of: berth join-token create --kind agent --name NAME", a.dir)
	}
	if _, err := node.JoinAgent(ctx, node.JoinOptions{Dir: a.dir, Token: token, Now: readClock}); err != nil {
		return nil, nil, err
	}
	return node.LoadAgent(a.dir)
}

// openDriver returns the hosts and a function that closes their driver.
func (a *agentFlags) openDriver(ctx context.Context, log *slog.Logger) (hosts []agent.Host, closeDriver func(), err error) {
	pool := api.Pool(a.pool)
	if !pool.Valid() {
		return nil, nil, api.Errorf(api.CodeInvalid, "--pool must be on_demand, reservable or shared, not %q", a.pool)
	}
	attributes, err := agent.ParseAttributes(a.attributes)
	if err != nil {
		return nil, nil, err
	}
	var (
		described []api.AgentHost
		drv       driver.Driver
	)
	switch a.driver {
	case "process":
		described, drv, closeDriver, err = a.machineHosts(ctx, log)
	case "fake":
		described, err = a.simulatedHosts()
		drv, closeDriver = fake.New(fake.Options{}), func() {}
	default:
		err = api.Errorf(api.CodeInvalid, "--driver must be process or fake, not %q", a.driver)
	}
	for _, h := range described {
		h.Pool = pool
		agent.Describe(&h, attributes, a.traits)
		hosts = append(hosts, agent.Host{AgentHost: h, Driver: drv})
	}
	return hosts, closeDriver, err
}

func (a *agentFlags) simulatedHosts() ([]api.AgentHost, error) {
	shape, err := agent.ParseShape(a.shape)
	if err != nil {
		return nil, err
	}
	if a.hosts < 1 || a.hosts > api.HostsPerAgentMax || !api.ValidName(a.prefix) {
		return nil, api.Errorf(api.CodeInvalid, "--hosts must be 1 to %d, and --prefix a name", api.HostsPerAgentMax)
	}
	return agent.FakeHosts(a.prefix, a.hosts, shape), nil
}

// checkCaps checks what limits the output and the disk of instances, and returns the output in bytes.
func (a *agentFlags) checkCaps() (output int64, err error) {
	output, ok := cli.ParseSize(a.outputMax, 1)
	if !ok || output > process.OutputMost>>20 {
		return 0, api.Errorf(api.CodeInvalid, "--output-max must be a size such as 64M, 1M to 1T, not %q", a.outputMax)
	}
	if a.diskEvery < process.DiskLeast || a.diskEvery > process.DiskMost {
		return 0, api.Errorf(api.CodeInvalid, "--disk-every must be %v to %v, not %v", process.DiskLeast, process.DiskMost, a.diskEvery)
	}
	return output << 20, nil
}

// machineHosts describes this machine and opens the process driver on it.
func (a *agentFlags) machineHosts(ctx context.Context, log *slog.Logger) ([]api.AgentHost, driver.Driver, func(), error) {
	if a.name == "" {
		var err error
		if a.name, err = os.Hostname(); err != nil {
			return nil, nil, nil, err
		}
	}
	reserve := api.Resources{}
	if a.reserve != "" {
		inv, err := agent.ParseShape(a.reserve)
		if err != nil {
			return nil, nil, nil, err
		}
		for c, v := range inv {
			reserve[c] = v.Total
		}
	}
	output, err := a.checkCaps()
	if err != nil {
		return nil, nil, nil, err
	}
	h, err := agent.Machine(a.name, a.dir, reserve)
	if err != nil {
		return nil, nil, nil, err
	}
	conf := process.Config{
		Dir: filepath.Join(a.dir, "instances"), Cgroup: a.cgroup, OutputMax: output, DiskEvery: a.diskEvery, Log: log,
	}
	if a.user != "" {
		if conf.User, err = process.FindUser(a.user); err != nil {
			return nil, nil, nil, err
		}
	}
	if a.users != "" {
		if conf.Users, err = process.ParseUsers(a.users); err != nil {
			return nil, nil, nil, err
		}
	}
	d, err := process.Open(ctx, conf)
	if err != nil {
		return nil, nil, nil, err
	}
	closing := func() { //nolint:contextcheck // runs after ctx has ended
		if err := d.Close(); err != nil {
			log.Warn("closing the process driver", "error", err)
		}
	}
	if d.BoundsVolumes() {
		h.Attributes[api.AttributeVolumes] = api.VolumesBounded
	}
	return []api.AgentHost{h}, d, closing, nil
}
