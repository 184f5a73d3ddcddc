package native

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api/rest"
)

// openapi is docs/openapi.yaml, as strict as a test wants it: an answer has nothing
// that is not described.
var openapi = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromFile("../../docs/openapi.yaml")
	if err != nil {
		return nil, err
	}
	for _, s := range doc.Components.Schemas {
		s.Value.AdditionalProperties.Has = new(false)
	}
	return doc, nil
})

// checkDescribed fails the test unless docs/openapi.yaml describes a call that was
// answered well, and its answer. It is made of every call of the tests of this package.
func (w *world) checkDescribed(c call, rec *httptest.ResponseRecorder) {
	w.tb.Helper()
	routes, ok := w.Handler.(chi.Routes)
	path, _, _ := strings.Cut(c.target, "?")
	at := chi.NewRouteContext()
	if !ok || w.follower || rec.Code/100 != 2 || !routes.Match(at, c.method, path) {
		return
	}
	doc, err := openapi()
	require.NoError(w.tb, err)
	item := doc.Paths.Value(at.RoutePattern())
	require.NotNil(w.tb, item, "%s %s is not described", c.method, at.RoutePattern())
	op, name := item.GetOperation(c.method), c.method+" "+at.RoutePattern()
	require.NotNil(w.tb, op, "%s is not described", name)
	answer := op.Responses.Status(rec.Code)
	require.NotNil(w.tb, answer, "%s: status %d is not described", name, rec.Code)
	route := rest.Find(name)
	if route.Stream {
		return
	}
	if op.RequestBody != nil {
		checkBody(w.tb, name+" body", op.RequestBody.Value.Content, []byte(c.body))
	}
	if rec.Code == http.StatusNoContent {
		assert.Empty(w.tb, rec.Body.String(), name)
		return
	}
	if route.Media != "" {
		for _, data := range eventData(rec.Body.String()) {
			checkSchema(w.tb, name+" item", answer.Value.Content.Get(route.Media), []byte(data))
		}
		return
	}
	checkBody(w.tb, name+" answer", answer.Value.Content, rec.Body.Bytes())
	if route.Answer.Key != "" {
		var got map[string]json.RawMessage
		require.NoError(w.tb, json.Unmarshal(rec.Body.Bytes(), &got))
		delete(got, route.Answer.Key)
		if route.Paged() || route.Answer.List {
			delete(got, "next_marker")
		}
		assert.Empty(w.tb, got, "%s answer is not described", name)
	}
}

func checkBody(tb testing.TB, name string, content openapi3.Content, body []byte) {
	tb.Helper()
	checkSchema(tb, name, content.Get("application/json"), body)
}

// eventData returns the data of the events in a stream.
func eventData(stream string) (out []string) {
	for line := range strings.Lines(stream) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			out = append(out, strings.TrimSuffix(data, "\n"))
		}
	}
	return out
}

func checkSchema(tb testing.TB, name string, media *openapi3.MediaType, body []byte) {
	tb.Helper()
	var v any
	require.NoError(tb, json.Unmarshal(body, &v), name)
	require.NotNil(tb, media, "%s is not described", name)
	assert.NoError(tb, media.Schema.Value.VisitJSON(v), "%s is not what docs/openapi.yaml says", name)
}
