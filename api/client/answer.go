package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"

	"berth/api/rest"
)

// ListOptions select a page of a list. The zero value means the first page, of api.PageMax
// items.
type ListOptions struct {
	Limit  int    // items, 1 to api.PageMax; 0 means api.PageMax
	Marker string // Page.Next of the previous page; "" for the first
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

// queryOf returns the parameters that have a value.
func queryOf(params map[string]string) url.Values {
	q := url.Values{}
	for name, v := range params {
		if v != "" {
			q.Set(name, v)
		}
	}
	return q
}

// routeCall returns a call of a route of the native API, with ids for the names in its path.
// A read may be repeated.
func routeCall(op, route string, ids ...string) call {
	r := rest.Find(route)
	return call{op: op, route: r, method: r.Method, path: r.Fill(ids...), repeats: r.Method == http.MethodGet}
}

// withBody returns the call with a body.
func (q call) withBody(body any) call {
	q.in = body
	return q
}

// withRepeat returns the call as one that may be repeated if yes is true.
func (q call) withRepeat(yes bool) call {
	q.repeats = yes
	return q
}

// checkAnswer panics unless the table of routes says that a call is answered with want.
func checkAnswer(q call, want reflect.Type) {
	if is := reflect.TypeOf(q.route.Answer.Body); is != want {
		panic(fmt.Sprintf("client: %s is answered with %s, not %s", q.route.Name(), is, want))
	}
}

// callValue makes a call of the native API and returns the one value that it is answered
// with.
func callValue[T any](ctx context.Context, c *Client, q call) (T, error) {
	checkAnswer(q, reflect.TypeFor[T]())
	if q.route.Answer.Key == "" {
		return placementAnswer[T](ctx, c, q)
	}
	return placementValue[T](ctx, c, q, q.route.Answer.Key)
}

// callAll makes a call of the native API and returns the list that it is answered with,
// which has no pages.
func callAll[T any](ctx context.Context, c *Client, q call) ([]T, error) {
	checkAnswer(q, reflect.TypeFor[T]())
	return placementValue[[]T](ctx, c, q, q.route.Answer.Key)
}

// callPage makes a call of the native API and returns the page that it is answered with.
func callPage[T any](ctx context.Context, c *Client, q call, o ListOptions) (Page[T], error) {
	checkAnswer(q, reflect.TypeFor[T]())
	return placementPage[T](ctx, c, q, q.route.Answer.Key, o)
}

// placementValue makes q and returns the value that the answer has under key.
func placementValue[T any](ctx context.Context, c *Client, q call, key string) (T, error) {
	var v T
	body, err := c.doCall(ctx, q)
	if err != nil {
		return v, err
	}
	if err := findValue(body, key, &v); err != nil {
		return v, strangeError(q.op, err)
	}
	return v, nil
}

// findValue decodes into v what the object in body has under key. It reads the body once; what
// is under other keys is skipped.
func findValue(body []byte, key string, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return cmp.Or(err, errors.New("the answer is not an object"))
	}
	found := false
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		into := any(new(json.RawMessage))
		if name == key {
			into, found = v, true
		}
		if err := d.Decode(into); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil { // the end of the object
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return cmp.Or(err, errors.New("the answer goes on after its end"))
	}
	if !found {
		return errors.New("the answer has no " + key)
	}
	return nil
}

// placementAnswer makes q and returns the answer itself.
func placementAnswer[T any](ctx context.Context, c *Client, q call) (T, error) {
	var v T
	body, err := c.doCall(ctx, q)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return v, strangeError(q.op, err)
	}
	return v, nil
}

// placementPage makes q and returns the page that the answer has under key.
func placementPage[T any](ctx context.Context, c *Client, q call, key string, o ListOptions) (Page[T], error) {
	if q.query == nil {
		q.query = url.Values{}
	}
	for k, v := range o.query() {
		q.query[k] = v
	}
	answer, err := placementAnswer[map[string]json.RawMessage](ctx, c, q)
	if err != nil {
		return Page[T]{}, err
	}
	var p Page[T]
	if answer[key] == nil {
		return p, strangeError(q.op, errors.New("the answer has no "+key))
	}
	if err := json.Unmarshal(answer[key], &p.Items); err != nil {
		return p, strangeError(q.op, err)
	}
	if next := answer["next_marker"]; next != nil {
		if err := json.Unmarshal(next, &p.Next); err != nil {
			return p, strangeError(q.op, err)
		}
	}
	return p, nil
}

// callNothing makes q, whose answer has no body.
func (c *Client) callNothing(ctx context.Context, q call) error {
	_, err := c.doCall(ctx, q)
	return err
}

// deleteCall returns a call that deletes; when a repeat finds nothing left, the call
// before it did the work.
func deleteCall(op, route string, ids ...string) call {
	q := routeCall(op, route, ids...)
	q.repeats, q.ends = true, true
	return q
}
