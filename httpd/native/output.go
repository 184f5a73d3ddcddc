package native

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/api/rest"
)

// readOutput returns a piece of what a server has printed, to whoever may see the server.
func (d *dialect) readOutput(w http.ResponseWriter, r *http.Request) error {
	q, err := outputQuestion(api.InstanceID(chi.URLParam(r, "id")), r.URL.Query())
	if err != nil {
		return err
	}
	v, err := d.Zone.Latest(r.Context())
	if err == nil {
		_, err = visibleInstance(v, r)
	}
	if err != nil {
		return err
	}
	a, err := d.Outputs.Read(r.Context(), q)
	if err == nil {
		err = refuseLack(a.Lack)
	}
	if err != nil {
		return err
	}
	return answerOne(w, http.StatusOK, "output", rest.OutputOf(q, a))
}

// outputQuestion reads the parameters of a call for an output.
func outputQuestion(id api.InstanceID, p url.Values) (*api.OutputQuestion, error) {
	q := &api.OutputQuestion{Instance: id, Stream: cmp.Or(api.OutputStream(p.Get("stream")), api.Stdout), Limit: api.OutputTailDefault, Last: !p.Has("after")}
	var err error
	if p.Has("limit") {
		if q.Limit, err = strconv.Atoi(p.Get("limit")); err != nil {
			return nil, api.Errorf(api.CodeInvalid, "limit must be 1 to %d bytes, got %q", api.OutputMaxBytes, p.Get("limit"))
		}
	}
	if !q.Last {
		if q.After, err = strconv.ParseUint(p.Get("after"), 10, 64); err != nil {
			return nil, api.Errorf(api.CodeInvalid, "after must be 0 to %d, got %q", uint64(api.OutputTotalMax), p.Get("after"))
		}
	}
	return q, q.Validate()
}

// refuseLack returns the refusal of a call for an output that cannot be read; nil for one that was.
func refuseLack(lack api.OutputLack) error {
	switch lack {
	case "":
		return nil
	case api.OutputUnstarted:
		return api.Errorf(api.CodeConflict, "the server is on no host now: it was not started yet, or it has gone")
	case api.OutputSilent:
		return api.Errorf(api.CodeTimeout, "the host of the server, or a zone on the way to it, does not answer; its output is not lost: try again when it does")
	case api.OutputUnkept:
		return api.Errorf(api.CodeConflict, "the driver of the server's host keeps no output")
	case api.OutputOlder:
		return api.Errorf(api.CodeConflict, "the agent of the server's host, or a zone on the way to it, is of an earlier release and returns no output: upgrade it")
	case api.OutputBusy:
		return api.Errorf(api.CodeOverloaded, "too many read outputs at the server's host just now; try again later")
	}
	return api.Errorf(api.CodeUnavailable, "the host of the server cannot read its output; the log of its agent says why")
}
