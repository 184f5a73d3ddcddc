package placement

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/internal/memstore"
)

// TestAReadThatSaysNothingIsFresh: a client of this dialect reads what it wrote,
// whichever node it asks, and cannot ask for it.
func TestAReadThatSaysNothingIsFresh(t *testing.T) {
	const path = "/resource_providers/" + theProvider
	for kind, want := range map[string]int{"": http.StatusOK, "?read=linearizable": http.StatusOK, "?read=local": http.StatusNotFound} {
		w := newTalk(t)
		before := w.Store.View()
		require.Equal(t, http.StatusOK, w.ask(http.MethodPost, "/resource_providers", `{"name":"a","uuid":"`+theProvider+`"}`).Code)
		w.Serve(memstore.NewPast(w.Store, before, false))
		assert.Equal(t, want, w.ask(http.MethodGet, path+kind, "").Code, kind)
	}
	w := newTalk(t)
	w.Serve(memstore.NewPast(w.Store, w.Store.View(), true))
	assert.Equal(t, http.StatusServiceUnavailable, w.ask(http.MethodGet, path, "").Code, "it leads no more")
	assert.Equal(t, http.StatusNotFound, w.ask(http.MethodGet, path+"?read=local", "").Code)
}

// TestNoWriteIsAnsweredFromThePast makes calls that have no effect on what a node
// which led once has in its view: neither "not found" nor "there already" counts.
func TestNoWriteIsAnsweredFromThePast(t *testing.T) {
	const one = "/resource_providers/" + theProvider
	const inventory = `{"resource_provider_generation":0,"total":1}`
	for call, body := range map[[2]string]string{
		{http.MethodPut, one}:                               `{"name":"b"}`,
		{http.MethodDelete, one}:                            "",
		{http.MethodPost, one + "/inventories"}:             `{"resource_class":"VCPU","total":1}`,
		{http.MethodPut, one + "/inventories"}:              `{"resource_provider_generation":0,"inventories":{}}`,
		{http.MethodDelete, one + "/inventories"}:           "",
		{http.MethodPut, one + "/inventories/VCPU"}:         inventory,
		{http.MethodDelete, one + "/inventories/DISK_GB"}:   "",
		{http.MethodPut, one + "/traits"}:                   `{"resource_provider_generation":0,"traits":[]}`,
		{http.MethodDelete, one + "/traits"}:                "",
		{http.MethodPut, one + "/aggregates"}:               `{"resource_provider_generation":0,"aggregates":[]}`,
		{http.MethodDelete, "/traits/CUSTOM_NEW"}:           "",
		{http.MethodPut, "/traits/CUSTOM_OLD"}:              "",
		{http.MethodPut, "/resource_classes/CUSTOM_OLD"}:    "",
		{http.MethodDelete, "/resource_classes/CUSTOM_NEW"}: "",
		{http.MethodPost, "/reshaper"}: `{"inventories":{"` + theProvider + `":` +
			`{"resource_provider_generation":0,"inventories":{}}},"allocations":{}}`,
		{http.MethodPost, "/resource_providers"}: `{"name":"c","parent_provider_uuid":"` + theProvider + `"}`,
	} {
		w := newTalk(t)
		for _, path := range []string{"/traits/CUSTOM_OLD", "/resource_classes/CUSTOM_OLD"} {
			require.Equal(t, http.StatusCreated, w.ask(http.MethodPut, path, "").Code)
		}
		w.Serve(memstore.NewPast(w.Store, w.Store.View(), true))
		assert.Equal(t, http.StatusServiceUnavailable, w.ask(call[0], call[1], body).Code, "%v", call)
	}
}
