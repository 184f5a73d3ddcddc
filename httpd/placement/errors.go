package placement

import (
	"berth/api"
	"berth/httpd/openstack"
)

// The codes of refusals, in answers since microversion 1.23.
const (
	codeUndefined        = "placement.undefined_code" // everything else, including a lack of room
	codeConcurrent       = "placement.concurrent_update"
	codeInventoryInUse   = "placement.inventory.inuse"
	codeDuplicate        = "placement.duplicate_name"
	codeProviderInUse    = "placement.resource_provider.inuse"
	codeParent           = "placement.resource_provider.cannot_delete_parent"
	codeProviderNotFound = "placement.resource_provider.not_found"
	codeDuplicateKey     = "placement.query.duplicate_key"
	codeBadValue         = "placement.query.bad_value"
	codeMissingValue     = "placement.query.missing_value"
)

// errorCodes is the first microversion in which refusals have a code.
const errorCodes version = 23

// invalidError is a refusal with status 400.
func invalidError(format string, args ...any) error {
	return api.Errorf(api.CodeInvalid, format, args...)
}

// notFound is a refusal with status 404.
func notFound(format string, args ...any) error {
	return api.Errorf(api.CodeNotFound, format, args...)
}

// conflictError is a refusal of a write whose generation is not the current one.
func conflictError(format string, args ...any) error {
	return api.Errorf(api.CodeStale, format, args...)
}

// withCode attaches code to err if the code of err is is.
func withCode(is api.Code, code string, err error) error {
	if api.CodeOf(err) == is {
		return openstack.WithCode(code, err)
	}
	return err
}

// replaceError returns the refusal that a call has for the code of err, or err if there
// is none.
func replaceError(err error, of map[api.Code]error) error {
	if other, ok := of[api.CodeOf(err)]; ok {
		return other
	}
	return err
}

// codes are the codes of refusals that mean the same in every call.
var codes = map[api.Code]string{
	api.CodeStale: codeConcurrent, api.CodeExists: codeDuplicate, api.CodeInUse: codeInventoryInUse,
	api.CodeHasChildren: codeParent,
}

// problemBody returns the JSON of a refusal: before errorCodes it has no code.
func problemBody(p openstack.Problem, minor int) any {
	if version(minor) < errorCodes {
		p.Code = ""
	}
	return map[string][]openstack.Problem{"errors": {p}}
}
