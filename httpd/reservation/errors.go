package reservation

import (
	"net/http"

	"berth/api"
	"berth/httpd/openstack"
)

// invalidError is a refusal with status 400.
func invalidError(format string, args ...any) error {
	return api.Errorf(api.CodeInvalid, format, args...)
}

// notFound is a refusal with status 404.
func notFound(format string, args ...any) error {
	return api.Errorf(api.CodeNotFound, format, args...)
}

// conflictError is a refusal with status 409.
func conflictError(format string, args ...any) error {
	return api.Errorf(api.CodeConflict, format, args...)
}

// The bodies of refusals. The stock client reads error_message alone.
type (
	refusal struct {
		Code    int    `json:"error_code"`
		Message string `json:"error_message"`
		Name    any    `json:"error_name"` // the code again, or the word for an internal error
	}
	strayRefusal struct { // of a request that reached no call
		Code    int    `json:"error"`
		Message string `json:"error_message"`
	}
)

// problemBody returns the JSON of a refusal.
func problemBody(p openstack.Problem, _ int) any {
	switch {
	case p.AtRoute:
		return strayRefusal{p.Status, p.Detail}
	case p.Status == http.StatusInternalServerError:
		return refusal{p.Status, p.Detail, "INTERNAL_SERVER_ERROR"}
	}
	return refusal{p.Status, p.Detail, p.Status}
}
