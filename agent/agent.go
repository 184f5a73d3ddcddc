// Package agent serves hosts: it dials its zone, registers them, polls for the
// instances that should run on them, starts and stops these with drivers, and
// reports their states. It listens on nothing. DESIGN.md has the reasons.
package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"berth/agent/driver"
	"berth/api"
	"berth/identity"
	"berth/internal/crash"
	"berth/internal/measure"
	"berth/internal/requestid"
)

// Defaults and bounds of Config.
const (
	BeatDefault  = 5 * time.Second  // if neither Config nor the zone sets it
	WaitDefault  = 30 * time.Second // how long the zone may hold one poll for work
	CallsDefault = 16               // driver calls at once, starts and stops each; kills: CallsMax
	CallsMax     = 1024
)

// Host is one host and the driver that serves it. Many hosts may share a driver.
type Host struct {
	api.AgentHost
	Driver driver.Driver // comparable, such as a pointer
}

// Config configures an agent. Zero values mean the default where there is one.
type Config struct {
	Addresses []string          // host:port of agent listeners of the zone; 1 to AddressesMax
	TLS       *tls.Config       // client certificate and the zone's roots; not used with Transport
	Wallet    *identity.Wallet  // with the client certificate, which is renewed when it is due; nil for one that is not
	Transport http.RoundTripper // in place of TLS; for tests
	Dial      Dialer            // in place of TCP; nil for TCP
	Hosts     []Host            // 1 to api.HostsPerAgentMax, with names of their own
	Dir       string            // stores the highest term, the journal and the names of the hosts; "" stores none
	Home      string            // names the folder and the machine that the agent runs on, other than any copy would; "" does not tell the zone
	Version   string            // the release of the agent, which it tells the zone; "" does not
	Beat      time.Duration     // longest time between reports; the zone may ask for a shorter one
	Wait      time.Duration     // WaitDefault; at most api.WaitMax
	Calls     int               // CallsDefault; at most CallsMax
	Log       *slog.Logger      // required
	Now       func() time.Time  // required; stamps the journal and measures the silence of the zone
	Rand      func() float64    // required; in [0, 1), safe for concurrent use; spreads retries
	Crash     crash.Hook        // nil in production

	// Keep is called with the addresses of the zone's agent listeners when they have
	// changed, at first from Addresses, to be stored for the next agent's Addresses. If it
	// fails, it is called again with the next answer of the zone. May be nil.
	Keep func(addresses []string) error
}

// Dialer opens a connection to an address of the zone.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// Agent serves the hosts of one Config. Use New, then Run once.
type Agent struct {
	conf    Config
	link    *link
	severed map[api.InstanceID]api.HostID // that an earlier agent has left and this one killed, and that have not started since; with the ledger
	end     context.CancelCauseFunc       // ends Run with an error; set by it
	drivers []driver.Driver               // without repeats, in order of hosts
	root    *os.Root                      // nil without Dir
	fence   *fence
	journal *journal

	wake    [actions]chan struct{}          // wake[a] signals work in lane a; wake[nothing], pending reports
	relist  map[driver.Driver]chan struct{} // the driver must be listed again
	recheck chan struct{}                   // fences must be checked again
	asks    chan []api.OutputAsk            // for answerAsks

	kept    []string     // addresses last passed to Keep, sorted; only poll uses it
	strange []api.HostID // hosts last reported to the zone as not served here, sorted; only poll uses it

	measures measures
	outage   outage // of calls of the zone

	trustMark, issuer atomic.Pointer[api.Fingerprint] // of the zone's last answers; nil before

	mu      sync.Mutex // guards what follows
	ledger  *ledger
	beat    time.Duration
	lost    []api.HostID // hosts of this agent that the zone has written off
	contact time.Time    // when the newest answered call was sent

	registered bool      // since Run began
	elsewhere  time.Time // when the zone first said that this agent runs elsewhere; zero if it never did
}

