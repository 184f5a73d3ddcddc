package agent

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/agent/driver"
	"berth/agent/driver/fake"
	"berth/api"
	"berth/internal/codec"
)

func TestConfigIsChecked(t *testing.T) {
	good := config(newZone(), fake.New(fake.Options{}), 1)
	for name, spoil := range map[string]func(c *Config){
		"no log":            func(c *Config) { c.Log = nil },
		"no clock":          func(c *Config) { c.Now = nil },
		"no chance":         func(c *Config) { c.Rand = nil },
		"no certificate":    func(c *Config) { c.Transport = nil },
		"no address":        func(c *Config) { c.Addresses = nil },
		"many addresses":    func(c *Config) { c.Addresses = strings.Split(strings.Repeat("a:1,", AddressesMax)+"a:1", ",") },
		"address":           func(c *Config) { c.Addresses = []string{"n1"} },
		"address with path": func(c *Config) { c.Addresses = []string{"n1:1/x"} },
		"many calls":        func(c *Config) { c.Calls = CallsMax + 1 },
		"negative calls":    func(c *Config) { c.Calls = -1 },
		"negative wait":     func(c *Config) { c.Wait = -1 },
		"long wait":         func(c *Config) { c.Wait = api.WaitMax + 1 },
		"beat":              func(c *Config) { c.Beat = -1 },
		"no host":           func(c *Config) { c.Hosts = nil },
		"many hosts":        func(c *Config) { c.Hosts = config(newZone(), c.Hosts[0].Driver, api.HostsPerAgentMax+1).Hosts },
		"host name":         func(c *Config) { c.Hosts = []Host{{Driver: fake.New(fake.Options{})}} },
		"host twice":        func(c *Config) { c.Hosts = append(c.Hosts, c.Hosts[0]) },
		"no driver":         func(c *Config) { c.Hosts = []Host{{AgentHost: c.Hosts[0].AgentHost}} },
		"many attributes":   func(c *Config) { c.Hosts = facts(c, many(api.AttributesMax+1), nil) },
		"long attribute":    func(c *Config) { c.Hosts = facts(c, map[string]string{"a": text(api.ExtraSpecMaxBytes + 1)}, nil) },
		"many traits":       func(c *Config) { c.Hosts = facts(c, nil, slices.Sorted(maps.Keys(many(api.TraitsMax+1)))) },
		"trait":             func(c *Config) { c.Hosts = facts(c, nil, []string{"custom"}) },
	} {
		c := good
		spoil(&c)
		_, err := New(c)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), name)
	}
	good.Calls, good.Wait = CallsMax, api.WaitMax
	good.Addresses = strings.Split(strings.Repeat("a:1,", AddressesMax-1)+"[::1]:1", ",")
	_, err := New(good)
	require.NoError(t, err)
	good.Hosts = facts(&good, many(api.AttributesMax), slices.Sorted(maps.Keys(many(api.TraitsMax))))
	_, err = New(good)
	require.NoError(t, err)
	good = config(newZone(), good.Hosts[0].Driver, api.HostsPerAgentMax)
	_, err = New(good)
	require.NoError(t, err)
}

func text(n int) string { return strings.Repeat("x", n) }

// many returns n pairs, the first of them as long as can be.
func many(n int) map[string]string {
	m := map[string]string{strings.Repeat("A", api.ExtraSpecMaxBytes): text(api.ExtraSpecMaxBytes)}
	for i := range n - 1 {
		m[fmt.Sprint("A", i)] = ""
	}
	return m
}

// facts returns the first host of c with these attributes and traits alone.
func facts(c *Config, attributes map[string]string, traits []string) []Host {
	h := c.Hosts[0]
	h.Attributes, h.Traits = attributes, traits
	return []Host{h}
}

