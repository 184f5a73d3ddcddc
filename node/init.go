package node

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"berth/api"
	"berth/api/client"
	"berth/buildplan/seal"
	"berth/costs"
	"berth/identity"
	"berth/raftstore/command"
)

// Labels bind a wrapped secret to its use.
const (
	labelEpoch = "berth/epoch"
	labelCAKey = "berth/ca-key"
)

// EpochsKept is how many sealing keys a zone keeps, the active one included, when
// nothing is left that older ones have sealed.
const EpochsKept = 2

// InitOptions say what zone Init makes.
type InitOptions struct {
	Dir     string
	Name    string     // of the zone
	Node    api.NodeID // of its first node; default "node-1"
	Listen  Addresses
	Names   []string         // host names and IPs in the public API's certificate, besides those of Listen.API
	Costs   []api.CostWeight // default: costs.DefaultWeights
	PlanKey []byte           // build_plan_encryption_key; nil makes random keys
	Now     time.Time
}

// Init makes the data directory of a new zone's first node: a certificate
// authority, certificates, keys, and the zone's first command, which is logged
// when the node starts. It returns the first admin token, which is kept nowhere.
func Init(o InitOptions) (adminToken string, err error) {
	if err = api.CheckName("zone name", o.Name); err != nil {
		return "", err
	}
	if o.Node == "" {
		o.Node = "node-1"
	}
	if len(o.Costs) == 0 {
		o.Costs = costs.DefaultWeights()
	}
	if _, err = costs.New(o.Costs); err != nil {
		return "", err
	}
	if err = newDir(o.Dir); err != nil {
		return "", err
	}
	id := api.ZoneID(api.NewUUID())
	ca, err := identity.NewCA(id, o.Now)
	if err != nil {
		return "", err
	}
	var kek [32]byte
	_, _ = rand.Read(kek[:]) // never fails: crypto/rand ends the process instead
	first, token, err := firstCommand(o, id, ca, kek)
	if err != nil {
		return "", err
	}
	if err = ownCertificates(o, ca); err != nil {
		return "", err
	}
	if err = writeFile(filepath.Join(o.Dir, fileKEK), kek[:]); err != nil {
		return "", err
	}
	b, err := command.Encode(*first)
	if err != nil {
		return "", err
	}
	if err := writeFile(filepath.Join(o.Dir, fileInit), b); err != nil {
		return "", err
	}
	// Last, because it makes the directory a node's.
	r := record{Zone: id, ZoneName: o.Name, Node: o.Node, Listen: o.Listen}
	return token, r.write(o.Dir)
}

func firstCommand(o InitOptions, id api.ZoneID, ca *identity.CA, kek [32]byte) (*command.Init, string, error) {
	caKey, err := ca.KeyDER()
	if err != nil {
		return nil, "", err
	}
	epoch, err := newEpoch(id, o.PlanKey, kek, o.Now)
	if err != nil {
		return nil, "", err
	}
	text, tokenID, hash := identity.NewToken()
	at := api.InstantOf(o.Now)
	return &command.Init{
		Stamp: command.Stamp{At: at}, Zone: id, Name: o.Name,
		Config: api.ZoneConfig{Costs: o.Costs},
		Admin: api.Token{
			ID: tokenID, Hash: hash, User: "admin", Project: "admin", Roles: []api.UserRole{api.RoleAdmin},
			Created: at, Expires: api.Forever,
		},
		Epoch: epoch, CA: ca.CertDER(), CAKey: seal.Wrap(kek, labelCAKey, caKey, nonce()),
	}, text.Reveal(), nil
}

