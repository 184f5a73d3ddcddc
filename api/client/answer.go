package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"

	"berth/api/rest"
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

// to returns a call of a route of the native API, with ids for the names in its path.
// A read may be repeated.
func to(op, route string, ids ...string) call {
	r := rest.Find(route)
	return call{op: op, route: r, method: r.Method, path: r.Fill(ids...), repeats: r.Method == http.MethodGet}
}

// with returns the call with a body.
func (q call) with(body any) call {
	q.in = body
	return q
}

// repeating returns the call as one that may be repeated if yes is true.
func (q call) repeating(yes bool) call {
	q.repeats = yes
	return q
}

// checkAnswer panics unless the table of routes says that a call is answered with want.
func checkAnswer(q call, want reflect.Type) {
	if is := reflect.TypeOf(q.route.Answer.Body); is != want {
		panic(fmt.Sprintf("client: %s is answered with %s, not %s", q.route.Name(), is, want))
	}
}

// answer makes a call of the native API and returns the one value that it is answered
// with.
func answer[T any](ctx context.Context, c *Client, q call) (T, error) {
	checkAnswer(q, reflect.TypeFor[T]())
	if q.route.Answer.Key == "" {
		return whole[T](ctx, c, q)
	}
	return one[T](ctx, c, q, q.route.Answer.Key)
}

// all makes a call of the native API and returns the list that it is answered with,
// which has no pages.
func all[T any](ctx context.Context, c *Client, q call) ([]T, error) {
	checkAnswer(q, reflect.TypeFor[T]())
	return one[[]T](ctx, c, q, q.route.Answer.Key)
}

// list makes a call of the native API and returns the page that it is answered with.
func list[T any](ctx context.Context, c *Client, q call, o ListOptions) (Page[T], error) {
	checkAnswer(q, reflect.TypeFor[T]())
	return page[T](ctx, c, q, q.route.Answer.Key, o)
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
func remove(op, route string, ids ...string) call {
	q := to(op, route, ids...)
	q.repeats, q.ends = true, true
	return q
}
