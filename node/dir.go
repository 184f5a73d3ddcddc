package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"berth/api"
	"berth/federation"
	"berth/identity"
	"berth/internal/durable"
	"berth/raftstore"
)

// Files of a node's data directory. Everything in it is private to its owner.
const (
	fileNode  = "node.json"  // the node's identity and its listeners
	fileKEK   = "kek"        // the keys that wrap the zone's secrets in the replicated state: federation.KEKs.Bytes
	fileInit  = "init.cbor"  // the zone's first command, until it is in the log
	filePeers = "peers.json" // gossip endpoints that were found good
	dirRaft   = "raft"
)

// record is the content of fileNode.
type record struct {
	Zone      api.ZoneID `json:"zone_id"`
	ZoneName  string     `json:"zone"`
	Node      api.NodeID `json:"node"`
	Listen    Addresses  `json:"listen"`
	Advertise Addresses  `json:"advertise,omitzero"`       // where others dial; filled at a start where empty
	Told      Addresses  `json:"advertise_given,omitzero"` // by the operator: Placement.Advertise
	Names     []string   `json:"api_names"`                // Placement.Names; nil if an earlier release has made the file
	Join      []string   `json:"join,omitempty"`           // node listeners of the zone to join; none for its first node
	Ran       bool       `json:"ran,omitempty"`            // it has taken part in its zone: its log must exist
}

func readRecord(dir string) (*record, error) {
	b, err := os.ReadFile(filepath.Join(dir, fileNode))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, api.Errorf(api.CodeNotFound, "%s holds no node; make one with berth init, or with berth node --join-file", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("reading who the node is: %w", err)
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("reading %s: %w", filepath.Join(dir, fileNode), err)
	}
	return &r, nil
}

func (r *record) writeFile(dir string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("writing who the node is: %w", err)
	}
	return durable.ReplaceFile(filepath.Join(dir, fileNode), 0o600, append(b, '\n'))
}

// newDir makes dir, which must be missing or empty of Berth's files.
func newDir(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, fileNode)); err == nil {
		return api.Errorf(api.CodeConflict, "%s holds a node already", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the data directory: %w", err)
	}
	return nil
}

// keepKEKs returns a function that writes the key-encryption keys of a node, sealed with its
// disk key if it has one.
func keepKEKs(dir string, key *raftstore.DiskKey) func(federation.KEKs) error {
	return func(k federation.KEKs) error {
		return durable.ReplaceFile(filepath.Join(dir, fileKEK), 0o600, key.SealFile(fileKEK, k.Bytes()))
	}
}

func readKEKs(dir string, key *raftstore.DiskKey) (federation.KEKs, error) {
	return ReadKEKs(filepath.Join(dir, fileKEK), key)
}

// pendingInit returns the zone's first command if it has not been logged yet.
func pendingInit(dir string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(dir, fileInit))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the zone's first command: %w", err)
	}
	if err = federation.CheckFirst(b); err != nil {
		return nil, fmt.Errorf("reading the zone's first command from %s: %w", fileInit, err)
	}
	return b, nil
}

// openWallet loads the certificates of a node.
func openWallet(dir string) (*identity.Wallet, error) {
	return identity.OpenWallet(dir, identity.RoleNode, identity.RoleGateway, identity.RoleAPI)
}

// peerFile keeps gossip endpoints, one file for all pools of a node.
type peerFile struct {
	dir  string
	pool string
}

// Load implements gossip.PeerStore.
func (p peerFile) Load() ([]string, error) {
	b, err := os.ReadFile(p.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading gossip peers: %w", err)
	}
	var out []string
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("reading gossip peers: %w", err)
	}
	return out, nil
}

// Save implements gossip.PeerStore.
func (p peerFile) Save(endpoints []string) error {
	b, err := json.Marshal(endpoints)
	if err != nil {
		return fmt.Errorf("writing gossip peers: %w", err)
	}
	return durable.ReplaceFile(p.path(), 0o600, b)
}

func (p peerFile) path() string { return filepath.Join(p.dir, p.pool+"-"+filePeers) }