// newEpoch makes a sealing key: random, or derived from the operator's.
func newEpoch(zone api.ZoneID, operatorKey []byte, kek [32]byte, now time.Time) (command.Epoch, error) {
	var k seal.Key
	_, _ = rand.Read(k.Epoch[:])  // never fails: crypto/rand ends the process instead
	_, _ = rand.Read(k.Secret[:]) // never fails: crypto/rand ends the process instead
	if operatorKey != nil {
		var err error
		if k, err = seal.DeriveKey(operatorKey, zone, k.Epoch); err != nil {
			return command.Epoch{}, err
		}
	}
	plain := append(append([]byte(nil), k.Epoch[:]...), k.Secret[:]...)
	return command.Epoch{
		ID: k.Epoch[:], Wrapped: seal.Wrap(kek, labelEpoch, plain, nonce()), Created: api.InstantOf(now),
	}, nil
}

func nonce() (n [24]byte) {
	_, _ = rand.Read(n[:]) // never fails: crypto/rand ends the process instead
	return n
}

// ownCertificates issues the first node's certificates.
func ownCertificates(o InitOptions, ca *identity.CA) error {
	key, err := identity.NewKey()
	if err != nil {
		return err
	}
	certs, err := issueNode(ca, string(o.Node), key.Public(), apiNames(o.Listen.API, o.Names), o.Now)
	if err != nil {
		return err
	}
	for _, der := range certs {
		c, err := identity.NewCredentials(key, der, ca.CertDER())
		if err != nil {
			return err
		}
		if err := c.SaveDir(o.Dir); err != nil {
			return err
		}
	}
	return nil
}

// apiNames returns the names that the public API's certificate stands for.
func apiNames(listen string, more []string) []string {
	names := append([]string{"localhost", "127.0.0.1"}, more...)
	if host, _, err := net.SplitHostPort(listen); err == nil && host != "" && host != "127.0.0.1" && host != "localhost" {
		if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
			names = append(names, host)
		}
	}
	return names
}

// issueNode issues the three certificates of a node, by role.
func issueNode(ca *identity.CA, id string, pub crypto.PublicKey, names []string, now time.Time) (map[string][]byte, error) {
	out := map[string][]byte{}
	// Other zones see the certificate of the gateway: it must not say which node it is.
	for role, name := range map[identity.Role]string{identity.RoleNode: id, identity.RoleGateway: api.NewUUID()} {
		der, err := ca.Issue(identity.Subject{Zone: ca.Zone(), Role: role, ID: name}, pub, now, identity.LeafTTL)
		if err != nil {
			return nil, err
		}
		out[string(role)] = der
	}
	der, err := ca.IssueAPI(id, names, pub, now, identity.LeafTTL)
	if err != nil {
		return nil, err
	}
	out[string(identity.RoleAPI)] = der
	return out, nil
}

// JoinOptions say how a new node or agent joins a zone.
type JoinOptions struct {
	Dir    string
	Token  string    // of berth join-token
	Listen Addresses // nodes only
	Names  []string  // nodes only: names in the public API's certificate
	Plain  bool      // the zone's public API speaks plain HTTP; only on loopback
	Now    func() time.Time
	Net    Network // in place of TCP; nil for TCP
}

// JoinNode makes the data directory of a further node of a zone, with a join
// token. The node is added to the zone when it starts.
func JoinNode(ctx context.Context, o JoinOptions) error {
	if err := newDir(o.Dir); err != nil {
		return err
	}
	t, err := identity.ParseJoinToken(o.Token)
	if err != nil {
		return err
	}
	if t.Kind != api.JoinNode {
		return api.Errorf(api.CodeInvalid, "the join token is for a %s, not for a node", t.Kind)
	}
	a, err := join(ctx, o, t, apiNames(o.Listen.API, o.Names))
	if err != nil {
		return err
	}
	if err = writeFile(filepath.Join(o.Dir, fileKEK), a.KEK); err != nil {
		return err
	}
	r := record{Zone: a.Zone, ZoneName: a.ZoneName, Node: api.NodeID(a.ID), Listen: o.Listen, Join: a.Addresses}
	return r.write(o.Dir)
}

// AgentHome is what an agent keeps in its directory to find its zone.
type AgentHome struct {
	Zone      api.ZoneID  `json:"zone_id"`
	Agent     api.AgentID `json:"agent"`
	Addresses []string    `json:"addresses"` // agent listeners of the zone
}

