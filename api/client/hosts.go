package client

import (
	"context"
	"net/http"

	"berth/api"
)

// HostSpec says what to set of a host; nil leaves it as it is.
type HostSpec = api.HostSpec

// HostQuery says which hosts are wanted; the zero value means all.
type HostQuery struct {
	State     api.HostState
	Pool      api.Pool
	AZ        string
	Aggregate string // name or id
}

// HostDetail is a host, with what is left to do if it is being drained.
type HostDetail struct {
	api.Host
	Leaving *Leaving `json:"leaving,omitempty"` // nil when the host is not being drained
}

// Leaving tells how far a drain has come.
type Leaving struct {
	Left   int `json:"left"`   // instances that are there still
	Ending int `json:"ending"` // of those, being ended
	Moving int `json:"moving"` // of those, with room on another host already
}

// Hosts returns one page of the zone's own hosts. It may be repeated. Admins only.
func (c *Client) Hosts(ctx context.Context, o ListOptions) (Page[api.Host], error) {
	return page[api.Host](ctx, c, get("client.Hosts", "hosts"), "hosts", o)
}

// HostsWhere returns one page of the zone's own hosts that match q. It may be
// repeated. Admins only.
func (c *Client) HostsWhere(ctx context.Context, q HostQuery, o ListOptions) (Page[api.Host], error) {
	k := get("client.Hosts", "hosts")
	k.query = query(map[string]string{
		"state": string(q.State), "pool": string(q.Pool), "availability_zone": q.AZ, "aggregate": q.Aggregate,
	})
	return page[api.Host](ctx, c, k, "hosts", o)
}

// HostDetail returns one host by name or id, with the progress of its drain. It
// may be repeated. Admins only.
func (c *Client) HostDetail(ctx context.Context, ref string) (HostDetail, error) {
	return one[HostDetail](ctx, c, get("client.Host", "hosts", ref), "host")
}

// DrainHost takes a host out of use, with a reason or "", and says what becomes of
// what is there. It returns at once. It may be repeated. Admins only.
func (c *Client) DrainHost(ctx context.Context, ref string, p api.DrainPolicy, reason string) (HostDetail, error) {
	in := struct {
		Policy api.DrainPolicy `json:"policy"`
		Reason string          `json:"reason,omitempty"`
	}{p, reason}
	return one[HostDetail](ctx, c, call{
		op: "client.DrainHost", method: http.MethodPost, path: []string{"hosts", ref, "drain"}, in: in, repeats: true,
	}, "host")
}

// UndrainHost puts a host back into use. What has left it stays away. It may be
// repeated. Admins only.
func (c *Client) UndrainHost(ctx context.Context, ref string) (HostDetail, error) {
	return one[HostDetail](ctx, c, call{
		op: "client.UndrainHost", method: http.MethodDelete, path: []string{"hosts", ref, "drain"}, repeats: true,
	}, "host")
}

// Evacuation says how the instances of a host that is lost fare.
type Evacuation struct {
	Movable int   `json:"movable"` // still to be moved
	Staying int   `json:"staying"` // their flavor does not allow it
	WaitMS  int64 `json:"wait_ms"` // until the host's agent has stopped them for sure; 0 if it has
}

// EvacuateHost tells what becomes of the instances of a host that is down; a
// conflict while it is up. The zone moves them by itself, so it may be repeated to
// see how far that is. Admins only.
func (c *Client) EvacuateHost(ctx context.Context, ref string) (Evacuation, error) {
	return one[Evacuation](ctx, c, call{
		op: "client.EvacuateHost", method: http.MethodPost, path: []string{"hosts", ref, "evacuate"}, repeats: true,
	}, "evacuation")
}

// Host returns one host by name or id. It may be repeated. Admins only.
func (c *Client) Host(ctx context.Context, ref string) (api.Host, error) {
	return one[api.Host](ctx, c, get("client.Host", "hosts", ref), "host")
}

// UpdateHost sets what s names; a stale_generation error if the host has changed
// since s.Generation. It may be repeated unless it carries a generation. Admins
// only.
func (c *Client) UpdateHost(ctx context.Context, ref string, s HostSpec) (api.Host, error) {
	in := struct {
		Host HostSpec `json:"host"`
	}{s}
	return one[api.Host](ctx, c, call{
		op: "client.UpdateHost", method: http.MethodPut, path: []string{"hosts", ref}, in: in, repeats: s.Generation == 0,
	}, "host")
}

// DeleteHost forgets a host; a conflict while it runs anything. It may be
// repeated. Admins only.
func (c *Client) DeleteHost(ctx context.Context, ref string) error {
	return c.none(ctx, remove("client.DeleteHost", "hosts", ref))
}
