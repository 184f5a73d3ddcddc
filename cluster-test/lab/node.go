package lab

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/internal/await"
	"berth/node"
)

// anyPort returns the flags that let a node take free ports of an address at its
// first start and keep them.
func anyPort(addr string) []string {
	var out []string
	for _, name := range []string{"api", "gateway", "node", "agent", "admin"} {
		out = append(out, "--"+name+"-addr", net.JoinHostPort(addr, "0"))
	}
	return out
}

// pingTimeout is how long a client's connection may be silent before it is tried,
// and then given up: a wire that was cut must not hold calls for long.
const pingTimeout = time.Second

// attemptMax is how long one attempt of a client may take. A wait for what must come is longer.
const attemptMax = 30 * time.Second

// answerMaxBytes bounds an answer of the admin listener.
const answerMaxBytes = 1 << 20

// NodeProc is one node, running or not.
type NodeProc struct {
	*Service
	Zone *Zone
	ID   api.NodeID
	Dir  string         // of its data
	At   node.Addresses // where others reach it; set by the first Start
}

// addNode makes a machine for a node.
func (z *Zone) addNode(id string) *NodeProc {
	z.T.Helper()
	name := z.Name + "-" + id
	m, err := z.Machine(name)
	require.NoError(z.T, err)
	n := &NodeProc{Service: m.addService(name), Zone: z, ID: api.NodeID(id), Dir: filepath.Join(m.Dir, "data")}
	if z.many || len(z.Nodes) > 0 {
		n.BePatient()
	}
	if z.opts.Tap {
		require.NoError(z.T, os.MkdirAll(z.TapDir(name), 0o700))
		n.Env = append(n.Env, "BERTH_TAP="+z.TapDir(name))
	}
	return n
}

// Patience is how long a node waits for a word of its leader before it wants to lead: on a busy machine
// all processes stand still now and then.
const Patience = 2 * time.Second

// BePatient has the node wait longer for a leader from its next start on, unless the world is Quick. All nodes
// of zones with several are patient; one that is alone has nobody to wait for.
func (n *NodeProc) BePatient() {
	if !n.Zone.opts.Quick {
		n.Env = append(n.Env, "BERTH_TIMING="+Patience.String())
	}
}

// listenFlags returns the flags that say where the node listens.
func (n *NodeProc) listenFlags() []string {
	switch n.Zone.opts.Machines {
	case Namespaces:
		return []string{"--host", n.Machine.Addr, "--admin-addr", n.Machine.Addr + ":7604"}
	case Loopback:
		at := n.Machine.hidden()
		return []string{
			"--api-addr", at.API, "--gateway-addr", at.Gateway, "--node-addr", at.Node, "--agent-addr", at.Agent, "--admin-addr", at.Admin, "--api-name", n.Machine.Addr,
		}
	case Plain:
	}
	return anyPort(n.Machine.Addr)
}

// joinZone makes the node's directory with a join token, and starts it.
func (n *NodeProc) joinZone(token string) {
	z := n.Zone
	z.T.Helper()
	if z.opts.Machines != Loopback {
		n.Start(append([]string{"--join-file", z.writePrivate(n.Name+".token", token)}, n.listenFlags()...)...)
		return
	}
	require.NoError(z.T, node.JoinNode(z.T.Context(), node.JoinOptions{
		Dir: n.Dir, Token: token, Placement: node.Placement{Listen: n.Machine.hidden(), Names: []string{n.Machine.Addr}}, Now: time.Now,
	}))
	require.NoError(z.T, n.advertiseProxy())
	n.Start()
}

// record has the fields that the lab reads from the file with a node's addresses.
type record struct {
	Advertise node.Addresses `json:"advertise"`
}

func (n *NodeProc) recordPath() string { return filepath.Join(n.Dir, "node.json") }

// advertiseProxy makes the node of a Loopback world advertise the address of its proxy.
func (n *NodeProc) advertiseProxy() error {
	if n.Zone.opts.Machines != Loopback {
		return nil
	}
	text, err := os.ReadFile(n.recordPath())
	if err != nil {
		return fmt.Errorf("telling a node of its proxy: %w", err)
	}
	var rec map[string]any
	if err = json.Unmarshal(text, &rec); err != nil {
		return fmt.Errorf("telling a node of its proxy: %w", err)
	}
	rec["advertise"] = n.Machine.public()
	if text, err = json.Marshal(rec); err != nil {
		return fmt.Errorf("telling a node of its proxy: %w", err)
	}
	return os.WriteFile(n.recordPath(), text, 0o600)
}

// Start starts the node from its directory and waits until it listens. A port
// that was taken in the meantime is tried again.
func (n *NodeProc) Start(more ...string) {
	n.Zone.T.Helper()
	require.NoError(n.Zone.T, n.Up(n.Zone.T.Context(), more...), "%s starts", n.Name)
}

