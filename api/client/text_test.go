package client_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

// TestTextThatIsNotUTF8IsNotSent: the encoder would make another text of it.
func TestTextThatIsNotUTF8IsNotSent(t *testing.T) {
	c := at(t, func(http.ResponseWriter, *http.Request) { t.Error("the request was sent") })
	ctx, bad := t.Context(), "a\xff"
	wish := func(edit func(s *rest.ServerCreate)) rest.ServerCreate {
		s := rest.ServerCreate{Name: "web", FlavorRef: "small"}
		edit(&s)
		return s
	}
	for name, call := range map[string]func() error{
		"name": func() error { _, err := c.Select(ctx, wish(func(s *rest.ServerCreate) { s.Name = bad })); return err },
		"map key": func() error {
			_, err := c.Select(ctx, wish(func(s *rest.ServerCreate) { s.Metadata = map[string]string{bad: "v"} }))
			return err
		},
		"map": func() error {
			_, err := c.Boot(ctx, wish(func(s *rest.ServerCreate) { s.Metadata = map[string]string{"k": bad} }), "")
			return err
		},
		"path": func() error { _, err := c.Server(ctx, api.InstanceID(bad)); return err },
		"query": func() error {
			_, err := c.Servers(ctx, client.ServerQuery{Name: bad}, client.ListOptions{})
			return err
		},
		"provider": func() error { _, err := c.CreateProvider(ctx, client.ProviderSpec{Name: bad}); return err },
	} {
		assert.Equal(t, api.CodeInvalid, api.CodeOf(call()), name)
	}
}
