// Package rest declares the native REST API of a zone: every JSON body once, and
// one table of routes. The bodies of leases, which httpd/reservation and api/client share,
// are here too.
//
// The router of httpd/native, the calls of api/client, docs/http.md and
// docs/openapi.yaml are derived from that table. The bodies are separate types: no
// record of the log is written as JSON, and the functions here that convert a record to
// a body decide which fields a caller sees.
package rest