// JoinAgent makes the directory of an agent, with a join token.
func JoinAgent(ctx context.Context, o JoinOptions) (*AgentHome, error) {
	t, err := identity.ParseJoinToken(o.Token)
	if err != nil {
		return nil, err
	}
	if t.Kind != api.JoinAgent {
		return nil, api.Errorf(api.CodeInvalid, "the join token is for a %s, not for an agent", t.Kind)
	}
	a, err := join(ctx, o, t, nil)
	if err != nil {
		return nil, err
	}
	h := &AgentHome{Zone: a.Zone, Agent: api.AgentID(a.ID), Addresses: a.Addresses}
	return h, h.write(o.Dir)
}

func (h *AgentHome) write(dir string) error {
	b, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("writing where the zone is: %w", err)
	}
	return writeFile(filepath.Join(dir, fileAgent), b)
}

// KeepAddresses replaces what JoinAgent has left in a directory of the addresses of
// the zone's agent listeners, in one step. No address changes nothing.
func KeepAddresses(dir string, addresses []string) error {
	if len(addresses) == 0 {
		return nil
	}
	h, err := loadHome(dir)
	if err != nil {
		return err
	}
	h.Addresses = addresses
	return h.write(dir)
}

func loadHome(dir string) (*AgentHome, error) {
	b, err := os.ReadFile(filepath.Join(dir, fileAgent))
	if err != nil {
		return nil, fmt.Errorf("reading where the zone is: %w", err)
	}
	var h AgentHome
	if err = json.Unmarshal(b, &h); err != nil {
		return nil, fmt.Errorf("reading %s: %w", fileAgent, err)
	}
	return &h, nil
}

const fileAgent = "agent.json"

// join sends a certificate request with the token and saves what comes back.
func join(ctx context.Context, o JoinOptions, t identity.JoinToken, names []string) (*api.JoinAnswer, error) {
	key, err := identity.NewKey()
	if err != nil {
		return nil, err
	}
	csr, err := identity.CSR(key)
	if err != nil {
		return nil, err
	}
	body := &api.JoinBody{Token: o.Token, CSR: csr, Names: names}
	var a *api.JoinAnswer
	for _, addr := range t.Addresses {
		want := identity.Subject{Zone: t.Zone, Role: identity.RoleAPI}
		if o.Plain {
			a, err = joinAt(ctx, o.Net, "http://"+addr, body, nil)
		} else {
			a, err = joinAt(ctx, o.Net, "https://"+addr, body, identity.PinTLS(nil, api.ALPNHTTP, t.CA, want, o.Now))
		}
		if err == nil || api.CodeOf(err) == api.CodeUnauthenticated {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	for _, der := range a.Certificates {
		cred, err := identity.NewCredentials(key, der, a.CA)
		if err != nil {
			return nil, err
		}
		if err := cred.SaveDir(o.Dir); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func joinAt(ctx context.Context, network Network, addr string, body *api.JoinBody, t *tls.Config) (*api.JoinAnswer, error) {
	transport := &http.Transport{
		TLSClientConfig: t,
		DialContext:     func(ctx context.Context, _, addr string) (net.Conn, error) { return networkOr(network).Dial(ctx, addr) },
	}
	defer transport.CloseIdleConnections()
	c, err := client.New(client.Config{Addr: addr, HTTP: &http.Client{Transport: transport}})
	if err != nil {
		return nil, err
	}
	a, err := c.Join(ctx, *body)
	if err != nil {
		return nil, err
	}
	return &a, nil
}

// LoadAgent returns what JoinAgent left in a directory, and the agent's
// credentials.
func LoadAgent(dir string) (*AgentHome, *identity.Credentials, error) {
	h, err := loadHome(dir)
	if err != nil {
		return nil, nil, err
	}
	c, err := identity.LoadDir(dir, identity.RoleAgent)
	return h, c, err
}
