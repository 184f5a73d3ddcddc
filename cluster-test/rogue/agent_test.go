package rogue

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/internal/codec"
)

// evil is the agent that misbehaves, and the start of the names that its hosts may have.
const evil = "mallory"

// evilHosts is how many hosts it may serve.
const evilHosts = 2

// hostile is an agent with a certificate of root, whose join token has terms.
func hostile() party {
	return party{name: "agent", budget: size{state: 4 << 20, log: 24 << 20, index: 20_000}, attacks: func(t *testing.T, p *phase) []attack {
		t.Helper()
		home, creds := p.root.joined(evil, api.AgentTerms{HostPrefix: evil + "-", HostsMax: evilHosts, Disabled: true})
		a := &agentCalls{phase: p, up: p.caller(over(agentTLS(home, creds)), "https://"+p.root.node.Addresses().Agent, cborHead())}
		for _, h := range p.root.node.Store().View().AllHosts() {
			a.others = append(a.others, h.ID)
		}
		t.Cleanup(func() { a.ends(t) })
		return []attack{
			{"hosts of its own, and huge", a.registerOwn},
			{"more hosts than its token allows", a.registerMany},
			{"hosts of others", a.registerOthers},
			{"classes and traits without end", a.registerNames},
			{"reports on instances of others", a.reportOthers},
			{"reports on nothing", a.reportNothing},
			{"work of others", a.poll},
			{"calls of others", a.callOthers},
			{"bodies that are none", a.sendGarbage},
		}
	}}
}

// agentCalls are the calls of the rogue agent.
type agentCalls struct {
	*phase
	up     *caller
	others []api.HostID
}

// hostNamed is a host as an agent describes it.
func hostNamed(name string, vcpus int64) api.AgentHost {
	return api.AgentHost{
		Name: name, Driver: "fake", Pool: api.PoolShared,
		Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: vcpus}, api.MemoryMB: {Total: vcpus}},
	}
}

// register registers hosts, and reports whether the zone took them.
func (a *agentCalls) register(ctx context.Context, r *record, hosts ...api.AgentHost) bool {
	status, _ := a.up.call(ctx, r, "POST", api.PathAgentRegister, api.AgentRegister{Hosts: hosts})
	return !refused(status)
}

// registerOwn registers what its terms allow. Its hosts stay disabled, whatever they have.
func (a *agentCalls) registerOwn(ctx context.Context, r *record) error {
	a.register(ctx, r, hostNamed(evil+"-1", api.AmountMax), hostNamed(evil+"-2", 1))
	return a.checkHosts()
}

// checkHosts compares the hosts of the zone with the terms.
func (a *agentCalls) checkHosts() error {
	n := 0
	for _, h := range a.root.node.Store().View().AllHosts() {
		if string(h.Agent) != evil {
			continue
		}
		n++
		if h.Enabled || !strings.HasPrefix(h.Name, evil+"-") {
			return fmt.Errorf("host %s is enabled: %v", h.Name, h.Enabled)
		}
	}
	return unless(n <= evilHosts, "it has %d hosts", n)
}

func (a *agentCalls) registerMany(ctx context.Context, r *record) error {
	var hosts []api.AgentHost
	for n := range evilHosts + 1 {
		hosts = append(hosts, hostNamed(fmt.Sprintf("%s-%s-%d", evil, name(""), n), 1))
	}
	a.register(ctx, r, hosts...)
	a.register(ctx, r, hosts[0])
	for n := len(hosts); n <= api.HostsPerAgentMax; n++ {
		hosts = append(hosts, hostNamed(fmt.Sprintf("%s-%d", evil, n), 1))
	}
	a.register(ctx, r, hosts...)
	return a.checkHosts()
}

func (a *agentCalls) registerOthers(ctx context.Context, r *record) error {
	asking := &agentCalls{phase: a.phase, up: a.up.muted(), others: a.others} // answers repeat the names
	for _, h := range a.root.node.Store().View().AllHosts() {
		asking.register(ctx, r, hostNamed(h.Name, 1))
	}
	for _, h := range a.root.node.Store().View().AllHosts() {
		if string(h.Agent) != evil && h.Inventory[api.VCPU].Total != hostVCPUs {
			return fmt.Errorf("host %s of others has %v", h.Name, h.Inventory)
		}
	}
	return a.checkHosts()
}

// registerNames makes up resource classes, traits, attributes and texts of any length.
func (a *agentCalls) registerNames(ctx context.Context, r *record) error {
	for n := range 3 {
		h := hostNamed(evil+"-1", 1)
		switch n {
		case 0:
			for range api.ClassesMax - 2 {
				h.Inventory[api.ResourceClass("CUSTOM_"+strings.ToUpper(name("C")))] = api.Inventory{Total: 1}
			}
		case 1:
			for range api.TraitsMax {
				h.Traits = append(h.Traits, "CUSTOM_"+strings.ToUpper(name("T")))
			}
		case 2:
			h.Attributes = map[string]string{}
			for range api.AttributesMax {
				h.Attributes[name("a")] = strings.Repeat("v", 255)
			}
			h.Driver = strings.Repeat("d", 1<<20)
		}
		a.register(ctx, r, h)
	}
	return nil // what it costs is held against the budget
}

