package node

import (
	"cmp"
	"context"
	"crypto/ecdsa"
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
	"berth/api/rest"
	"berth/costs"
	"berth/federation"
	"berth/identity"
	"berth/internal/durable"
	"berth/raftstore"
)

// InitOptions describe the zone that Init creates.
type InitOptions struct {
	Dir  string
	Name string     // of the zone
	Node api.NodeID // of its first node; default "node-1"
	Placement
	Costs   []api.CostWeight   // default: costs.DefaultWeights
	PlanKey []byte             // build_plan_encryption_key; nil makes random keys
	DiskKey *raftstore.DiskKey // seals what the node writes to its disk; nil for none
	Now     time.Time

	CertificateTTL time.Duration // of the node's certificates; 0 for identity.LeafTTL
	// CA is the authority of the zone, whose id it has, if the operator brings it; nil to make one.
	CA *identity.CA

	TokenTTL time.Duration // of the first admin token; 0 for one that does not expire
}

// Init makes the data directory of a new zone's first node: a certificate authority,
// certificates, keys, and the zone's first command, which is logged when the node
// starts. It returns the first admin token, which is not stored.
func Init(o InitOptions) (adminToken string, err error) {
	if err = api.CheckName("zone name", o.Name); err != nil {
		return "", err
	}
	if err = o.check(); err != nil {
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
	ca := o.CA
	if ca == nil {
		if ca, err = identity.NewCA(api.ZoneID(api.NewUUID()), o.Now); err != nil {
			return "", err
		}
	}
	keks := federation.NewKEK()
	first, token, err := federation.Found(federation.NewKeys(keks, keepKEKs(o.Dir, o.DiskKey), o.PlanKey), ca, o.Name, o.Costs, o.TokenTTL, o.Now)
	if err != nil {
		return "", err
	}
	if err = issueOwn(o, ca, [][]byte{ca.CertDER()}); err != nil {
		return "", err
	}
	if err = keepKEKs(o.Dir, o.DiskKey)(keks); err != nil {
		return "", err
	}
	if err := durable.ReplaceFile(filepath.Join(o.Dir, fileInit), 0o600, first); err != nil {
		return "", err
	}
	// Last, because it makes the directory a node's.
	r := record{Zone: ca.Zone(), ZoneName: o.Name, Node: o.Node}
	r.place(o.Placement)
	return token, r.writeFile(o.Dir)
}

// issueOwn issues the first node's certificates, and writes them with the authorities that are trusted.
func issueOwn(o InitOptions, ca *identity.CA, trusted [][]byte) error {
	key, err := identity.NewKey()
	if err != nil {
		return err
	}
	certs, err := federation.IssueNode(ca, string(o.Node), key.Public(), o.apiHosts(), o.Now, cmp.Or(o.CertificateTTL, identity.LeafTTL))
	if err != nil {
		return err
	}
	return saveCertificates(o.Dir, key, certs, ca.CertDER(), trusted)
}

// saveCertificates writes new credentials, and the authorities that are trusted.
func saveCertificates(dir string, key *ecdsa.PrivateKey, certs map[string][]byte, ca []byte, trusted [][]byte) error {
	for _, der := range certs {
		c, err := identity.NewCredentials(key, der, ca)
		if err != nil {
			return err
		}
		if err := c.SaveDir(dir); err != nil {
			return err
		}
	}
	return identity.SaveAuthorities(dir, trusted)
}

// JoinOptions describe how a new node or agent joins a zone.
type JoinOptions struct {
	Dir       string
	Token     string // of berth join-token
	Placement        // nodes only
	Plain     bool   // the zone's public API speaks plain HTTP; only on loopback
	Now       func() time.Time
	Net       Network // in place of TCP; nil for TCP

	DiskKey *raftstore.DiskKey // nodes only: seals what the node writes to its disk; nil for none
}

// JoinNode makes the data directory of a further node of a zone, with a join
// token. The node is added to the zone when it starts.
func JoinNode(ctx context.Context, o JoinOptions) error {
	if err := o.check(); err != nil {
		return err
	}
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
	a, err := sendJoin(ctx, o, t, o.apiHosts())
	if err != nil {
		return err
	}
	keks, err := federation.ParseKEKs(a.KEK)
	if err != nil {
		return err
	}
	if err = keepKEKs(o.Dir, o.DiskKey)(keks); err != nil {
		return err
	}
	r := record{Zone: a.Zone, ZoneName: a.ZoneName, Node: api.NodeID(a.ID), Join: a.Addresses}
	r.place(o.Placement)
	return r.writeFile(o.Dir)
}

// AgentHome is the file by which an agent finds its zone.
type AgentHome struct {
	Zone      api.ZoneID  `json:"zone_id"`
	Agent     api.AgentID `json:"agent"`
	Addresses []string    `json:"addresses"` // agent listeners of the zone

	Settings map[string][]string `json:"settings,omitempty"` // of its command line, by flag; nil until it has run
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
	a, err := sendJoin(ctx, o, t, nil)
	if err != nil {
		return nil, err
	}
	h := &AgentHome{Zone: a.Zone, Agent: api.AgentID(a.ID), Addresses: a.Addresses}
	return h, h.writeFiles(o.Dir)
}

func (h *AgentHome) writeFiles(dir string) error {
	b, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("writing where the zone is: %w", err)
	}
	return durable.ReplaceFile(filepath.Join(dir, fileAgent), 0o600, b)
}