func TestParseAttributes(t *testing.T) {
	got, err := ParseAttributes([]string{"price=3.5", "rack=", "query=a=b"})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"price": "3.5", "rack": "", "query": "a=b"}, got)
	var pairs []string
	for k, v := range many(api.AttributesMax) {
		pairs = append(pairs, k+"="+v)
	}
	_, err = ParseAttributes(pairs)
	require.NoError(t, err)
	for want, bad := range map[string][]string{
		"must be key=value": {"price"}, `attribute "=3"`: {"=3"}, "given twice": {"a=1", "a=1"},
		"at most 128 entries": append(pairs, "b=1"), "keys must be": {text(api.ExtraSpecMaxBytes+1) + "=1"},
		"values at most": {"a=" + text(api.ExtraSpecMaxBytes+1)},
	} {
		_, err = ParseAttributes(bad)
		require.ErrorContains(t, err, want)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
	}
}

func TestDescribe(t *testing.T) {
	var bare api.AgentHost
	Describe(&bare, map[string]string{"a": "1"}, nil)
	assert.Equal(t, map[string]string{"a": "1"}, bare.Attributes)
	h := FakeHosts("host", 1, nil)[0]
	assert.Equal(t, driverFake, h.Attributes[attributeHypervisor])
	assert.Equal(t, "linux", h.Attributes[attributeOS])
	assert.NotContains(t, []string{"", "amd64", "arm64"}, h.Attributes[attributeArch])
	was := h.Attributes
	Describe(&h, map[string]string{attributeArch: "s390x", "ip": "10.0.0.7"}, []string{"B", "A", "B"})
	assert.Equal(t, "s390x", h.Attributes[attributeArch], "what is given wins")
	assert.Equal(t, "10.0.0.7", h.Attributes["ip"])
	assert.Equal(t, []string{"A", "B", api.TraitVolumes}, h.Traits)
	assert.NotEqual(t, "s390x", was[attributeArch], "hosts do not share them")
}

func TestParseShape(t *testing.T) {
	got, err := ParseShape("vcpus=64, memory_mb=262144,disk_gb=2000,CUSTOM_FPGA=2")
	require.NoError(t, err)
	assert.Equal(t, Inventory{
		api.VCPU: {Total: 64}, api.MemoryMB: {Total: 262144}, api.DiskGB: {Total: 2000}, "CUSTOM_FPGA": {Total: 2},
	}, got)
	_, err = ParseShape(fmt.Sprintf("vcpus=%d", int64(api.AmountMax)))
	require.NoError(t, err)
	var b strings.Builder
	b.WriteString("vcpus=1")
	for i := range api.ClassesMax - 1 {
		fmt.Fprintf(&b, ",CUSTOM_%d=1", i)
	}
	many := b.String()
	_, err = ParseShape(many)
	require.NoError(t, err)
	for shape, want := range map[string]string{
		"":                "name=amount pairs",
		"vcpus":           "name=amount pairs",
		"vcpus=4,":        "name=amount pairs",
		"cores=4":         `names "cores"`,
		"CUSTOM_x=4":      `names "CUSTOM_x"`,
		"VCPU=4":          `names "VCPU"`,
		"vcpus=0":         "from 1 to",
		"vcpus=-1":        "from 1 to",
		"vcpus=4.5":       "whole number",
		"vcpus=4,vcpus=5": "twice",
		fmt.Sprintf("vcpus=%d", int64(api.AmountMax)+1): "from 1 to",
		many + ",CUSTOM_X=1":                            "at most 32 classes",
	} {
		_, err := ParseShape(shape)
		require.ErrorContains(t, err, want, shape)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), shape)
	}
}