// reportOthers says that what others run is gone, of their hosts and of its own.
func (a *agentCalls) reportOthers(ctx context.Context, r *record) error {
	v := a.root.node.Store().View()
	hosts := a.others
	for _, h := range v.AllHosts() {
		if string(h.Agent) == evil {
			hosts = append(hosts[:len(hosts):len(hosts)], h.ID)
		}
	}
	for _, status := range []api.Status{api.StatusDeleted, api.StatusError, api.StatusShutoff} {
		var items []api.InstanceReport
		for _, h := range hosts {
			for _, i := range a.standing.instances {
				items = append(items, api.InstanceReport{Host: h, Instance: i, Status: status, Fault: "\x1b]0;pwn\x07"})
			}
		}
		a.up.call(ctx, r, "POST", api.PathAgentReport, api.AgentReport{Items: items})
	}
	for _, i := range a.standing.instances {
		if at, ok := a.root.node.Store().View().Instance(i); ok && at.Status != api.StatusActive {
			return fmt.Errorf("instance %s of others is %s", i, at.Status)
		}
	}
	return nil
}

func (a *agentCalls) reportNothing(ctx context.Context, r *record) error {
	var items []api.InstanceReport
	for range api.ReportsMax {
		items = append(items, api.InstanceReport{
			Host: api.HostID(api.NewUUID()), Instance: api.InstanceID(api.NewUUID()), Status: api.StatusError, Fault: strings.Repeat("f", 4*api.FaultMaxBytes),
		})
	}
	a.up.call(ctx, r, "POST", api.PathAgentReport, api.AgentReport{Items: items[:1000]})
	status, b := a.up.call(ctx, r, "POST", api.PathAgentReport, api.AgentReport{Items: append(items, items[0])})
	if !refused(status) {
		return fmt.Errorf("a report above its limit: %d %x", status, b)
	}
	for range 50 {
		a.up.call(ctx, r, "POST", api.PathAgentReport, api.AgentReport{})
	}
	return nil
}

// poll asks for work. What comes has nothing of others: the answers are searched for it.
func (a *agentCalls) poll(ctx context.Context, r *record) error {
	for _, after := range []uint64{0, 1, 1 << 63} {
		status, b := a.up.call(ctx, r, "POST", api.PathAgentWork, api.AgentWork{After: after, Wait: 10 * time.Millisecond})
		var w api.AgentWorkload
		if status != http.StatusOK || codec.Unmarshal(b, &w) != nil {
			continue
		}
		for _, h := range w.Hosts {
			if len(h.Instances) > 0 {
				return fmt.Errorf("it has got work: %v", h)
			}
		}
	}
	return nil
}

// callOthers calls what is at other listeners, with the certificate of an agent.
func (a *agentCalls) callOthers(ctx context.Context, r *record) error {
	for _, path := range []string{"/zones/info", "/hosts", "/operator/tokens", "/servers/detail", "/raft"} {
		if status, b := a.up.call(ctx, r, "GET", path, nil); !refused(status) {
			return fmt.Errorf("GET %s: %d %x", path, status, b)
		}
	}
	addr := a.root.node.Addresses()
	for _, to := range []string{addr.Node, addr.Gateway} {
		c := *a.up
		c.base = "https://" + to
		if status, b := c.call(ctx, r, "GET", "/zones/info", nil); status != 0 {
			return fmt.Errorf("the listener %s answers an agent: %d %x", to, status, b)
		}
	}
	return nil
}

func (a *agentCalls) sendGarbage(ctx context.Context, r *record) error {
	for _, path := range []string{api.PathAgentRegister, api.PathAgentWork, api.PathAgentReport, api.PathAgentRenew, api.PathAgentTrust} {
		for _, body := range [][]byte{{0xff}, {0xa1, 0x18, 0x63, 5}, bytes.Repeat([]byte{0x81}, 1<<16), {0x9b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, make([]byte, 17<<20)} {
			if status, b := a.up.call(ctx, r, "POST", path, body); !refused(status) {
				return fmt.Errorf("POST %s of %.20x: %d %x", path, body, status, b)
			}
		}
	}
	return nil
}

// ends revokes the agent: then it is over.
func (a *agentCalls) ends(t *testing.T) {
	t.Helper()
	ctx := a.ctx
	require.NoError(t, a.checkHosts())
	require.NoError(t, a.root.client(a.root.token).RevokeAgent(ctx, evil))
	require.NoError(t, await.Wait(ctx, func(ctx context.Context) error {
		a.up.http.CloseIdleConnections()
		status, _ := a.up.call(ctx, &record{outcomes: map[string]int{}}, "POST", api.PathAgentReport, api.AgentReport{})
		return unless(status == 0, "it is let in, and answered %d", status)
	}))
	assert.NoError(t, a.checkHosts())
}
