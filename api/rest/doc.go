// Package rest declares the native REST API of a zone: every JSON body once, and
// one table of routes.
//
// The router of httpd/native, the calls of api/client, docs/http.md and
// docs/openapi.yaml come from that table. The bodies are types of their own: no
// record of the log is written as JSON, and the functions here that make a body
// from a record decide what of it a caller sees.
package rest
