package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
)

// eventBlock is one event of a stream.
func eventBlock(id string) string {
	return fmt.Sprintf("id: %s\nevent: boot.created\ndata: {\"id\":%q,\"kind\":\"boot.created\"}\n\n", id, id)
}

// TestAStreamGoesOnAtTheNextNode: behind the last whole event, also when the one after it was
// cut off, until a zone refuses.
func TestAStreamGoesOnAtTheNextNode(t *testing.T) {
	var asked []string
	node := func(text string, status int) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.RawQuery+" "+r.Header.Get(api.HeaderLastEventID))
			if status != http.StatusOK {
				w.WriteHeader(status)
				return
			}
			_, _ = w.Write([]byte(text))
			if f, ok := w.(http.Flusher); ok {
				f.Flush()
			}
			panic(http.ErrAbortHandler) // the node is gone
		}))
		t.Cleanup(s.Close)
		return s
	}
	first := node(":\nid: 7-0\n\n"+eventBlock("8-1")+eventBlock("9-1")+"id: 9-2\ndata: {\"id\":", http.StatusOK)
	second := node(eventBlock("9-2")+":\nid: 11-0\n\n", http.StatusOK)
	third := node("", http.StatusForbidden)
	c, err := client.New(client.Config{Addr: first.URL, Token: "t"})
	require.NoError(t, err)
	defer c.Close()
	var ids []string
	var end error
	for e, err := range c.Events(t.Context(), client.EventsQuery{Follow: true, After: "now", Nodes: []string{second.URL, third.URL}}) {
		if end = err; err == nil {
			ids = append(ids, e.ID)
		}
	}
	assert.Equal(t, []string{"8-1", "9-1", "9-2"}, ids)
	assert.Equal(t, api.CodeForbidden, api.CodeOf(end))
	assert.Equal(t, []string{"after=now ", "after=now 9-1", "after=now 11-0"}, asked)
	for _, err := range c.Events(t.Context(), client.EventsQuery{Nodes: []string{"ftp://x"}}) {
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
	}
	for range c.Events(t.Context(), client.EventsQuery{Follow: true}) {
		break // the caller may stop at any time
	}
}

// TestAContextEndsAStream: that is the end of one that is followed, and an error of one that
// was to be read to its end.
func TestAContextEndsAStream(t *testing.T) {
	for follow, want := range map[bool]api.Code{true: "", false: api.CodeTimeout} {
		ctx, cancel := context.WithCancel(t.Context())
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(eventBlock("8-1")))
			_ = http.NewResponseController(w).Flush() // else the client waits for it
			<-r.Context().Done()
		}))
		c, err := client.New(client.Config{Addr: s.URL, Token: "t"})
		require.NoError(t, err)
		var ids []string
		var end error
		for e, err := range c.Events(ctx, client.EventsQuery{Follow: follow}) {
			if end = err; err == nil {
				ids = append(ids, e.ID)
				cancel()
			}
		}
		cancel()
		assert.Equal(t, []string{"8-1"}, ids)
		if want == "" {
			require.NoError(t, end)
		} else {
			assert.Equal(t, want, api.CodeOf(end))
		}
		c.Close()
		s.Close()
	}
}
