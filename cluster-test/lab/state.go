package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"berth/internal/adminsock"
)

// State returns the log index of the newest entry that the node has applied, and a
// checksum of all its state: nodes of one zone with the same index have the same.
func (n *NodeProc) State(ctx context.Context) (index uint64, sum string, err error) {
	body, err := n.askAt(ctx, adminsock.Transport(n.Dir), http.MethodGet, "/state")
	if err != nil {
		return 0, "", err
	}
	var s struct {
		Index  uint64 `json:"index"`
		SHA256 string `json:"sha256"`
	}
	if err := json.Unmarshal(body, &s); err != nil {
		return 0, "", fmt.Errorf("reading the state of %s: %w", n.Name, err)
	}
	return s.Index, s.SHA256, nil
}
