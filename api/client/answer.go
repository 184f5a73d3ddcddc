package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
)

// ListOptions say which page of a list is wanted. The zero value means the first
// page, of api.PageMax items.
type ListOptions struct {
	Limit  int    // items, 1 to api.PageMax; 0 means api.PageMax
	Marker string // Page.Next of the page before; "" for the first
}

// Page is one page of a list, in the zone's order.
type Page[T any] struct {
	Items []T
	Next  string // the marker of the next page; "" when this is the last
}

func (o ListOptions) query() url.Values {
	q := url.Values{}
	if o.Limit > 0 {
		q.Set("limit", strconv.Itoa(o.Limit))
	}
	if o.Marker != "" {
		q.Set("marker", o.Marker)
	}
	return q
}

// query returns the parameters that have a value.
func query(params map[string]string) url.Values {
	q := url.Values{}
	for name, v := range params {
		if v != "" {
			q.Set(name, v)
		}
	}
	return q
}

// get returns a call that reads; reading repeats.
func get(op string, path ...string) call {
	return call{op: op, method: http.MethodGet, path: path, repeats: true}
}

// one makes q and returns the value that the answer has under key.
func one[T any](ctx context.Context, c *Client, q call, key string) (T, error) {
	var v T
	body, err := c.do(ctx, q)
	if err != nil {
		return v, err
	}
	var answer map[string]json.RawMessage
	if err := json.Unmarshal(body, &answer); err != nil {
		return v, strange(q.op, err)
	}
	if answer[key] == nil {
		return v, strange(q.op, errors.New("the answer has no "+key))
	}
	if err := json.Unmarshal(answer[key], &v); err != nil {
		return v, strange(q.op, err)
	}
	return v, nil
}

// whole makes q and returns the answer itself.
func whole[T any](ctx context.Context, c *Client, q call) (T, error) {
	var v T
	body, err := c.do(ctx, q)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return v, strange(q.op, err)
	}
	return v, nil
}

// page makes q and returns the page that the answer has under key.
func page[T any](ctx context.Context, c *Client, q call, key string, o ListOptions) (Page[T], error) {
	if q.query == nil {
		q.query = url.Values{}
	}
	for k, v := range o.query() {
		q.query[k] = v
	}
	answer, err := whole[map[string]json.RawMessage](ctx, c, q)
	if err != nil {
		return Page[T]{}, err
	}
	var p Page[T]
	if answer[key] == nil {
		return p, strange(q.op, errors.New("the answer has no "+key))
	}
	if err := json.Unmarshal(answer[key], &p.Items); err != nil {
		return p, strange(q.op, err)
	}
	if next := answer["next_marker"]; next != nil {
		if err := json.Unmarshal(next, &p.Next); err != nil {
			return p, strange(q.op, err)
		}
	}
	return p, nil
}

// none makes q, whose answer says nothing.
func (c *Client) none(ctx context.Context, q call) error {
	_, err := c.do(ctx, q)
	return err
}

// remove returns a call that deletes; when a repeat finds nothing left, the call
// before it did the work.
func remove(op string, path ...string) call {
	return call{op: op, method: http.MethodDelete, path: path, repeats: true, ends: true}
}
