package estimate

import (
	"context"
	"slices"

	"berth/api"
)

// HasPlace reports whether there is a slot now for one instance of each group of a request, here or in a zone below. All that may have one
// are asked, whatever their digests say. It is for names that no digest has: the zone that has them may be new.
func (e *Estimator) HasPlace(ctx context.Context, req *api.Request) bool {
	one := *req
	if one.Reservation == "" {
		one.Reservation = api.NewReservationID()
	}
	one.Groups = slices.Clone(req.Groups)
	for i := range one.Groups {
		one.Groups[i].Count, one.Groups[i].Min = 1, 1
	}
	one.Rules, one.Zones.MinZones, one.Zones.MaxSkew, one.Zones.Pack = nil, 0, 0, false
	a, err := e.Select(ctx, "", &one)
	return err == nil && len(a.Weights) == len(one.Groups) && !slices.ContainsFunc(a.Weights, func(w []int64) bool { return len(w) == 0 })
}