// New checks conf and opens its Dir, which it creates if need be. It returns an
// invalid-input error for a Config that cannot work. Close what it returns.
func New(conf Config) (*Agent, error) {
	if err := checkConfig(&conf); err != nil {
		return nil, err
	}
	conf.Log = slog.New(requestid.NewHandler(conf.Log.Handler()))
	transport := conf.Transport
	if transport == nil {
		transport = newTransport(conf.TLS, conf.Dial)
	}
	a := &Agent{
		conf: conf, kept: slices.Sorted(slices.Values(conf.Addresses)), link: newLink(conf.Addresses, transport).of(&conf), ledger: newLedger(nil, nil),
		severed:  map[api.InstanceID]api.HostID{},
		measures: measures{measure.NewFamily[Call](), measure.NewFamily[string]()},
	}
	for i := range a.wake {
		a.wake[i] = make(chan struct{}, 1)
	}
	a.relist, a.recheck = map[driver.Driver]chan struct{}{}, make(chan struct{}, 1)
	a.asks = make(chan []api.OutputAsk, 1)
	for _, h := range conf.Hosts {
		if a.relist[h.Driver] == nil {
			a.relist[h.Driver] = make(chan struct{}, 1)
			a.drivers = append(a.drivers, h.Driver)
		}
	}
	var err error
	if conf.Dir != "" {
		if err = os.MkdirAll(conf.Dir, 0o700); err == nil {
			a.root, err = os.OpenRoot(conf.Dir)
		}
		if err != nil {
			return nil, fmt.Errorf("opening the agent's folder: %w", err)
		}
	}
	if a.fence, err = openFence(a.root); err == nil {
		a.journal, err = openJournal(a.root, conf.Now, conf.Log)
	}
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// Close closes the agent's files. Call it after Run has returned. Instances keep
// running.
func (a *Agent) Close() error {
	var errs []error
	if a.journal != nil {
		errs = append(errs, a.journal.closeFile())
	}
	if a.root != nil {
		errs = append(errs, a.root.Close())
	}
	return errors.Join(errs...)
}

// checkConfig fills in defaults and returns an invalid-input error for a wrong field.
func checkConfig(c *Config) error {
	if c.Log == nil || c.Now == nil || c.Rand == nil {
		return api.Errorf(api.CodeInvalid, "an agent needs a log, a clock and a source of randomness")
	}
	if c.TLS == nil && c.Transport == nil {
		return api.Errorf(api.CodeInvalid, "an agent needs a certificate to show to its zone")
	}
	if len(c.Addresses) < 1 || len(c.Addresses) > AddressesMax {
		return api.Errorf(api.CodeInvalid, "an agent needs 1 to %d addresses of its zone, got %d", AddressesMax, len(c.Addresses))
	}
	for _, addr := range c.Addresses {
		if !isDialable(addr) {
			return api.Errorf(api.CodeInvalid, "address %q of the zone must be host:port", addr)
		}
	}
	if c.Calls == 0 {
		c.Calls = CallsDefault
	}
	if c.Wait == 0 {
		c.Wait = WaitDefault
	}
	if c.Calls < 1 || c.Calls > CallsMax {
		return api.Errorf(api.CodeInvalid, "calls must be 1 to %d, got %d", CallsMax, c.Calls)
	}
	if min(c.Beat, c.Wait) < 0 || c.Wait > api.WaitMax {
		return api.Errorf(api.CodeInvalid, "beat and wait must not be negative, and wait must be at most %s", api.WaitMax)
	}
	return checkHosts(c.Hosts)
}

func checkHosts(hosts []Host) error {
	if len(hosts) < 1 || len(hosts) > api.HostsPerAgentMax {
		return api.Errorf(api.CodeInvalid, "an agent serves 1 to %d hosts, got %d", api.HostsPerAgentMax, len(hosts))
	}
	names := make(map[string]bool, len(hosts))
	for _, h := range hosts {
		if err := api.CheckName("host name", h.Name); err != nil {
			return err
		}
		if names[h.Name] {
			return api.Errorf(api.CodeInvalid, "host %s is named twice", h.Name)
		}
		names[h.Name] = true
		if h.Driver == nil {
			return api.Errorf(api.CodeInvalid, "host %s has no driver", h.Name)
		}
		if err := checkFacts(h.AgentHost); err != nil {
			return err
		}
	}
	return nil
}

// Run serves the hosts until ctx ends, and then returns nil. By then everything that it
// started has stopped, except for the instances. An unreachable zone is tried again for ever. If the zone hears this agent
// from another home, Run ends with the zone's refusal, which is an errElsewhere: after 15 s if the hosts were not registered before, because
// the other home may be that of before a restart of the machine.
func (a *Agent) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.end = cancel
	err := a.serve(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, errElsewhere) {
		return cause
	}
	return err
}

// serve is Run until ctx ends.
func (a *Agent) serve(ctx context.Context) error {
	for _, d := range a.drivers {
		a.conf.Log.Info("driver ready", "driver", d.Describe())
		for _, s := range d.Severed() {
			a.severed[s.Instance] = s.Host
			a.writeJournal(eventFenced, s.Host, s.Instance, "its agent ended")
			a.writeJournal(eventGone, s.Host, s.Instance, "")
		}
	}
	a.warnOfOthers()
	var g errgroup.Group
	if a.conf.Wallet != nil {
		g.Go(func() error { a.renewCertificate(ctx); return nil })
		g.Go(func() error { a.followTrust(ctx); return nil })
	}
	if !a.registerAtLast(ctx) {
		return g.Wait()
	}
	a.keepNames()
	for _, d := range a.drivers {
		g.Go(func() error { a.watchDriver(ctx, d); return nil })
	}
	g.Go(func() error { a.carryOut(ctx, start, a.conf.Calls, a.startInstance); return nil })
	g.Go(func() error { a.carryOut(ctx, attach, a.conf.Calls, a.attachVolumes); return nil })
	g.Go(func() error { a.carryOut(ctx, notify, a.conf.Calls, a.notifyInstance); return nil })
	g.Go(func() error { a.carryOut(ctx, halt, a.conf.Calls, a.haltInstance); return nil })
	g.Go(func() error { a.carryOut(ctx, stop, a.conf.Calls, a.stopInstance); return nil })
	// A kill never waits for the confirmation of others.
	g.Go(func() error { a.carryOut(ctx, kill, CallsMax, a.killInstance); return nil })
	g.Go(func() error { a.watchDue(ctx); return nil })
	g.Go(func() error { a.reportStates(ctx); return nil })
	g.Go(func() error { a.pollWork(ctx); return nil })
	g.Go(func() error { a.answerAsks(ctx); return nil })
	return g.Wait()
}

// editLedger runs f on the ledger and wakes the goroutines that have work after it.
func (a *Agent) editLedger(f func(b *ledger)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f(a.ledger)
	for _, e := range a.ledger.absent { // before the zone is told, which may start it elsewhere
		a.writeJournal(eventAbsent, e.host, e.work.Instance, "")
	}
	a.ledger.absent = nil
	for lane, queue := range a.ledger.lanes {
		if len(queue) > 0 {
			signal(a.wake[lane])
		}
	}
	if len(a.ledger.say) > 0 {
		signal(a.wake[nothing])
	}
	for d := range a.ledger.again {
		signal(a.relist[d])
	}
	clear(a.ledger.again)
	if a.ledger.recheck {
		a.ledger.recheck = false
		signal(a.recheck)
	}
}

// signal leaves one value in c, which has room for one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // a pending value means the same
	}
}