func TestMachine(t *testing.T) {
	h, err := Machine("here", t.TempDir(), api.Resources{api.MemoryMB: 256})
	require.NoError(t, err)
	assert.Equal(t, int64(256), h.Inventory[api.MemoryMB].Reserved)
	assert.Equal(t, api.AgentHost{
		Name: "here", Inventory: h.Inventory, Driver: driverProcess, Pool: api.PoolShared,
		Attributes: detectHost(driverProcess), Traits: []string{api.TraitVolumes},
	}, h)
	assert.Equal(t, driverProcess, h.Attributes[attributeHypervisor])
	assert.Equal(t, api.VolumesUnbounded, h.Attributes[api.AttributeVolumes])
	assert.Len(t, h.Inventory, 3)
	for _, c := range []api.ResourceClass{api.VCPU, api.MemoryMB, api.DiskGB} {
		total := h.Inventory[c].Total
		assert.Positive(t, total)
		if c == api.DiskGB {
			continue // others write to the disk
		}
		for reserve, ok := range map[int64]bool{-1: false, 0: true, total: true, total + 1: false} {
			_, err = Machine("here", t.TempDir(), api.Resources{c: reserve})
			assert.Equal(t, ok, err == nil, "%d of %d %s", reserve, total, c)
		}
	}
	for c, i := range h.Inventory {
		require.NoError(t, i.Validate(c))
	}
	for _, reserve := range []api.Resources{{api.MemoryMB: 1 << 40}, {api.VCPU: -1}, {"CUSTOM_X": 1}} {
		_, err = Machine("here", t.TempDir(), reserve)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
	}
	_, err = Machine("not a name", t.TempDir(), nil)
	assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
	_, err = Machine("here", "/no/such/folder", nil)
	require.Error(t, err)
}

func TestFakeHosts(t *testing.T) {
	hosts := FakeHosts("host", 2, Inventory{api.VCPU: {Total: 4}})
	assert.Equal(t, api.AgentHost{
		Name: "host-0001", Inventory: Inventory{api.VCPU: {Total: 4}}, Driver: driverFake, Pool: api.PoolShared,
		Attributes: detectHost(driverFake), Traits: []string{api.TraitVolumes},
	}, hosts[0])
	assert.Equal(t, "host-0002", hosts[1].Name)
	hosts[0].Inventory[api.VCPU] = api.Inventory{}
	assert.Equal(t, int64(4), hosts[1].Inventory[api.VCPU].Total, "each has its own")
	assert.Empty(t, FakeHosts("host", -1, nil))
}

// TestRefusals asks a real listener with mutual TLS, which answers badly.
func TestRefusals(t *testing.T) {
	var status int
	var media, body string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "HTTP/1.1", r.Proto)
		assert.Equal(t, api.MediaCBOR, r.Header.Get("Content-Type"))
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	defer server.Close()
	conf := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	conf.Certificates = server.TLS.Certificates
	conf.ServerName = "example.com"
	transport := newTransport(conf, nil)
	defer transport.CloseIdleConnections()

	refused := api.ErrorBody{Error: api.ErrorDetail{Code: api.CodeForbidden, Message: "not your host"}}
	inCBOR, err := codec.Marshal(refused)
	require.NoError(t, err)
	inJSON, err := json.Marshal(refused)
	require.NoError(t, err)
	addr := server.Listener.Addr().String()
	for _, c := range []struct {
		status            int
		media, body, want string
		stays             bool
	}{
		{403, api.MediaCBOR, string(inCBOR), "not your host", true},
		{403, "application/json; charset=utf-8", string(inJSON), "not your host", true},
		{403, "text/plain", "no", "status 403 without an error body", true},
		{403, "application/cbor; x", string(inCBOR), "not your host", true},
		{403, api.MediaCBOR, string(inJSON), "status 403 without an error body", true},
		{403, "application/json", string(inCBOR), "status 403 without an error body", true},
		{403, "application/json", "{}", "status 403 without an error body", true},
		{403, "text/plain", string(inJSON), "status 403 without an error body", true},
		{403, "", string(inJSON), "status 403 without an error body", true},
		{499, "text/plain", "no", "status 499 without an error body", true},
		{500, api.MediaCBOR, string(inCBOR), "not your host", false},
		{503, "text/plain", "no", "status 503 without an error body", false},
		{302, "text/plain", "", "status 302", true},
		{200, api.MediaCBOR, "\xff", "decoding", false},
		{421, api.MediaCBOR, "\xff", "decoding", false},
	} {
		l := newLink([]string{addr, "other:1"}, transport)
		status, media, body = c.status, c.media, c.body
		var ack api.AgentAck
		err := l.postTo(t.Context(), api.PathAgentReport, api.AgentReport{}, &ack)
		require.ErrorContains(t, err, c.want, c.status)
		assert.Equal(t, c.stays, l.nextAddress() == addr, "%d", c.status)
	}
}

