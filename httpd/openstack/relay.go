package openstack

import (
	"net/http"
	"net/url"

	"berth/api"
	"berth/internal/requestid"
)

// relay is the answer to a call that was forwarded to the leader. In the
// header Location it replaces the leader's address by the one that the caller used, and
// it reports a missing leader in the format of this dialect.
type relay struct {
	http.ResponseWriter
	request *http.Request
	dialect *Dialect
	mute    bool // the body is not the leader's, and was replaced
}

// WriteHeader implements http.ResponseWriter.
func (w *relay) WriteHeader(status int) {
	h := w.Header()
	if h.Get(headerRequestID) == "" && status >= http.StatusBadRequest { // written by this node, not by the leader
		w.mute = true
		id := string(requestid.Of(w.request.Context()))
		h.Set(api.HeaderRequestID, id)
		h.Set(headerRequestID, id)
		h.Del("Content-Length")
		if minor := Minor(w.request); minor >= 0 {
			w.dialect.service.nameVersion(h, minor)
		}
		w.dialect.writeProblem(w.ResponseWriter, w.request, relayError(status))
		return
	}
	if to, err := url.Parse(h.Get("Location")); err == nil && h.Get("Location") != "" {
		h.Set("Location", baseURL(w.request)+to.EscapedPath())
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *relay) Write(b []byte) (int, error) {
	if w.mute {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *relay) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// relayError returns why a call could not be forwarded, from the status.
func relayError(status int) error {
	switch status {
	case api.CodeUnavailable.HTTPStatus():
		return api.Errorf(api.CodeUnavailable, "no node of the zone leads just now; try again in a moment")
	case api.CodeTimeout.HTTPStatus():
		return api.Errorf(api.CodeTimeout, "the leader was lost before it answered; read before you try again, because the call may have been done")
	}
	return api.Errorf(api.CodeInternal, "status %d from the way to the leader", status)
}

// baseURL returns the URL by which the caller addresses this server.
func baseURL(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}
