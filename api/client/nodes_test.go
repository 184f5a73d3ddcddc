package client_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

// nobody returns the address of a node that is not there. Its port is taken, so that nobody else comes to listen at
// it meanwhile.
func nobody(t *testing.T) string {
	t.Helper()
	taken, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Close(taken)) })
	require.NoError(t, syscall.Bind(taken, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at, err := syscall.Getsockname(taken)
	require.NoError(t, err)
	return fmt.Sprint("http://127.0.0.1:", at.(*syscall.SockaddrInet4).Port)
}

// answering returns the address of a node that answers with a status, and counts its calls.
func answering(t *testing.T, status int, calls *atomic.Int32) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(status)
		_, _ = w.Write([]byte("{}")) // the client reads it or has gone
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestTheNextNodeIsCalled: a call that nobody has heard goes to the next node, also if it may not be repeated, and
// the next call begins with the node that answered. Others are not asked.
func TestTheNextNodeIsCalled(t *testing.T) {
	var second, third atomic.Int32
	addrs := []string{nobody(t), answering(t, http.StatusOK, &second), answering(t, http.StatusOK, &third)}
	c, err := client.New(client.Config{Addr: strings.Join(addrs, ", ")})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.Transfer(t.Context(), "n"), "a call that is never repeated")
	require.NoError(t, c.InProject("web").DeleteServer(t.Context(), "i"))
	require.NoError(t, c.Restore(t.Context(), strings.NewReader("backup")))
	assert.EqualValues(t, 3, second.Load())
	assert.Zero(t, third.Load())
}

// TestANodeThatCannotServeIsLeft for the next attempt; a refusal of the zone is none of that.
func TestANodeThatCannotServeIsLeft(t *testing.T) {
	var first, second atomic.Int32
	busy, well := answering(t, http.StatusServiceUnavailable, &first), answering(t, http.StatusOK, &second)
	c, err := client.New(client.Config{Addr: busy + "," + well})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.DeleteServer(t.Context(), "i"))
	assert.EqualValues(t, 1, first.Load())
	assert.EqualValues(t, 1, second.Load())
	first.Store(0)
	refusing := answering(t, http.StatusForbidden, &first)
	c, err = client.New(client.Config{Addr: refusing + "," + well})
	require.NoError(t, err)
	defer c.Close()
	for range 2 {
		_, err = c.CreateFlavor(t.Context(), rest.FlavorSpec{Name: "f"})
		assert.Equal(t, api.CodeForbidden, api.CodeOf(err))
	}
	assert.EqualValues(t, 2, first.Load())
}

// TestNoNodeAnswers says which were called.
func TestNoNodeAnswers(t *testing.T) {
	a, b := nobody(t), nobody(t)
	c, err := client.New(client.Config{Addr: a + "," + b})
	require.NoError(t, err)
	err = c.Transfer(t.Context(), "n")
	assert.Equal(t, api.CodeUnavailable, api.CodeOf(err))
	assert.ErrorContains(t, err, "none of "+a+", "+b+" answers")
	assert.ErrorContains(t, err, "connection refused")
}

func TestSoManyAddresses(t *testing.T) {
	addrs := strings.Repeat(",http://127.0.0.1:1", client.AddrsMax)[1:]
	_, err := client.New(client.Config{Addr: addrs})
	require.NoError(t, err)
	_, err = client.New(client.Config{Addr: addrs + ",http://127.0.0.1:2"})
	assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
	_, err = client.New(client.Config{Addr: "http://127.0.0.1:1,"})
	assert.Equal(t, api.CodeInvalid, api.CodeOf(err), "an address that is empty")
}
