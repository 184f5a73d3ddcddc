package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/stretchr/testify/require"

	"berth/internal/await"
)

// AgentProc is one agent, running or not.
type AgentProc struct {
	*Service
	Zone  *Zone
	Agent string // its name within the zone
	Dir   string // of its certificate, its journal and its instances
	args  []string
}

// diskGB is the disk of a simulated host, in GiB: it does not run out before memory does.
const diskGB = 1024

// FakeAgent runs an agent of so many simulated hosts with so much memory each.
func (z *Zone) FakeAgent(name string, hosts int, memoryMB int64) *AgentProc {
	z.T.Helper()
	return z.addFakes(name, hosts, fmt.Sprintf("memory_mb=%d,disk_gb=%d", memoryMB, diskGB))
}

// FakeAgentWithCPUs is FakeAgent with so many processors on each host.
func (z *Zone) FakeAgentWithCPUs(name string, hosts int, memoryMB int64, cpus int) *AgentProc {
	z.T.Helper()
	return z.addFakes(name, hosts, fmt.Sprintf("vcpus=%d,memory_mb=%d,disk_gb=%d", cpus, memoryMB, diskGB))
}

func (z *Zone) addFakes(name string, hosts int, shape string) *AgentProc {
	z.T.Helper()
	return z.addAgent(name, hosts, "--driver", "fake", "--hosts", strconv.Itoa(hosts), "--prefix", z.Name+"-"+name, "--shape", shape)
}

// ProcessAgent runs an agent of this machine, of whose memory so much is kept
// for others.
func (z *Zone) ProcessAgent(name string, reserveMB int64) *AgentProc {
	z.T.Helper()
	return z.addAgent(name, 1, "--driver", "process", "--name", z.Name+"-"+name, "--cgroup", "",
		"--reserve", fmt.Sprintf("memory_mb=%d", reserveMB))
}

// addAgent joins an agent on a machine of its own and waits until all nodes know its hosts.
func (z *Zone) addAgent(name string, hosts int, args ...string) *AgentProc {
	z.T.Helper()
	before := len(z.Hosts())
	token := z.CLI("join-token", "create", "--kind", "agent", "--name", name)
	full := z.Name + "-" + name
	m, err := z.Machine(full)
	require.NoError(z.T, err)
	a := &AgentProc{Service: m.addService(full), Zone: z, Agent: name, Dir: filepath.Join(m.Dir, "data")}
	a.args = append([]string{"agent", "--dir", a.Dir, "--join-file", z.writePrivate(full+".token", token)}, args...)
	z.Agents = append(z.Agents, a)
	a.Start()
	await.Until(z.T, "hosts of "+a.Name+" are up", func(context.Context) error {
		if !a.Running() {
			require.Fail(z.T, "the agent has ended", a.Tail(3))
		}
		for _, n := range z.Running() { // each may answer a parent
			if now := len(n.hosts()); now < before+hosts {
				return fmt.Errorf("%d of %d at %s", now-before, hosts, n.ID)
			}
		}
		return nil
	})
	return a
}

// Start starts the agent from its directory. It does not wait for the zone.
func (a *AgentProc) Start() {
	a.Zone.T.Helper()
	require.NoError(a.Zone.T, a.up(), "%s starts", a.Name)
}

// up is Start for a goroutine of its own.
func (a *AgentProc) up() error { return a.launchProcess(a.args...) }

// Instances returns the processes that run in the agent's folders.
func (a *AgentProc) Instances() []RealInstance {
	a.Zone.T.Helper()
	all, err := instancesUnder(a.Dir)
	require.NoError(a.Zone.T, err)
	return all
}