func TestAddresses(t *testing.T) {
	l := newLink([]string{"a:1", "b:1"}, nil)
	l.learnAddresses([]string{"b:1", "c:1", "nonsense", "x:1/path", "user@x:1"})
	l.leaveAddress("a:1")
	assert.Equal(t, "b:1", l.nextAddress())
	l.leaveAddress("a:1")
	assert.Equal(t, "b:1", l.nextAddress(), "somebody has left it already")
	l.leaveAddress("b:1")
	_, at := l.nextPlace()
	l.leaveAddress("a:1")
	addr, now := l.nextPlace()
	assert.Equal(t, "c:1", addr, "a late word of an address that was left moves nobody")
	assert.Same(t, at, now, "and ends no call")
	l.leaveAddress("c:1")
	assert.Equal(t, "a:1", l.nextAddress())
	var many []string
	for i := range AddressesMax + 1 {
		many = append(many, fmt.Sprintf("n:%d", i+1))
	}
	l.learnAddresses(many)
	assert.Len(t, l.learned, AddressesMax)
	l.learnAddresses(nil)
	assert.Len(t, l.learned, AddressesMax, "nothing is no news")
}

func TestDelay(t *testing.T) {
	r := retry{rand: func() float64 { return 0 }}
	assert.Equal(t, retryFirst/2, r.nextDelay())
	assert.Equal(t, retryFirst, r.nextDelay())
	r.rand = func() float64 { return 0.999999 }
	for range 100 {
		assert.LessOrEqual(t, r.nextDelay(), retryLast)
	}
	assert.Greater(t, r.nextDelay(), retryLast*9/10)
}

func TestFence(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	defer root.Close()
	f, err := openFence(root)
	require.NoError(t, err)
	for _, c := range []struct {
		term       uint64
		raised, ok bool
	}{{3, true, true}, {3, false, true}, {2, false, false}, {1<<63 + 9, true, true}, {1 << 63, false, false}} {
		raised, refused := f.admitTerm(c.term)
		assert.Equal(t, c.raised, raised)
		assert.Equal(t, c.ok, refused == nil)
	}
	f, err = openFence(root)
	require.NoError(t, err)
	assert.Equal(t, uint64(1<<63+9), f.highestTerm())
	info, err := root.Stat(termFile)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	require.NoError(t, root.WriteFile(termFile, []byte("nine"), 0o600))
	_, err = openFence(root)
	require.Error(t, err, "a damaged term is not term 0")
}

func TestFenceThatCannotBeKept(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	f, err := openFence(root)
	require.NoError(t, err)
	require.NoError(t, root.Close())
	_, err = f.admitTerm(5)
	require.Error(t, err)
	assert.Zero(t, f.highestTerm(), "a term that is not on disk was not seen")
}

func TestJournalTurns(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	j, err := openJournal(root, func() time.Time { return time.Unix(0, 0) }, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	j.writeLine(line{Event: eventTerm})
	j.max = 2 * j.size
	one := j.size
	j.writeLine(line{Event: eventTerm}) // at the limit
	assert.NoFileExists(t, filepath.Join(dir, journalOldFile))
	j.writeLine(line{Event: eventTerm}) // one past it
	for name, size := range map[string]int64{journalOldFile: 2 * one, journalFile: one} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Equal(t, size, info.Size(), name)
	}
	require.NoError(t, j.closeFile())
	require.NoError(t, j.closeFile())
}

