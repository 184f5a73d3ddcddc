package rest

import (
	"fmt"
	"net/http"

	"berth/api"
)

// Output is a piece of what a server has printed.
type Output struct {
	Stream api.OutputStream `json:"stream"`
	Offset uint64           `json:"offset"` // of the first byte of the piece
	Next   uint64           `json:"next"`   // of the byte after it: `after` of the next call
	Total  uint64           `json:"total"`  // bytes that were printed so far
	Data   []byte           `json:"data"`   // at most 256 KiB
}

// OutputOf returns the answer to a question that has a piece.
func OutputOf(q *api.OutputQuestion, a *api.OutputAnswer) Output {
	out := Output{Stream: q.Stream, Offset: a.Offset, Next: a.Offset + uint64(len(a.Data)), Total: a.Total, Data: a.Data}
	if out.Data == nil {
		out.Data = []byte{}
	}
	return out
}

var readOutput = Route{
	Method: http.MethodGet, Path: "/servers/{id}/output", ID: "id", Role: api.RoleReader, Read: api.ReadLinearizable,
	Query: []Param{
		{"after", "offset of the first byte to return (default: the newest bytes are returned)"},
		{"limit", fmt.Sprintf("bytes to return, 1 to %d (default: %d)", api.OutputMaxBytes, api.OutputTailDefault)},
		{"stream", "stdout or stderr (default: stdout)"},
	},
	Status: http.StatusOK, Answer: one("output", Output{}), Since: since,
	Help: "a piece of what the server has printed, as its host keeps it; 409 if there is none to read, and 504 if its host does not answer",
}
