package client

import (
	"cmp"
	"context"
	"strconv"

	"berth/api"
	"berth/api/rest"
)

// OutputQuery selects a piece of what a server has printed.
type OutputQuery struct {
	Stream api.OutputStream // "" for api.Stdout
	After  *uint64          // offset of the first byte; nil for the newest bytes
	Limit  int              // bytes, at most api.OutputMaxBytes; 0 for api.OutputTailDefault
}

// ServerOutput returns a piece of what a server has printed. It fails with CodeConflict if there is none to read,
// and with CodeTimeout if the host of the server does not answer, for which the zone has waited already.
func (c *Client) ServerOutput(ctx context.Context, id api.InstanceID, o OutputQuery) (rest.Output, error) {
	k := routeCall("client.ServerOutput", "GET /servers/{id}/output", string(id)).withRepeat(false)
	k.query = queryOf(map[string]string{"stream": string(o.Stream)})
	if o.After != nil {
		k.query.Set("after", strconv.FormatUint(*o.After, 10))
	}
	if o.Limit > 0 {
		k.query.Set("limit", strconv.Itoa(o.Limit))
	}
	k.patience = api.OutputWait
	out, err := callValue[rest.Output](ctx, c, k)
	if err == nil && !o.accepts(&out) { // a reader that goes on behind it would never come to an end
		err = api.Wrap(api.CodeInternal, k.op, "the zone returned what was not asked for", nil)
	}
	return out, err
}

// accepts reports whether a piece can be what was asked for.
func (o *OutputQuery) accepts(out *rest.Output) bool {
	q := api.OutputQuestion{Limit: cmp.Or(o.Limit, api.OutputTailDefault), Last: o.After == nil}
	if o.After != nil {
		q.After = *o.After
	}
	return out.Next == out.Offset+uint64(len(out.Data)) && q.Accepts(&api.OutputAnswer{Offset: out.Offset, Total: out.Total, Data: out.Data})
}