// Up is Start for a separate goroutine: it returns an error if the node ends, or ctx, before it
// listens.
func (n *NodeProc) Up(ctx context.Context, more ...string) error {
	args := append([]string{"node", "--dir", n.Dir}, more...)
	if err := n.launchProcess(args...); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := await.Wait(ctx, func(ctx context.Context) error {
		if p := n.newestProcess(); !p.running() && !n.isSupervised() {
			if n.Zone.opts.Machines != Plain || !p.busyPort() {
				err := fmt.Errorf("%s has ended: %s", n.Name, p.tail(3))
				cancel(err)
				return err
			}
			p.meant.Store(true)
			if err := n.launchProcess(args...); err != nil {
				return err
			}
		}
		return n.locateListeners(ctx)
	})
	if err != nil {
		return fmt.Errorf("waiting until %s listens: %w", n.Name, err)
	}
	return nil
}

// locateListeners reads the addresses of the node, and checks that it listens.
func (n *NodeProc) locateListeners(ctx context.Context) error {
	text, err := os.ReadFile(n.recordPath())
	if err != nil {
		return err
	}
	var rec record
	if err := json.Unmarshal(text, &rec); err != nil {
		return err
	}
	if n.At == (node.Addresses{}) {
		n.At = rec.Advertise
	}
	return n.Health(ctx)
}

// Health returns nil if the node's process answers.
func (n *NodeProc) Health(ctx context.Context) error {
	_, err := n.askAdmin(ctx, http.MethodGet, "/healthz")
	return err
}

// AskReady returns nil if the node knows its zone and a leader.
func (n *NodeProc) AskReady(ctx context.Context) error {
	_, err := n.askAdmin(ctx, http.MethodGet, "/readyz")
	return err
}

// Leads reports whether the node believes that it is the leader of its zone.
func (n *NodeProc) Leads(ctx context.Context) (bool, error) {
	body, err := n.askAdmin(ctx, http.MethodGet, "/metrics")
	return bytes.Contains(body, []byte("\nberth_leader 1\n")), err
}

// Ready waits until the node knows its zone and a leader.
func (n *NodeProc) Ready() {
	n.Zone.T.Helper()
	await.Until(n.Zone.T, n.Name+" is ready", n.AskReady)
}

// askAdmin calls the node's admin listener and returns the body of its answer. A node
// whose disk hangs takes calls and never answers, even when it should have ended.
func (n *NodeProc) askAdmin(ctx context.Context, method, path string) ([]byte, error) {
	if n.At.Admin == "" {
		return nil, fmt.Errorf("%s was never started", n.Name)
	}
	return n.askAt(ctx, &http.Transport{DisableKeepAlives: true, DialContext: n.Zone.dialFunc()}, method, path)
}

// askAt is askAdmin by a way of one's own.
func (n *NodeProc) askAt(ctx context.Context, rt http.RoundTripper, method, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+n.At.Admin+path, nil)
	if err != nil {
		return nil, err
	}
	res, err := rt.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // it was read
	body, err := io.ReadAll(io.LimitReader(res.Body, answerMaxBytes))
	if err != nil {
		return nil, err
	}
	return body, orNil(res.StatusCode < 300, "%s: status %d: %s", path, res.StatusCode, body)
}

// dialFunc returns Dial in the form that HTTP wants.
func (w *World) dialFunc() func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, _, addr string) (net.Conn, error) { return w.Dial(ctx, addr) }
}

// clientKey is what tells the clients of a zone apart.
type clientKey struct {
	at    string // address of the node's API
	token string
}

// Client returns the client of this node with this token, over TLS with the zone's
// own CA. It is shared, and lasts as long as the test.
func (n *NodeProc) Client(token string) *client.Client {
	n.Zone.T.Helper()
	c, err := n.TryClient(token)
	require.NoError(n.Zone.T, err)
	return c
}

// TryClient is Client for any goroutine.
func (n *NodeProc) TryClient(token string) (*client.Client, error) {
	z := n.Zone
	z.mu.Lock()
	defer z.mu.Unlock()
	key := clientKey{n.At.API, token}
	if c := z.clients[key]; c != nil {
		return c, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(z.CACert) {
		return nil, errors.New("the zone's CA is no certificate in PEM")
	}
	c, err := client.New(client.Config{
		Addr: "https://" + n.At.API, Token: token, Timeout: attemptMax,
		HTTP: &http.Client{
			Transport: &http.Transport{
				DialContext: z.dialFunc(), TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots},
				ForceAttemptHTTP2: true, HTTP2: &http.HTTP2Config{SendPingTimeout: pingTimeout, PingTimeout: pingTimeout},
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	})
	if err == nil {
		z.clients[key] = c
	}
	return c, err
}

// hangUp closes the connections of clients.
func (z *Zone) hangUp() {
	z.mu.Lock()
	defer z.mu.Unlock()
	for _, c := range z.clients {
		c.Close()
	}
}