// TestLostAcknowledgementLeavesDoubt: the zone may have heard what it did not
// acknowledge, so a return to what it had acknowledged before is news to it.
func TestLostAcknowledgementLeavesDoubt(t *testing.T) {
	d := fake.New(fake.Options{})
	b := newLedger([]api.HostID{"h"}, []driver.Driver{d})
	b.applyStates(d, 0, nil)
	list := func(generation uint64, w api.Workload) {
		b.applyLists(api.AgentWorkload{Hosts: []api.HostWorkload{{Host: "h", Generation: generation, Instances: []api.Workload{w}}}}, b.nextQuestion(), time.Time{})
	}
	list(1, work("a"))
	b.endCall(b.nextEntry(start), api.StatusActive, "")
	b.noteAcked(b.pendingReports(1))
	list(2, stopping("a"))
	b.endCall(b.nextEntry(stop), api.StatusDeleted, "")
	require.Len(t, b.pendingReports(1), 1) // it arrives, and its acknowledgement is lost
	list(3, work("a"))
	b.endCall(b.nextEntry(start), api.StatusActive, "")
	require.Equal(t, []api.InstanceReport{{Host: "h", Instance: "a", Status: api.StatusActive}}, b.pendingReports(1))
}

// TestReportsNameTheirStay: what is said answers the list that was seen, and what was
// said of one stay is not known of the next.
func TestReportsNameTheirStay(t *testing.T) {
	d := fake.New(fake.Options{})
	b := newLedger([]api.HostID{"h"}, []driver.Driver{d})
	b.applyStates(d, 0, nil)
	list := func(generation, stay uint64, w api.Workload) {
		w.Stay = stay
		b.applyLists(api.AgentWorkload{Hosts: []api.HostWorkload{{Host: "h", Generation: generation, Instances: []api.Workload{w}}}}, b.nextQuestion(), time.Time{})
	}
	says := func(st api.Status, stay uint64) []api.InstanceReport {
		return []api.InstanceReport{{Host: "h", Instance: "a", Status: st, Stay: stay}}
	}
	list(1, 1, work("a"))
	b.endCall(b.nextEntry(start), api.StatusActive, "")
	require.Equal(t, says(api.StatusActive, 1), b.pendingReports(1))
	b.noteAcked(says(api.StatusActive, 1))
	list(2, 1, stopping("a"))
	b.endCall(b.nextEntry(stop), api.StatusDeleted, "")
	require.Equal(t, says(api.StatusDeleted, 1), b.pendingReports(1)) // under way for long
	list(3, 3, stopping("a"))                                         // it was sent here again, and away again
	b.noteAcked(says(api.StatusDeleted, 1))
	require.Equal(t, says(api.StatusDeleted, 3), b.pendingReports(1))
	b.noteAcked(says(api.StatusDeleted, 3))
	require.Empty(t, b.pendingReports(1))
	list(4, 5, work("a"))
	b.endCall(b.nextEntry(start), api.StatusActive, "")
	require.Equal(t, says(api.StatusActive, 5), b.pendingReports(1))
}

