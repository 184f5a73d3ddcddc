package rest_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
)

func TestDatesOfLeases(t *testing.T) {
	for text, valid := range map[rest.LeaseDate]bool{
		"2030-06-02 10:00": true, "1970-01-01 00:00": true, "1969-12-31 23:59": false, "2030-06-02 10:00:00": false, "2030-06-02T10:00": false,
		"2030-13-02 10:00": false, "now": false, "": false,
	} {
		i, ok := text.Instant()
		require.Equal(t, valid, ok, text)
		if ok {
			assert.Equal(t, text, rest.LeaseDateOf(i))
			assert.Equal(t, text, rest.LeaseDateOf(i+59_999), "rounded down")
		}
	}
	for _, bad := range []string{`"2030-06-02"`, `1`} {
		require.Error(t, json.Unmarshal([]byte(bad), new(rest.LeaseTime)), bad)
		require.Error(t, json.Unmarshal([]byte(bad), new(rest.RecordTime)), bad)
	}
	var never rest.RecordTime = 5
	require.NoError(t, json.Unmarshal([]byte("null"), &never))
	assert.Zero(t, never)
	b, err := json.Marshal(never)
	require.NoError(t, err)
	assert.Equal(t, "null", string(b))
}

// TestHostsOfLeasesKeepTheirCapabilities: fields and capabilities are one object, and their
// names differ by case alone at worst.
func TestHostsOfLeasesKeepTheirCapabilities(t *testing.T) {
	h := rest.LeaseHost{
		LeaseHostFields: rest.LeaseHostFields{ID: "7", Name: "h1", Service: "h1", VCPUs: 8, Reservable: true, Created: 1_000},
		Capabilities:    map[string]string{"gpu": "A", "VCPUS": "many", "Id": "x"},
	}
	b, err := json.Marshal(h)
	require.NoError(t, err)
	var again rest.LeaseHost
	require.NoError(t, json.Unmarshal(b, &again))
	assert.Equal(t, h, again)

	h.Capabilities["vcpus"] = "1000"
	b, err = json.Marshal(h)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &again))
	assert.Equal(t, int64(8), again.VCPUs, "a field goes before a capability of its name")

	require.NoError(t, json.Unmarshal([]byte(`{"id": "7", "new_field": [1], "gpu": "B"}`), &again))
	assert.Equal(t, map[string]string{"gpu": "B"}, again.Capabilities)
	for _, bad := range []string{`[]`, `{"id": 7}`} {
		assert.Error(t, json.Unmarshal([]byte(bad), &again), bad)
	}
}

// TestReservationsAreOfOneKind: the fields of another kind are absent.
func TestReservationsAreOfOneKind(t *testing.T) {
	hosts, err := json.Marshal(rest.LeaseReservation{Type: api.ReserveHosts, ReservedHosts: &rest.ReservedHosts{Min: 1}})
	require.NoError(t, err)
	assert.Contains(t, string(hosts), `"min":1`)
	assert.NotContains(t, string(hosts), "vcpus")
	instances, err := json.Marshal(rest.LeaseReservation{Type: api.ReserveInstances, ReservedInstances: &rest.ReservedInstances{}})
	require.NoError(t, err)
	assert.Contains(t, string(instances), `"affinity":null`)
	assert.NotContains(t, string(instances), "min")
	var r rest.LeaseReservation
	require.NoError(t, json.Unmarshal(hosts, &r))
	assert.Nil(t, r.ReservedInstances)
	require.NotNil(t, r.ReservedHosts)
}
