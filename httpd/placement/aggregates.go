package placement

import (
	"net/http"

	"berth/api"
	"berth/httpd/openstack"
	"berth/zone/resources"
)

// guarded is the first microversion in which aggregates carry a generation.
const guarded version = 19

// Schemas of aggregates.
var (
	uuidsSchema      = &openstack.Schema{Kind: openstack.Array, Each: uuidSchema, Unique: true}
	aggregatesSchema = &openstack.Schema{
		Kind: openstack.Object, Required: []string{"aggregates", "resource_provider_generation"},
		Fields: map[string]*openstack.Schema{"aggregates": uuidsSchema, "resource_provider_generation": generationSchema},
	}
)

// sendAggregates answers with aggregates of a provider.
func (d *dialect) sendAggregates(w http.ResponseWriter, r *http.Request, p *api.Provider, ids []string) error {
	out := struct {
		Aggregates []string `json:"aggregates"`
		Generation *uint64  `json:"resource_provider_generation,omitempty"`
	}{Aggregates: append([]string{}, ids...)}
	if versionOf(r) >= guarded {
		out.Generation = &p.Generation
	}
	setModified(w, r, d.Now())
	return openstack.Answer(w, http.StatusOK, out)
}

// listAggregates is GET /resource_providers/{uuid}/aggregates.
func (d *dialect) listAggregates(w http.ResponseWriter, r *http.Request) error {
	p, err := providerOf(d.View(w), r)
	if err != nil {
		return err
	}
	return d.sendAggregates(w, r, p, p.Aggregates)
}

// setAggregates is PUT /resource_providers/{uuid}/aggregates.
func (d *dialect) setAggregates(w http.ResponseWriter, r *http.Request) error {
	p, err := providerOf(d.Zone.View(), r)
	if err != nil {
		return err
	}
	var list any
	var generation *uint64
	if versionOf(r) >= guarded {
		list, generation, err = readGuarded(r, p)
	} else {
		list, err = openstack.ReadBody(r, uuidsSchema)
	}
	if err != nil {
		return err
	}
	ids := readTexts(list)
	for i := range ids {
		ids[i], _ = openstack.ParseUUID(ids[i])
	}
	if err = resources.SetProviderAggregates(r.Context(), d.Zone, p.ID, generation, setOf(ids)); err != nil {
		return err
	}
	if p, err = providerOf(d.View(w), r); err != nil {
		return err
	}
	return d.sendAggregates(w, r, p, ids) // in the caller's order
}

// readGuarded reads aggregates with a generation, which must be the current one of p.
func readGuarded(r *http.Request, p *api.Provider) (list any, generation *uint64, err error) {
	body, err := openstack.ReadObject(r, aggregatesSchema)
	if err != nil {
		return nil, nil, err
	}
	want, err := checkGeneration(p, body["resource_provider_generation"])
	return body["aggregates"], &want, err
}
