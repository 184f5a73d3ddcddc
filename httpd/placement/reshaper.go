package placement

import (
	"maps"
	"net/http"
	"slices"

	"berth/api"
	"berth/httpd/openstack"
	"berth/raftstore/state"
	"berth/zone/resources"
)

// reshaperSchema is the schema of new inventories by provider, and of the allocations
// that go with them.
func reshaperSchema(v version) *openstack.Schema {
	return &openstack.Schema{
		Kind: openstack.Object, Required: []string{"inventories", "allocations"},
		Fields: map[string]*openstack.Schema{
			"inventories": {Kind: openstack.Object, Names: nameUUID, Fewest: 1, Each: inventoriesSchema},
			"allocations": consumersSchema(v, 0),
		},
	}
}

// postReshape is POST /reshaper.
func (d *dialect) postReshape(w http.ResponseWriter, r *http.Request) error {
	body, err := openstack.ReadObject(r, reshaperSchema(versionOf(r)))
	if err != nil {
		return err
	}
	allocations, _ := body["allocations"].(map[string]any)
	if err = wellFormed(allocations); err != nil {
		return err
	}
	inventories, _ := body["inventories"].(map[string]any)
	reshape, err := readReshapes(d.Zone.View(), inventories, versionOf(r))
	if err != nil {
		return err
	}
	consumers, err := d.readConsumers(versionOf(r), allocations)
	if err != nil {
		return err
	}
	if err = resources.PutConsumers(r.Context(), d.Zone, consumers, reshape); err != nil {
		return reshapeRefused(d.nameConflict(consumers, d.unknownIn(consumers, err)))
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// readReshapes reads the new inventories of some providers.
func readReshapes(s *state.State, body map[string]any, v version) ([]resources.Reshape, error) {
	out := make([]resources.Reshape, 0, len(body))
	for _, name := range slices.Sorted(maps.Keys(body)) {
		p, ok := s.Provider(providerID(name))
		if !ok {
			return nil, openstack.WithCode(codeProviderNotFound, invalidError("Resource provider %s in inventories not found", name))
		}
		one, _ := body[name].(map[string]any)
		generation, err := checkGeneration(p, one["resource_provider_generation"])
		if err != nil {
			return nil, err
		}
		all, _ := one["inventories"].(map[string]any)
		set, err := inventoriesOf(s, p, all, v)
		if err != nil {
			return nil, err
		}
		out = append(out, resources.Reshape{ID: p.ID, Generation: generation, Inventory: set})
	}
	return out, nil
}

// reshapeRefused explains a refused reshape in words that clients look for.
func reshapeRefused(err error) error {
	const conflict = "update conflict: "
	return prefixRefusal(err, map[api.Code]string{
		api.CodeStale: conflict, api.CodeInUse: conflict, api.CodeNoCapacity: sayNoRoom, api.CodeInvalid: "malformed reshaper data: ",
	})
}
