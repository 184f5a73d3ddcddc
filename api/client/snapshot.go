package client

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"berth/api"
	"berth/api/rest"
)

// Snapshot writes the zone's whole state to w and returns the number of bytes. After an
// error w has a part of a snapshot, which no zone accepts. It is not repeated, because
// written bytes cannot be withdrawn. Admins only.
func (c *Client) Snapshot(ctx context.Context, w io.Writer) (int64, error) {
	const op = "client.Snapshot"
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	res, err := c.streamCall(ctx, op, "GET /operator/snapshot", nil, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }() // read to its end, or given up
	n, err := io.Copy(w, res.Body)
	if err != nil {
		return n, api.Wrap(api.CodeUnavailable, op, "the snapshot ended early: "+err.Error(), err)
	}
	return n, nil
}

// Restore replaces the zone's whole state with the snapshot in r. Later changes are lost.
// It is not repeated. Admins only.
func (c *Client) Restore(ctx context.Context, r io.Reader) error {
	return c.restoreFrom(ctx, r, nil)
}

// RestoreUnauthenticated is Restore that also takes a file which does not prove that the zone
// wrote it, as those of older releases do not.
func (c *Client) RestoreUnauthenticated(ctx context.Context, r io.Reader) error {
	return c.restoreFrom(ctx, r, url.Values{"unauthenticated": {"true"}})
}

func (c *Client) restoreFrom(ctx context.Context, r io.Reader, query url.Values) error {
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	res, err := c.streamCall(ctx, "client.Restore", "PUT /operator/snapshot", query, r)
	if err != nil {
		return err
	}
	_ = res.Body.Close() // it is empty
	return nil
}

// streamCall makes a call whose body, in one direction, is a snapshot.
func (c *Client) streamCall(ctx context.Context, op, route string, query url.Values, body io.Reader) (*http.Response, error) {
	if body != nil {
		body = struct{ io.Reader }{body} // so that a node that hears nothing leaves it open for the next one
	}
	var res *http.Response
	err := c.nodes.ask(func(node string) (err error) {
		res, err = c.streamCallTo(ctx, node, op, route, query, body)
		return err
	})
	return res, err
}

// streamCallTo is streamCall at one node.
func (c *Client) streamCallTo(ctx context.Context, node, op, route string, query url.Values, body io.Reader) (*http.Response, error) {
	to := rest.Find(route)
	req, err := http.NewRequestWithContext(ctx, to.Method, node+to.Path, body)
	if err != nil {
		return nil, api.Wrap(api.CodeInvalid, op, "the request cannot be made", err)
	}
	req.URL.RawQuery = query.Encode()
	c.signRequest(req)
	req.Header.Set("Accept", "application/octet-stream, application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/octet-stream")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, unreachedError(ctx, node, op, err)
	}
	if res.StatusCode/100 == 2 {
		return res, nil
	}
	defer func() { _ = res.Body.Close() }() // nothing more is read of it
	told, err := io.ReadAll(io.LimitReader(res.Body, AnswerMaxBytes))
	if err != nil {
		return nil, unreachedError(ctx, node, op, err)
	}
	return nil, readRefusal(op, res, told)
}