// TestBook plays random lists, driver calls that succeed, fail or go wrong,
// exits and lost acknowledgements, and then lets everything come right: what is
// listed runs or has ended, nothing else is there, and the zone has been told.
func TestBook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := fake.New(fake.Options{})
		b := newLedger([]api.HostID{"h1", "h2"}, []driver.Driver{d, d})
		told := map[string]api.Status{}
		there := map[string]driver.State{} // what the driver holds
		lists := map[api.HostID]api.HostWorkload{}
		gen := uint64(0)
		key := func(h api.HostID, i api.InstanceID) string { return string(h) + "/" + string(i) }
		observe := func() {
			var all []driver.State
			for _, s := range there {
				all = append(all, s)
			}
			b.applyStates(d, b.seq, all)
		}
		obey := func(h api.HostID, l []api.Workload) {
			gen++
			lists[h] = api.HostWorkload{Host: h, Generation: gen, Instances: l}
			b.applyLists(api.AgentWorkload{Generation: gen, Hosts: []api.HostWorkload{lists[h]}}, b.nextQuestion(), time.Time{})
		}
		carry := func(a action, outcome int) bool {
			e := b.nextEntry(a)
			if e == nil {
				return false
			}
			k, s := key(e.host, e.work.Instance), driver.State{Host: e.host, Instance: e.work.Instance, Status: api.StatusActive}
			_, holds := there[k]
			require.Equal(t, a == stop, holds || e.have == api.StatusError, "no second start, no idle stop")
			switch {
			case outcome == 2: // nothing came of it
				b.endCall(e, there[k].Status, there[k].Fault)
			case a == stop:
				delete(there, k)
				b.endCall(e, api.StatusDeleted, "")
			case outcome == 1:
				s.Status, s.Fault = api.StatusError, "no"
				there[k] = s
				b.endCall(e, s.Status, s.Fault)
			default:
				there[k] = s
				b.endCall(e, s.Status, "")
			}
			return true
		}
		tell := func(lost bool, limit int) bool {
			items := b.pendingReports(limit)
			require.LessOrEqual(t, len(items), limit)
			for _, r := range items {
				if r.Status == api.StatusDeleted {
					require.NotContains(t, there, key(r.Host, r.Instance), "gone is said of what is gone")
				}
				told[key(r.Host, r.Instance)] = r.Status
			}
			if !lost {
				b.noteAcked(items)
			}
			return len(items) > 0
		}
		if rapid.Bool().Draw(t, "survivors") {
			for _, i := range []string{"h1-i0", "h1-i1"} {
				there["h1/"+i] = driver.State{Host: "h1", Instance: api.InstanceID(i), Status: api.StatusActive}
			}
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			host := api.HostID(rapid.SampledFrom([]string{"h1", "h2"}).Draw(t, "host"))
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				var l []api.Workload
				for i := range 4 {
					switch rapid.IntRange(0, 3).Draw(t, "listed") {
					case 0, 1:
						l = append(l, work(fmt.Sprintf("%s-i%d", host, i)))
					case 2:
						l = append(l, stopping(fmt.Sprintf("%s-i%d", host, i)))
					}
				}
				obey(host, l)
			case 1:
				lane := rapid.SampledFrom([]action{start, stop}).Draw(t, "lane")
				carry(lane, rapid.IntRange(0, 2).Draw(t, "outcome"))
			case 2:
				k := key(host, api.InstanceID(host)+"-"+rapid.SampledFrom([]api.InstanceID{"i0", "i1"}).Draw(t, "exits"))
				if s, ok := there[k]; ok && s.Status == api.StatusActive {
					s.Status = api.StatusShutoff
					there[k] = s
				}
			case 3:
				observe()
			case 4:
				tell(rapid.Bool().Draw(t, "lost"), rapid.IntRange(1, 3).Draw(t, "limit"))
			}
		}
		observe()
		for _, h := range []api.HostID{"h1", "h2"} {
			if _, ok := lists[h]; !ok {
				obey(h, nil)
			}
		}
		for carry(stop, 0) || carry(start, 0) || tell(false, 2) {
		}
		listed := map[string]bool{}
		for h, l := range lists {
			for _, w := range l.Instances {
				k := key(h, w.Instance)
				listed[k] = true
				if w.Stop {
					require.NotContains(t, there, k)
					require.Equal(t, api.StatusDeleted, told[k])
				} else {
					require.Contains(t, there, k)
					require.Equal(t, there[k].Status, told[k])
				}
			}
		}
		for k := range there {
			require.True(t, listed[k], "%s is not listed", k)
		}
		for _, h := range b.hosts {
			for id, e := range h.entries {
				require.True(t, e.listed, "%s is not forgotten", id)
			}
		}
	})
}

// TestAckOfAHostThatIsGone: what the zone has taken of a host that is not this agent's
// any more changes nothing.
func TestAckOfAHostThatIsGone(t *testing.T) {
	b := newLedger(nil, nil)
	b.noteAcked([]api.InstanceReport{{Host: "gone", Instance: "a", Status: api.StatusActive}})
	assert.Empty(t, b.pendingReports(api.ReportsMax))
}

// listing returns an answer with the list of one host.
func listing(host api.HostID, generation uint64, instances ...api.Workload) api.AgentWorkload {
	return api.AgentWorkload{Generation: generation, Hosts: []api.HostWorkload{{Host: host, Generation: generation, Instances: instances}}}
}

