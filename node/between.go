package node

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"berth/api"
	"berth/federation"
	"berth/httpd/wire"
	"berth/internal/codec"
)

// pathKEKs is where nodes exchange their key-encryption keys.
const pathKEKs = "/node/keks"

// askNode posts a message to another node of the zone, and returns the body of its answer.
func (n *Node) askNode(ctx context.Context, addr, path string, message any) ([]byte, error) {
	b, err := codec.Marshal(message)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+addr+path, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", api.MediaCBOR)
	res, err := n.toNodes.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // it was read
	if b, err = io.ReadAll(io.LimitReader(res.Body, headerMaxBytes)); err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusForbidden && res.Header.Get(headerRemoved) == string(n.rec.Node) {
		return nil, errRemoved
	}
	if res.StatusCode != http.StatusNoContent && res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("POST %s: status %d: %s", path, res.StatusCode, b)
	}
	return b, nil
}

// ExchangeKEKs implements federation.Nodes.
func (n *Node) ExchangeKEKs(ctx context.Context, addr string, keks federation.KEKs) (federation.KEKs, error) {
	b, err := n.askNode(ctx, addr, pathKEKs, keks.Bytes())
	if err != nil {
		return nil, err
	}
	var theirs []byte
	if err = codec.Unmarshal(b, &theirs); err != nil {
		return nil, fmt.Errorf("reading the keys of a node: %w", err)
	}
	return federation.ParseKEKs(theirs)
}

// handleKEKs takes the keys of another node of the zone, and answers with those of this one.
func (n *Node) handleKEKs(w http.ResponseWriter, r *http.Request) {
	var b []byte
	err := wire.ReadCBOR(r, headerMaxBytes, &b)
	var theirs, ours federation.KEKs
	if err == nil {
		if theirs, err = federation.ParseKEKs(b); err != nil {
			err = api.Wrap(api.CodeInvalid, "node.handleKEKs", "the body holds no key-encryption keys", err)
		}
	}
	if err == nil {
		ours, err = n.federation.AnswerKEKs(theirs)
	}
	if err != nil {
		wire.Refuse(w, r, err)
		return
	}
	wire.CBOR(w, r, http.StatusOK, ours.Bytes())
}
