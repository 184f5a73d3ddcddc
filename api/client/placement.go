package client

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"berth/api"
)

// PlacementVersion is the microversion of the placement API that a Client speaks.
const PlacementVersion = "1.39"

// ProvidersMaxBytes bounds lists of all providers of a zone, which have no pages: the
// largest zone fits.
const ProvidersMaxBytes = 128 << 20

// placementCall returns a call of the placement API, which is under /placement.
func placementCall(op, method string, path ...string) call {
	return call{op: op, method: method, path: append([]string{"placement"}, path...), placement: true, repeats: method == http.MethodGet}
}

// placementDelete returns a call of the placement API that deletes; see deleteCall.
func placementDelete(op string, path ...string) call {
	q := placementCall(op, http.MethodDelete, path...)
	q.repeats, q.ends = true, true
	return q
}

// placementCodes map the error codes of the placement API. For all others the status
// decides.
var placementCodes = map[string]api.Code{
	"placement.concurrent_update":                      api.CodeStale,
	"placement.duplicate_name":                         api.CodeExists,
	"placement.inventory.inuse":                        api.CodeInUse,
	"placement.resource_provider.inuse":                api.CodeInUse,
	"placement.resource_provider.cannot_delete_parent": api.CodeHasChildren,
	"placement.resource_provider.not_found":            api.CodeNotFound,
	"placement.query.duplicate_key":                    api.CodeInvalid,
	"placement.query.bad_value":                        api.CodeInvalid,
	"placement.query.missing_value":                    api.CodeInvalid,
}

// placementRefusal returns the error for an answer of the placement API other than 2xx:
// its first error, with the corresponding code of Berth.
func placementRefusal(q call, res *http.Response, body []byte) *api.Error {
	var told struct {
		Errors []struct {
			Code      string        `json:"code"`
			Title     string        `json:"title"`
			Detail    string        `json:"detail"`
			RequestID api.RequestID `json:"request_id"`
		} `json:"errors"`
	}
	plain := readRefusal(q.op, res, body)
	if json.Unmarshal(body, &told) != nil || len(told.Errors) == 0 {
		return plain
	}
	first := told.Errors[0]
	out := *plain
	out.Msg = strings.Join(strings.Fields(first.Detail), " ") // it may have line breaks
	if out.Msg == "" {
		out.Msg = first.Title
	}
	if cause, ok := plain.Err.(*RefusedError); ok && first.RequestID != "" { //nolint:errorlint // refusal made it just now
		cause.RequestID = first.RequestID
	}
	code, named := placementCodes[first.Code]
	own := api.Code(res.Header.Get(api.HeaderCode))
	switch {
	case named:
		out.Code = code
	case own.Known(): // a code of Berth, which this API has no equivalent for
		out.Code = own
	case res.StatusCode == http.StatusConflict && q.conflict != "":
		out.Code = q.conflict
	case res.StatusCode == http.StatusNotAcceptable:
		out.Code = api.CodeInvalid
	}
	return &out
}

// showAmounts returns "VCPU:1,MEMORY_MB:512", the format of queries of the placement API.
func showAmounts(r api.Resources) string { return strings.ReplaceAll(r.String(), "=", ":") }

// addRepeated adds a parameter once for each value.
func addRepeated(q url.Values, name string, values []string) {
	for _, v := range values {
		q.Add(name, v)
	}
}

// sortedNames returns the names of objects in an answer of the placement API, in order.
func sortedNames[T ~string](list []struct {
	Name T `json:"name"`
},
) []T {
	out := make([]T, 0, len(list))
	for _, i := range list {
		out = append(out, i.Name)
	}
	slices.Sort(out)
	return out
}
