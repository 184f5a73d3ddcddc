// Package wire is shared by all HTTP handlers of a zone: strict and bounded reading of
// bodies, answers and refusals, request ids, and the few query parameters that mean the
// same everywhere. It knows no route.
package wire
