package client

import (
	"context"
	"net/http"
	"time"

	"berth/api"
)

// Capacity is how much a zone and those below it have, can hand out and hand out.
type Capacity struct {
	At    api.Instant    `json:"at"`    // that FreeAt is about
	Zones []ZoneCapacity `json:"zones"` // the zone itself, exactly, and its direct children
	Sum   *CapacitySum   `json:"sum"`   // nil if one zone was asked for
}

// ZoneCapacity is the capacity of one zone; of a child, of all zones below it too.
type ZoneCapacity struct {
	Name    string                              `json:"name"`
	Exact   bool                                `json:"exact"`   // false: rounded, as the zone said it AgeMS ago
	Heard   bool                                `json:"heard"`   // false: the zone has said nothing yet
	AgeMS   int64                               `json:"age_ms"`  // 0 for the zone itself
	Partial bool                                `json:"partial"` // something below it has not been heard lately
	Paused  bool                                `json:"paused"`  // it gets no new work, and is not in the sum
	Classes map[api.ResourceClass]ClassCapacity `json:"classes"`
}

// ClassCapacity is the capacity of one class. A child says only Capacity and Free.
type ClassCapacity struct {
	Total    *int64 `json:"total"`
	Reserved *int64 `json:"reserved"`
	Capacity int64  `json:"capacity"`
	Used     *int64 `json:"used"`
	Free     int64  `json:"free"`
	FreeAt   *int64 `json:"free_at"`
}

// CapacitySum is the sum over all zones that are not paused.
type CapacitySum struct {
	Rounded bool                                `json:"rounded"` // a child is in it
	Partial bool                                `json:"partial"` // a zone is missing, or has not been heard lately
	Classes map[api.ResourceClass]ClassCapacity `json:"classes"`
}

// Capacity returns the capacity of the zone and of those below it, with what is free
// at an instant, now if it is zero; with name, of that zone alone. It may be
// repeated.
func (c *Client) Capacity(ctx context.Context, at time.Time, name string) (Capacity, error) {
	k := call{op: "client.Capacity", method: http.MethodGet, path: []string{"capacity"}, repeats: true}
	params := map[string]string{"zone": name}
	if !at.IsZero() {
		params["at"] = at.UTC().Format(time.RFC3339Nano)
	}
	k.query = query(params)
	return one[Capacity](ctx, c, k, "capacity")
}
