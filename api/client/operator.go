package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"berth/api"
)

// Duration is a time.Duration that JSON spells as a text such as "60s".
type Duration time.Duration

// MarshalJSON writes a text such as "1m0s".
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads a text such as "60s", and nothing else.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return api.Errorf(api.CodeInvalid, "a duration must be a text such as \"60s\"")
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return api.Errorf(api.CodeInvalid, "%q is not a duration such as \"60s\"", s)
	}
	*d = Duration(v)
	return nil
}

// ZoneConfig is api.ZoneConfig as the public API spells it.
type ZoneConfig struct {
	PlanTTL   Duration `json:"plan_ttl"`
	HostGrace Duration `json:"host_grace"`
	Tags      []string `json:"tags"`
	DefaultAZ string   `json:"default_availability_zone,omitempty"` // "" for the zone's name
}

// Hold is what a parent holds in this zone and has not decided.
type Hold struct {
	ID          api.HoldID        `json:"id"`
	Parent      string            `json:"parent"` // name of the link
	Reservation api.ReservationID `json:"reservation_id"`
	Project     api.ProjectID     `json:"project_id"`
	State       api.HoldState     `json:"state"`
	Held        int               `json:"held"` // instances
	Created     api.Instant       `json:"created"`
}

// Members returns the nodes of the zone. It may be repeated. Admins only.
func (c *Client) Members(ctx context.Context) ([]api.Node, error) {
	return one[[]api.Node](ctx, c, get("client.Members", "operator", "members"), "members")
}

// RemoveMember takes a node out of the zone. It may be repeated. Admins only.
func (c *Client) RemoveMember(ctx context.Context, id api.NodeID) error {
	return c.none(ctx, remove("client.RemoveMember", "operator", "members", string(id)))
}

// Transfer makes another node the leader: to, or with "" the one that is best
// prepared. It is not repeated: the second call might move it on. Admins only.
func (c *Client) Transfer(ctx context.Context, to api.NodeID) error {
	in := struct {
		To api.NodeID `json:"to,omitempty"`
	}{to}
	return c.none(ctx, call{op: "client.Transfer", method: http.MethodPost, path: []string{"operator", "transfer"}, in: in})
}

// Config returns the zone's configuration. It may be repeated. Admins only.
func (c *Client) Config(ctx context.Context) (ZoneConfig, error) {
	return one[ZoneConfig](ctx, c, get("client.Config", "operator", "config"), "config")
}

// SetConfig replaces the zone's configuration as a whole. It may be repeated.
// Admins only.
func (c *Client) SetConfig(ctx context.Context, z ZoneConfig) (ZoneConfig, error) {
	in := struct {
		Config ZoneConfig `json:"config"`
	}{z}
	return one[ZoneConfig](ctx, c, call{
		op: "client.SetConfig", method: http.MethodPut, path: []string{"operator", "config"}, in: in, repeats: true,
	}, "config")
}

// RotateKeyring makes a new key for plans; the old one opens what it has sealed.
// It is not repeated: each call makes another key. Admins only.
func (c *Client) RotateKeyring(ctx context.Context) error {
	return c.none(ctx, call{op: "client.RotateKeyring", method: http.MethodPost, path: []string{"operator", "keyring", "rotate"}})
}

// Holds returns what parents hold in this zone. It may be repeated. Admins only.
func (c *Client) Holds(ctx context.Context) ([]Hold, error) {
	return one[[]Hold](ctx, c, get("client.Holds", "operator", "holds"), "holds")
}

// ResolveHold decides a hold by force, commit or abort, in place of a parent that
// will not return. It is not repeated: a hold that is decided is not found.
// Admins only.
func (c *Client) ResolveHold(ctx context.Context, id api.HoldID, d api.Decision) error {
	in := struct {
		Decision api.Decision `json:"decision"`
	}{d}
	return c.none(ctx, call{op: "client.ResolveHold", method: http.MethodPost, path: []string{"operator", "holds", string(id)}, in: in})
}