// TestACallThatOutlivesItsLedger: it changes nothing in the ledger of now, and all drivers are listed to see what came of it.
func TestACallThatOutlivesItsLedger(t *testing.T) {
	for _, now := range []api.HostID{"h", "another"} {
		d := fake.New(fake.Options{})
		old := newLedger([]api.HostID{"h"}, []driver.Driver{d})
		old.applyStates(d, 0, nil)
		old.applyLists(listing("h", 1, work("a")), old.nextQuestion(), time.Time{})
		e := old.nextEntry(start)
		require.NotNil(t, e)
		b := newLedger([]api.HostID{now}, []driver.Driver{d})
		b.applyStates(d, 0, nil)
		b.applyLists(listing(now, 1, work("a")), b.nextQuestion(), time.Time{})
		own := b.nextEntry(start)
		require.NotNil(t, own)
		b.endCall(e, api.StatusActive, "")
		assert.Equal(t, map[driver.Driver]bool{d: true}, b.again, now)
		assert.Empty(t, b.pendingReports(1), now)
		assert.True(t, b.hasCalls(), "its own call of %s is under way", now)
		b.endCall(own, api.StatusActive, "")
		assert.Len(t, b.pendingReports(1), 1, now)
		assert.False(t, b.hasCalls(), now)
	}
}

// TestWhatIsListedNoMoreIsNotReported: an instance that was to be stopped, was killed because its fence expired and is on no list since
// is forgotten. The zone has ended it elsewhere, or does not know it.
func TestWhatIsListedNoMoreIsNotReported(t *testing.T) {
	d := fake.New(fake.Options{})
	b := newLedger([]api.HostID{"h"}, []driver.Driver{d})
	b.applyStates(d, 0, nil)
	b.applyLists(listing("h", 1, fenced("a")), b.nextQuestion(), time.Time{})
	b.endCall(b.nextEntry(start), api.StatusActive, "")
	b.noteAcked(b.pendingReports(1))
	b.lapseFences(testFence)
	e := b.nextEntry(kill)
	require.NotNil(t, e)
	ending := fenced("a")
	ending.Stop = true
	b.applyLists(listing("h", 2, ending), b.nextQuestion(), time.Time{})
	b.applyLists(listing("h", 3), b.nextQuestion(), time.Time{})
	e.lapsed = false
	b.endCall(e, "", "")
	assert.Empty(t, b.pendingReports(1))
	assert.Empty(t, b.absent)
	assert.Empty(t, b.hosts["h"].entries)
}

// TestLostDuringACall: what its driver does not list any more while volumes are attached to it is started again after that.
func TestLostDuringACall(t *testing.T) {
	d := fake.New(fake.Options{})
	b := newLedger([]api.HostID{"h"}, []driver.Driver{d})
	b.applyStates(d, 0, nil)
	b.applyLists(listing("h", 1, work("a")), b.nextQuestion(), time.Time{})
	b.endCall(b.nextEntry(start), api.StatusActive, "")
	with := work("a")
	with.Volumes = []api.InstanceID{"v"}
	b.applyLists(listing("h", 2, with), b.nextQuestion(), time.Time{})
	e := b.nextEntry(attach)
	require.NotNil(t, e)
	b.applyStates(d, b.seq, nil)
	assert.Nil(t, b.nextEntry(start), "the call is under way")
	b.endCall(e, e.have, e.fault)
	assert.Same(t, e, b.nextEntry(start))
}

// TestALaneHasEachOnce: what is to be done is in its lane once, however often the zone
// says it.
func TestALaneHasEachOnce(t *testing.T) {
	d := fake.New(fake.Options{})
	b := newLedger([]api.HostID{"h"}, []driver.Driver{d})
	b.applyStates(d, 0, nil)
	for n := range uint64(3) {
		b.applyLists(api.AgentWorkload{Generation: n + 1, Hosts: []api.HostWorkload{{Host: "h", Generation: n + 1, Instances: []api.Workload{work("a")}}}}, b.nextQuestion(), time.Time{})
	}
	assert.Len(t, b.lanes[start], 1)
}
