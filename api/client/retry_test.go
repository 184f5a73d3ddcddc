package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

// zone is a zone in memory, so that time can be virtual.
type zone func(attempt int, r *http.Request) (*http.Response, error)

// talk returns a client of z and what it has been asked, in order.
func talk(t *testing.T, z zone) (*client.Client, *[]*http.Request) {
	t.Helper()
	var asked []*http.Request
	c, err := client.New(client.Config{Addr: "https://zone.example", HTTP: &http.Client{
		Transport: transport(func(r *http.Request) (*http.Response, error) {
			asked = append(asked, r)
			return z(len(asked), r)
		}),
	}})
	require.NoError(t, err)
	return c, &asked
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// reply returns an answer.
func reply(status int, body string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// refuse returns a refusal with code.
func refuse(code api.Code) (*http.Response, error) {
	return reply(code.HTTPStatus(), `{"error": {"code": "`+string(code)+`", "message": "no", "request_id": "req-1"}}`)
}

var errRefused = &net.OpError{Op: "dial", Err: errors.New("connection refused")}

func TestRepeatsWhatPassesUntilItIsAnswered(t *testing.T) {
	for name, fault := range map[string]func() (*http.Response, error){
		"unavailable": func() (*http.Response, error) { return refuse(api.CodeUnavailable) },
		"overloaded":  func() (*http.Response, error) { return refuse(api.CodeOverloaded) },
		"timeout":     func() (*http.Response, error) { return refuse(api.CodeTimeout) },
		"refused":     func() (*http.Response, error) { return nil, errRefused },
		"bad gateway": func() (*http.Response, error) { return reply(http.StatusBadGateway, "<html>") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, asked := talk(t, func(attempt int, _ *http.Request) (*http.Response, error) {
					if attempt < client.AttemptsMax {
						return fault()
					}
					return reply(http.StatusOK, echo)
				})
				_, err := c.ZoneInfo(t.Context())
				require.NoError(t, err)
				assert.Len(t, *asked, client.AttemptsMax)
			})
		})
	}
}

func TestPausesGrowAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		c, _ := talk(t, func(int, *http.Request) (*http.Response, error) {
			at = append(at, time.Now())
			return nil, errRefused
		})
		_, err := c.ZoneInfo(t.Context())
		assert.Equal(t, api.CodeUnavailable, api.CodeOf(err))
		require.ErrorContains(t, err, "connection refused")
		require.Len(t, at, client.AttemptsMax, "a bounded number of attempts")
		for i, full := 1, 100*time.Millisecond; i < len(at); i, full = i+1, min(2*full, 2*time.Second) {
			pause := at[i].Sub(at[i-1])
			assert.LessOrEqual(t, pause, full, "pause %d", i)
			assert.GreaterOrEqual(t, pause, full/2, "pause %d", i)
		}
	})
}

func TestZoneSaysHowLongToPause(t *testing.T) {
	for asked, want := range map[string]time.Duration{"1": time.Second, "3600": 2 * time.Second, "soon": 100 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			c, _ := talk(t, func(attempt int, _ *http.Request) (*http.Response, error) {
				if attempt > 1 {
					return reply(http.StatusOK, echo)
				}
				r, err := refuse(api.CodeUnavailable)
				r.Header.Set("Retry-After", asked)
				return r, err
			})
			_, err := c.ZoneInfo(t.Context())
			require.NoError(t, err)
			assert.LessOrEqual(t, time.Since(start), want)
			assert.GreaterOrEqual(t, time.Since(start), want/2)
		})
	}
}

func TestBootsRepeatWithOneKey(t *testing.T) {
	for _, given := range []string{"", "mine"} {
		synctest.Test(t, func(t *testing.T) {
			c, asked := talk(t, func(attempt int, _ *http.Request) (*http.Response, error) {
				if attempt < 3 {
					return nil, errRefused
				}
				return reply(http.StatusAccepted, `{"reservation_id": "r-1"}`)
			})
			id, err := c.Boot(t.Context(), rest.ServerCreate{Name: "web"}, given)
			require.NoError(t, err)
			assert.Equal(t, api.ReservationID("r-1"), id)
			require.Len(t, *asked, 3)
			key := (*asked)[0].Header.Get(api.HeaderIdempotencyKey)
			assert.True(t, api.ValidName(key), key)
			assert.True(t, given == "" || given == key)
			for _, r := range *asked {
				assert.Equal(t, key, r.Header.Get(api.HeaderIdempotencyKey))
			}
			_, err = c.Boot(t.Context(), rest.ServerCreate{Name: "web"}, given)
			require.NoError(t, err)
			again := (*asked)[3].Header.Get(api.HeaderIdempotencyKey)
			assert.Equal(t, given != "", again == key, "another boot has another key, unless the caller says so")
		})
	}
}

func TestWhatDoesNotPassIsNotRepeated(t *testing.T) {
	for _, code := range []api.Code{
		api.CodeInvalid, api.CodeUnauthenticated, api.CodeForbidden, api.CodeNotFound, api.CodeConflict,
		api.CodeNoCapacity, api.CodePlanRefused, api.CodeInternal,
	} {
		c, asked := talk(t, func(int, *http.Request) (*http.Response, error) { return refuse(code) })
		_, err := c.ZoneInfo(t.Context())
		assert.Equal(t, code, api.CodeOf(err))
		assert.Len(t, *asked, 1, code)
	}
}

func TestOnlyWhatMayBeRepeatedIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, asked := talk(t, func(int, *http.Request) (*http.Response, error) { return refuse(api.CodeUnavailable) })
		once := map[string]bool{}
		for _, call := range everyCall(t.Context(), c) {
			*asked = nil
			require.Error(t, call())
			r := (*asked)[0]
			name := r.Method + " " + r.URL.Path
			once[name] = len(*asked) == 1
			assert.True(t, once[name] || len(*asked) == client.AttemptsMax, name)
		}
		for name, isOnce := range once {
			switch name {
			case "POST /flavors", "POST /aggregates", "POST /server-groups", "POST /zones", "POST /zones/link", "PUT /hosts/h1", // with a generation
				"POST /operator/transfer", "GET /servers/i-1/output", // it waits for a host, which a repeat would do again
				"GET /operator/snapshot", "PUT /operator/snapshot", "POST /operator/tokens",
				"POST /operator/join-tokens", "POST /operator/join", "POST /operator/keyring/rotate", "POST /operator/kek/rotate", "POST /operator/ca/rotate", "POST /operator/ca/use", "POST /operator/ca/finish", "POST /operator/upgrade/finish", "POST /operator/holds/h-1",
				"POST /placement/resource_providers", "PUT /placement/resource_providers/p-1/inventories", // with a generation, and so the rest
				"PUT /placement/resource_providers/p-1/inventories/VCPU", "PUT /placement/resource_providers/p-1/traits",
				"PUT /placement/resource_providers/p-1/aggregates", "PUT /placement/allocations/c-1", "POST /placement/allocations",
				"POST /placement/reshaper", "POST /webhooks", "POST /bindings/b-1/move", "PUT /reservation/v1/leases/l-1", "POST /servers/i-1/restart":
				assert.True(t, isOnce, name)
			default:
				assert.False(t, isOnce, name)
			}
		}
	})
}

func TestDeleteWhoseAnswerWasLostIsDone(t *testing.T) {
	for name, first := range map[string]struct {
		fault func() (*http.Response, error)
		done  bool
	}{
		"lost":    {func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, true},
		"late":    {func() (*http.Response, error) { return refuse(api.CodeTimeout) }, true},
		"refused": {func() (*http.Response, error) { return refuse(api.CodeUnavailable) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := talk(t, func(attempt int, _ *http.Request) (*http.Response, error) {
					if attempt == 1 {
						return first.fault()
					}
					return refuse(api.CodeNotFound)
				})
				err := c.DeleteFlavor(t.Context(), "small")
				assert.Equal(t, first.done, err == nil, "%v", err)
			})
		})
	}
}

// never answers until the caller gives up.
func never(_ int, r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestAttemptsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, asked := talk(t, never)
		start := time.Now()
		err := c.RotateKeyring(t.Context())
		assert.Equal(t, api.CodeTimeout, api.CodeOf(err))
		assert.Equal(t, client.TimeoutDefault, time.Since(start))
		assert.Len(t, *asked, 1)
	})
}

func TestWaitingIsAllowedForOnTop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := talk(t, func(_ int, r *http.Request) (*http.Response, error) {
			select {
			case <-time.After(time.Minute):
				return reply(http.StatusOK, `{"boot": {"state": "BUILDING"}}`)
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		})
		b, err := c.Reservation(t.Context(), "r-1", time.Minute)
		require.NoError(t, err)
		assert.Equal(t, api.BootBuilding, b.State)
	})
}

func TestCallerEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, asked := talk(t, never)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.ZoneInfo(ctx)
		assert.Equal(t, api.CodeTimeout, api.CodeOf(err))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Len(t, *asked, 1)
	})
	synctest.Test(t, func(t *testing.T) {
		c, _ := talk(t, func(int, *http.Request) (*http.Response, error) { return nil, errRefused })
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel) // in the middle of a pause
		_, err := c.ZoneInfo(ctx)
		require.ErrorIs(t, err, context.Canceled)
	})
	ctx, cancel := context.WithCancel(t.Context())
	c, asked := talk(t, func(int, *http.Request) (*http.Response, error) {
		cancel() // when the answer is already on its way
		return refuse(api.CodeUnavailable)
	})
	_, err := c.ZoneInfo(ctx)
	require.ErrorIs(t, err, context.Canceled)
	assert.Len(t, *asked, 1)
}

// A refusal says that nothing was changed only if a zone has made it, and no attempt
// before it was lost.
func TestUndone(t *testing.T) {
	lost := func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF }
	proxy := func() (*http.Response, error) { return reply(http.StatusServiceUnavailable, "<html>") }
	none := func() (*http.Response, error) { return refuse(api.CodeUnavailable) }
	late := func() (*http.Response, error) { return refuse(api.CodeTimeout) }
	for name, c := range map[string]struct {
		first, rest func() (*http.Response, error)
		undone      bool
	}{
		"refused": {none, none, true}, "lost before": {lost, none, false}, "late before": {late, none, false},
		"by a proxy": {proxy, proxy, false}, "lost": {lost, lost, false}, "late": {late, late, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl, _ := talk(t, func(attempt int, _ *http.Request) (*http.Response, error) {
					if attempt == 1 {
						return c.first()
					}
					return c.rest()
				})
				err := cl.DeleteServer(t.Context(), "s")
				require.Error(t, err)
				assert.Equal(t, c.undone, client.Undone(err), "%v", err)
			})
		})
	}
	assert.False(t, client.Undone(nil))
}