// KeepAddresses atomically replaces the addresses of the zone's agent listeners in an
// agent's directory. Without addresses it changes nothing.
func KeepAddresses(dir string, addresses []string) error {
	if len(addresses) == 0 {
		return nil
	}
	h, err := loadHome(dir)
	if err != nil {
		return err
	}
	h.Addresses = addresses
	return h.writeFiles(dir)
}

// KeepSettings atomically replaces the settings in an agent's directory.
func KeepSettings(dir string, settings map[string][]string) error {
	h, err := loadHome(dir)
	if err != nil {
		return err
	}
	h.Settings = settings
	return h.writeFiles(dir)
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

// sendJoin sends a certificate request with the token and saves the returned
// credentials.
func sendJoin(ctx context.Context, o JoinOptions, t identity.JoinToken, names []string) (*rest.JoinAnswer, error) {
	key, err := identity.NewKey()
	if err != nil {
		return nil, err
	}
	csr, err := identity.CSR(key)
	if err != nil {
		return nil, err
	}
	body := &rest.JoinBody{Token: o.Token, CSR: csr, Names: names}
	var a *rest.JoinAnswer
	for _, addr := range t.Addresses {
		if o.Plain {
			a, err = joinAt(ctx, o.Net, "http://"+addr, body, nil)
		} else {
			a, err = joinAt(ctx, o.Net, "https://"+addr, body, identity.JoinTLS(t.Zone, t.Pins, o.Now))
		}
		if err == nil || api.CodeOf(err) == api.CodeUnauthenticated {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	if len(a.Trusted) == 0 { // of an earlier release
		a.Trusted = [][]byte{a.CA}
	}
	return a, saveCertificates(o.Dir, key, a.Certificates, a.CA, a.Trusted)
}

func joinAt(ctx context.Context, network Network, addr string, body *rest.JoinBody, t *tls.Config) (*rest.JoinAnswer, error) {
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

// LoadAgent reads an agent's directory as JoinAgent has made it, and the agent's
// credentials, of RoleAgent.
func LoadAgent(dir string) (*AgentHome, *identity.Wallet, error) {
	h, err := loadHome(dir)
	if err != nil {
		return nil, nil, err
	}
	w, err := identity.OpenWallet(dir, identity.RoleAgent)
	return h, w, err
}
